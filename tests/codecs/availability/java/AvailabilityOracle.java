import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.util.Arrays;
import java.util.BitSet;
import java.util.HexFormat;
import java.util.stream.Collectors;
import java.util.stream.LongStream;
import org.apache.bookkeeper.util.AvailabilityOfEntriesOfLedger;

/**
 * The server's own class of BP-34, asked a line at a time.
 *
 * <pre>
 * write 1,2,5              the bytes of these entries, in hexadecimal
 * read  HEX 0,5,9          total, then for each entry whether it is available
 * lack  HEX FIRST LAST     which entries of FIRST to LAST the class calls unavailable
 * </pre>
 */
public final class AvailabilityOracle {
    private AvailabilityOracle() {
    }

    public static void main(String[] arguments) throws Exception {
        PrintStream answers = System.out;
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.split(" ");
            answers.println(words[0].equals("write") ? written(words) : answered(words));
        }
    }

    private static String written(String[] words) {
        long[] entries = words.length == 1 ? new long[0] : numbers(words[1]);
        return HexFormat.of().formatHex(new AvailabilityOfEntriesOfLedger(entries).serializeStateOfEntriesOfLedger());
    }

    private static String answered(String[] words) {
        AvailabilityOfEntriesOfLedger value = new AvailabilityOfEntriesOfLedger(HexFormat.of().parseHex(words[1]));
        if (words[0].equals("read")) {
            return value.getTotalNumOfAvailableEntries() + " " + LongStream.of(numbers(words[2]))
                .mapToObj(entry -> value.isEntryAvailable(entry) ? "1" : "0").collect(Collectors.joining(","));
        }
        long first = Long.parseLong(words[2]);
        long last = Long.parseLong(words[3]);
        BitSet wanted = new BitSet();
        wanted.set(0, (int) (last - first) + 1);
        return value.getUnavailableEntries(first, last, wanted).stream().map(String::valueOf)
            .collect(Collectors.joining(","));
    }

    private static long[] numbers(String words) {
        return Arrays.stream(words.split(",")).mapToLong(Long::parseLong).toArray();
    }
}
