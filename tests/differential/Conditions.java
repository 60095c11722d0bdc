import com.google.gson.Gson;
import com.google.gson.GsonBuilder;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.hadoop.hive.conf.HiveConf;
import org.apache.hadoop.hive.ql.exec.ColumnInfo;
import org.apache.hadoop.hive.ql.exec.SerializationUtilities;
import org.apache.hadoop.hive.ql.parse.ASTNode;
import org.apache.hadoop.hive.ql.parse.ParseDriver;
import org.apache.hadoop.hive.ql.parse.ParseException;
import org.apache.hadoop.hive.ql.parse.RowResolver;
import org.apache.hadoop.hive.ql.parse.SemanticException;
import org.apache.hadoop.hive.ql.parse.type.ExprNodeTypeCheck;
import org.apache.hadoop.hive.ql.parse.type.TypeCheckCtx;
import org.apache.hadoop.hive.ql.plan.ExprNodeDesc;
import org.apache.hadoop.hive.ql.plan.ExprNodeGenericFuncDesc;
import org.apache.hadoop.hive.ql.session.SessionState;
import org.apache.hadoop.hive.serde2.typeinfo.TypeInfoUtils;

/**
 * Makes of a condition in HiveQL the bytes that Hive's planner sends to a metastore.
 *
 * <p>Standard input: one condition a line, {"keys": [[name, type], ..], "sql": text}. Standard output: one line each,
 * {"rows": [the bytes in base64], "error": null or what was thrown}. Parsed, given types and written by Hive's own
 * classes; there is no metastore.
 */
public final class Conditions {
  private static final Gson JSON = new GsonBuilder().serializeNulls().create();

  private Conditions() {}

  /** One line of standard input. */
  private static final class Condition {
    private List<List<String>> keys;
    private String sql;
  }

  public static void main(String[] none) throws Exception {
    PrintStream answers = new PrintStream(System.out, false, StandardCharsets.UTF_8);
    System.setOut(System.err);
    SessionState.setCurrentSessionState(new SessionState(new HiveConf()));
    SessionState.get().setupQueryCurrentTimestamp(); // for current_date and the like
    BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    for (String line = lines.readLine(); line != null; line = lines.readLine()) {
      Condition condition = JSON.fromJson(line, Condition.class);
      Map<String, Object> answer = new LinkedHashMap<>();
      answer.put("rows", List.of());
      answer.put("error", null);
      try {
        answer.put("rows", List.of(Base64.getEncoder().encodeToString(bytesOf(condition))));
      } catch (SemanticException | ParseException refused) {
        answer.put("error", String.valueOf(refused.getMessage()));
      }
      answers.println(JSON.toJson(answer));
      answers.flush();
    }
    System.exit(0); // timers of Hive would go on
  }

  private static byte[] bytesOf(Condition condition) throws SemanticException, ParseException {
    RowResolver row = new RowResolver();
    for (List<String> key : condition.keys) {
      String name = key.get(0);
      row.put("t", name, new ColumnInfo(name, TypeInfoUtils.getTypeInfoFromTypeString(key.get(1)), "t", true));
    }
    ASTNode tree = new ParseDriver().parseExpression(condition.sql);
    TypeCheckCtx context = new TypeCheckCtx(row, true, true);
    ExprNodeDesc expression = ExprNodeTypeCheck.genExprNode(tree, context).get(tree);
    if (context.getError() != null) {
      throw new SemanticException(context.getError());
    }
    if (!(expression instanceof ExprNodeGenericFuncDesc)) {
      throw new SemanticException("no condition of keys: " + expression);
    }
    return SerializationUtilities.serializeObjectWithTypeInformation((ExprNodeGenericFuncDesc) expression.clone());
  }
}
