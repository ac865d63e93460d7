import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import org.apache.bookkeeper.util.AvailabilityOfEntriesOfLedger;

/**
 * The server's own encoder of BP-34, timed when standard input asks for it.
 *
 * <p>Each line has its words between tabs: {@code encode FILE LEDGERS}, answered by the nanoseconds and the number
 * of bytes of one round, or {@code write FILE TARGET}, which keeps the bytes of one ledger. A file is the entry
 * ids of one ledger, little-endian; with LEDGERS above 1 as many objects are made of them, one after another.
 * When standard input ends, so does the process.
 */
public final class Encoder {
    private Encoder() {
    }

    public static void main(String[] arguments) throws Exception {
        PrintStream answers = System.out;
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = commands.readLine(); line != null; line = commands.readLine()) {
            String[] words = line.split("\t");
            long[] entries = read(Path.of(words[1]));
            if (words[0].equals("encode")) {
                int ledgers = Integer.parseInt(words[2]);
                long bytes = 0;
                // What the round before left behind is not to be collected in this one's time.
                System.gc();
                long start = System.nanoTime();
                for (int n = 0; n < ledgers; n++) {
                    bytes += encoded(entries).length;
                }
                answers.println(System.nanoTime() - start + " " + bytes);
            } else {
                Files.write(Path.of(words[2]), encoded(entries));
                answers.println("written");
            }
        }
    }

    private static byte[] encoded(long[] entries) {
        return new AvailabilityOfEntriesOfLedger(entries).serializeStateOfEntriesOfLedger();
    }

    private static long[] read(Path file) throws Exception {
        byte[] bytes = Files.readAllBytes(file);
        long[] entries = new long[bytes.length / Long.BYTES];
        ByteBuffer.wrap(bytes).order(ByteOrder.LITTLE_ENDIAN).asLongBuffer().get(entries);
        return entries;
    }
}
