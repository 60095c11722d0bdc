import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Set;
import java.util.function.Function;
import java.util.stream.Collectors;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hive.metastore.DefaultMetaStoreFilterHookImpl;
import org.apache.hadoop.hive.metastore.api.Database;
import org.apache.hadoop.hive.metastore.api.MetaException;
import org.apache.hadoop.hive.metastore.api.NoSuchObjectException;
import org.apache.hadoop.hive.metastore.api.Partition;
import org.apache.hadoop.hive.metastore.api.Table;
import org.apache.hadoop.hive.metastore.api.TableMeta;
import org.apache.hadoop.security.UserGroupInformation;

/**
 * A filter hook that does what a file says at the moment of the call. Its lines: USER hide DATABASE, USER hide
 * DATABASE.TABLE, USER mask DATABASE.TABLE.COLUMN (the table is shown without the column), USER hide
 * DATABASE.TABLE/PARTITION.
 */
public class RulesHook extends DefaultMetaStoreFilterHookImpl {
  private final Configuration settings;

  public RulesHook(Configuration settings) {
    super(settings);
    this.settings = settings;
  }

  /** The rules in the file that the setting names, for the user of this call. */
  static Set<String> rules(Configuration settings) {
    try {
      String user = UserGroupInformation.getCurrentUser().getShortUserName() + " ";
      return Files.readAllLines(Path.of(settings.get("test.rules"))).stream()
          .filter(line -> line.startsWith(user))
          .map(line -> line.substring(user.length()))
          .collect(Collectors.toSet());
    } catch (IOException problem) {
      throw new UncheckedIOException(problem);
    }
  }

  private static <T> List<T> kept(List<T> all, Set<String> rules, Function<T, String> name) {
    return all.stream().filter(one -> !rules.contains("hide " + name.apply(one))).collect(Collectors.toList());
  }

  private static boolean hides(Set<String> rules, String database, String table) {
    return rules.contains("hide " + database) || rules.contains("hide " + database + "." + table);
  }

  private static Table shown(Table table, Set<String> rules) {
    String before = "mask " + table.getDbName() + "." + table.getTableName() + ".";
    if (rules.stream().noneMatch(rule -> rule.startsWith(before))) {
      return table; // a copy may have its parameters in another order
    }
    Table shown = table.deepCopy();
    shown.getSd().getCols().removeIf(column -> rules.contains(before + column.getName()));
    return shown;
  }

  @Override
  public List<String> filterDatabases(List<String> databases) throws MetaException {
    return kept(databases, rules(settings), name -> name);
  }

  // Of Hive 4.2; the compiler sees 4.0.
  public List<String> filterDatabases(String catalog, List<String> databases) throws MetaException {
    return kept(databases, rules(settings), name -> name);
  }

  @Override
  public Database filterDatabase(Database database) throws NoSuchObjectException {
    if (rules(settings).contains("hide " + database.getName())) {
      throw new NoSuchObjectException("database " + database.getName() + " not found");
    }
    return database;
  }

  @Override
  public List<String> filterTableNames(String catalog, String database, List<String> tables) throws MetaException {
    Set<String> rules = rules(settings);
    return tables.stream().filter(name -> !hides(rules, database, name)).collect(Collectors.toList());
  }

  @Override
  public Table filterTable(Table table) throws NoSuchObjectException {
    Set<String> rules = rules(settings);
    if (hides(rules, table.getDbName(), table.getTableName())) {
      throw new NoSuchObjectException(table.getDbName() + "." + table.getTableName() + " table not found");
    }
    return shown(table, rules);
  }

  @Override
  public List<Table> filterTables(List<Table> tables) throws MetaException {
    Set<String> rules = rules(settings);
    return tables.stream()
        .filter(table -> !hides(rules, table.getDbName(), table.getTableName()))
        .map(table -> shown(table, rules))
        .collect(Collectors.toList());
  }

  // Of Hive 4.2.
  public List<TableMeta> filterTableMetas(List<TableMeta> tables) throws MetaException {
    Set<String> rules = rules(settings);
    return tables.stream()
        .filter(table -> !hides(rules, table.getDbName(), table.getTableName()))
        .collect(Collectors.toList());
  }

  @Override
  public List<Partition> filterPartitions(List<Partition> partitions) throws MetaException {
    return kept(
        partitions,
        rules(settings),
        one -> one.getDbName() + "." + one.getTableName() + "/" + String.join("/", one.getValues()));
  }

  @Override
  public Partition filterPartition(Partition partition) throws NoSuchObjectException {
    try {
      if (filterPartitions(List.of(partition)).isEmpty()) {
        throw new NoSuchObjectException("partition not found");
      }
    } catch (MetaException problem) {
      throw new NoSuchObjectException(problem.getMessage());
    }
    return partition;
  }

  @Override
  public List<String> filterPartitionNames(String catalog, String database, String table, List<String> names)
      throws MetaException {
    return kept(
        names,
        rules(settings),
        name -> database + "." + table + "/" + name.replaceAll("[^/]*=", ""));
  }
}
