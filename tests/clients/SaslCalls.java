import java.lang.reflect.UndeclaredThrowableException;
import java.security.PrivilegedExceptionAction;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hive.metastore.HiveMetaStoreClient;
import org.apache.hadoop.hive.metastore.api.Database;
import org.apache.hadoop.hive.metastore.api.MetaException;
import org.apache.hadoop.hive.metastore.api.NoSuchObjectException;
import org.apache.hadoop.hive.metastore.security.DelegationTokenIdentifier;
import org.apache.hadoop.io.Text;
import org.apache.hadoop.security.UserGroupInformation;
import org.apache.hadoop.security.alias.CredentialProvider;
import org.apache.hadoop.security.alias.CredentialProviderFactory;
import org.apache.hadoop.security.token.Token;

/**
 * Hive's client after a login. SaslCalls URI kerberos SERVICE USER KEYTAB PROTECTION...: by ticket, then by a token that
 * was got so. SaslCalls URI doas SERVICE USER KEYTAB NAME...: as HiveServer2 does for its sessions, the user of the
 * keytab gets a token for each name, and calls as it. SaslCalls URI password USER PASSWORD STORE [NAME=VALUE ...], where
 * STORE is a new key store for the password.
 */
public class SaslCalls {
  public static void main(String[] arguments) throws Exception {
    Configuration settings = new Configuration(false);
    settings.set("hive.metastore.uris", arguments[0]);
    if (arguments[1].equals("password")) {
      settings.set("hive.metastore.client.auth.mode", "PLAIN");
      settings.set("hive.metastore.client.plain.username", arguments[2]);
      settings.set("hadoop.security.credential.provider.path", "jceks://file" + arguments[4]);
      for (int at = 5; at < arguments.length; at++) {
        String[] pair = arguments[at].split("=", 2);
        settings.set(pair[0], pair[1]);
      }
      CredentialProvider store = CredentialProviderFactory.getProviders(settings).get(0);
      store.createCredentialEntry(arguments[2], arguments[3].toCharArray());
      store.flush();
      calls(settings, "password");
      return;
    }
    settings.set("hadoop.security.authentication", "kerberos");
    settings.set("hive.metastore.sasl.enabled", "true");
    settings.set("hive.metastore.kerberos.principal", arguments[2]);
    UserGroupInformation.setConfiguration(settings);
    UserGroupInformation user = UserGroupInformation.loginUserFromKeytabAndReturnUGI(arguments[3], arguments[4]);
    if (arguments[1].equals("doas")) {
      for (int at = 5; at < arguments.length; at++) {
        session(settings, user, arguments[at]);
      }
      return;
    }
    for (int at = 5; at < arguments.length; at++) {
      Configuration of = new Configuration(settings);
      of.set("hadoop.rpc.protection", arguments[at]);
      String protection = arguments[at];
      user.doAs((PrivilegedExceptionAction<Void>) () -> calls(of, protection));
      String text = user.doAs((PrivilegedExceptionAction<String>) () -> delegated(of, user.getUserName(), "renewer"));
      Configuration byToken = new Configuration(of);
      byToken.set("hive.metastore.token.signature", "proxy");
      job(text).doAs((PrivilegedExceptionAction<Void>) () -> calls(byToken, protection));
    }
  }

  /** What HiveServer2 does with doAs: CLIService.getDelegationTokenFromMetaStore, then HiveSessionImplwithUGI. */
  private static void session(Configuration settings, UserGroupInformation service, String name) throws Exception {
    String text;
    try {
      text = service.doAs((PrivilegedExceptionAction<String>) () -> delegated(settings, name, name));
    } catch (UndeclaredThrowableException refused) { // doAs wraps a MetaException
      System.out.println(((MetaException) refused.getCause()).getMessage());
      return;
    }
    UserGroupInformation session = UserGroupInformation.createProxyUser(name, service);
    session.addToken(token(text, "HiveServer2ImpersonationToken"));
    Configuration its = new Configuration(settings);
    its.set("hive.metastore.token.signature", "HiveServer2ImpersonationToken");
    session.doAs((PrivilegedExceptionAction<Void>) () -> calls(its, "of_" + name));
  }

  private static String delegated(Configuration settings, String owner, String renewer) throws Exception {
    HiveMetaStoreClient client = new HiveMetaStoreClient(settings);
    String text = client.getDelegationToken(owner, renewer);
    client.close();
    return text;
  }

  /** Somebody who has nothing but the token. */
  private static UserGroupInformation job(String text) throws Exception {
    UserGroupInformation job = UserGroupInformation.createRemoteUser("a job");
    job.addToken(token(text, "proxy"));
    return job;
  }

  private static Token<DelegationTokenIdentifier> token(String text, String service) throws Exception {
    Token<DelegationTokenIdentifier> token = new Token<>();
    token.decodeFromUrlString(text);
    token.setService(new Text(service));
    return token;
  }

  private static Void calls(Configuration settings, String name) throws Exception {
    HiveMetaStoreClient client = new HiveMetaStoreClient(settings);
    Map<String, String> parameters = new HashMap<>();
    for (int at = 0; at < 50; at++) {
      parameters.put("p" + at, "v".repeat(2_000)); // Hive's database has room for 4,000 characters
    }
    client.createDatabase(new Database(name, "d", null, parameters));
    List<String> names = client.getAllDatabases();
    Database made = client.getDatabase(name);
    int length = made.getParameters().values().stream().mapToInt(String::length).sum();
    System.out.println(names + " " + made.getOwnerName() + " " + length);
    for (int at = 0; at < 20; at++) {
      client.getDatabase(name);
    }
    try {
      client.getDatabase("missing");
    } catch (NoSuchObjectException expected) {
      System.out.println("missing");
    }
    client.dropDatabase(name);
    client.close();
    return null;
  }
}
