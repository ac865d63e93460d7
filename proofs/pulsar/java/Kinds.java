import java.io.ByteArrayInputStream;
import java.net.URI;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.TimeUnit;
import org.apache.bookkeeper.client.BKException;
import org.apache.bookkeeper.client.BookKeeper;
import org.apache.bookkeeper.client.LedgerHandle;
import org.apache.bookkeeper.conf.ClientConfiguration;
import org.apache.bookkeeper.versioning.LongVersion;
import org.apache.bookkeeper.versioning.Versioned;
import org.apache.distributedlog.BookKeeperClient;
import org.apache.distributedlog.BookKeeperClientBuilder;
import org.apache.distributedlog.DistributedLogConfiguration;
import org.apache.distributedlog.LogRecord;
import org.apache.distributedlog.ZooKeeperClient;
import org.apache.distributedlog.ZooKeeperClientBuilder;
import org.apache.distributedlog.api.LogWriter;
import org.apache.distributedlog.api.namespace.Namespace;
import org.apache.distributedlog.api.namespace.NamespaceBuilder;
import org.apache.distributedlog.bk.ImmutableQuorumConfigProvider;
import org.apache.distributedlog.bk.QuorumConfig;
import org.apache.distributedlog.bk.SimpleLedgerAllocator;
import org.apache.pulsar.client.admin.LongRunningProcessStatus;
import org.apache.pulsar.client.admin.PulsarAdmin;
import org.apache.pulsar.client.api.Consumer;
import org.apache.pulsar.client.api.MessageId;
import org.apache.pulsar.client.api.Producer;
import org.apache.pulsar.client.api.PulsarClient;
import org.apache.pulsar.client.api.Schema;
import org.apache.pulsar.client.api.SubscriptionInitialPosition;
import org.apache.pulsar.common.conf.InternalConfigurationData;
import org.apache.pulsar.common.policies.data.TenantInfo;
import org.apache.pulsar.functions.worker.WorkerConfig;
import org.apache.pulsar.functions.worker.WorkerUtils;

/** One topic, or log, of each kind of value that Pulsar keeps in its metadata store and in cursors' ledgers. */
final class Kinds {
    static final List<String> NAMESPACES = List.of("kinds/all", "kinds/waiting");
    private static final int MESSAGES = 35;
    private final PulsarAdmin admin;
    private final PulsarClient client;
    private final String zookeeper;

    Kinds(PulsarAdmin admin, PulsarClient client, String zookeeper) {
        this.admin = admin;
        this.client = client;
        this.zookeeper = zookeeper;
    }

    /** An order of a later version of its schema. */
    public static class LaterOrder {
        public int number;
        public String what;
        public String whom;
    }

    void write() throws Exception {
        admin.tenants().createTenant("kinds",
                TenantInfo.builder().allowedClusters(Set.copyOf(admin.clusters().getClusters())).build());
        for (String namespace : NAMESPACES) {
            admin.namespaces().createNamespace(namespace);
        }
        admin.namespaces().setOffloadDeleteLag("kinds/waiting", 1, TimeUnit.DAYS);
        for (String name : List.of("holes", "holes-closed")) {
            fill("kinds/all/" + name, true);
        }
        batches("kinds/all/batches");
        for (String name : List.of("compacted", "compacted-closed")) {
            fill("kinds/all/" + name, false);
            compact("kinds/all/" + name);
        }
        for (String name : List.of("kinds/all/offloaded", "kinds/all/offload-broken", "kinds/waiting/offloaded")) {
            offload(name);
        }
        fill("kinds/all/terminated", false);
        admin.topics().terminateTopic("kinds/all/terminated");
        schemas("kinds/all/schemas");
        for (String name : List.of("holes-closed", "batches", "compacted-closed")) {
            admin.topics().unload("kinds/all/" + name);
        }
        logs();
    }

    /** Four ledgers; with holes: of every third message it is never said that it was read. */
    private MessageId fill(String topic, boolean holes) throws Exception {
        MessageId last = null;
        try (Consumer<byte[]> reader = client.newConsumer().topic(topic).subscriptionName("reader")
                        .subscriptionInitialPosition(SubscriptionInitialPosition.Earliest).subscribe();
                Producer<byte[]> producer = client.newProducer().topic(topic).enableBatching(false).create()) {
            for (int n = 0; n < MESSAGES; n++) {
                last = producer.newMessage().key("key-" + n % 5).value(("value " + n).getBytes()).send();
            }
            for (int n = 0; n < MESSAGES; n++) {
                MessageId id = reader.receive().getMessageId();
                if (!holes || n % 3 > 0) {
                    reader.acknowledge(id);
                }
            }
        }
        return last;
    }

    /** A batch of which a part was read. */
    private void batches(String topic) throws Exception {
        try (Consumer<byte[]> reader = client.newConsumer().topic(topic).subscriptionName("reader")
                        .enableBatchIndexAcknowledgment(true).subscribe();
                Producer<byte[]> producer = client.newProducer().topic(topic).enableBatching(true)
                        .batchingMaxPublishDelay(1, TimeUnit.HOURS).batchingMaxMessages(10).create()) {
            for (int n = 0; n < 20; n++) {
                producer.sendAsync(("value " + n).getBytes());
            }
            producer.flush();
            for (int n = 0; n < 20; n++) {
                MessageId id = reader.receive().getMessageId();
                if (n % 2 > 0) {
                    reader.acknowledge(id);
                }
            }
        }
    }

