import com.fasterxml.jackson.databind.JsonNode;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.apache.bookkeeper.client.BKException;
import org.apache.bookkeeper.client.BookKeeper;
import org.apache.bookkeeper.client.BookKeeperAdmin;
import org.apache.bookkeeper.client.LedgerHandle;
import org.apache.bookkeeper.conf.ClientConfiguration;
import org.apache.bookkeeper.conf.ServerConfiguration;
import org.apache.bookkeeper.net.BookieId;
import org.apache.bookkeeper.tools.cli.commands.bookies.DecommissionCommand;

/** Bookies in racks, and the command that takes one of them out. */
public final class DecommissionHarness extends Harness {
    private final String uri;

    private DecommissionHarness(JsonNode config) throws Exception {
        super(config);
        uri = config.get("uri").asText();
    }

    public static void main(String[] arguments) throws Exception {
        serve(arguments, config -> {
            config.path("racks").fields()
                    .forEachRemaining(each -> Racks.PLACES.put(each.getKey(), each.getValue().asText()));
            return new DecommissionHarness(config);
        });
    }

    @Override
    protected Object obey(JsonNode command) throws Exception {
        switch (command.get("do").asText()) {
            case "decommission": return decommission(command);
            case "recover": return recover(command);
            case "read_all": return readAll(command);
            case "creates": return creates(command);
            default: return super.obey(command);
        }
    }

    /** Nobody looks at what bookies leave: they end with the process. */
    @Override
    protected void quit() {
    }

    /** What a reader gets of a ledger: how opening it with recovery ends, its last entry, and all it can read. */
    private Object readAll(JsonNode command) throws Exception {
        Map<String, Object> found = new HashMap<>();
        List<Long> entries = new ArrayList<>();
        try (BookKeeper reader = newClient()) {
            LedgerHandle handle = reader.openLedger(command.get("ledger").asLong(), BookKeeper.DigestType.CRC32C,
                    PASSWORD);
            found.put("last", handle.getLastAddConfirmed());
            for (long entry = 0; entry <= handle.getLastAddConfirmed(); entry++) {
                try {
                    handle.readEntries(entry, entry);
                    entries.add(entry);
                } catch (BKException lost) {
                    found.put("unread", lost.getMessage());
                }
            }
        } catch (BKException failed) {
            found.put("failed", failed.getMessage());
        }
        found.put("entries", entries);
        return found;
    }

    /** Whether a writer that starts now can make a ledger and write to it; the ledger is deleted again. */
    private Object creates(JsonNode command) throws Exception {
        long ledger = command.get("ledger").asLong();
        try (BookKeeper writer = newClient()) {
            LedgerHandle handle = writer.createLedgerAdv(ledger, command.get("ensemble_size").asInt(),
                    command.get("write_quorum").asInt(), command.get("ack_quorum").asInt(),
                    BookKeeper.DigestType.CRC32C, PASSWORD, Map.of());
            handle.addEntry(0, PASSWORD);
            handle.close();
            writer.deleteLedger(ledger);
            return true;
        } catch (BKException.BKNotEnoughBookiesException none) {
            return false;
        }
    }

    /** A client as an application has it, which learns of racks by the same mapping. */
    private BookKeeper newClient() throws Exception {
        ClientConfiguration conf = new ClientConfiguration();
        conf.setMetadataServiceUri(uri);
        conf.setProperty("reppDnsResolverClass", "Racks");
        return new BookKeeper(conf);
    }

    /** How the command ends: done, not done, waiting still, or what it fails with. */
    private Object decommission(JsonNode command) throws Exception {
        DecommissionCommand.DecommissionFlags flags = new DecommissionCommand.DecommissionFlags();
        flags.remoteBookieIdToDecommission(command.get("bookie").asText());
        ServerConfiguration conf = new ServerConfiguration();
        conf.setMetadataServiceUri(uri);
        CompletableFuture<String> end = new CompletableFuture<>();
        Thread thread = new Thread(() -> {
            try {
                end.complete(new DecommissionCommand().apply(conf, flags) ? "done" : "not done");
            } catch (RuntimeException failure) {
                Throwable cause = failure;
                while (cause.getCause() != null) {
                    cause = cause.getCause();
                }
                end.complete(cause.toString());
            }
        });
        thread.setDaemon(true);
        thread.start();
        try {
            return end.get(command.get("limit_s").asLong(), TimeUnit.SECONDS);
        } catch (TimeoutException waits) {
            thread.interrupt();
            return "waiting";
        } catch (ExecutionException impossible) {
            throw new IllegalStateException(impossible);
        }
    }

    /** Copy a ledger's entries off a bookie that may be running, as <code>recover BOOKIE -l LEDGER</code> does. */
    private Object recover(JsonNode command) throws Exception {
        ClientConfiguration conf = new ClientConfiguration();
        conf.setMetadataServiceUri(uri);
        try (BookKeeperAdmin admin = new BookKeeperAdmin(conf)) {
            admin.recoverBookieData(command.get("ledger").asLong(),
                    Set.of(BookieId.parse(command.get("bookie").asText())), false, false);
        }
        return null;
    }
}
