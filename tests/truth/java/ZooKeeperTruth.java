import java.io.File;
import java.io.PrintWriter;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.Collections;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import org.apache.jute.Record;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.Op;
import org.apache.zookeeper.Watcher;
import org.apache.zookeeper.ZooDefs.Ids;
import org.apache.zookeeper.ZooKeeper;
import org.apache.zookeeper.admin.ZooKeeperAdmin;
import org.apache.zookeeper.data.ACL;
import org.apache.zookeeper.data.Stat;
import org.apache.zookeeper.server.ByteBufferInputStream;
import org.apache.zookeeper.server.DataTree;
import org.apache.zookeeper.server.persistence.FileTxnLog;
import org.apache.zookeeper.server.persistence.FileTxnSnapLog;
import org.apache.zookeeper.server.persistence.TxnLog;
import org.apache.zookeeper.txn.CloseSessionTxn;
import org.apache.zookeeper.txn.CreateContainerTxn;
import org.apache.zookeeper.txn.CreateTTLTxn;
import org.apache.zookeeper.txn.CreateTxn;
import org.apache.zookeeper.txn.DeleteTxn;
import org.apache.zookeeper.txn.ErrorTxn;
import org.apache.zookeeper.txn.MultiTxn;
import org.apache.zookeeper.txn.SetACLTxn;
import org.apache.zookeeper.txn.SetDataTxn;
import org.apache.zookeeper.txn.Txn;
import org.apache.zookeeper.txn.TxnHeader;

/**
 * Writes every kind of transaction to a server through ZooKeeper's own client, and says what ZooKeeper's own
 * classes read in a server's files: the tree after its last transaction, and each transaction of its logs.
 */
public class ZooKeeperTruth {
    static final List<ACL> OPEN = Ids.OPEN_ACL_UNSAFE;

    public static void main(String[] args) throws Exception {
        switch (args[0]) {
            case "first": first(args[1]); break;
            case "second": second(args[1]); break;
            default: read(new File(args[1]), new File(args[2]));
        }
    }

    static ZooKeeper connect(String hosts) throws Exception {
        CountDownLatch connected = new CountDownLatch(1);
        Watcher watcher = event -> connected.countDown();
        ZooKeeper client = new ZooKeeper(hosts, 40000, watcher);
        connected.await();
        return client;
    }

    static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    static void make(ZooKeeper client, String path, String data) throws Exception {
        client.create(path, bytes(data), OPEN, CreateMode.PERSISTENT);
    }

