import com.fasterxml.jackson.core.type.TypeReference;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import io.netty.buffer.Unpooled;
import io.netty.buffer.UnpooledByteBufAllocator;
import java.io.BufferedReader;
import java.io.File;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.Method;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.EnumSet;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.apache.bookkeeper.client.BKException;
import org.apache.bookkeeper.client.BookKeeper;
import org.apache.bookkeeper.client.BookKeeperAdmin;
import org.apache.bookkeeper.client.Clients;
import org.apache.bookkeeper.client.LedgerHandle;
import org.apache.bookkeeper.client.LedgerMetadataBuilder;
import org.apache.bookkeeper.client.RackawareEnsemblePlacementPolicy;
import org.apache.bookkeeper.client.api.DigestType;
import org.apache.bookkeeper.client.api.WriteFlag;
import org.apache.bookkeeper.conf.ClientConfiguration;
import org.apache.bookkeeper.net.BookieId;
import org.apache.bookkeeper.proto.BookieClient;
import org.apache.bookkeeper.proto.BookieProtocol;
import org.apache.bookkeeper.proto.BookkeeperInternalCallbacks.WriteCallback;
import org.apache.bookkeeper.proto.checksum.DigestManager;
import org.apache.bookkeeper.versioning.Version;

/**
 * Bookies in one process, and one client of theirs, that do what standard input says.
 *
 * <p>The one argument is a JSON object: the metadata service's URI, a directory, a storage class, the bookies' ids
 * and ports, and so on. Then each line of standard input is a command, a JSON object whose "do" is a method's
 * name below, and each gets one line for an answer: {"answer": ...} or {"error": "..."}. When standard input
 * ends, so does the process.
 */
public class Harness {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final TypeReference<Map<String, Object>> SETTINGS = new TypeReference<>() { };
    protected static final byte[] PASSWORD = new byte[0];
    private static final long LIMIT_S = 30;

    /** The client, and the bookies by id, for a harness that knows more commands. */
    protected final BookKeeper client;
    protected final Map<String, RunningBookie> bookies = new LinkedHashMap<>();
    private final Map<Long, LedgerHandle> open = new HashMap<>();

    protected Harness(JsonNode config) throws Exception {
        String uri = config.get("uri").asText();
        for (JsonNode each : config.get("bookies")) {
            RunningBookie bookie = bookie(config, each);
            bookies.put(bookie.id, bookie);
        }
        if (!BookKeeperAdmin.initNewCluster(bookies.values().iterator().next().configuration())) {
            throw new IllegalStateException("there is a cluster at " + uri + " already");
        }
        // Bookies that run apart, each in a process of its own, are known here and not started.
        if (!config.path("apart").asBoolean()) {
            for (RunningBookie bookie : bookies.values()) {
                bookie.start();
            }
        }
        ClientConfiguration conf = new ClientConfiguration();
        conf.setMetadataServiceUri(uri);
        conf.setEnsemblePlacementPolicy(Placement.class);
        if (config.has("client_settings")) {
            JSON.convertValue(config.get("client_settings"), SETTINGS).forEach(conf::setProperty);
        }
        client = new BookKeeper(conf);
    }

    /** One bookie of the configuration, not started yet. */
    protected static RunningBookie bookie(JsonNode config, JsonNode each) {
        return new RunningBookie(config.get("uri").asText(), new File(config.get("directory").asText()),
                own(config, each, "storage").asText(), each.get("id").asText(), each.get("port").asInt(),
                own(config, each, "ledger_dirs").asInt(), own(config, each, "index_apart").asBoolean(),
                config.get("flush_interval_ms").asInt(), JSON.convertValue(config.get("settings"), SETTINGS));
    }

    private static JsonNode own(JsonNode config, JsonNode bookie, String name) {
        return bookie.has(name) ? bookie.get(name) : config.get(name);
    }

    /**
     * Ensembles are as the command names them, so that runs are alike; a replacement is whoever is left. Where
     * none was ever named the server chooses.
     */
    public static final class Placement extends RackawareEnsemblePlacementPolicy {
        private static volatile List<BookieId> next = List.of();