    private void compact(String topic) throws Exception {
        admin.topics().triggerCompaction(topic);
        while (admin.topics().compactionStatus(topic).status == LongRunningProcessStatus.Status.RUNNING) {
            Thread.sleep(200);
        }
    }

    private void offload(String topic) throws Exception {
        MessageId last = fill(topic, false);
        admin.topics().triggerOffload(topic, last);
        while (admin.topics().offloadStatus(topic).getStatus() == LongRunningProcessStatus.Status.RUNNING) {
            Thread.sleep(200);
        }
        admin.topics().trimTopic(topic);
    }

    private void schemas(String topic) throws Exception {
        try (Producer<PulsarRun.Order> producer = client.newProducer(Schema.JSON(PulsarRun.Order.class))
                .topic(topic).create()) {
            producer.send(new PulsarRun.Order());
        }
        try (Producer<LaterOrder> producer = client.newProducer(Schema.JSON(LaterOrder.class)).topic(topic).create()) {
            producer.send(new LaterOrder());
        }
    }

    /** A function's package, as a worker uploads it, and a log that is being written. */
    private void logs() throws Exception {
        URI uri = WorkerUtils.initializeDlogNamespace(
                new InternalConfigurationData(zookeeper, zookeeper, "/ledgers", null, null));
        WorkerConfig config = new WorkerConfig();
        config.setNumFunctionPackageReplicas(1);
        try (Namespace namespace = NamespaceBuilder.newBuilder().conf(WorkerUtils.getDlogConf(config))
                .clientId("kinds").uri(uri).build()) {
            WorkerUtils.uploadToBookKeeper(namespace, new ByteArrayInputStream(new byte[3000]), "package");
            namespace.createLog("open");
            LogWriter writer = namespace.openLog("open").openLogWriter();
            writer.write(new LogRecord(7, "record".getBytes()));
            writer.flush();
            namespace.createLog("allocated");
        }
        allocate("/pulsar/functions/allocated/<default>/allocation", uri, WorkerUtils.getDlogConf(config));
    }

    /** A ledger that a log has made in advance; a writer that uses it at once leaves no trace of it. */
    private void allocate(String path, URI uri, DistributedLogConfiguration conf) throws Exception {
        ZooKeeperClient keeper = ZooKeeperClientBuilder.newBuilder().name("kinds").uri(uri)
                .sessionTimeoutMs(30_000).zkAclId(null).build();
        BookKeeperClient books = BookKeeperClientBuilder.newBuilder().name("kinds").dlConfig(conf)
                .zkServers(zookeeper).ledgersPath("/ledgers").build();
        Versioned<byte[]> none = new Versioned<>(keeper.get().getData(path, false, null), new LongVersion(0));
        SimpleLedgerAllocator.of(path, none, new ImmutableQuorumConfigProvider(new QuorumConfig(1, 1, 1)), keeper, books)
                .get().allocate();
        while (keeper.get().getData(path, false, null).length == 0) {
            Thread.sleep(50);
        }
    }

    /** What an audit without a grace finds of the offloads that failed or wait: every ledger but the open one. */
    static List<Map<String, Object>> expected(Map<String, Object> view) {
        List<Map<String, Object>> all = new ArrayList<>();
        Map.of("kinds/all/offload-broken", "offload-incomplete", "kinds/waiting/offloaded", "offload-not-trimmed")
                .forEach((topic, id) -> {
                    List<?> ledgers = (List<?>) ((Map<?, ?>) view.get(topic)).get("ledgers");
                    for (Object each : ledgers.subList(0, ledgers.size() - 1)) {
                        all.add(Map.of("id", id, "ledger", ((Map<?, ?>) each).get("ledger")));
                    }
                });
        return all;
    }

    /** The last entries of cursors' ledgers, by ledger, in hex. */
    static Map<Long, String> lastEntries(String zookeeper, Iterable<Long> ledgers) throws Exception {
        Map<Long, String> entries = new TreeMap<>();
        ClientConfiguration config = new ClientConfiguration();
        config.setMetadataServiceUri("zk+hierarchical://" + zookeeper + "/ledgers");
        try (BookKeeper bookkeeper = new BookKeeper(config)) {
            for (long ledger : ledgers) {
                try (LedgerHandle handle = bookkeeper.openLedgerNoRecovery(
                        ledger, BookKeeper.DigestType.CRC32C, new byte[0])) {
                    // Of an open ledger the last entries are not confirmed.
                    for (long n = Math.max(0, handle.readLastConfirmed()); ; n++) {
                        byte[] entry = handle.readUnconfirmedEntries(n, n).nextElement().getEntry();
                        entries.put(ledger, HexFormat.of().formatHex(entry));
                    }
                } catch (BKException.BKNoSuchEntryException end) {
                    continue;
                }
            }
        }
        return entries;
    }
}
