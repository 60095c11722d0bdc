import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.ObjectMapper;
import org.apache.flink.table.api.EnvironmentSettings;
import org.apache.flink.table.api.TableEnvironment;
import org.apache.flink.table.api.TableResult;
import org.apache.flink.table.catalog.CatalogDescriptor;
import org.apache.flink.types.Row;
import org.apache.flink.util.CloseableIterator;

/**
 * Runs Flink SQL in batch mode with a Hive catalog, jobs in a cluster inside this JVM.
 *
 * <p>Arguments: the directory of hive-site.xml, the version of Hive's client. Standard input: one statement a line,
 * {"sql": text}. Standard output: one line each, {"rows": [texts], "error": null or the innermost cause}.
 */
public final class FlinkStatements {
  private static final ObjectMapper JSON = new ObjectMapper();

  private FlinkStatements() {}

  public static void main(String[] arguments) {
    int status = 1;
    try {
      serve(arguments[0], arguments[1]);
      status = 0;
    } catch (Exception failed) {
      failed.printStackTrace();
    } finally {
      System.exit(status); // threads of the cluster would go on
    }
  }

  private static void serve(String conf, String version) throws Exception {
    PrintStream answers = new PrintStream(System.out, false, StandardCharsets.UTF_8);
    System.setOut(System.err);
    Map<String, String> small = Map.of(
        "parallelism.default", "1",
        "table.exec.resource.default-parallelism", "1",
        "taskmanager.memory.network.min", "16mb",
        "taskmanager.memory.network.max", "16mb",
        "taskmanager.memory.managed.size", "64mb");
    TableEnvironment flink = TableEnvironment.create(
        EnvironmentSettings.newInstance().inBatchMode().withConfiguration(Configuration.fromMap(small)).build());
    CatalogDescriptor hive = CatalogDescriptor.of(
        "hive", Configuration.fromMap(Map.of("type", "hive", "hive-conf-dir", conf, "hive-version", version)));
    flink.createCatalog("hive", hive);
    flink.useCatalog("hive");
    BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    for (String line = lines.readLine(); line != null; line = lines.readLine()) {
      answers.println(JSON.writeValueAsString(run(flink, JSON.readTree(line).get("sql").asText())));
      answers.flush();
    }
  }

  private static Map<String, Object> run(TableEnvironment flink, String sql) {
    List<String> rows = new ArrayList<>();
    Map<String, Object> answer = new LinkedHashMap<>();
    answer.put("rows", rows);
    answer.put("error", null);
    try {
      TableResult result = flink.executeSql(sql);
      if (sql.startsWith("insert")) {
        result.await(); // and with the job its cluster is gone
        return answer;
      }
      CloseableIterator<Row> found = result.collect();
      found.forEachRemaining(row -> rows.add(row.toString()));
      found.close();
    } catch (Exception failed) {
      Throwable cause = failed;
      while (cause.getCause() != null) {
        cause = cause.getCause();
      }
      answer.put("error", cause.toString());
    }
    return answer;
  }
}
