import java.io.File;
import java.io.IOException;
import java.lang.reflect.Field;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.PrimitiveIterator;
import java.util.TreeMap;
import java.util.function.Supplier;
import org.apache.bookkeeper.bookie.Bookie;
import org.apache.bookkeeper.bookie.CheckpointSource;
import org.apache.bookkeeper.bookie.CompactableLedgerStorage;
import org.apache.bookkeeper.bookie.Journal;
import org.apache.bookkeeper.bookie.LedgerStorage;
import org.apache.bookkeeper.bookie.StateManager;
import org.apache.bookkeeper.bookie.storage.ldb.DbLedgerStorage;
import org.apache.bookkeeper.common.component.LifecycleComponentStack;
import org.apache.bookkeeper.conf.ServerConfiguration;
import org.apache.bookkeeper.proto.BookieProtocol;
import org.apache.bookkeeper.proto.BookieServer;
import org.apache.bookkeeper.server.Main;
import org.apache.bookkeeper.server.conf.BookieConfiguration;
import org.apache.bookkeeper.server.service.BookieService;
import org.rocksdb.RocksDB;

/**
 * One bookie on its own directories: started, stopped, and asked what it holds.
 *
 * <p>It compiles against every release from 4.14 on; what some of them lack is called by its name.
 */
final class RunningBookie {
    private static final long NEVER_MS = 86_400_000;

    final String id;
    private final ServerConfiguration conf;
    private LifecycleComponentStack server;

    /**
     * A bookie that is not started yet; an id that is not its address and port is one of the operator's own.
     * The settings go over those that are made here.
     */
    RunningBookie(String uri, File directory, String storage, String id, int port, int ledgerDirs,
            boolean indexApart, int flushIntervalMs, Map<String, Object> settings) {
        this.id = id;
        conf = new ServerConfiguration();
        conf.setMetadataServiceUri(uri);
        conf.setBookiePort(port);
        conf.setAllowLoopback(true);
        // All of 127/8 is loopback: where racks matter, each bookie has an address of its own.
        boolean address = id.startsWith("127.") && id.endsWith(":" + port);
        conf.setAdvertisedAddress(address ? id.substring(0, id.lastIndexOf(':')) : "127.0.0.1");
        if (!address) {
            conf.setBookieId(id);
        }
        File place = new File(directory, id.replace(':', '_'));
        conf.setJournalDirsName(directories(place, "journal", 1));
        conf.setLedgerDirNames(directories(place, "ledgers", ledgerDirs));
        if (indexApart) {
            conf.setIndexDirName(directories(place, "index", ledgerDirs));
        }
        conf.setLedgerStorageClass("DbLedgerStorage".equals(storage)
                ? DbLedgerStorage.class.getName() : "org.apache.bookkeeper.bookie." + storage);
        conf.setFlushInterval(flushIntervalMs);
        // Nothing is collected or compacted behind a test's back.
        conf.setGcWaitTime(NEVER_MS);
        conf.setMinorCompactionThreshold(0);
        conf.setMajorCompactionThreshold(0);
        conf.setAutoRecoveryDaemonEnabled(false);
        // A full disk of the machine's is no matter of the test's.
        conf.setDiskUsageThreshold(0.999f);
        conf.setDiskUsageWarnThreshold(0.999f);
        conf.setMinUsableSizeForIndexFileCreation(0);
        conf.setMinUsableSizeForEntryLogCreation(0);
        // Small: several bookies share one process, and tests' entries are few.
        conf.setProperty("journalPreAllocSizeMB", 1);
        conf.setJournalWriteBufferSizeKB(64);
        conf.setEntryLogFilePreAllocationEnabled(false);
        conf.setPageLimit(512);
        conf.setServerNumIOThreads(2);
        conf.setNumAddWorkerThreads(1);
        conf.setNumReadWorkerThreads(1);
        conf.setNumLongPollWorkerThreads(0);
        conf.setNumHighPriorityWorkerThreads(1);
        conf.setProperty(DbLedgerStorage.WRITE_CACHE_MAX_SIZE_MB, 4);
        conf.setProperty(DbLedgerStorage.READ_AHEAD_CACHE_MAX_SIZE_MB, 4);
        conf.setProperty("dbStorage_rocksDB_blockCacheSize", 4 << 20);
        settings.forEach(conf::setProperty);
    }

    private static String[] directories(File place, String role, int count) {
        String[] names = new String[count];
        for (int n = 0; n < count; n++) {
            names[n] = new File(place, role.equals("journal") ? role : role + n).getPath();
        }
        return names;
    }

    ServerConfiguration configuration() {
        return conf;
    }

    boolean running() {
        return server != null;
    }

    void start() throws Exception {
        if (server == null) {
            LifecycleComponentStack started = Main.buildBookieServer(new BookieConfiguration(conf));
            if (conf.getMetadataServiceUri().startsWith("etcd:")) {
                endSpinning(serviceOf(started).getBookie());
            }
            started.start();
            server = started;
            if (!service().isBookieRunning()) {
                throw new IOException(id + " ended as soon as it was started");
            }
        }
    }

    /**
     * EtcdBookieRegister.waitForNewLeaseId asks without a pause whether it has its lease, as long as it runs: a
     * core for each bookie. etcd's client renews the lease in a thread of its own.
     */
    private static void endSpinning(Bookie bookie) throws ReflectiveOperationException {
        Object register = valueOf(valueOf(bookie, "registrationManager"), "bkRegister");
        ((Supplier<?>) register).get();  // it has its lease
        fieldOf(register, "running").set(register, false);
    }

    void stop() {
        if (server != null) {
            leaveElection();
            server.stop();
            server.close();
            server = null;
        }
    }

