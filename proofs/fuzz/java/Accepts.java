package org.apache.bookkeeper.bookie;

import com.google.protobuf.TextFormat;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import java.util.Map;
import java.util.Optional;
import org.apache.bookkeeper.bookie.storage.ldb.DbLedgerStorageDataFormats;
import org.apache.bookkeeper.meta.LedgerLayout;
import org.apache.bookkeeper.meta.LedgerMetadataSerDe;
import org.apache.bookkeeper.proto.DataFormats;
import org.apache.bookkeeper.util.AvailabilityOfEntriesOfLedger;

/** Says of each line "KIND HEX" whether the server's class takes the bytes, or which exception it throws. */
public class Accepts {
    private interface Reader {
        void read(byte[] data) throws Exception;
    }

    private static final Map<String, Reader> READERS = Map.of(
        "ledger-metadata", data -> new LedgerMetadataSerDe().parseConfig(data, 1, Optional.empty()),
        "cookie", Cookie::parseFromBytes,
        "layout", LedgerLayout::parseLayout,
        "availability-java", data -> new AvailabilityOfEntriesOfLedger(data),
        "last-mark", data -> new LogMark().readLogMark(ByteBuffer.wrap(data)),
        "mark", data -> TextFormat.merge(
            new String(data, StandardCharsets.UTF_8), DataFormats.UnderreplicatedLedgerFormat.newBuilder()),
        "lock", data -> TextFormat.merge(
            new String(data, StandardCharsets.UTF_8), DataFormats.LockDataFormat.newBuilder()),
        "service-info", DataFormats.BookieServiceInfoFormat::parseFrom,
        "ledger-data", DbLedgerStorageDataFormats.LedgerData::parseFrom);

    public static void main(String[] words) throws Exception {
        var lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] parts = line.split(" ", 2);
            String said = "read";
            try {
                READERS.get(parts[0]).read(HexFormat.of().parseHex(parts[1]));
            } catch (Exception | StackOverflowError | AssertionError error) {
                said = error.getClass().getSimpleName();
            }
            System.out.println("ANSWER " + said);
        }
        System.out.flush();
        Runtime.getRuntime().halt(0);
    }
}
