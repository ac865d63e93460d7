package org.apache.bookkeeper.client;

import io.netty.util.HashedWheelTimer;
import java.lang.reflect.Field;
import java.util.Base64;
import java.util.Optional;
import org.apache.bookkeeper.conf.ClientConfiguration;
import org.apache.bookkeeper.feature.FeatureProvider;
import org.apache.bookkeeper.net.DNSToSwitchMapping;
import org.apache.bookkeeper.proto.BookieAddressResolver;
import org.apache.bookkeeper.stats.StatsLogger;
import org.apache.pulsar.bookie.rackawareness.BookieRackAffinityMapping;
import org.apache.pulsar.bookie.rackawareness.IsolatedBookieEnsemblePlacementPolicy;
import org.apache.pulsar.metadata.api.MetadataStore;
import org.apache.pulsar.metadata.api.MetadataStoreConfig;
import org.apache.pulsar.metadata.api.MetadataStoreFactory;

/** {@link PlacementOracle} with Pulsar's policy: the setting "groups" is its mapping, the value of /bookies in base64. */
public class IsolatedOracle {
    private static final String GROUPS = "groups";

    public static void main(String[] args) throws Exception {
        MetadataStore store = MetadataStoreFactory.create("memory:local", MetadataStoreConfig.builder().build());
        PlacementOracle.isolated = conf -> {
            byte[] mapping = Base64.getDecoder().decode(conf.getString(GROUPS));
            store.put(BookieRackAffinityMapping.BOOKIE_INFO_ROOT_PATH, mapping, Optional.empty()).join();
            conf.setProperty(BookieRackAffinityMapping.METADATA_STORE_INSTANCE, store);
            return new WithMapping();
        };
        PlacementOracle.main(args);
    }

    /** The policy, once it has read its mapping. */
    private static class WithMapping extends IsolatedBookieEnsemblePlacementPolicy {
        @Override
        public RackawareEnsemblePlacementPolicyImpl initialize(ClientConfiguration conf,
                Optional<DNSToSwitchMapping> resolver, HashedWheelTimer timer, FeatureProvider features,
                StatsLogger stats, BookieAddressResolver addresses) {
            RackawareEnsemblePlacementPolicyImpl made =
                    super.initialize(conf, resolver, timer, features, stats, addresses);
            try {
                Field read = IsolatedBookieEnsemblePlacementPolicy.class.getDeclaredField("cachedRackConfiguration");
                read.setAccessible(true);
                while (getBookieMappingCache() != null && read.get(this) == null) {
                    Thread.sleep(1);
                }
            } catch (ReflectiveOperationException | InterruptedException error) {
                throw new IllegalStateException(error);
            }
            return made;
        }
    }
}