    /** AutoRecovery that stands in an election is waited for ten seconds as it stops; who is elected ends at once. */
    private void leaveElection() {
        for (Thread thread : Thread.getAllStackTraces().keySet()) {
            if (thread.getName().equals("AuditorElector-" + id)) {
                thread.interrupt();
            }
        }
    }

    /** From now on the bookie does not know what it should have of a ledger, and serves nothing of it. */
    void setLimbo(long ledger) throws Exception {
        // Since 4.15.
        LedgerStorage.class.getMethod("setLimboState", long.class).invoke(bookie().getLedgerStorage(), ledger);
        bookie().getLedgerStorage().flush();
    }

    void setReadOnly(boolean on) throws Exception {
        StateManager state = bookie().getStateManager();
        if (on) {
            state.transitionToReadOnlyMode().get();
        } else {
            state.transitionToWritableMode().get();
        }
    }

    /** Write all that is only in memory to entry logs and index, and then the marks, as a checkpoint does. */
    void flush() throws Exception {
        List<Journal> journals = new ArrayList<>();
        for (Object journal : (List<?>) valueOf(bookie(), "journals")) {  // its getter came with 4.16
            journals.add((Journal) journal);
        }
        List<CheckpointSource.Checkpoint> points = new ArrayList<>();
        for (Journal journal : journals) {
            points.add(journal.newCheckpoint());
        }
        bookie().getLedgerStorage().flush();
        for (int n = 0; n < points.size(); n++) {
            journals.get(n).checkpointComplete(points.get(n), false);
        }
    }

    /** One pass of the garbage collector, and the compaction that is on; returns when both have ended. */
    void collect() throws InterruptedException {
        LedgerStorage storage = bookie().getLedgerStorage();
        storage.forceGC();
        while (storage.isInForceGC()) {
            Thread.sleep(20);
        }
    }

    /** Every ledger that the storage knows, and its entries, in memory or on disk. */
    Map<String, List<Long>> held() throws Exception {
        LedgerStorage storage = bookie().getLedgerStorage();
        Iterable<Long> ledgers = storage instanceof DbLedgerStorage
                ? ((DbLedgerStorage) storage).getActiveLedgersInRange(0, Long.MAX_VALUE)
                : ((CompactableLedgerStorage) storage).getActiveLedgersInRange(0, Long.MAX_VALUE);
        Map<String, List<Long>> held = new TreeMap<>();
        for (long ledger : ledgers) {
            held.put(Long.toString(ledger), storage instanceof DbLedgerStorage
                    ? looked((DbLedgerStorage) storage, ledger) : listed(storage, ledger));
        }
        return held;
    }

    /** Take entries out of a stopped bookie's locations, as lost writes of an index would. */
    void forgetEntries(long ledger, List<Long> entries) throws Exception {
        List<byte[]> keys = new ArrayList<>();
        for (long entry : entries) {
            keys.add(ByteBuffer.allocate(2 * Long.BYTES).putLong(ledger).putLong(entry).array());
        }
        forget("locations", ledger, keys);
    }

    /** Take a ledger out of a stopped bookie's ledger index; its locations stay. */
    void forgetLedger(long ledger) throws Exception {
        forget("ledgers", ledger, List.of(ByteBuffer.allocate(Long.BYTES).putLong(ledger).array()));
    }

    private void forget(String database, long ledger, List<byte[]> keys) throws Exception {
        if (server != null) {
            throw new IllegalStateException(id + " is running");
        }
        File[] directories = conf.getIndexDirs() == null ? conf.getLedgerDirs() : conf.getIndexDirs();
        File directory = directories[(int) (ledger % directories.length)];
        try (RocksDB opened = RocksDB.open(new File(directory, "current/" + database).getPath())) {
            for (byte[] key : keys) {
                if (opened.get(key) == null) {
                    throw new IllegalArgumentException(id + " does not hold that of ledger " + ledger);
                }
                opened.delete(key);
            }
        }
    }

    private static List<Long> listed(LedgerStorage storage, long ledger) throws IOException {
        List<Long> entries = new ArrayList<>();
        for (PrimitiveIterator.OfLong each = storage.getListOfEntriesOfLedger(ledger); each.hasNext();) {
            entries.add(each.nextLong());
        }
        return entries;
    }

    /** DbLedgerStorage lists no entries: each up to the last is asked for. */
    private static List<Long> looked(DbLedgerStorage storage, long ledger) throws Exception {
        List<Long> entries = new ArrayList<>();
        long last;
        try {
            var entry = storage.getEntry(ledger, BookieProtocol.LAST_ADD_CONFIRMED);
            last = entry.getLong(Long.BYTES);
            entry.release();
        } catch (Bookie.NoEntryException none) {
            return entries;
        }
        for (long entry = 0; entry <= last; entry++) {
            try {
                storage.getEntry(ledger, entry).release();
                entries.add(entry);
            } catch (Bookie.NoEntryException none) {
                continue;
            }
        }
        return entries;
    }

    private static Object valueOf(Object owner, String field) throws ReflectiveOperationException {
        return fieldOf(owner, field).get(owner);
    }

    private static Field fieldOf(Object owner, String name) throws ReflectiveOperationException {
        Field field = owner.getClass().getDeclaredField(name);
        field.setAccessible(true);
        return field;
    }

    private Bookie bookie() {
        if (server == null) {
            throw new IllegalStateException(id + " is not running");
        }
        return service().getBookie();
    }

    private BookieServer service() {
        return serviceOf(server);
    }

    private static BookieServer serviceOf(LifecycleComponentStack server) {
        for (int n = 0; n < server.getNumComponents(); n++) {
            if (server.getComponent(n) instanceof BookieService) {
                return ((BookieService) server.getComponent(n)).getServer();
            }
        }
        throw new IllegalStateException("no service of a bookie");
    }
}
