import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.stream.Stream;
import org.apache.pulsar.PulsarStandaloneStarter;
import org.apache.pulsar.client.admin.PulsarAdmin;
import org.apache.pulsar.client.api.Consumer;
import org.apache.pulsar.client.api.Message;
import org.apache.pulsar.client.api.Producer;
import org.apache.pulsar.client.api.PulsarClient;
import org.apache.pulsar.client.api.Schema;
import org.apache.pulsar.client.api.SubscriptionInitialPosition;
import org.apache.pulsar.common.policies.data.ManagedLedgerInternalStats;
import org.apache.pulsar.common.policies.data.PersistentTopicInternalStats;
import org.apache.pulsar.common.policies.data.TenantInfo;

/**
 * A Pulsar of one broker, three bookies and a ZooKeeper in this process, with topics that a seed decides.
 *
 * <p>It prints what the broker says of its topics as one line of JSON, waits for a line, and halts as a machine
 * does that loses its power: nothing is closed. Arguments: seed, topics of each namespace, broker's web port,
 * ZooKeeper, and
 * what Pulsar's own starter takes. Besides them there is one topic of each kind (`Kinds`).
 */
public final class PulsarRun {
    private static final List<String> NAMESPACES = List.of("shop/orders", "shop/billing", "fleet/telemetry");

    private PulsarRun() {}

    /** What is written with the schema of a topic. */
    public static class Order {
        public int number;
        public String what;
    }

    public static void main(String[] arguments) {
        try {
            run(arguments);
        } catch (Throwable trouble) {
            // Its servers would keep the process.
            trouble.printStackTrace();
            Runtime.getRuntime().halt(1);
        }
    }

    private static void run(String[] arguments) throws Exception {
        PrintStream answers = new PrintStream(new FileOutputStream(FileDescriptor.out), true, "UTF-8");
        System.setOut(System.err);
        Random random = new Random(Long.parseLong(arguments[0]));
        int topics = Integer.parseInt(arguments[1]);
        String web = "http://127.0.0.1:" + arguments[2];
        String zookeeper = arguments[3];
        String[] rest = Arrays.copyOfRange(arguments, 4, arguments.length);
        new PulsarStandaloneStarter(rest).start();
        try (PulsarAdmin admin = PulsarAdmin.builder().serviceHttpUrl(web).build();
                PulsarClient client = PulsarClient.builder().serviceUrl(web).build()) {
            Map<String, Object> view = new TreeMap<>();
            for (String namespace : NAMESPACES) {
                String tenant = namespace.substring(0, namespace.indexOf('/'));
                if (!admin.tenants().getTenants().contains(tenant)) {
                    admin.tenants().createTenant(tenant,
                            TenantInfo.builder().allowedClusters(Set.copyOf(admin.clusters().getClusters())).build());
                }
                admin.namespaces().createNamespace(namespace);
                for (int n = 0; n < topics; n++) {
                    String topic = "persistent://" + namespace + "/topic-" + n;
                    write(client, topic, random, n);
                }
            }
            new Kinds(admin, client, zookeeper).write();
            Map<String, Object> infos = new TreeMap<>();
            Set<Long> cursors = new TreeSet<>();
            ObjectMapper json = new ObjectMapper();
            for (String namespace : Stream.concat(NAMESPACES.stream(), Kinds.NAMESPACES.stream()).toList()) {
                for (String topic : admin.topics().getList(namespace)) {
                    String name = topic.substring("persistent://".length());
                    PersistentTopicInternalStats stats = admin.topics().getInternalStats(topic);
                    view.put(name, said(stats));
                    infos.put(name, json.readTree(admin.topics().getInternalInfo(topic)));
                    stats.cursors.values().forEach(cursor -> cursors.add(cursor.cursorLedger));
                }
            }
            cursors.remove(-1L);
            Map<Long, String> entries = Kinds.lastEntries(zookeeper, cursors);
            answers.println(json.writeValueAsString(Map.of(
                    "topics", view, "infos", infos, "entries", entries, "expected", Kinds.expected(view))));
            new BufferedReader(new InputStreamReader(System.in)).readLine();
            Runtime.getRuntime().halt(0);
        }
    }

    /** Some ledgers of ten messages, the last of them open; two subscriptions, one of them with holes. */
    private static void write(PulsarClient client, String topic, Random random, int number) throws Exception {
        try (Consumer<Order> whole = consumer(client, topic, "whole");
                Consumer<Order> holes = consumer(client, topic, "holes");
                Producer<Order> producer = client.newProducer(Schema.JSON(Order.class)).topic(topic)
                        .enableBatching(false).create()) {
            int messages = 25 + random.nextInt(30);
            for (int n = 0; n < messages; n++) {
                Order order = new Order();
                order.number = n;
                order.what = "x".repeat(random.nextInt(200));
                producer.send(order);
            }
            for (int n = 0; n < messages / 2; n++) {
                Message<Order> message = whole.receive();
                whole.acknowledge(message);
                Message<Order> other = holes.receive();
                if (random.nextInt(3) > 0) {
                    holes.acknowledge(other);
                }
            }
        }
    }

    private static Consumer<Order> consumer(PulsarClient client, String topic, String name) throws Exception {
        return client.newConsumer(Schema.JSON(Order.class)).topic(topic).subscriptionName(name)
                .subscriptionInitialPosition(SubscriptionInitialPosition.Earliest).subscribe();
    }

    /** The broker's own view of a topic: the ledgers of its list, of its cursors and of its schema. */
    private static Map<String, Object> said(PersistentTopicInternalStats stats) {
        List<Map<String, Object>> ledgers = new ArrayList<>();
        for (ManagedLedgerInternalStats.LedgerInfo each : stats.ledgers) {
            ledgers.add(Map.of("ledger", each.ledgerId, "entries", each.entries, "bytes", each.size));
        }
        Map<String, Long> cursors = new TreeMap<>();
        stats.cursors.forEach((name, cursor) -> cursors.put(name, cursor.cursorLedger));
        List<Long> schemas = new ArrayList<>();
        stats.schemaLedgers.forEach(each -> schemas.add(each.ledgerId));
        return Map.of("ledgers", ledgers, "cursors", cursors, "schemas", schemas);
    }
}
