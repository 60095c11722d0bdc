"""A metastore's delegation token as Spark takes it before a job runs in cluster mode: `python -m
tests.clients.spark_token URI FILE OPTIONS`, where OPTIONS are Spark's settings, as JSON.

Job: what spark-submit does for YARN: the providers of Spark get tokens for the user whose ticket is in the environment,
and FILE gets them, as HADOOP_TOKEN_FILE_LOCATION wants it. Prints the services and kinds of the tokens.
Must not know: hms_cache_proxy.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from pyspark import SparkConf
from pyspark.java_gateway import launch_gateway


def main() -> None:
    uri, file, options = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
    gateway: Any = launch_gateway(SparkConf(loadDefaults=False).setAll(list(options.items())))
    try:
        spark, hadoop = gateway.jvm.org.apache.spark, gateway.jvm.org.apache.hadoop
        conf = spark.SparkConf().set("spark.submit.deployMode", "cluster").set("spark.hadoop.hive.metastore.uris", uri)
        for name, value in options.items():
            conf.set(name, value)
        settings = spark.deploy.SparkHadoopUtil.get().newConfiguration(conf)
        credentials = hadoop.security.Credentials()
        spark.deploy.security.HadoopDelegationTokenManager(conf, settings, None).obtainDelegationTokens(credentials)
        credentials.writeTokenStorageFile(hadoop.fs.Path(f"file://{file}"), settings)
        tokens = credentials.getAllTokens().toArray()
        print(json.dumps([[str(token.getService()), str(token.getKind())] for token in tokens]))
    finally:
        gateway.shutdown()


if __name__ == "__main__":
    main()
