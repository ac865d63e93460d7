package org.apache.bookkeeper.replication;

import java.io.IOException;
import java.util.Set;
import java.util.TreeSet;
import org.apache.bookkeeper.client.BookKeeper;
import org.apache.bookkeeper.client.BookKeeperAdmin;
import org.apache.bookkeeper.conf.ServerConfiguration;
import org.apache.bookkeeper.meta.LedgerManager;
import org.apache.bookkeeper.meta.LedgerManagerFactory;
import org.apache.bookkeeper.meta.LedgerUnderreplicationManager;
import org.apache.bookkeeper.stats.NullStatsLogger;

/**
 * The auditor's own replicas check, run once; it lies in the auditor's package, whose task is not public.
 *
 * <p>The check is the server's own, unchanged. Where not all ledgers are to be checked, the ledger manager that
 * it is given lists the first of them only.
 */
public final class ServerCheck {
    private final ServerConfiguration conf;
    private final BookKeeper client;
    private final BookKeeperAdmin admin;
    private final LedgerManager ledgers;
    private final LedgerUnderreplicationManager marks;

    public ServerCheck(ServerConfiguration conf, BookKeeper client) throws Exception {
        this.conf = conf;
        this.client = client;
        LedgerManagerFactory factory = client.getLedgerManagerFactory();
        admin = new BookKeeperAdmin(client);
        ledgers = factory.newLedgerManager();
        marks = factory.newLedgerUnderreplicationManager();
    }

    /** Check up to so many ledgers: the nanoseconds that it took, and how many lack a copy of an entry. */
    public long[] run(int most) throws Exception {
        AuditorStats stats = new AuditorStats(NullStatsLogger.INSTANCE);
        LedgerManager listed = (LedgerManager) java.lang.reflect.Proxy.newProxyInstance(
                ServerCheck.class.getClassLoader(), new Class<?>[] {LedgerManager.class},
                (proxy, method, arguments) -> method.getName().equals("getLedgerRanges")
                        ? new First(ledgers.getLedgerRanges((long) arguments[0]), most)
                        : method.invoke(ledgers, arguments));
        AuditorReplicasCheckTask task = new AuditorReplicasCheckTask(conf, stats, admin, listed, marks,
                () -> { }, (busy, error) -> { });
        long before = marks.getReplicasCheckCTime();
        long start = System.nanoTime();
        task.runTask();
        long taken = System.nanoTime() - start;
        if (marks.getReplicasCheckCTime() == before) {
            throw new IllegalStateException("the check did not come to its end; see the log");
        }
        return new long[] {taken, stats.getNumLedgersHavingNoReplicaOfAnEntryGuageValue().get()
                + stats.getNumLedgersHavingLessThanAQReplicasOfAnEntryGuageValue().get()
                + stats.getNumLedgersHavingLessThanWQReplicasOfAnEntryGuageValue().get()};
    }

    /** The first ledgers of a listing. */
    private static final class First implements LedgerManager.LedgerRangeIterator {
        private final LedgerManager.LedgerRangeIterator all;
        private int left;

        First(LedgerManager.LedgerRangeIterator all, int most) {
            this.all = all;
            left = most;
        }

        @Override
        public boolean hasNext() throws IOException {
            return left > 0 && all.hasNext();
        }

        @Override
        public LedgerManager.LedgerRange next() throws IOException {
            Set<Long> some = new TreeSet<>();
            for (long ledger : all.next().getLedgers()) {
                if (some.size() < left) {
                    some.add(ledger);
                }
            }
            left -= some.size();
            return new LedgerManager.LedgerRange(some);
        }
    }
}
