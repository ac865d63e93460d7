package org.apache.bookkeeper.bookie;

import com.fasterxml.jackson.databind.ObjectMapper;
import io.netty.buffer.ByteBuf;
import java.io.File;
import java.io.IOException;
import java.lang.reflect.Field;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.lang.reflect.Proxy;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.apache.bookkeeper.bookie.storage.ldb.EntryLocationIndex;
import org.apache.bookkeeper.bookie.storage.ldb.KeyValueStorageFactory;
import org.apache.bookkeeper.bookie.storage.ldb.KeyValueStorageRocksDB;
import org.apache.bookkeeper.bookie.storage.ldb.LedgerMetadataIndex;
import org.apache.bookkeeper.conf.ServerConfiguration;
import org.apache.bookkeeper.stats.NullStatsLogger;
import org.apache.bookkeeper.util.DiskChecker;

/**
 * What a version of BookKeeper's own classes read in the directories of bookies: a JSON object on standard output.
 *
 * <p>The one argument is a copy of the directory of bookies: databases are opened, and written to. What versions
 * name differently is called by name.
 */
public class Oracle {
    private static final int FILE_INFO_VERSION = 1;
    private static final int SLOT = 8;
    private static final long LEAST_LOCATION = 1;

    private final File journal;
    private final File ledgers;
    private final ServerConfiguration conf = new ServerConfiguration();
    private final Map<Long, Set<Long>> seen = new TreeMap<>();

    private Oracle(File bookie) {
        journal = new File(bookie, "journal");
        ledgers = new File(bookie, "ledgers");
        conf.setJournalDirsName(new String[] {journal.getPath()});
        conf.setLedgerDirNames(new String[] {ledgers.getPath()});
        conf.setProperty("dbStorage_rocksDB_blockCacheSize", 1 << 20);
    }

    public static void main(String[] arguments) throws Exception {
        Map<String, Object> answer = new TreeMap<>();
        for (File bookie : sorted(new File(arguments[0]), "")) {
            answer.put(bookie.getName(), new Oracle(bookie).read());
        }
        System.out.println("READ " + new ObjectMapper().writeValueAsString(answer));
        System.out.flush();
        Runtime.getRuntime().halt(0);
    }

    private Map<String, Object> read() throws Exception {
        Map<String, Object> found = new LinkedHashMap<>();
        Map<String, Object> cookies = new TreeMap<>();
        for (File directory : List.of(journal, ledgers)) {
            cookies.put(directory.getName(), cookie(new File(directory, "current")));
        }
        found.put("cookies", cookies);
        found.put("journals", journals(found));
        found.put("logs", logs());
        if (new File(ledgers, "current/locations").isDirectory()) {
            databases(found);
        } else {
            found.put("index", index());
        }
        return found;
    }

    private static Map<String, Object> cookie(File current) throws Exception {
        Cookie cookie = Cookie.readFromDirectory(current);
        Map<String, Object> fields = new TreeMap<>();
        for (Field field : Cookie.class.getDeclaredFields()) {
            if (!Modifier.isStatic(field.getModifiers())) {
                field.setAccessible(true);
                fields.put(field.getName(), field.get(cookie));
            }
        }
        return fields;
    }

    /** The records of each file from its beginning; the mark goes to found. */
    private Map<String, Object> journals(Map<String, Object> found) throws Exception {
        LedgerDirsManager dirs = new LedgerDirsManager(
                conf, new File[] {ledgers}, new DiskChecker(0.99f, 0.98f));
        Journal reader = new Journal(0, new File(journal, "current"), conf, dirs);
        reader.getLastLogMark().readLog();
        LogMark mark = reader.getLastLogMark().getCurMark();
        found.put("mark", List.of(mark.getLogFileId(), mark.getLogFileOffset()));
        Map<String, Object> files = new TreeMap<>();
        for (long id : Journal.listJournalIds(new File(journal, "current"), null)) {
            Map<String, Object> file = new LinkedHashMap<>();
            List<long[]> records = new ArrayList<>();
            Journal.JournalScanner scanner = (version, offset, entry) -> {
                file.put("version", version);
                long ledger = entry.getLong();
                records.add(new long[] {ledger, entry.getLong(), offset});
            };
            scan(reader, id, scanner);
            file.put("records", records);
            files.put(Long.toHexString(id) + ".txn", file);
        }
        return files;
    }

    private static void scan(Journal reader, long id, Journal.JournalScanner scanner) throws Exception {
        Method found = named(Journal.class, "scanJournal");
        Object[] arguments = {id, 0L, scanner, false};
        call(found, reader, Arrays.copyOf(arguments, found.getParameterCount()));
    }

