import com.fasterxml.jackson.databind.JsonNode;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.apache.bookkeeper.client.BKException;
import org.apache.bookkeeper.client.BookKeeper;
import org.apache.bookkeeper.client.LedgerHandle;
import org.apache.bookkeeper.replication.ServerCheck;

/** The bookies of the tests, with two commands more: write many ledgers, and run the server's own check. */
public final class CheckedBookies extends Harness {
    private static final int WRITERS = 16;

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

    private Object check(int most) throws Exception {
        if (check == null) {
            check = new ServerCheck(bookies.values().iterator().next().configuration(), client);
        }
        return check.run(most);
    }
}
