import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.bookkeeper.net.AbstractDNSToSwitchMapping;

/** Where each address is, as a topology script would say; one without a place has none. */
public final class Racks extends AbstractDNSToSwitchMapping {
    static final Map<String, String> PLACES = new ConcurrentHashMap<>();

    @Override
    public List<String> resolve(List<String> names) {
        List<String> places = new ArrayList<>();
        names.forEach(name -> places.add(PLACES.getOrDefault(name, "/default-rack")));
        return places;
    }

    @Override
    public void reloadCachedMappings() {
        // Nothing is kept.
    }
}
