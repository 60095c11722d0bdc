import com.google.gson.Gson;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import org.apache.hadoop.hive.metastore.HiveMetaStoreClient;
import org.junit.runner.Description;
import org.junit.runner.JUnitCore;
import org.junit.runner.notification.Failure;
import org.junit.runner.notification.RunListener;

/**
 * Runs test classes of Hive's metastore client, one after another, each on a metastore of its own.
 *
 * <p>Standard input: one class a line, {"name": its name without the package, "conf": the configuration file that names the
 * metastore}. Standard output: a line for each test, {"test": name, "failure": null, or what went wrong}, then an empty
 * line. Ignored tests are left out.
 */
public final class ClientTests {
  private static final String PACKAGE = "org.apache.hadoop.hive.metastore.client.";
  private static final Gson JSON = new Gson();

  private ClientTests() {}

  /** Tells each test when it ends. */
  private static final class Teller extends RunListener {
    private final PrintStream answers;
    private String failure;

    Teller(PrintStream answers) {
      this.answers = answers;
    }

    @Override
    public void testStarted(Description test) {
      failure = "";
    }

    @Override
    public void testFailure(Failure failed) {
      failure = failed.getTrace();
      if (failed.getDescription().isSuite()) { // the class could not be set up
        tell(failed.getDescription().getClassName());
      }
    }

    @Override
    public void testFinished(Description test) {
      tell(test.getMethodName());
    }

    private void tell(String test) {
      answers.println(JSON.toJson(Map.of("test", test.replaceFirst("\\[.*", ""), "failure", failure)));
    }
  }

  public static void main(String[] none) throws Exception {
    PrintStream answers = new PrintStream(System.out, true, StandardCharsets.UTF_8);
    System.setOut(System.err);
    BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    for (String line = lines.readLine(); line != null; line = lines.readLine()) {
      Map<?, ?> asked = JSON.fromJson(line, Map.class);
      System.setProperty("test.hms.client.configs", (String) asked.get("conf"));
      HiveMetaStoreClient.setProcessorIdentifier(null); // tests set them for all of the JVM
      HiveMetaStoreClient.setProcessorCapabilities(null);
      JUnitCore core = new JUnitCore();
      core.addListener(new Teller(answers));
      core.run(Class.forName(PACKAGE + asked.get("name")));
      answers.println();
    }
    System.exit(0); // threads of Hadoop's file systems would go on
  }
}
