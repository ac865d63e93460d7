import com.fasterxml.jackson.databind.JsonNode;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.apache.bookkeeper.client.BookKeeperAdmin;
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
            default: return super.obey(command);
        }
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
