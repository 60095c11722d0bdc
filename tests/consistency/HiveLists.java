import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.BitSet;
import java.util.List;

/**
 * Asks Hive's own classes about lists of write ids and transactions: one question a line, one answer a line.
 *
 * <p>By reflection, so that it is compiled without Hive's jars, whose classes may be newer than the compiler.
 * A question is words with tabs between them; an answer is a text, or "!" and the class of what was thrown.
 */
public final class HiveLists {
  private static final String COMMON = "org.apache.hadoop.hive.common.";
  private static final String METASTORE = "org.apache.hadoop.hive.metastore.";

  private HiveLists() {}

  public static void main(String[] arguments) throws Exception {
    BufferedReader questions = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    PrintStream answers = new PrintStream(System.out, false, StandardCharsets.UTF_8);
    for (String line = questions.readLine(); line != null; line = questions.readLine()) {
      answers.println(answer(line.split("\t", -1)));
    }
    answers.flush();
  }

  private static String answer(String[] words) throws Exception {
    try {
      switch (words[0]) {
        case "list":
          return describe(list(words[1]), "getHighWatermark", "getMinOpenWriteId", "getInvalidWriteIds");
        case "txns":
          return describe(parsed("ValidReadTxnList", words[1]), "getHighWatermark", "getMinOpenTxn",
              "getInvalidTransactions");
        case "all":
          return parsed("ValidTxnWriteIdList", words[1]).toString();
        case "compare":
          return String.valueOf(comparison().invoke(null, list(words[1]), list(words[2])));
        case "valid":
          return String.valueOf(call(list(words[1]), "isWriteIdValid", Long.parseLong(words[2])));
        case "reader":
          return fromServer("createValidReaderWriteIdList", words);
        default:
          throw new IllegalArgumentException(words[0]);
      }
    } catch (InvocationTargetException thrown) {
      return "!" + thrown.getCause().getClass().getSimpleName();
    }
  }

  private static Object list(String text) throws Exception {
    return parsed("ValidReaderWriteIdList", text);
  }

  /** An instance of a class of COMMON from its text: by fromValue, or in older releases by a constructor. */
  private static Object parsed(String name, String text) throws Exception {
    Class<?> type = Class.forName(COMMON + name);
    try {
      return type.getMethod("fromValue", String.class).invoke(null, text);
    } catch (NoSuchMethodException older) {
      return type.getConstructor(String.class).newInstance(text);
    }
  }

  private static Method comparison() throws Exception {
    Class<?> list = Class.forName(COMMON + "ValidWriteIdList");
    return Class.forName("org.apache.hive.common.util.TxnIdUtils").getMethod("compare", list, list);
  }

  private static Object call(Object list, String method, long id) throws Exception {
    return list.getClass().getMethod(method, long.class).invoke(list, id);
  }

  private static String describe(Object list, String high, String low, String invalid) throws Exception {
    return list + " " + list.getClass().getMethod(high).invoke(list) + " "
        + list.getClass().getMethod(low).invoke(list) + " "
        + Arrays.toString((long[]) list.getClass().getMethod(invalid).invoke(list)).replace(" ", "");
  }

  /** Words: table, high watermark, invalid ids, aborted ids (both with commas), smallest open id or nothing. */
  private static String fromServer(String method, String[] words) throws Exception {
    Class<?> struct = Class.forName(METASTORE + "api.TableValidWriteIds");
    List<Long> invalid = new ArrayList<>();
    BitSet aborted = new BitSet();
    List<String> abortedIds = Arrays.asList(words[4].split(","));
    for (String id : words[3].isEmpty() ? new String[0] : words[3].split(",")) {
      if (abortedIds.contains(id)) {
        aborted.set(invalid.size());
      }
      invalid.add(Long.parseLong(id));
    }
    Object answer = struct.getConstructor(String.class, long.class, List.class, ByteBuffer.class)
        .newInstance(words[1], Long.parseLong(words[2]), invalid, ByteBuffer.wrap(aborted.toByteArray()));
    if (!words[5].isEmpty()) {
      struct.getMethod("setMinOpenWriteId", long.class).invoke(answer, Long.parseLong(words[5]));
    }
    for (String owner : new String[] {"TxnCommonUtils", "TxnUtils"}) {
      try {
        return Class.forName(METASTORE + "txn." + owner).getMethod(method, struct).invoke(null, answer).toString();
      } catch (NoSuchMethodException elsewhere) {
        continue;
      }
    }
    throw new IllegalStateException(method);
  }
}
