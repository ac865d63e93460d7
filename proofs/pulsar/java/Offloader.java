import java.io.IOException;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.CompletableFuture;
import org.apache.bookkeeper.client.api.ReadHandle;
import org.apache.bookkeeper.common.util.OrderedScheduler;
import org.apache.bookkeeper.mledger.LedgerOffloader;
import org.apache.bookkeeper.mledger.LedgerOffloaderFactory;
import org.apache.bookkeeper.mledger.LedgerOffloaderStats;
import org.apache.pulsar.common.policies.data.OffloadPoliciesImpl;

/**
 * An offloader that copies nothing: the contexts that the broker keeps of offloads are all that is wanted.
 *
 * <p>Pulsar's own offloaders are not in Maven Central. Of a topic whose name has "broken" in it every offload fails.
 */
public final class Offloader implements LedgerOffloader {
    private final OffloadPoliciesImpl policies;

    private Offloader(OffloadPoliciesImpl policies) {
        this.policies = policies;
    }

    /** What a broker finds in pulsar-offloader.yaml. */
    public static final class Factory implements LedgerOffloaderFactory<Offloader> {
        @Override
        public boolean isDriverSupported(String driver) {
            return "aws-s3".equals(driver);
        }

        @Override
        public Offloader create(OffloadPoliciesImpl policies, Map<String, String> metadata, OrderedScheduler scheduler)
                throws IOException {
            return new Offloader(policies);
        }

        @Override
        public Offloader create(OffloadPoliciesImpl policies, Map<String, String> metadata, OrderedScheduler scheduler,
                LedgerOffloaderStats stats) throws IOException {
            return new Offloader(policies);
        }

        @Override
        public void close() {}
    }

    @Override
    public String getOffloadDriverName() {
        return "aws-s3";
    }

    @Override
    public Map<String, String> getOffloadDriverMetadata() {
        return Map.of("bucket", "cold", "region", "eu-west-3", "serviceEndpoint", "");
    }

    @Override
    public CompletableFuture<Void> offload(ReadHandle ledger, UUID uid, Map<String, String> metadata) {
        return metadata.toString().contains("broken")
                ? CompletableFuture.failedFuture(new IOException("as was wanted"))
                : CompletableFuture.completedFuture(null);
    }

    @Override
    public CompletableFuture<ReadHandle> readOffloaded(long ledger, UUID uid, Map<String, String> metadata) {
        return CompletableFuture.failedFuture(new IOException("nothing was copied"));
    }

    @Override
    public CompletableFuture<Void> deleteOffloaded(long ledger, UUID uid, Map<String, String> metadata) {
        return CompletableFuture.completedFuture(null);
    }

    @Override
    public OffloadPoliciesImpl getOffloadPolicies() {
        return policies;
    }

    @Override
    public void close() {}
}
