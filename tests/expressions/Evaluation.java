import com.google.gson.Gson;
import com.google.gson.GsonBuilder;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Base64;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.hadoop.hive.metastore.api.FieldSchema;
import org.apache.hadoop.hive.ql.optimizer.ppr.PartitionExpressionForMetastore;

/**
 * Says what a metastore's class for partition expressions makes of the bytes of one.
 *
 * <p>Standard input: one expression a line, {"keys": [[name, type], ..], "names": [partition names], "expr": the bytes in
 * base64}. Standard output: one line each, {"rows": [the filter in base64, "true" if it is unknown for a partition, and
 * the numbers of the names that it selects], "error": null or what was thrown}. If the filter is read and the names are
 * not evaluated, the error is theirs, and the filter is there alone.
 */
public final class Evaluation {
  private static final String DEFAULT_PARTITION = "__HIVE_DEFAULT_PARTITION__";
  private static final Gson JSON = new GsonBuilder().serializeNulls().create();

  private Evaluation() {}

  /** One line of standard input. */
  private static final class Asked {
    private List<List<String>> keys;
    private List<String> names;
    private String expr;
  }

  public static void main(String[] none) throws Exception {
    PrintStream answers = new PrintStream(System.out, false, StandardCharsets.UTF_8);
    System.setOut(System.err);
    BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    for (String line = lines.readLine(); line != null; line = lines.readLine()) {
      Map<String, Object> answer = new LinkedHashMap<>();
      List<String> rows = new ArrayList<>();
      answer.put("rows", rows);
      answer.put("error", null);
      try {
        evaluate(JSON.fromJson(line, Asked.class), rows);
      } catch (Exception | LinkageError | StackOverflowError refused) {
        answer.put("error", String.valueOf(refused));
      }
      answers.println(JSON.toJson(answer));
      answers.flush();
    }
    System.exit(0); // timers of Hive would go on
  }

  private static void evaluate(Asked asked, List<String> rows) throws Exception {
    byte[] expression = Base64.getDecoder().decode(asked.expr);
    PartitionExpressionForMetastore metastores = new PartitionExpressionForMetastore();
    String filter = metastores.convertExprToFilter(expression, DEFAULT_PARTITION, false);
    rows.add(Base64.getEncoder().encodeToString(filter.getBytes(StandardCharsets.UTF_8)));
    List<FieldSchema> keys = new ArrayList<>();
    for (List<String> key : asked.keys) {
      keys.add(new FieldSchema(key.get(0), key.get(1), null));
    }
    List<String> kept = new ArrayList<>(asked.names);
    rows.add(String.valueOf(metastores.filterPartitionsByExpr(keys, expression, DEFAULT_PARTITION, kept)));
    for (String name : kept) {
      rows.add(String.valueOf(asked.names.indexOf(name)));
    }
  }
}
