import java.util.Map;
import java.util.Random;
import java.util.TreeMap;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.bookkeeper.client.BKException;
import org.apache.bookkeeper.client.BookKeeper;
import org.apache.bookkeeper.client.LedgerHandle;

/** A writer whose ledger is taken over while it writes, as a broker's is by the broker that comes after it. */
final class Failover {
    private static final byte[] PASSWORD = new byte[0];
    private static final BookKeeper.DigestType DIGEST = BookKeeper.DigestType.CRC32C;
    private static final long LIMIT_S = 30;

    private final BookKeeper writer;
    private final BookKeeper successor;
    private final Random random;

    Failover(BookKeeper writer, BookKeeper successor, long seed) {
        this.writer = writer;
        this.successor = successor;
        this.random = new Random(seed);
    }

    /** The ledger, the last entry that the writer was told is safe, and the one at which it ends. */
    Map<String, Long> run(int ensemble, int writeQuorum, int ackQuorum, int inFlight) throws Exception {
        LedgerHandle handle = writer.createLedger(ensemble, writeQuorum, ackQuorum, DIGEST, PASSWORD);
        AtomicLong acknowledged = new AtomicLong(-1);
        Semaphore free = new Semaphore(inFlight);
        CompletableFuture<Void> refused = new CompletableFuture<>();
        Thread load = new Thread(() -> {
            while (!refused.isDone()) {
                free.acquireUninterruptibly();
                byte[] data = new byte[20 + random.nextInt(400)];
                handle.appendAsync(data).whenComplete((entry, failure) -> {
                    free.release();
                    if (failure == null) {
                        acknowledged.accumulateAndGet(entry, Math::max);
                    } else {
                        refused.complete(null);
                    }
                });
            }
        });
        load.setDaemon(true);
        load.start();
        Thread.sleep(20 + random.nextInt(200));
        LedgerHandle recovered = successor.openLedger(handle.getId(), DIGEST, PASSWORD);
        refused.get(LIMIT_S, TimeUnit.SECONDS);
        load.join(TimeUnit.SECONDS.toMillis(LIMIT_S));
        free.acquire(inFlight);
        try {
            handle.close();
        } catch (BKException fenced) {
            // It was closed by its successor, at another entry than the writer would.
        }
        recovered.close();
        LedgerHandle closed = successor.openLedgerNoRecovery(handle.getId(), DIGEST, PASSWORD);
        long last = closed.getLastAddConfirmed();
        closed.close();
        return new TreeMap<>(Map.of("ledger", handle.getId(), "acknowledged", acknowledged.get(), "last", last));
    }
}