        @Override
        public PlacementResult<List<BookieId>> newEnsemble(int ensembleSize, int quorumSize, int ackQuorumSize,
                Map<String, byte[]> customMetadata, Set<BookieId> excluded)
                throws BKException.BKNotEnoughBookiesException {
            if (next.isEmpty()) {
                return super.newEnsemble(ensembleSize, quorumSize, ackQuorumSize, customMetadata, excluded);
            }
            return PlacementResult.of(next, PlacementPolicyAdherence.MEETS_STRICT);
        }
    }

    /** How a harness is made of the one argument. */
    protected interface Maker {
        Harness make(JsonNode config) throws Exception;
    }

    public static void main(String[] arguments) throws Exception {
        serve(arguments, Harness::new);
    }

    protected static void serve(String[] arguments, Maker maker) throws Exception {
        PrintStream answers = System.out;
        // Answers alone go to standard output; whatever the server prints by itself does not.
        System.setOut(System.err);
        Harness harness = maker.make(JSON.readTree(arguments[0]));
        answers.println("{\"answer\": \"ready\"}");
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = commands.readLine(); line != null; line = commands.readLine()) {
            Map<String, Object> answer = new HashMap<>();
            try {
                answer.put("answer", harness.obey(JSON.readTree(line)));
            } catch (Exception error) {
                error.printStackTrace();
                answer.put("error", error.toString());
            }
            answers.println(JSON.writeValueAsString(answer));
        }
        try {
            harness.quit();
        } finally {
            // Threads of the server's that are no daemons would keep the process.
            System.exit(0);
        }
    }

    protected Object obey(JsonNode command) throws Exception {
        switch (command.get("do").asText()) {
            case "create": return create(command);
            case "append": return append(command);
            case "close": return close(command.get("ledger").asLong());
            case "record": return record(command);
            case "add": return add(command);
            case "delete": return delete(command);
            case "held": return held();
            case "flush": return flush();
            case "collect": return collect(command);
            case "start": return start(command);
            case "stop": return stop(command);
            case "forget_entries": return forgetEntries(command);
            case "forget_ledger": return forgetLedger(command);
            case "set_limbo": return setLimbo(command);
            case "read_only": return readOnly(command);
            default: throw new IllegalArgumentException("no such command: " + command);
        }
    }

    /** A ledger of the client's, open until it is closed. */
    private Object create(JsonNode command) throws Exception {
        long ledger = command.get("ledger").asLong();
        Placement.next = ensemble(command.get("ensemble"));
        open.put(ledger, client.createLedgerAdv(ledger, Placement.next.size(), command.get("write_quorum").asInt(),
                command.get("ack_quorum").asInt(), BookKeeper.DigestType.CRC32C, PASSWORD, Map.of()));
        return ledger;
    }

    /** So many more entries; the answer is the last one's id. */
    private Object append(JsonNode command) throws Exception {
        LedgerHandle handle = open.get(command.get("ledger").asLong());
        long last = handle.getLastAddConfirmed();
        for (int n = command.get("entries").asInt(); n > 0; n--) {
            handle.addEntry(++last, data(last));
        }
        return last;
    }

    private Object close(long ledger) throws Exception {
        open.remove(ledger).close();
        return ledger;
    }

    /** Metadata of a closed ledger alone: its entries are added bookie by bookie, or not at all. */
    private Object record(JsonNode command) throws Exception {
        long ledger = command.get("ledger").asLong();
        List<BookieId> members = ensemble(command.get("ensemble"));
        LedgerMetadataBuilder metadata = LedgerMetadataBuilder.create().withId(ledger)
                .withEnsembleSize(members.size()).withWriteQuorumSize(command.get("write_quorum").asInt())
                .withAckQuorumSize(command.get("ack_quorum").asInt()).withDigestType(DigestType.CRC32C)
                .withPassword(PASSWORD).newEnsembleEntry(0, members).withClosedState()
                .withLastEntryId(command.get("last").asLong())
                .withLength(length(command.get("last").asLong()));
        client.getLedgerManager().createLedgerMetadata(ledger, metadata.build()).get(LIMIT_S, TimeUnit.SECONDS);
        return ledger;
    }

    /**
     * Entries of a ledger to one bookie, as a recovering client sends them, whatever metadata says; of another
     * client with a password and payloads of its own.
     */
    private Object add(JsonNode command) throws Exception {
        long ledger = command.get("ledger").asLong();
        byte[] password = command.path("password").asText("").getBytes(StandardCharsets.UTF_8);
        String prefix = command.path("payload").asText("entry");
        DigestManager digests = DigestManager.instantiate(ledger, password,
                BookKeeper.DigestType.toProtoDigestType(BookKeeper.DigestType.CRC32C),
                UnpooledByteBufAllocator.DEFAULT, false);
        byte[] key = DigestManager.generateMasterKey(password);
        // The types of both changed with 4.16.
        Method pack = named(DigestManager.class, "computeDigestAndPackageForSending");
        Method send = named(BookieClient.class, "addEntry");
        List<CompletableFuture<Integer>> answers = new ArrayList<>();
        for (JsonNode each : command.get("entries")) {
            long entry = each.asLong();
            Object[] parts = {entry, entry - 1, length(entry), Unpooled.wrappedBuffer(data(prefix, entry)), key,
                BookieProtocol.FLAG_RECOVERY_ADD};
            Object packet = pack.invoke(digests, Arrays.copyOf(parts, pack.getParameterCount()));
            CompletableFuture<Integer> answer = new CompletableFuture<>();
            WriteCallback written = (rc, ledgerId, entryId, bookie, context) -> answer.complete(rc);
            send.invoke(Clients.bookieClient(client), BookieId.parse(command.get("bookie").asText()), ledger, key,
                    entry, packet, written, null, BookieProtocol.FLAG_RECOVERY_ADD, false,
                    EnumSet.noneOf(WriteFlag.class));
            answers.add(answer);
        }
        for (CompletableFuture<Integer> answer : answers) {
            int code = answer.get(LIMIT_S, TimeUnit.SECONDS);
            if (code != BKException.Code.OK) {
                throw BKException.create(code);
            }
        }
        return answers.size();
    }

    /** Metadata goes; bookies keep what they hold until they collect garbage, which these never do. */
    private Object delete(JsonNode command) throws Exception {
        client.getLedgerManager().removeLedgerMetadata(command.get("ledger").asLong(), Version.ANY)
                .get(LIMIT_S, TimeUnit.SECONDS);
        return null;
    }

    /** What each running bookie's own storage says that it holds. */
    private Object held() throws Exception {
        Map<String, Object> held = new LinkedHashMap<>();
        for (RunningBookie bookie : bookies.values()) {
            if (bookie.running()) {
                held.put(bookie.id, bookie.held());
            }
        }
        return held;
    }

    private Object flush() throws Exception {
        for (RunningBookie bookie : bookies.values()) {
            if (bookie.running()) {
                bookie.flush();
            }
        }
        return null;
    }

    private Object collect(JsonNode command) throws Exception {
        bookie(command).collect();
        return null;
    }

    private Object start(JsonNode command) throws Exception {
        bookie(command).start();
        return null;
    }

    private Object stop(JsonNode command) {
        bookie(command).stop();
        return null;
    }

    private Object forgetEntries(JsonNode command) throws Exception {
        List<Long> entries = new ArrayList<>();
        command.get("entries").forEach(entry -> entries.add(entry.asLong()));
        bookie(command).forgetEntries(command.get("ledger").asLong(), entries);
        return null;
    }

    private Object forgetLedger(JsonNode command) throws Exception {
        bookie(command).forgetLedger(command.get("ledger").asLong());
        return null;
    }

    private Object setLimbo(JsonNode command) throws Exception {
        bookie(command).setLimbo(command.get("ledger").asLong());
        return null;
    }

    private Object readOnly(JsonNode command) throws Exception {
        bookie(command).setReadOnly(command.get("on").asBoolean());
        return null;
    }

    protected void quit() throws Exception {
        for (RunningBookie bookie : bookies.values()) {
            bookie.stop();
        }
        client.close();
    }

    private RunningBookie bookie(JsonNode command) {
        return bookies.get(command.get("bookie").asText());
    }

    private static List<BookieId> ensemble(JsonNode ids) {
        List<BookieId> members = new ArrayList<>();
        ids.forEach(id -> members.add(BookieId.parse(id.asText())));
        return members;
    }

    private static Method named(Class<?> type, String name) {
        return Arrays.stream(type.getMethods()).filter(method -> method.getName().equals(name)).findAny()
                .orElseThrow();
    }

    private static byte[] data(String prefix, long entry) {
        return String.format("%s-%06d", prefix, entry).getBytes(StandardCharsets.UTF_8);
    }

    private static byte[] data(long entry) {
        return data("entry", entry);
    }

    private static long length(long last) {
        return (last + 1) * data(0).length;
    }
}
