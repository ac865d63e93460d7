import java.io.PrintWriter;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.apache.bookkeeper.client.BookKeeperAdmin;
import org.apache.bookkeeper.conf.ServerConfiguration;
import org.apache.bookkeeper.meta.LedgerUnderreplicationManager;
import org.apache.bookkeeper.meta.MetadataDrivers;
import org.apache.bookkeeper.meta.UnderreplicatedLedger;
import org.apache.bookkeeper.replication.AuditorElector;

/** An auditor is elected, ledgers are marked and one is locked; then what the server reads of all. */
public class AuditorTruth {
    public static void main(String[] args) throws Exception {
        ServerConfiguration conf = new ServerConfiguration();
        conf.setMetadataServiceUri("zk+hierarchical://" + args[0] + "/ledgers");
        conf.setAuditorPeriodicCheckInterval(0);
        BookKeeperAdmin.initNewCluster(conf);
        MetadataDrivers.runFunctionWithLedgerManagerFactory(conf, factory -> {
            try {
                run(conf, factory.newLedgerUnderreplicationManager(), args[1]);
            } catch (Exception failure) {
                failure.printStackTrace();
                System.exit(1);
            }
            return null;
        });
    }

    static void run(ServerConfiguration conf, LedgerUnderreplicationManager queue, String target) throws Exception {
        queue.markLedgerUnderreplicated(5, "bk1:3181");
        queue.markLedgerUnderreplicatedAsync(7, Arrays.asList("127.0.0.1:3182", "bk_custom")).get();
        queue.markLedgerUnderreplicatedAsync(1L << 40, Arrays.asList("bk \"quoted\"\\:3181")).get();
        queue.acquireUnderreplicatedLedger(5);
        AuditorElector first = new AuditorElector("bk1:3181", conf);
        first.start().get();
        AuditorElector second = new AuditorElector("bk-2.rack", conf);
        second.start();
        while (first.getCurrentAuditor() == null) {
            Thread.sleep(100);
        }
        Thread.sleep(1000);
        // As its checks do when they end; they need bookies.
        queue.setCheckAllLedgersCTime(1764000000123L);
        queue.setPlacementPolicyCheckCTime(1764000000456L);
        queue.setReplicasCheckCTime(1764000000789L);
        List<String> marks = new ArrayList<>();
        for (long ledger : new long[] {5, 7, 1L << 40}) {
            UnderreplicatedLedger mark = queue.getLedgerUnreplicationInfo(ledger);
            List<String> replicas = new ArrayList<>();
            for (String replica : mark.getReplicaList()) {
                replicas.add(quoted(replica));
            }
            marks.add("\"" + ledger + "\":{\"replicas\":[" + String.join(",", replicas) + "],\"ctime\":"
                    + mark.getCtime() + "}");
        }
        try (PrintWriter out = new PrintWriter(target, "UTF-8")) {
            out.println("{\"marks\":{" + String.join(",", marks) + "},\"worker\":"
                    + quoted(queue.getReplicationWorkerIdRereplicatingLedger(5)) + ",\"auditor\":"
                    + quoted(first.getCurrentAuditor().toString()) + ",\"times\":["
                    + queue.getCheckAllLedgersCTime() + "," + queue.getPlacementPolicyCheckCTime() + ","
                    + queue.getReplicasCheckCTime() + "]}");
        }
        System.out.println("ready");
        System.in.read();
        Runtime.getRuntime().halt(0);
    }

    static String quoted(String text) {
        return text == null ? "null" : "\"" + text.replace("\\", "\\\\").replace("\"", "\\\"") + "\"";
    }
}
