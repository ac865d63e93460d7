import com.fasterxml.jackson.databind.JsonNode;

/** Bookies whose own configuration an operator changes between two starts. */
public final class PlanHarness extends Harness {
    private PlanHarness(JsonNode config) throws Exception {
        super(config);
    }

    public static void main(String[] arguments) throws Exception {
        serve(arguments, PlanHarness::new);
    }

    @Override
    protected Object obey(JsonNode command) throws Exception {
        if (!command.get("do").asText().equals("configure")) {
            return super.obey(command);
        }
        bookies.get(command.get("bookie").asText()).configuration()
                .setProperty(command.get("key").asText(), command.get("value").asText());
        return null;
    }
}
