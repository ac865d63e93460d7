import com.fasterxml.jackson.databind.ObjectMapper;
import java.nio.charset.StandardCharsets;
import java.util.LinkedHashMap;
import java.util.Map;
import org.apache.bookkeeper.client.BookKeeper;
import org.apache.bookkeeper.client.BookKeeper.DigestType;
import org.apache.bookkeeper.client.BookKeeperAdmin;
import org.apache.bookkeeper.client.LedgerHandle;
import org.apache.bookkeeper.client.api.LedgerMetadata;
import org.apache.bookkeeper.conf.ClientConfiguration;
import org.apache.bookkeeper.conf.ServerConfiguration;

/**
 * Writes the ledgers of a small cluster with the client of one version of BookKeeper, and says what it wrote.
 *
 * <p>Arguments: the metadata service's URI, and format, first or second. The answer on standard output is a JSON
 * object: a ledger's id to its state, quorums, last entry and length as the client has them.
 */
public class Writer {
    private static final byte[] PASSWORD = "golden".getBytes(StandardCharsets.UTF_8);
    /** More than 32 bits: only the long hierarchical layout has a place for it. */
    private static final long LONG_ID = (1L << 40) + 5;
    private static final int LAC_INTERVAL_MS = 100;
    private static final int LAC_WAIT_MS = 1500;

    private final BookKeeper client;
    private final Map<String, Object> written = new LinkedHashMap<>();

    private Writer(BookKeeper client) {
        this.client = client;
    }

    public static void main(String[] arguments) throws Exception {
        String uri = arguments[0];
        if (arguments[1].equals("format")) {
            ServerConfiguration conf = new ServerConfiguration();
            conf.setMetadataServiceUri(uri);
            System.exit(BookKeeperAdmin.initNewCluster(conf) ? 0 : 1);
        }
        ClientConfiguration conf = new ClientConfiguration();
        conf.setMetadataServiceUri(uri);
        conf.setExplictLacInterval(LAC_INTERVAL_MS);
        Writer writer = new Writer(new BookKeeper(conf));
        if (arguments[1].equals("first")) {
            writer.first();
        } else {
            writer.second();
        }
        System.out.println("WRITTEN " + new ObjectMapper().writeValueAsString(writer.written));
        System.out.flush();
        // Without closing the client: open ledgers stay open.
        Runtime.getRuntime().halt(0);
    }

    /** What bookies flush before they are stopped. */
    private void first() throws Exception {
        close(create(1, 4, 4, 2, DigestType.CRC32C), 10);
        close(create(2, 4, 2, 2, DigestType.CRC32), 200);
        close(create(3, 4, 2, 1, DigestType.MAC), 5);
        fence(create(4, 4, 4, 2, DigestType.CRC32C), 4);
        close(create(5, 4, 3, 2, DigestType.DUMMY), 0);
        withExplicitLac(create(6, 4, 4, 3, DigestType.CRC32C), 7);
        close(create(LONG_ID, 4, 2, 2, DigestType.CRC32C), 6);
    }

    /** What is in their journals alone when they are killed. */
    private void second() throws Exception {
        close(create(7, 4, 4, 2, DigestType.CRC32C), 6);
        fence(create(8, 4, 4, 2, DigestType.CRC32C), 3);
        withExplicitLac(create(9, 4, 2, 2, DigestType.CRC32C), 4);
    }

    private LedgerHandle create(long id, int ensemble, int write, int ack, DigestType digest) throws Exception {
        return client.createLedgerAdv(id, ensemble, write, ack, digest, PASSWORD, Map.of());
    }

    private void append(LedgerHandle ledger, int entries) throws Exception {
        for (long entry = 0; entry < entries; entry++) {
            ledger.addEntry(entry, String.format("ledger %d, entry %d", ledger.getId(), entry).getBytes(
                    StandardCharsets.UTF_8));
        }
    }

    private void close(LedgerHandle ledger, int entries) throws Exception {
        append(ledger, entries);
        ledger.close();
        tell(ledger);
    }

    /** Another handle recovers the ledger, which fences it on its bookies, and closes it. */
    private void fence(LedgerHandle ledger, int entries) throws Exception {
        append(ledger, entries);
        tell(client.openLedger(ledger.getId(), DigestType.CRC32C, PASSWORD));
    }

    /** The ledger stays open, and its last entry is confirmed by an explicit LAC. */
    private void withExplicitLac(LedgerHandle ledger, int entries) throws Exception {
        append(ledger, entries);
        Thread.sleep(LAC_WAIT_MS);
        tell(ledger);
    }

    private void tell(LedgerHandle ledger) throws Exception {
        LedgerMetadata metadata = ledger.getLedgerMetadata();
        Map<String, Object> row = new LinkedHashMap<>();
        row.put("state", metadata.getState().toString());
        row.put("ensemble", metadata.getEnsembleSize());
        row.put("write_quorum", metadata.getWriteQuorumSize());
        row.put("ack_quorum", metadata.getAckQuorumSize());
        row.put("digest", metadata.getDigestType().toString());
        row.put("last_add_confirmed", ledger.getLastAddConfirmed());
        row.put("length", ledger.getLength());
        Map<String, Object> ensembles = new LinkedHashMap<>();
        metadata.getAllEnsembles().forEach((first, members) -> ensembles.put(
                Long.toString(first), members.stream().map(Object::toString).toArray()));
        row.put("ensembles", ensembles);
        written.put(Long.toString(ledger.getId()), row);
    }
}
