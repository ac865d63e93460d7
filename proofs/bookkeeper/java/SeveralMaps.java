package org.apache.bookkeeper.bookie;

import io.netty.buffer.ByteBuf;
import io.netty.buffer.Unpooled;
import java.io.File;
import java.lang.reflect.Method;
import java.util.Arrays;
import java.util.stream.Stream;
import org.apache.bookkeeper.conf.ServerConfiguration;

/**
 * An entry log of so many ledgers that its ledgers map takes two records: a record has 10,000 of them at most.
 *
 * <p>The one argument is a new ledger directory. The entry logger writes one entry a ledger to log 0, and begins
 * log 1 when that is full.
 */
public class SeveralMaps {
    private static final int LEDGERS = 10_003;
    private static final int IDS = 16;
    private static final int SIZE = 4;
    private static final int HEADER = 1024;

    public static void main(String[] arguments) throws Exception {
        File ledgers = new File(arguments[0]);
        File current = new File(ledgers, "current");
        if (!current.mkdirs()) {
            throw new IllegalStateException(current + " is there already");
        }
        ServerConfiguration conf = new ServerConfiguration();
        conf.setLedgerDirNames(new String[] {ledgers.getPath()});
        conf.setEntryLogSizeLimit(HEADER + LEDGERS * (IDS + SIZE));
        conf.setEntryLogFilePreAllocationEnabled(false);
        Class<?> type = Stream.of("DefaultEntryLogger", "EntryLogger").map(SeveralMaps::classOf)
                .filter(each -> each != null).findFirst().get();
        Object logger = type.getConstructor(ServerConfiguration.class).newInstance(conf);
        Method add = Arrays.stream(type.getDeclaredMethods()).filter(each -> each.getName().equals("addEntry")
                && each.getParameterCount() == 3 && each.getParameterTypes()[1] == ByteBuf.class).findFirst().get();
        add.setAccessible(true);
        for (long ledger = 0; ledger <= LEDGERS; ledger++) {
            ByteBuf entry = Unpooled.buffer(IDS);
            entry.writeLong(ledger).writeLong(0);
            add.invoke(logger, ledger, entry, true);
        }
        Method flush = type.getDeclaredMethod("flush");
        flush.invoke(logger);
        Runtime.getRuntime().halt(0);
    }

    private static Class<?> classOf(String name) {
        try {
            return Class.forName("org.apache.bookkeeper.bookie." + name);
        } catch (ClassNotFoundException absent) {
            return null;
        }
    }
}
