import static java.nio.charset.StandardCharsets.UTF_8;

import java.lang.reflect.Method;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import org.apache.bookkeeper.client.RackawareEnsemblePlacementPolicy;
import org.apache.commons.lang3.tuple.Pair;
import org.apache.pulsar.bookie.rackawareness.IsolatedBookieEnsemblePlacementPolicy;
import org.apache.pulsar.common.policies.data.EnsemblePlacementPolicyConfig;
import org.apache.pulsar.common.util.ObjectMapperFactory;
import org.apache.pulsar.zookeeper.ZkIsolatedBookieEnsemblePlacementPolicy;

/** Configs as ledgers carry them, and what Pulsar's own reader and policy make of these and of others. */
public class Configs {
    private static final String PRIMARY = IsolatedBookieEnsemblePlacementPolicy.ISOLATION_BOOKIE_GROUPS;
    private static final String SECONDARY = IsolatedBookieEnsemblePlacementPolicy.SECONDARY_ISOLATION_BOOKIE_GROUPS;
    private static final String ISOLATED = "\"policyClass\":\"" + IsolatedBookieEnsemblePlacementPolicy.class.getName()
            + "\"";

    public static void main(String[] args) throws Exception {
        Map<String, Object> groups = new LinkedHashMap<>();
        groups.put(PRIMARY, "fast,gr\u00fcn");
        groups.put(SECONDARY, "slow");
        write("isolated", IsolatedBookieEnsemblePlacementPolicy.class, groups);
        write("deprecated-class", ZkIsolatedBookieEnsemblePlacementPolicy.class, Map.of(PRIMARY, "fast"));
        write("list", IsolatedBookieEnsemblePlacementPolicy.class, Map.of(PRIMARY, List.of("fast", "slow")));
        write("system", IsolatedBookieEnsemblePlacementPolicy.class, Map.of(PRIMARY, "*"));
        write("no-groups", IsolatedBookieEnsemblePlacementPolicy.class, Map.of());
        write("rack-aware", RackawareEnsemblePlacementPolicy.class, Map.of());

        List<Map<String, Object>> found = new java.util.ArrayList<>();
        for (Path path : new TreeSet<>(Files.list(Path.of(".")).filter(p -> p.toString().endsWith(".json")
                && !p.endsWith("readings.json")).toList())) {
            found.add(read(Files.readString(path), path.getFileName().toString()));
        }
        for (String value : List.of(
                "", "null", "[]", "{}", "{\"properties\":{}}", "{" + ISOLATED + "}",
                "{" + ISOLATED + ",\"properties\":null}", "{" + ISOLATED + ",\"later\":1,\"properties\":{}}",
                "{\"policyClass\":null,\"properties\":{}}", "{\"policyClass\":7,\"properties\":{}}",
                "{\"policyClass\":\"org.example.Absent\",\"properties\":{\"" + PRIMARY + "\":\"a\"}}",
                "{" + ISOLATED + ",\"properties\":[]}", "{" + ISOLATED + ",\"properties\":\"a\"}",
                of("\" a , b,,c,,\""), of("\",\""), of("\"\""), of("null"), of("7"), of("true"), of("[]"), of("[\"a,b\",\"c\"]"),
                of("[7]"), of("[null]"), of("{}"), of("{\"a\":\"b\"}"), of("1.50"), of("\"a\",\"" + PRIMARY + "\":\"b\""),
                of("\"a\"") + " trailing", of("\"a\"").substring(0, 40))) {
            found.add(read(value, null));
        }
        Files.write(Path.of("readings.json"), ObjectMapperFactory.getMapper().writer().withDefaultPrettyPrinter()
                .writeValueAsBytes(found));
    }

    private static String of(String primary) {
        return "{" + ISOLATED + ",\"properties\":{\"" + PRIMARY + "\":" + primary + "}}";
    }

    private static void write(String name, Class<?> policy, Map<String, Object> properties) throws Exception {
        Files.write(Path.of(name + ".json"), new EnsemblePlacementPolicyConfig(policy, properties).encode());
    }

    private static Map<String, Object> read(String value, String file) throws Exception {
        Map<String, Object> said = new LinkedHashMap<>();
        said.put(file == null ? "value" : "file", file == null ? value : file);
        try {
            EnsemblePlacementPolicyConfig config = EnsemblePlacementPolicyConfig.decode(value.getBytes(UTF_8));
            if (config == null) {
                said.put("groups", "by the configuration");
                return said;
            }
            Method groups = IsolatedBookieEnsemblePlacementPolicy.class.getDeclaredMethod("getIsolationGroup",
                    EnsemblePlacementPolicyConfig.class);
            groups.setAccessible(true);
            Pair<?, ?> pair = (Pair<?, ?>) groups.invoke(new IsolatedBookieEnsemblePlacementPolicy(), config);
            said.put("groups", pair == null ? "by the configuration" : List.of(
                    new TreeSet<>((Set<?>) pair.getLeft()), new TreeSet<>((Set<?>) pair.getRight())));
        } catch (java.lang.reflect.InvocationTargetException error) {
            said.put("throws", error.getCause().getClass().getSimpleName());
        } catch (EnsemblePlacementPolicyConfig.ParseEnsemblePlacementPolicyConfigException error) {
            said.put("refused", error.getCause().getClass().getSimpleName());
        }
        return said;
    }
}