    private Map<String, Object> logs() throws Exception {
        Class<?> type = Stream.of("ReadOnlyDefaultEntryLogger", "ReadOnlyEntryLogger").map(Oracle::classOf)
                .filter(each -> each != null).findFirst().get();
        Object logger = type.getConstructor(ServerConfiguration.class).newInstance(conf);
        Method scan = named(type.getSuperclass(), "scanEntryLog");
        Method metadata = Arrays.stream(type.getSuperclass().getMethods())
                .filter(each -> each.getName().equals("getEntryLogMetadata"))
                .min((one, other) -> one.getParameterCount() - other.getParameterCount()).get();
        Map<String, Object> files = new TreeMap<>();
        for (File file : sorted(new File(ledgers, "current"), ".log")) {
            long id = Long.parseLong(file.getName().replace(".log", ""), 16);
            List<long[]> entries = new ArrayList<>();
            Class<?> scanner = scan.getParameterTypes()[1];
            call(scan, logger, id, Proxy.newProxyInstance(scanner.getClassLoader(), new Class<?>[] {scanner},
                    (proxy, method, given) -> {
                        if (method.getName().equals("accept")) {
                            return true;
                        }
                        ByteBuf entry = (ByteBuf) given[2];
                        long ledger = entry.getLong(entry.readerIndex());
                        long number = entry.getLong(entry.readerIndex() + SLOT);
                        entries.add(new long[] {ledger, number, (Long) given[1], entry.readableBytes()});
                        see(ledger, number);
                        return null;
                    }));
            EntryLogMetadata held = (EntryLogMetadata) call(
                    metadata, logger, Arrays.copyOf(new Object[] {id, null}, metadata.getParameterCount()));
            Map<String, Object> ledgerBytes = new TreeMap<>();
            if (held != null) {
                held.getLedgersMap().forEach((ledger, size) -> ledgerBytes.put(Long.toString(ledger), size));
            }
            Map<String, Object> row = new LinkedHashMap<>();
            row.put("entries", entries);
            row.put("ledgers", ledgerBytes);
            files.put(file.getName(), row);
        }
        return files;
    }

    private void see(long ledger, long entry) {
        seen.computeIfAbsent(ledger, each -> new TreeSet<>()).add(entry);
    }

    private Map<String, Object> index() throws Exception {
        Map<String, Object> found = new TreeMap<>();
        List<Path> files;
        try (Stream<Path> below = Files.walk(new File(ledgers, "current").toPath())) {
            files = below.filter(each -> each.toString().endsWith(".idx")).sorted().collect(Collectors.toList());
        }
        for (Path file : files) {
            FileInfo info = new FileInfo(file.toFile(), null, FILE_INFO_VERSION);
            Map<String, Object> row = new LinkedHashMap<>();
            row.put("fenced", info.isFenced());
            ByteBuf lac = info.getExplicitLac();
            row.put("explicit_lac", lac == null ? null : lac.getLong(lac.readerIndex() + SLOT));
            Map<String, Object> entries = new LinkedHashMap<>();
            for (long at = 0; at < info.size(); at += SLOT) {
                ByteBuffer slot = ByteBuffer.allocate(SLOT);
                info.read(slot, at, true);
                slot.flip();
                if (slot.remaining() == SLOT && slot.getLong(0) >= LEAST_LOCATION) {
                    entries.put(Long.toString(at / SLOT), slot.getLong(0));
                }
            }
            row.put("entries", entries);
            found.put(file.getFileName().toString(), row);
        }
        return found;
    }

    private void databases(Map<String, Object> found) throws Exception {
        String path = new File(ledgers, "current").getPath();
        Field made = KeyValueStorageRocksDB.class.getDeclaredField("factory");
        made.setAccessible(true);
        KeyValueStorageFactory factory = (KeyValueStorageFactory) made.get(null);
        Map<String, Object> known = new TreeMap<>();
        LedgerMetadataIndex index = new LedgerMetadataIndex(
                conf, factory, path, NullStatsLogger.INSTANCE);
        for (long ledger : index.getActiveLedgersInRange(0, Long.MAX_VALUE)) {
            Object data = index.get(ledger);
            Map<String, Object> row = new TreeMap<>();
            for (String flag : List.of("Exists", "Fenced", "Limbo")) {
                row.put(flag.toLowerCase(), flag(data, flag));
            }
            known.put(Long.toString(ledger), row);
        }
        index.close();
        Map<String, Object> locations = new TreeMap<>();
        EntryLocationIndex places = new EntryLocationIndex(
                conf, factory, path, NullStatsLogger.INSTANCE);
        for (Map.Entry<Long, Set<Long>> each : seen.entrySet()) {
            Map<String, Object> entries = new LinkedHashMap<>();
            for (long entry : each.getValue()) {
                long location = places.getLocation(each.getKey(), entry);
                if (location >= LEAST_LOCATION) {
                    entries.put(Long.toString(entry), location);
                }
            }
            locations.put(Long.toString(each.getKey()), entries);
        }
        places.close();
        found.put("ledgers", known);
        found.put("locations", locations);
    }

    /** Null where this version has no such flag. */
    private static Object flag(Object data, String name) throws Exception {
        for (String prefix : List.of("get", "is")) {
            try {
                return data.getClass().getMethod(prefix + name).invoke(data);
            } catch (NoSuchMethodException other) {
                continue;
            }
        }
        return null;
    }

    private static Class<?> classOf(String name) {
        try {
            return Class.forName("org.apache.bookkeeper.bookie." + name);
        } catch (ClassNotFoundException absent) {
            return null;
        }
    }

    private static Method named(Class<?> type, String name) {
        return Arrays.stream(type.getMethods()).filter(each -> each.getName().equals(name)).findFirst().get();
    }

    private static Object call(Method method, Object on, Object... arguments) throws Exception {
        try {
            return method.invoke(on, arguments);
        } catch (InvocationTargetException error) {
            throw (Exception) error.getCause();
        }
    }

    private static List<File> sorted(File directory, String suffix) throws IOException {
        File[] files = directory.listFiles((at, name) -> name.endsWith(suffix));
        Arrays.sort(files);
        return Arrays.asList(files);
    }
}
