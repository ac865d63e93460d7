import java.io.File;
import java.io.PrintWriter;
import java.nio.file.Files;
import java.util.ArrayList;
import java.util.Enumeration;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import org.apache.bookkeeper.client.BKException;
import org.apache.bookkeeper.client.BookKeeper;
import org.apache.bookkeeper.client.BookKeeper.DigestType;
import org.apache.bookkeeper.client.LedgerEntry;
import org.apache.bookkeeper.client.LedgerHandle;
import org.apache.bookkeeper.conf.ServerConfiguration;
import org.apache.bookkeeper.proto.BookieServer;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.ZooDefs.Ids;
import org.apache.zookeeper.ZooKeeper;

/**
 * Three bookies of an old version in one process, and its client: with "write" they get ledgers and are killed,
 * with "serve" they start again, the client reads all, and they stop. Only what 4.1 has already is used.
 */
public class OldBookKeeper {
    static final byte[] PASSWORD = "secret".getBytes();

    public static void main(String[] args) {
        try {
            run(args);
        } catch (Throwable failure) {
            failure.printStackTrace();
        }
        // The servers' threads would go on.
        Runtime.getRuntime().halt(1);
    }

    static void run(String[] args) throws Exception {
        String hosts = args[1];
        CountDownLatch connected = new CountDownLatch(1);
        ZooKeeper zk = new ZooKeeper(hosts, 30000, event -> connected.countDown());
        connected.await();
        for (String path : new String[] {"/ledgers", "/ledgers/available", "/ledgers/available/readonly"}) {
            if (zk.exists(path, false) == null) {
                zk.create(path, new byte[0], Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT);
            }
        }
        List<BookieServer> servers = new ArrayList<>();
        for (int number = 3; number < 6; number++) {
            servers.add(start(hosts, new File(args[2], "bookie" + number), Integer.parseInt(args[number])));
        }
        BookKeeper client = new BookKeeper(hosts);
        if (args[0].equals("write")) {
            Files.write(new File(args[6] + ".ids").toPath(), write(client).getBytes());
            Runtime.getRuntime().halt(0);
        }
        read(client, args[6]);
        Thread.sleep(1000);
        for (BookieServer server : servers) {
            server.shutdown();
        }
        Runtime.getRuntime().halt(0);
    }

    static BookieServer start(String hosts, File home, int port) throws Exception {
        ServerConfiguration conf = new ServerConfiguration();
        conf.setZkServers(hosts);
        conf.setBookiePort(port);
        conf.setJournalDirName(new File(home, "journal").getPath());
        conf.setLedgerDirNames(new String[] {new File(home, "ledgers").getPath()});
        conf.setProperty("allowLoopback", true);
        conf.setProperty("advertisedAddress", "127.0.0.1");
        conf.setProperty("journalMaxSizeMB", 1);
        conf.setProperty("journalPreAllocSizeMB", 1);
        conf.setProperty("flushInterval", 200);
        conf.setProperty("pageSize", 1024);
        new File(home, "journal").mkdirs();
        new File(home, "ledgers").mkdirs();
        BookieServer server = new BookieServer(conf);
        server.start();
        return server;
    }

    static String write(BookKeeper client) throws Exception {
        LedgerHandle striped = add(client.createLedger(3, 2, DigestType.CRC32, PASSWORD), 10);
        LedgerHandle two = add(client.createLedger(2, 2, DigestType.MAC, PASSWORD), 5);
        LedgerHandle open = add(client.createLedger(3, 3, DigestType.MAC, PASSWORD), 7);
        LedgerHandle empty = client.createLedger(3, 2, DigestType.CRC32, PASSWORD);
        LedgerHandle left = add(client.createLedger(3, 2, DigestType.CRC32, PASSWORD), 4);
        LedgerHandle longer = add(client.createLedger(3, 2, DigestType.CRC32, PASSWORD), 200);
        striped.close();
        two.close();
        empty.close();
        longer.close();
        client.openLedger(left.getId(), DigestType.CRC32, PASSWORD);  // which recovers and fences it
        return striped.getId() + " " + two.getId() + " " + open.getId() + " " + empty.getId() + " " + left.getId()
                + " " + longer.getId();
    }

    static LedgerHandle add(LedgerHandle ledger, int entries) throws Exception {
        for (int entry = 0; entry < entries; entry++) {
            ledger.addEntry(new byte[10 + entry % 7]);
        }
        return ledger;
    }

    static void read(BookKeeper client, String target) throws Exception {
        DigestType[] types = {
            DigestType.CRC32, DigestType.MAC, DigestType.MAC, DigestType.CRC32, DigestType.CRC32, DigestType.CRC32
        };
        List<String> ledgers = new ArrayList<>();
        String[] ids = new String(Files.readAllBytes(new File(target + ".ids").toPath())).split(" ");
        for (int number = 0; number < types.length; number++) {
            LedgerHandle ledger = client.openLedgerNoRecovery(Long.parseLong(ids[number]), types[number], PASSWORD);
            long last = ledger.getLastAddConfirmed();
            List<String> sizes = new ArrayList<>();
            if (last >= 0) {
                Enumeration<LedgerEntry> entries = entries(ledger, last);
                while (entries.hasMoreElements()) {
                    sizes.add("" + entries.nextElement().getEntry().length);
                }
            }
            ledgers.add("{\"id\":" + ledger.getId() + ",\"last\":" + last + ",\"length\":" + ledger.getLength()
                    + ",\"sizes\":[" + String.join(",", sizes) + "]}");
        }
        try (PrintWriter out = new PrintWriter(target, "UTF-8")) {
            out.println("{\"ledgers\":[" + String.join(",\n", ledgers) + "]}");
        }
    }

    /** Of servers that are just starting. */
    static Enumeration<LedgerEntry> entries(LedgerHandle ledger, long last) throws Exception {
        for (int attempt = 0; attempt < 20; attempt++) {
            try {
                return ledger.readEntries(0, last);
            } catch (BKException notYet) {
                Thread.sleep(500);
            }
        }
        return ledger.readEntries(0, last);
    }
}
