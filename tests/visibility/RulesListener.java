import java.util.Set;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hive.metastore.MetaStorePreEventListener;
import org.apache.hadoop.hive.metastore.api.FieldSchema;
import org.apache.hadoop.hive.metastore.api.MetaException;
import org.apache.hadoop.hive.metastore.api.NoSuchObjectException;
import org.apache.hadoop.hive.metastore.api.Table;
import org.apache.hadoop.hive.metastore.events.PreEventContext;
import org.apache.hadoop.hive.metastore.events.PreReadDatabaseEvent;
import org.apache.hadoop.hive.metastore.events.PreReadTableEvent;

/**
 * A listener that refuses what a file says at the moment of the call. Its lines: USER refuse DATABASE, USER refuse
 * DATABASE.TABLE, USER refuse DATABASE.TABLE.COLUMN (the table, while it has the column); with hide instead of refuse,
 * it says that there is no such object.
 */
public class RulesListener extends MetaStorePreEventListener {
  public RulesListener(Configuration settings) {
    super(settings);
  }

  @Override
  public void onEvent(PreEventContext context) throws MetaException, NoSuchObjectException {
    if (context.getEventType() == PreEventContext.PreEventType.READ_DATABASE) {
      check(((PreReadDatabaseEvent) context).getDatabase().getName());
    } else if (context.getEventType() == PreEventContext.PreEventType.READ_TABLE) {
      Table table = ((PreReadTableEvent) context).getTable();
      String name = table.getDbName() + "." + table.getTableName();
      check(table.getDbName());
      check(name);
      for (FieldSchema column : table.getSd().getCols()) {
        check(name + "." + column.getName());
      }
    }
  }

  private void check(String what) throws MetaException, NoSuchObjectException {
    Set<String> rules = RulesHook.rules(getConf());
    if (rules.contains("refuse " + what)) {
      throw new MetaException("may not read " + what);
    }
    if (rules.contains("hide " + what)) {
      throw new NoSuchObjectException(what + " not found");
    }
  }
}
