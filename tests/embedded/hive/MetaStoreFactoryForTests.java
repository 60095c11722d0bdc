package org.apache.hadoop.hive.metastore.client;

import java.util.ArrayList;
import java.util.List;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.hive.metastore.conf.MetastoreConf;
import org.apache.hadoop.hive.metastore.minihms.ClusterMetaStoreForTests;

/**
 * Takes the place of the class of this name in Hive's test jar, which starts metastores of its own: offers one that runs
 * already, by the configuration file that the system property test.hms.client.configs names.
 */
public final class MetaStoreFactoryForTests {
  private MetaStoreFactoryForTests() {}

  /** What the tests are run on: a name and a service, once. */
  public static List<Object[]> getMetaStores() {
    Configuration conf = MetastoreConf.newMetastoreConf();
    conf.addResource(new Path(System.getProperty("test.hms.client.configs")));
    List<Object[]> services = new ArrayList<>();
    services.add(new Object[] {"Cluster", new ClusterMetaStoreForTests(conf)});
    return services;
  }
}
