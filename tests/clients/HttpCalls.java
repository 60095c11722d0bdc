import java.util.List;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hive.metastore.HiveMetaStoreClient;
import org.apache.hadoop.hive.metastore.api.Database;

/** Hive's client over HTTP: HttpCalls URI MODE [NAME=VALUE ...]. With MODE=JWT, the token is in HMS_JWT. */
public class HttpCalls {
  public static void main(String[] arguments) throws Exception {
    Configuration settings = new Configuration(false);
    settings.set("hive.metastore.uris", arguments[0]);
    settings.set("hive.metastore.client.thrift.transport.mode", "http");
    settings.set("hive.metastore.client.auth.mode", arguments[1]);
    for (int at = 2; at < arguments.length; at++) {
      String[] pair = arguments[at].split("=", 2);
      settings.set(pair[0], pair[1]);
    }
    HiveMetaStoreClient client = new HiveMetaStoreClient(settings);
    client.createDatabase(new Database("made", "", null, null));
    List<String> names = client.getAllDatabases();
    System.out.println(names + " " + client.getDatabase("made").getOwnerName());
    for (int at = 0; at < 20; at++) {
      client.getDatabase("made");
    }
    try {
      client.getDatabase("missing");
    } catch (org.apache.hadoop.hive.metastore.api.NoSuchObjectException expected) {
      System.out.println("missing");
    }
    client.close();
  }
}
