package org.apache.bookkeeper.client;

import io.netty.util.HashedWheelTimer;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.Base64;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeSet;
import java.util.function.Function;
import org.apache.bookkeeper.conf.ClientConfiguration;
import org.apache.bookkeeper.feature.SettableFeatureProvider;
import org.apache.bookkeeper.net.BookieId;
import org.apache.bookkeeper.net.BookieSocketAddress;
import org.apache.bookkeeper.net.DNSToSwitchMapping;
import org.apache.bookkeeper.proto.BookieAddressResolver;
import org.apache.bookkeeper.stats.NullStatsLogger;

/**
 * What the server's placement policies say, one line of answer for a line that asks.
 *
 * <pre>
 * policy CLASS key=value ...              a new policy; it answers "ok"
 * map bookie=location ...                 where bookies are; others have no location
 * writable bookie ...                     they join one after the other, in this order
 * readonly bookie ...                     the rest of what is registered, as seen with the last of these
 * adhere ensemble Qw Qa                   the verdict
 * replace ensemble position Qw Qa tries   every bookie that was ever chosen in so many tries
 * new E Qw Qa tries                       how many tries made an ensemble, and the bookies that the policy left out
 * </pre>
 *
 * A bookie is a number; lists have commas. The last two may end with the config of one ledger, in base64. Errors
 * are answered by the name of their class.
 */
public class PlacementOracle {
    private static final Map<String, String> LOCATIONS = new HashMap<>();
    private static final Set<BookieId> REGISTERED = new HashSet<>();
    private static EnsemblePlacementPolicy policy;
    /** What makes the policy "isolated", which BookKeeper itself does not have. */
    static Function<ClientConfiguration, EnsemblePlacementPolicy> isolated;

    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.trim().split(" ");
            String answer;
            try {
                answer = answer(words);
            } catch (Exception error) {
                answer = error.getClass().getSimpleName();
            }
            System.out.println("> " + answer);
        }
        System.out.flush();
        Runtime.getRuntime().halt(0);
    }

    private static String answer(String[] words) throws Exception {
        switch (words[0]) {
            case "policy":
                return make(words);
            case "map":
                LOCATIONS.clear();
                for (int i = 1; i < words.length; i++) {
                    String[] pair = words[i].split("=");
                    LOCATIONS.put(host(pair[0]), pair[1]);
                }
                return "ok";
            case "writable":
                Set<BookieId> writable = new LinkedHashSet<>();
                for (int i = 1; i < words.length; i++) {
                    REGISTERED.add(id(words[i]));
                    writable.add(id(words[i]));
                    policy.onClusterChanged(new HashSet<>(writable), new HashSet<>());
                }
                return "ok";
            case "readonly":
                for (int i = 1; i < words.length; i++) {
                    REGISTERED.add(id(words[i]));
                }
                return "ok";
            case "adhere":
                return policy.isEnsembleAdheringToPlacementPolicy(
                        ids(words[1]), Integer.parseInt(words[2]), Integer.parseInt(words[3])).name();
            case "replace":
                return replaced(words);
            case "new":
                return made(words);
            default:
                throw new IllegalArgumentException(words[0]);
        }
    }

    private static String make(String[] words) throws Exception {
        ClientConfiguration conf = new ClientConfiguration();
        for (int i = 2; i < words.length; i++) {
            String[] pair = words[i].split("=", 2);
            conf.setProperty(pair[0], pair[1]);
        }
        REGISTERED.clear();
        DNSToSwitchMapping mapping = new Mapping();
        BookieAddressResolver resolver = id -> {
            if (!REGISTERED.contains(id)) {
                throw new BookieAddressResolver.BookieIdNotResolvedException(id, new Exception("not registered"));
            }
            try {
                return new BookieSocketAddress(id.toString());
            } catch (java.net.UnknownHostException error) {
                throw new IllegalStateException(error);
            }
        };
        switch (words[1]) {
            case "rack":
                policy = new RackawareEnsemblePlacementPolicy();
                break;
            case "region":
                policy = new RegionAwareEnsemblePlacementPolicy();
                break;
            case "zone":
                policy = new ZoneawareEnsemblePlacementPolicy();
                break;
            case "isolated":
                policy = isolated.apply(conf);
                break;
            default:
                policy = new DefaultEnsemblePlacementPolicy();
        }
        policy.initialize(conf, Optional.of(mapping), TIMER, new SettableFeatureProvider("", 0),
                NullStatsLogger.INSTANCE, resolver);
        return "ok";
    }

    private static final HashedWheelTimer TIMER = new HashedWheelTimer();

    private static String replaced(String[] words) throws Exception {
        List<BookieId> ensemble = ids(words[1]);
        BookieId old = ensemble.get(Integer.parseInt(words[2]));
        int writeQuorum = Integer.parseInt(words[3]);
        int ackQuorum = Integer.parseInt(words[4]);
        TreeSet<Integer> chosen = new TreeSet<>();
        for (int i = 0; i < Integer.parseInt(words[5]); i++) {
            BookieId found = policy.replaceBookie(ensemble.size(), writeQuorum, ackQuorum, custom(words, 6),
                    new ArrayList<>(ensemble), old, new HashSet<>()).getResult();
            chosen.add(number(found));
        }
        return chosen.toString();
    }

    private static String made(String[] words) throws Exception {
        int successes = 0;
        TreeSet<Integer> excluded = new TreeSet<>();
        for (int i = 0; i < Integer.parseInt(words[4]); i++) {
            Set<BookieId> out = new HashSet<>();
            try {
                policy.newEnsemble(Integer.parseInt(words[1]), Integer.parseInt(words[2]), Integer.parseInt(words[3]),
                        custom(words, 5), out);
                successes++;
            } catch (BKException.BKNotEnoughBookiesException | RuntimeException error) {
                // A refusal: it did not succeed.
            }
            out.forEach(id -> excluded.add(number(id)));
        }
        return successes + " " + excluded;
    }

    private static Map<String, byte[]> custom(String[] words, int place) {
        Map<String, byte[]> found = new HashMap<>();
        if (words.length > place) {
            found.put("EnsemblePlacementPolicyConfig", Base64.getDecoder().decode(words[place]));
        }
        return found;
    }

    private static int number(BookieId id) {
        return Integer.parseInt(id.toString().split("[.:]")[3]);
    }

    private static String host(String number) {
        return "127.9.9." + number;
    }

    private static BookieId id(String number) {
        return BookieId.parse(host(number) + ":3181");
    }

    private static List<BookieId> ids(String numbers) {
        List<BookieId> found = new ArrayList<>();
        for (String number : numbers.split(",")) {
            if (!number.isEmpty() && !number.equals("-")) {
                found.add(id(number));
            }
        }
        return found;
    }

    /** Locations by the address of a host; null of all others. */
    static class Mapping implements DNSToSwitchMapping {
        @Override
        public List<String> resolve(List<String> names) {
            List<String> found = new ArrayList<>();
            for (String name : names) {
                found.add(LOCATIONS.get(name));
            }
            return found;
        }

        @Override
        public void reloadCachedMappings() {
        }
    }
}
