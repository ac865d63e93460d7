import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;

/**
 * One bookie in a process of its own, so that kill -9 and SIGSTOP are real.
 *
 * <p>Arguments: the configuration that {@link Harness} gets, and the bookie's id. It says "ready" on standard
 * output, and stops as an operator stops a bookie when standard input ends.
 */
public final class LivingBookie {
    private LivingBookie() {
    }

    public static void main(String[] arguments) throws Exception {
        var answers = System.out;
        System.setOut(System.err);
        JsonNode config = new ObjectMapper().readTree(arguments[0]);
        for (JsonNode each : config.get("bookies")) {
            if (each.get("id").asText().equals(arguments[1])) {
                RunningBookie bookie = Harness.bookie(config, each);
                try {
                    bookie.start();
                } catch (Exception failure) {
                    failure.printStackTrace();
                    System.exit(1);
                }
                answers.println("ready");
                answers.flush();
                while (System.in.read() >= 0) {
                    // Nothing is said to a bookie but that it is to end.
                }
                bookie.stop();
            }
        }
        System.exit(0);
    }
}
