import com.fasterxml.jackson.databind.JsonNode;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.File;
import java.io.InputStream;
import java.io.PrintStream;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.apache.bookkeeper.bookie.BookieShell;
import org.apache.bookkeeper.common.conf.ConfigurationUtil;
import org.apache.bookkeeper.conf.ServerConfiguration;
import org.apache.bookkeeper.util.EntryFormatter;
import org.apache.bookkeeper.util.LedgerIdFormatter;
import org.apache.commons.configuration2.CompositeConfiguration;
import org.apache.logging.log4j.Level;
import org.apache.logging.log4j.LogManager;
import org.apache.logging.log4j.core.Logger;
import org.apache.logging.log4j.core.appender.OutputStreamAppender;
import org.apache.logging.log4j.core.layout.PatternLayout;

/** Bookies whose own configuration an operator changes between two starts, and that operator's shell. */
public final class PlanHarness extends Harness {
    private static final long NEVER_S = 86_400;

    private PlanHarness(JsonNode config) throws Exception {
        super(config);
    }

    public static void main(String[] arguments) throws Exception {
        serve(arguments, PlanHarness::new);
    }

    @Override
    protected Object obey(JsonNode command) throws Exception {
        switch (command.get("do").asText()) {
            case "configure": return configure(command);
            case "shell": return shell(command);
            default: return super.obey(command);
        }
    }

    private Object configure(JsonNode command) {
        bookies.get(command.get("bookie").asText()).configuration()
                .setProperty(command.get("key").asText(), command.get("value").asText());
        return null;
    }

    /** What <code>bookkeeper shell</code> prints, with a Y to whatever it asks, and with which code it ends. */
    private Object shell(JsonNode command) {
        List<String> words = new ArrayList<>();
        command.get("words").forEach(each -> words.add(each.asText()));
        ByteArrayOutputStream printed = new ByteArrayOutputStream();
        PrintStream out = System.out;
        InputStream in = System.in;
        // What goes to the console by the logging of bin/bookkeeper shell.
        Logger verbose = (Logger) LogManager.getLogger("verbose");
        verbose.setLevel(Level.INFO);
        OutputStreamAppender console = OutputStreamAppender.newBuilder().setName("shell").setTarget(printed)
                .setLayout(PatternLayout.createDefaultLayout()).build();
        console.start();
        verbose.addAppender(console);
        System.setOut(new PrintStream(printed, true));
        System.setIn(new ByteArrayInputStream("Y\nY\n".getBytes()));
        int code = -1;
        try {
            code = run(new File(command.get("conf").asText()), words, command.path("limit_s").asLong(NEVER_S));
        } catch (Throwable failure) {
            failure.printStackTrace();
        } finally {
            verbose.removeAppender(console);
            System.setOut(out);
            System.setIn(in);
        }
        return Map.of("printed", printed.toString(), "code", code);
    }

    /** The code with which a command ends; one that takes longer than the limit is interrupted. */
    private static int run(File conf, List<String> words, long limitS) throws Exception {
        CompletableFuture<Integer> end = new CompletableFuture<>();
        Thread thread = new Thread(() -> {
            try {
                end.complete(newShell(conf).run(words.toArray(new String[0])));
            } catch (Throwable failure) {
                end.completeExceptionally(failure);
            }
        });
        thread.setDaemon(true);
        thread.start();
        try {
            return end.get(limitS, TimeUnit.SECONDS);
        } finally {
            thread.interrupt();
        }
    }

    /** As its main method makes one. */
    private static BookieShell newShell(File file) throws Exception {
        CompositeConfiguration conf = new CompositeConfiguration();
        conf.addConfiguration(ConfigurationUtil.newConfiguration(builder -> builder.propertiesBuilder(file)));
        ServerConfiguration none = new ServerConfiguration();
        BookieShell shell = new BookieShell(LedgerIdFormatter.newLedgerIdFormatter(none),
                EntryFormatter.newEntryFormatter(none));
        shell.setConf(conf);
        return shell;
    }
}
