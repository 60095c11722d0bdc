import com.google.gson.Gson;
import com.google.gson.GsonBuilder;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import org.apache.hadoop.hive.conf.HiveConf;
import org.apache.hadoop.hive.metastore.conf.MetastoreConf;
import org.apache.hadoop.hive.ql.DriverFactory;
import org.apache.hadoop.hive.ql.IDriver;
import org.apache.hadoop.hive.ql.processors.CommandProcessorException;
import org.apache.hadoop.hive.ql.session.SessionState;

/**
 * Runs HiveQL as HiveServer2 does, with several sessions in one JVM, each on a metastore URI of its own.
 *
 * <p>Arguments: metastore URIs; everything else is in hive-site.xml on the class path. Standard input: one statement a
 * line, {"session": index of the URI, "sql": text}. Standard output: one line each, {"rows": [texts of a row with tabs
 * between the columns], "error": null or what was thrown}. A session has its own thread, as everything in Hive's client
 * hangs on the thread: session, configuration, connection.
 */
public final class HiveStatements {
  private static final Gson JSON = new GsonBuilder().serializeNulls().create();

  private HiveStatements() {}

  /** One line of standard input. */
  private static final class Statement {
    private int session;
    private String sql;
  }

  public static void main(String[] uris) {
    int status = 1;
    try {
      serve(uris);
      status = 0;
    } catch (Exception failed) {
      failed.printStackTrace();
    } finally {
      System.exit(status); // threads of the sessions, timers of Hive and of Hadoop's file systems would go on
    }
  }

  private static void serve(String[] uris) throws Exception {
    PrintStream answers = new PrintStream(System.out, false, StandardCharsets.UTF_8);
    System.setOut(System.err); // MapReduce and Hive's console print there
    List<ExecutorService> sessions = new ArrayList<>();
    for (String uri : uris) {
      HiveConf conf = new HiveConf();
      MetastoreConf.setVar(conf, MetastoreConf.ConfVars.THRIFT_URIS, uri);
      ExecutorService session = Executors.newSingleThreadExecutor();
      session.submit(() -> SessionState.start(conf)).get();
      sessions.add(session);
    }
    BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    for (String line = lines.readLine(); line != null; line = lines.readLine()) {
      Statement statement = JSON.fromJson(line, Statement.class);
      answers.println(JSON.toJson(sessions.get(statement.session).submit(() -> run(statement.sql)).get()));
      answers.flush();
    }
    for (ExecutorService session : sessions) {
      close(session);
    }
  }

  private static Map<String, Object> run(String sql) throws Exception {
    Map<String, Object> answer = new LinkedHashMap<>();
    List<String> rows = new ArrayList<>();
    answer.put("rows", rows);
    answer.put("error", null);
    IDriver driver = DriverFactory.newDriver(SessionState.get().getConf());
    try {
      driver.run(sql);
      List<String> batch = new ArrayList<>();
      while (driver.getResults(batch)) {
        rows.addAll(batch);
        batch.clear();
      }
    } catch (CommandProcessorException failed) {
      answer.put("error", failed.getMessage());
    } finally {
      driver.close();
      driver.destroy();
    }
    return answer;
  }

  private static void close(ExecutorService session) throws ExecutionException, InterruptedException {
    session.submit(() -> {
      SessionState.get().close();
      return null;
    }).get();
    session.shutdown();
  }
}