    /** A tree in BookKeeper's shape, and every kind of write. */
    static void first(String hosts) throws Exception {
        ZooKeeper one = connect(hosts);
        ZooKeeper other = connect(hosts);
        make(one, "/ledgers", "");
        make(one, "/ledgers/LAYOUT", "2\norg.apache.bookkeeper.meta.HierarchicalLedgerManagerFactory:1");
        make(one, "/ledgers/INSTANCEID", "5b2e1c4e-7a43-4f0e-9d0e-1f6b8f1d2c3a");
        make(one, "/ledgers/available", "");
        make(one, "/ledgers/available/readonly", "");
        make(one, "/ledgers/cookies", "");
        make(one, "/ledgers/cookies/bk1:3181", "5\nbookieHost: \"bk1:3181\"\n");
        make(one, "/ledgers/underreplication", "");
        make(one, "/ledgers/underreplication/ledgers", "");
        make(one, "/ledgers/underreplication/locks", "");
        make(one, "/ledgers/00", "");
        for (int group = 0; group < 3; group++) {
            make(one, String.format("/ledgers/00/%04d", group), "");
            for (int leaf = 0; leaf < 6; leaf++) {
                make(one, String.format("/ledgers/00/%04d/L%04d", group, leaf), "ledger " + group + leaf);
            }
        }
        one.create("/ledgers/00/0000/L0100", null, OPEN, CreateMode.PERSISTENT);
        one.create("/ledgers/00/0000/L0101", new byte[3000], OPEN, CreateMode.PERSISTENT, new Stat());
        make(one, "/ledgers/00/0000/L\u00e4\u2014\u0436", "a name of several bytes a letter");
        one.create("/ledgers/00/0000/L0102", bytes("read only"), Ids.READ_ACL_UNSAFE, CreateMode.PERSISTENT);
        for (int leaf = 0; leaf < 6; leaf += 2) {
            one.setData("/ledgers/00/0001/L000" + leaf, bytes("changed " + leaf), -1);
        }
        one.setData("/ledgers/00/0001/L0001", null, 0);
        one.setACL("/ledgers/00/0001/L0003", Ids.READ_ACL_UNSAFE, 0);
        one.delete("/ledgers/00/0002/L0005", 0);
        one.delete("/ledgers/00/0002/L0004", -1);
        make(one, "/ledgers/00/0002/L0004", "again");
        make(one, "/ledgers/idgen", "");
        one.create("/ledgers/idgen/ID-", bytes(""), OPEN, CreateMode.EPHEMERAL_SEQUENTIAL);
        one.create("/ledgers/idgen/ID-", bytes(""), OPEN, CreateMode.PERSISTENT_SEQUENTIAL);
        one.create("/ledgers/available/stays:3181", bytes("s"), OPEN, CreateMode.EPHEMERAL);
        other.create("/ledgers/available/goes:3181", bytes("g"), OPEN, CreateMode.EPHEMERAL);
        other.create("/ledgers/underreplication/locks/urL0000000001", bytes(""), OPEN, CreateMode.EPHEMERAL);
        other.close();
        one.create("/ledgers/box", bytes("box"), OPEN, CreateMode.CONTAINER);
        one.create("/ledgers/kept", bytes("kept"), OPEN, CreateMode.CONTAINER);
        make(one, "/ledgers/box/in", "");
        make(one, "/ledgers/kept/in", "");
        one.delete("/ledgers/box/in", -1);
        one.create("/ledgers/short", bytes("ttl"), OPEN, CreateMode.PERSISTENT_WITH_TTL, new Stat(), 1);
        one.create("/ledgers/long", bytes("ttl"), OPEN, CreateMode.PERSISTENT_WITH_TTL, new Stat(), 86_400_000);
        one.multi(Arrays.asList(
                Op.create("/ledgers/00/0002/L0200", bytes("multi"), OPEN, CreateMode.PERSISTENT),
                Op.check("/ledgers/00/0002/L0000", 0),
                Op.setData("/ledgers/00/0002/L0200", bytes("multi again"), 0),
                Op.delete("/ledgers/00/0002/L0001", -1),
                Op.create("/ledgers/multibox", bytes("c"), OPEN, CreateMode.CONTAINER),
                Op.create("/ledgers/multibox/in", bytes(""), OPEN, CreateMode.PERSISTENT),
                Op.create("/ledgers/multilong", bytes("t"), OPEN, CreateMode.PERSISTENT_WITH_TTL, 86_400_000),
                Op.create("/ledgers/available/multi:3181", bytes("e"), OPEN, CreateMode.EPHEMERAL)));
        try {
            one.multi(Arrays.asList(
                    Op.create("/ledgers/00/0002/L9999", bytes("never"), OPEN, CreateMode.PERSISTENT),
                    Op.create("/ledgers/00/0002/L0000", bytes("there"), OPEN, CreateMode.PERSISTENT)));
        } catch (KeeperException expected) {
            System.out.println(expected.code());
        }
        try {
            make(one, "/ledgers/00/0002/L0000", "there");
        } catch (KeeperException expected) {
            System.out.println(expected.code());
        }
        while (one.exists("/ledgers/box", false) != null || one.exists("/ledgers/short", false) != null) {
            Thread.sleep(50);
        }
        // Its session stays open: what it owns is there as long as the files are young.
        System.exit(0);
    }

    /** What comes after a restart: the server's files have a snapshot in their midst. */
    static void second(String hosts) throws Exception {
        ZooKeeper one = connect(hosts);
        make(one, "/ledgers/00/0002/L0300", "after the restart");
        one.setData("/ledgers/00/0000/L0000", bytes("changed after it"), -1);
        one.delete("/ledgers/00/0000/L0001", -1);
        ZooKeeperAdmin admin = new ZooKeeperAdmin(hosts, 40000, event -> { });
        admin.reconfigure("server.9=127.0.0.1:1:2:observer;127.0.0.1:3", null, null, -1, new Stat());
        admin.close();
        System.exit(0);
    }

