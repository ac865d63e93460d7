import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.apache.bookkeeper.client.BKException;
import org.apache.bookkeeper.client.BookKeeper;
import org.apache.bookkeeper.client.LedgerHandle;

/** One writer: what it does next follows from its seed, and from what the cluster lets it do. */
final class Load extends Thread {
    private static final byte[] PASSWORD = new byte[0];
    private static final BookKeeper.DigestType[] DIGESTS = BookKeeper.DigestType.values();
    /** Ensemble, write quorum, ack quorum. */
    private static final int[][] QUORUMS = {{2, 2, 2}, {2, 2, 1}, {3, 2, 2}, {3, 3, 2}, {3, 3, 3}, {4, 2, 2}};
    /** Entries of a new ledger: the ends of index pages among them. */
    private static final int[] SIZES = {0, 1, 1, 2, 3, 8, 20, 40, 60};
    private static final int PAGE_AND_ONE = 1025;
    private static final int OPEN_AT_MOST = 8;
    private static final long LIMIT_S = 15;

    final Map<String, Integer> counts = new HashMap<>();
    private final BookKeeper client;
    private final Random random;
    private final int ledgers;
    private final int pauseMs;
    private final List<LedgerHandle> open = new ArrayList<>();
    private final List<Long> abandoned = new ArrayList<>();
    private final List<Long> closed = new ArrayList<>();
    private volatile boolean ended;

    /** A writer that keeps at most so many closed ledgers, and deletes others. */
    Load(BookKeeper client, long seed, int ledgers, int pauseMs) {
        this.client = client;
        this.random = new Random(seed);
        this.ledgers = ledgers;
        this.pauseMs = pauseMs;
        setDaemon(true);
    }

    @Override
    public void run() {
        while (!ended) {
            try {
                step();
                Thread.sleep(random.nextInt(2 * pauseMs + 1));
            } catch (BKException refused) {
                // Bookies are killed on purpose: what fails then is left as it is.
                count("refused " + BKException.getMessage(refused.getCode()));
            } catch (InterruptedException end) {
                return;
            }
        }
    }

    void end() throws InterruptedException {
        ended = true;
        join(TimeUnit.SECONDS.toMillis(2 * LIMIT_S));
        interrupt();
        join();
    }

    private void step() throws BKException, InterruptedException {
        int chance = random.nextInt(100);
        if (closed.size() > ledgers || chance < 8 && !closed.isEmpty()) {
            delete();
        } else if (chance < 20 && !open.isEmpty()) {
            append();
        } else if (chance < 32 && !open.isEmpty() || open.size() >= OPEN_AT_MOST) {
            close(open.remove(random.nextInt(open.size())));
        } else if (chance < 40 && !abandoned.isEmpty()) {
            recover();
        } else {
            create();
        }
    }

    private void create() throws BKException, InterruptedException {
        int[] quorum = QUORUMS[random.nextInt(QUORUMS.length)];
        int size = random.nextInt(60) == 0 ? PAGE_AND_ONE : SIZES[random.nextInt(SIZES.length)];
        int fate = random.nextInt(100);
        BookKeeper.DigestType digest = DIGESTS[counts.getOrDefault("created", 0) % DIGESTS.length];
        LedgerHandle handle = client.createLedger(quorum[0], quorum[1], quorum[2], digest, PASSWORD);
        count("created");
        write(handle, size);
        if (fate < 70) {
            close(handle);
        } else if (fate < 85) {
            open.add(handle);
        } else {
            abandoned.add(handle.getId());
            count("abandoned");
        }
    }

    private void append() throws BKException, InterruptedException {
        int at = random.nextInt(open.size());
        int size = 1 + random.nextInt(20);
        LedgerHandle handle = open.remove(at);
        write(handle, size);
        open.add(handle);
        count("appended");
    }

    private void close(LedgerHandle handle) throws BKException, InterruptedException {
        try {
            handle.close();
        } catch (BKException refused) {
            abandoned.add(handle.getId());
            throw refused;
        }
        closed.add(handle.getId());
        count("closed");
    }

    /** As a second client does after the first one died. */
    private void recover() throws BKException, InterruptedException {
        long id = abandoned.remove(random.nextInt(abandoned.size()));
        try {
            // A client finds out by itself which digest a ledger has.
            client.openLedger(id, DIGESTS[0], PASSWORD).close();
        } catch (BKException refused) {
            abandoned.add(id);
            throw refused;
        }
        closed.add(id);
        count("recovered");
    }

    private void delete() throws BKException, InterruptedException {
        client.deleteLedger(closed.remove(random.nextInt(closed.size())));
        count("deleted");
    }

    /** All are under way at once, as a busy writer has them; the handle is given up where one fails. */
    private void write(LedgerHandle handle, int entries) throws BKException, InterruptedException {
        List<CompletableFuture<Long>> answers = new ArrayList<>();
        for (int n = 0; n < entries; n++) {
            byte[] data = new byte[20 + random.nextInt(400)];
            random.nextBytes(data);
            answers.add(handle.appendAsync(data));
        }
        try {
            for (var answer : answers) {
                answer.get(LIMIT_S, TimeUnit.SECONDS);
            }
        } catch (TimeoutException hung) {
            abandoned.add(handle.getId());
            throw BKException.create(BKException.Code.TimeoutException);
        } catch (ExecutionException failure) {
            abandoned.add(handle.getId());
            throw failure.getCause() instanceof BKException
                    ? (BKException) failure.getCause() : BKException.create(BKException.Code.WriteException);
        }
    }

    private void count(String what) {
        counts.merge(what, 1, Integer::sum);
    }
}
