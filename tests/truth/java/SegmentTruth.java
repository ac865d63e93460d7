package org.apache.distributedlog;

import java.io.PrintWriter;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import org.apache.distributedlog.LogSegmentMetadata.LogSegmentMetadataVersion;
import org.apache.distributedlog.util.DLUtils;

/** Segments in every version, while they are written and when they are complete, and what DistributedLog reads. */
public class SegmentTruth {
    public static void main(String[] args) throws Exception {
        List<String> lines = new ArrayList<>();
        long[] ledgers = {0, 17, 1L << 40, Long.MAX_VALUE};
        for (LogSegmentMetadataVersion version : LogSegmentMetadataVersion.values()) {
            if (version.value < 1) {
                continue;
            }
            for (long ledger : ledgers) {
                LogSegmentMetadata open = new LogSegmentMetadata.LogSegmentMetadataBuilder("/s", version, ledger, 3)
                        .setRegionId(5).setLogSegmentSequenceNo(9).setEnvelopeEntries(version.value >= 4).build();
                lines.add(line(version, open));
                lines.add(line(version, open.completeLogSegment("/s", 44, 12, 11, 2, 7)));
            }
        }
        List<String> allocations = new ArrayList<>();
        for (long ledger : ledgers) {
            byte[] data = DLUtils.logSegmentId2Bytes(ledger);
            allocations.add("{\"data\":\"" + Base64.getEncoder().encodeToString(data) + "\",\"ledger\":"
                    + DLUtils.bytes2LogSegmentId(data) + "}");
        }
        try (PrintWriter out = new PrintWriter(args[0], "UTF-8")) {
            out.println("{\"segments\":[" + String.join(",\n", lines) + "],\n\"allocations\":["
                    + String.join(",\n", allocations) + "]}");
        }
        System.exit(0);
    }

    static String line(LogSegmentMetadataVersion version, LogSegmentMetadata written) throws Exception {
        byte[] data = written.getFinalisedData().getBytes("UTF-8");
        // Version 1 is read by a method of its own, which parseData asks no more.
        LogSegmentMetadata read = version.value == 1
                ? LogSegmentMetadata.parseDataV1("/s", data, written.getFinalisedData().split(";"))
                : LogSegmentMetadata.parseData("/s", data);
        return "{\"data\":\"" + Base64.getEncoder().encodeToString(data) + "\",\"version\":" + read.getVersion()
                + ",\"ledger\":" + read.getLogSegmentId() + ",\"first\":" + read.getFirstTxId() + ",\"complete\":"
                + !read.isInProgress() + "}";
    }
}