    static void read(File directory, File target) throws Exception {
        FileTxnSnapLog files = new FileTxnSnapLog(directory, directory);
        DataTree tree = new DataTree();
        ConcurrentHashMap<Long, Integer> sessions = new ConcurrentHashMap<>();
        long last = files.restore(tree, sessions, (header, record, digest) -> { });
        List<String> nodes = new ArrayList<>();
        walk(tree, "/", nodes);
        List<String> transactions = new ArrayList<>();
        try (TxnLog.TxnIterator log = new FileTxnLog(new File(directory, "version-2")).read(0)) {
            do {
                if (log.getHeader() == null) {
                    break;
                }
                TxnHeader header = log.getHeader();
                List<String> parts = new ArrayList<>();
                describe(header.getType(), log.getTxn(), header.getClientId(), parts);
                transactions.add("{\"zxid\":" + header.getZxid() + ",\"time\":" + header.getTime() + ",\"type\":"
                        + header.getType() + ",\"did\":[" + String.join(",", parts) + "]}");
            } while (log.next());
        }
        try (PrintWriter out = new PrintWriter(target, "UTF-8")) {
            out.println("{\"zxid\":" + last + ",\n\"sessions\":" + sessions.size() + ",\n\"znodes\":[\n"
                    + String.join(",\n", nodes) + "],\n\"transactions\":[\n" + String.join(",\n", transactions)
                    + "]}");
        }
        System.exit(0);
    }

    static void walk(DataTree tree, String path, List<String> nodes) throws Exception {
        Stat stat = tree.statNode(path, null);
        byte[] data = tree.getData(path, new Stat(), null);
        nodes.add("{\"path\":" + quoted(path) + ",\"data\":" + packed(data) + ",\"czxid\":" + stat.getCzxid()
                + ",\"mzxid\":" + stat.getMzxid() + ",\"pzxid\":" + stat.getPzxid() + ",\"ctime\":" + stat.getCtime()
                + ",\"mtime\":" + stat.getMtime() + ",\"version\":" + stat.getVersion() + ",\"cversion\":"
                + stat.getCversion() + ",\"ephemeralOwner\":" + stat.getEphemeralOwner() + "}");
        Set<String> children = new TreeSet<>(tree.getChildren(path, new Stat(), null));
        for (String child : children) {
            walk(tree, path.equals("/") ? "/" + child : path + "/" + child, nodes);
        }
    }

    static void describe(int type, Record record, long session, List<String> parts) throws Exception {
        if (record instanceof CreateTxn) {
            CreateTxn made = (CreateTxn) record;
            did(parts, "create", made.getPath(), made.getData(), made.getEphemeral() ? session : 0);
        } else if (record instanceof CreateContainerTxn) {
            CreateContainerTxn made = (CreateContainerTxn) record;
            did(parts, "container", made.getPath(), made.getData(), 0);
        } else if (record instanceof CreateTTLTxn) {
            CreateTTLTxn made = (CreateTTLTxn) record;
            did(parts, "ttl", made.getPath(), made.getData(), 0);
        } else if (record instanceof DeleteTxn) {
            did(parts, "delete", ((DeleteTxn) record).getPath(), null, 0);
        } else if (record instanceof SetDataTxn) {
            SetDataTxn set = (SetDataTxn) record;
            did(parts, "set", set.getPath(), set.getData(), set.getVersion());
        } else if (record instanceof CloseSessionTxn) {
            List<String> paths = ((CloseSessionTxn) record).getPaths2Delete();
            for (String path : paths == null ? Collections.<String>emptyList() : paths) {
                did(parts, "closed", path, null, session);
            }
        } else if (record instanceof MultiTxn) {
            List<Txn> txns = ((MultiTxn) record).getTxns();
            for (Txn txn : txns) {
                if (txn.getType() == -1) {
                    return;
                }
            }
            for (Txn txn : txns) {
                Record inner;
                switch (txn.getType()) {
                    case 1: case 15: inner = new CreateTxn(); break;
                    case 19: inner = new CreateContainerTxn(); break;
                    case 21: inner = new CreateTTLTxn(); break;
                    case 2: case 20: inner = new DeleteTxn(); break;
                    case 5: inner = new SetDataTxn(); break;
                    default: continue;
                }
                ByteBufferInputStream.byteBuffer2Record(ByteBuffer.wrap(txn.getData()), inner);
                describe(txn.getType(), inner, session, parts);
            }
        }
    }

    static void did(List<String> parts, String what, String path, byte[] data, long number) {
        parts.add("[" + quoted(what) + "," + quoted(path) + "," + packed(data) + "," + number + "]");
    }

    static String packed(byte[] data) {
        return data == null ? "null" : quoted(Base64.getEncoder().encodeToString(data));
    }

    static String quoted(String text) {
        return "\"" + text.replace("\\", "\\\\").replace("\"", "\\\"").replace("\n", "\\n") + "\"";
    }
}
