import com.fasterxml.jackson.databind.JsonNode;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.locks.LockSupport;
import org.apache.bookkeeper.client.BKException;
import org.apache.bookkeeper.client.BookKeeper;
import org.apache.bookkeeper.client.LedgerHandle;
import org.apache.bookkeeper.replication.ServerCheck;

/** The bookies of the tests, with three commands more: write many ledgers, load, and run the server's own check. */
public final class CheckedBookies extends Harness {
    private static final int WRITERS = 16;
    private static final int READ_LEDGERS = 200;
    private static final byte[] ADDED = new byte[1024];

    private final List<LedgerHandle> closed = new ArrayList<>();
    private ServerCheck check;

    private CheckedBookies(JsonNode config) throws Exception {
        super(config);
    }

    public static void main(String[] arguments) throws Exception {
        serve(arguments, CheckedBookies::new);
    }

    @Override
    protected Object obey(JsonNode command) throws Exception {
        switch (command.get("do").asText()) {
            case "write_many": return writeMany(command);
            case "load": return load(command);
            case "check": return check(command.get("most").asInt());
            default: return super.obey(command);
        }
    }

    /** Closed ledgers with ids in a row, several written at a time, on bookies that the server chooses. */
    private Object writeMany(JsonNode command) throws Exception {
        long first = command.get("first").asLong();
        ExecutorService writers = Executors.newFixedThreadPool(WRITERS);
        try {
            List<Future<?>> written = new ArrayList<>();
            for (long ledger = first; ledger < first + command.get("count").asLong(); ledger++) {
                long id = ledger;
                written.add(writers.submit(() -> {
                    write(id, command);
                    return null;
                }));
            }
            for (Future<?> each : written) {
                each.get();
            }
        } finally {
            writers.shutdownNow();
        }
        return null;
    }

    private void write(long ledger, JsonNode command) throws Exception {
        LedgerHandle handle = client.createLedgerAdv(ledger, command.get("ensemble_size").asInt(),
                command.get("write_quorum").asInt(), command.get("ack_quorum").asInt(),
                BookKeeper.DigestType.CRC32C, new byte[0], Map.of());
        int entries = command.get("entries").asInt();
        List<CompletableFuture<Integer>> answers = new ArrayList<>();
        for (long entry = 0; entry < entries; entry++) {
            CompletableFuture<Integer> answer = new CompletableFuture<>();
            handle.asyncAddEntry(entry, new byte[20], (rc, same, id, context) -> answer.complete(rc), null);
            answers.add(answer);
        }
        for (CompletableFuture<Integer> answer : answers) {
            if (answer.get() != BKException.Code.OK) {
                throw BKException.create(answer.get());
            }
        }
        handle.close();
    }

    /** Steady adds and reads, answered or not; how many nanoseconds each took since it was due. */
    private Object load(JsonNode command) throws Exception {
        long ledger = command.get("ledger").asLong();
        for (long id = 0; id < Math.min(READ_LEDGERS, ledger) && closed.size() < READ_LEDGERS; id++) {
            closed.add(client.openLedgerNoRecovery(id, BookKeeper.DigestType.CRC32C, new byte[0]));
        }
        LedgerHandle open = client.createLedgerAdv(ledger, 1, 1, 1, BookKeeper.DigestType.CRC32C, new byte[0],
                Map.of());
        List<CompletableFuture<Long>> reads = new ArrayList<>();
        List<CompletableFuture<Long>> writes = new ArrayList<>();
        double rate = command.get("rate").asDouble();
        long begun = System.nanoTime();
        for (int number = 0; number < rate * command.get("seconds").asDouble(); number++) {
            long due = begun + (long) (number / rate * 1e9);
            while (System.nanoTime() < due) {
                LockSupport.parkNanos(due - System.nanoTime());
            }
            CompletableFuture<Long> took = new CompletableFuture<>();
            if (number % command.get("write_every").asInt() == 0) {
                open.asyncAddEntry(writes.size(), ADDED, (rc, same, id, context) -> end(took, rc, due), null);
                writes.add(took);
            } else {
                LedgerHandle from = closed.get(ThreadLocalRandom.current().nextInt(closed.size()));
                long entry = ThreadLocalRandom.current().nextLong(from.getLastAddConfirmed() + 1);
                from.asyncReadEntries(entry, entry, (rc, same, entries, context) -> end(took, rc, due), null);
                reads.add(took);
            }
        }
        Map<String, List<Long>> all = Map.of("reads", joined(reads), "writes", joined(writes));
        open.close();
        return all;
    }

    private static void end(CompletableFuture<Long> took, int code, long due) {
        if (code == BKException.Code.OK) {
            took.complete(System.nanoTime() - due);
        } else {
            took.completeExceptionally(BKException.create(code));
        }
    }

    private static List<Long> joined(List<CompletableFuture<Long>> all) {
        List<Long> found = new ArrayList<>();
        all.forEach(each -> found.add(each.join()));
        return found;
    }

    private Object check(int most) throws Exception {
        if (check == null) {
            check = new ServerCheck(bookies.values().iterator().next().configuration(), client);
        }
        return check.run(most);
    }
}
