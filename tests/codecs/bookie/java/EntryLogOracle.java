package org.apache.bookkeeper.bookie;

import io.netty.buffer.ByteBuf;
import io.netty.buffer.ByteBufAllocator;
import io.netty.buffer.Unpooled;
import java.io.BufferedReader;
import java.io.File;
import java.io.InputStreamReader;
import java.lang.reflect.Method;
import java.util.TreeMap;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.stream.Collectors;
import org.apache.bookkeeper.bookie.storage.EntryLogger;
import org.apache.bookkeeper.bookie.storage.directentrylogger.DirectEntryLogger;
import org.apache.bookkeeper.bookie.storage.directentrylogger.EntryLogIdsImpl;
import org.apache.bookkeeper.common.util.nativeio.NativeIOImpl;
import org.apache.bookkeeper.conf.ServerConfiguration;
import org.apache.bookkeeper.slogger.Slogger;
import org.apache.bookkeeper.stats.NullStatsLogger;
import org.apache.bookkeeper.util.DiskChecker;

/**
 * What the entry loggers of a server write, and what its collector takes a log to hold.
 *
 * <pre>
 * write LOGGER DIRECTORY LEDGER:ENTRY:BYTES ...   writes a log and closes it; the file's path
 * ask   LOGGER DIRECTORY                          two files a case, 2 n and 2 n + 1: by the map alone, or as a
 *                                                 collector does; one line a case, as JSON
 * </pre>
 * LOGGER is direct, or the bytes that the other logger reads at once (readBufferSizeBytes).
 */
public class EntryLogOracle {
    private static final long LIMIT_MS = 3000;

    public static void main(String[] words) throws Exception {
        File directory = new File(words[2]);
        try (EntryLogger logger = words[1].equals("direct")
                ? direct(directory) : plain(directory, Integer.parseInt(words[1]))) {
            if (words[0].equals("write")) {
                write(logger, words);
            } else {
                ask(logger, new File(directory, "current"));
            }
        }
        System.exit(0);
    }

    private static void write(EntryLogger logger, String[] words) throws Exception {
        for (int at = 3; at < words.length; at++) {
            String[] parts = words[at].split(":");
            ByteBuf entry = Unpooled.buffer();
            entry.writeLong(Long.parseLong(parts[0]));
            entry.writeLong(Long.parseLong(parts[1]));
            for (int number = 0; number < Integer.parseInt(parts[2]); number++) {
                entry.writeByte(number % 5 == 3 ? 1 : 0);
            }
            logger.addEntry(Long.parseLong(parts[0]), entry);
        }
        if (logger instanceof DefaultEntryLogger) {
            ((EntryLogManagerForSingleEntryLog) ((DefaultEntryLogger) logger).getEntryLogManager())
                .createNewLog(-1L);
        } else {
            Method close = DirectEntryLogger.class.getDeclaredMethod("flushAndCloseCurrent");
            close.setAccessible(true);
            close.invoke(logger);
        }
        logger.flush();
    }

    private static void ask(EntryLogger logger, File current) throws Exception {
        int cases = current.list((folder, name) -> name.matches("[0-9a-f]+\\.log")).length / 2;
        Method byMap = logger instanceof DefaultEntryLogger
            ? DefaultEntryLogger.class.getDeclaredMethod("extractEntryLogMetadataFromIndex", long.class)
            : DirectEntryLogger.class.getDeclaredMethod("readEntryLogIndex", long.class);
        byMap.setAccessible(true);
        for (int number = 0; number < cases; number++) {
            long log = 2L * number;
            String map = said(() -> (EntryLogMetadata) byMap.invoke(logger, log));
            String whole = said(() -> logger.getEntryLogMetadata(log + 1, null));
            System.out.println("{\"map\": " + map + ", \"collector\": " + whole + "}");
        }
    }

    private static String said(Callable<EntryLogMetadata> question) {
        FutureTask<EntryLogMetadata> task = new FutureTask<>(question);
        Thread asked = new Thread(task);
        asked.setDaemon(true);
        asked.start();
        EntryLogMetadata answer;
        try {
            answer = task.get(LIMIT_MS, TimeUnit.MILLISECONDS);
        } catch (TimeoutException error) {
            asked.setPriority(Thread.MIN_PRIORITY);
            return "\"never ends\"";
        } catch (Exception failed) {
            Throwable error = failed.getCause();
            Throwable cause = error instanceof java.lang.reflect.InvocationTargetException ? error.getCause() : error;
            return "\"" + cause.getClass().getSimpleName() + "\"";
        }
        TreeMap<Long, Long> ledgers = new TreeMap<>();
        answer.getLedgersMap().forEach(ledgers::put);
        return ledgers.entrySet().stream()
            .map(each -> "[" + each.getKey() + ", " + each.getValue() + "]")
            .collect(Collectors.joining(", ", "[", "]"));
    }

    private static EntryLogger plain(File directory, int buffer) throws Exception {
        ServerConfiguration conf = new ServerConfiguration();
        conf.setLedgerDirNames(new String[] {directory.getPath()});
        conf.setReadBufferBytes(buffer);
        conf.setEntryLogFilePreAllocationEnabled(false);
        return new DefaultEntryLogger(conf);
    }

    private static EntryLogger direct(File directory) throws Exception {
        ServerConfiguration conf = new ServerConfiguration();
        conf.setLedgerDirNames(new String[] {directory.getPath()});
        LedgerDirsManager manager = new LedgerDirsManager(conf, conf.getLedgerDirs(), new DiskChecker(0.99f, 0.98f));
        ExecutorService threads = Executors.newCachedThreadPool();
        return new DirectEntryLogger(new File(directory, "current"), new EntryLogIdsImpl(manager, Slogger.CONSOLE),
            new NativeIOImpl(), ByteBufAllocator.DEFAULT, threads, threads, 1 << 16, 5 << 20, 8 << 20, 8 << 20,
            1 << 20, 1, 300, Slogger.CONSOLE, NullStatsLogger.INSTANCE);
    }
}
