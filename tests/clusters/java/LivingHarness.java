import com.fasterxml.jackson.databind.JsonNode;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReferenceArray;
import org.apache.bookkeeper.client.BKException;
import org.apache.bookkeeper.client.BookKeeper;
import org.apache.bookkeeper.client.Clients;
import org.apache.bookkeeper.conf.ClientConfiguration;
import org.apache.bookkeeper.net.BookieId;
import org.apache.bookkeeper.proto.BookieClient;
import org.apache.bookkeeper.proto.BookieProtocol;

/** The client of bookies that run apart: it makes a seeded load, and reads every entry from every bookie. */
public final class LivingHarness extends Harness {
    /** Reads that may be without an answer at one time. */
    private static final int IN_FLIGHT = 400;

    private final BookKeeper own;
    private final String uri;
    private final List<Load> loads = new ArrayList<>();

    private LivingHarness(JsonNode config) throws Exception {
        super(config);
        uri = config.get("uri").asText();
        ClientConfiguration conf = new ClientConfiguration();
        conf.setMetadataServiceUri(uri);
        // A bookie that was stopped for a moment is to be replaced soon, as in a real cluster after minutes.
        conf.setAddEntryTimeout(2);
        conf.setReadEntryTimeout(2);
        own = new BookKeeper(conf);
    }

    public static void main(String[] arguments) throws Exception {
        serve(arguments, LivingHarness::new);
    }

    @Override
    protected Object obey(JsonNode command) throws Exception {
        switch (command.get("do").asText()) {
            case "load": return load(command);
            case "rest": return rest();
            case "read": return read(command);
            case "fail_over": return failOver(command);
            case "heads": return heads(command);
            default: return super.obey(command);
        }
    }

    /** Writers at work until they are told to rest. */
    private Object load(JsonNode command) {
        for (int n = 0; n < command.get("threads").asInt(); n++) {
            Load load = new Load(own, command.get("seed").asLong() + n, command.get("ledgers").asInt(),
                    command.get("pause_ms").asInt());
            loads.add(load);
            load.start();
        }
        return null;
    }

    /** No writer is at work any more; what the writers did, in counts. */
    private Object rest() throws Exception {
        Map<String, Integer> counts = new TreeMap<>();
        for (Load load : loads) {
            load.end();
            load.counts.forEach((name, count) -> counts.merge(name, count, Integer::sum));
        }
        loads.clear();
        return counts;
    }

    /**
     * What bookies serve: for each ledger and bookie one letter per entry from 0 to the last that is asked for.
     *
     * <p>1: the bookie gave it. 0: it has no such entry. -: it has no such ledger. ?: it did not say.
     */
    private Object read(JsonNode command) throws Exception {
        BookieClient bookies = Clients.bookieClient(own);
        Semaphore free = new Semaphore(IN_FLIGHT);
        Map<String, Map<String, AtomicReferenceArray<String>>> letters = new TreeMap<>();
        List<CountDownLatch> waiting = new ArrayList<>();
        command.get("ledgers").fields().forEachRemaining(ledger -> {
            long id = Long.parseLong(ledger.getKey());
            int count = ledger.getValue().asInt() + 1;
            for (JsonNode bookie : command.get("bookies")) {
                AtomicReferenceArray<String> answers = new AtomicReferenceArray<>(count);
                letters.computeIfAbsent(ledger.getKey(), key -> new TreeMap<>()).put(bookie.asText(), answers);
                CountDownLatch left = new CountDownLatch(count);
                waiting.add(left);
                BookieId address = BookieId.parse(bookie.asText());
                for (int n = 0; n < count; n++) {
                    int entry = n;
                    free.acquireUninterruptibly();
                    bookies.readEntry(address, id, entry, (code, ledgerId, entryId, data, context) -> {
                        answers.set(entry, letter(code));
                        free.release();
                        left.countDown();
                    }, null, BookieProtocol.FLAG_NONE);
                }
            }
        });
        for (CountDownLatch each : waiting) {
            each.await();
        }
        Map<String, Map<String, String>> said = new TreeMap<>();
        letters.forEach((ledger, each) -> each.forEach((bookie, answers) -> {
            StringBuilder text = new StringBuilder();
            for (int n = 0; n < answers.length(); n++) {
                text.append(answers.get(n));
            }
            said.computeIfAbsent(ledger, key -> new TreeMap<>()).put(bookie, text.toString());
        }));
        return said;
    }

    /** So many ledgers, each taken over by another client while its writer writes. */
    private Object failOver(JsonNode command) throws Exception {
        ClientConfiguration conf = new ClientConfiguration();
        conf.setMetadataServiceUri(uri);
        List<Map<String, Long>> ledgers = new ArrayList<>();
        try (BookKeeper successor = new BookKeeper(conf)) {
            Failover failover = new Failover(own, successor, command.get("seed").asLong());
            for (int n = 0; n < command.get("ledgers").asInt(); n++) {
                ledgers.add(failover.run(command.get("ensemble").asInt(), command.get("write_quorum").asInt(),
                        command.get("ack_quorum").asInt(), command.get("in_flight").asInt()));
            }
        }
        return ledgers;
    }

    /** The last add confirmed in each copy of some entries, by bookie; -2: the bookie does not serve it. */
    private Object heads(JsonNode command) throws Exception {
        BookieClient bookies = Clients.bookieClient(own);
        long ledger = command.get("ledger").asLong();
        Map<String, List<Long>> heads = new TreeMap<>();
        for (JsonNode bookie : command.get("bookies")) {
            List<Long> found = new ArrayList<>();
            for (JsonNode entry : command.get("entries")) {
                CompletableFuture<Long> head = new CompletableFuture<>();
                bookies.readEntry(BookieId.parse(bookie.asText()), ledger, entry.asLong(),
                        (code, ledgerId, entryId, data, context) -> head.complete(
                                code == BKException.Code.OK ? data.getLong(data.readerIndex() + 16) : -2L),
                        null, BookieProtocol.FLAG_NONE);
                found.add(head.get(30, TimeUnit.SECONDS));
            }
            heads.put(bookie.asText(), found);
        }
        return heads;
    }

    private static String letter(int code) {
        switch (code) {
            case BKException.Code.OK: return "1";
            case BKException.Code.NoSuchEntryException: return "0";
            case BKException.Code.NoSuchLedgerExistsException:
            case BKException.Code.NoSuchLedgerExistsOnMetadataServerException: return "-";
            default: return "?";
        }
    }
}
