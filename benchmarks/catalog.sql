-- Partitioned tables in an empty database: each partition with a storage descriptor and a serde of its own, six
-- parameters and two keys, as the metastore writes them for ORC; the columns of a table are shared by its partitions.
-- Parameters: tables, partitions (of each table), first (id of the first table; 0 at first).
CREATE TEMP TABLE made_tables AS
  SELECT n AS tbl, 't_' || lpad(n::text, 7, '0') AS name FROM generate_series(%(first)s + 1, %(first)s + %(tables)s) n;
CREATE TEMP TABLE made AS
  SELECT tbl, name, 1000000000 + tbl::bigint * 2000000 + i AS id, (date '2000-01-01' + i / 24)::text AS ds,
    (i %% 24)::text AS hour
  FROM made_tables, generate_series(0, %(partitions)s - 1) i;
INSERT INTO "CTLGS" VALUES (1, 'hive', 'default', 'file:/wh', 0) ON CONFLICT DO NOTHING;
INSERT INTO "DBS" ("DB_ID", "NAME", "DB_LOCATION_URI", "OWNER_NAME", "OWNER_TYPE", "CTLG_NAME", "CREATE_TIME", "TYPE")
  VALUES (10, 'big', 'file:/wh/big.db', 'me', 'USER', 'hive', 1600000000, 'NATIVE') ON CONFLICT DO NOTHING;
INSERT INTO "CDS" SELECT tbl FROM made_tables;
INSERT INTO "COLUMNS_V2" ("CD_ID", "COLUMN_NAME", "TYPE_NAME", "INTEGER_IDX")
  SELECT tbl, 'col_' || i, 'string', i FROM made_tables, generate_series(0, 19) i;
INSERT INTO "SERDES" ("SERDE_ID", "SLIB")
  SELECT tbl, 'org.apache.hadoop.hive.ql.io.orc.OrcSerde' FROM made_tables
  UNION ALL SELECT id, 'org.apache.hadoop.hive.ql.io.orc.OrcSerde' FROM made;
INSERT INTO "SERDE_PARAMS"
  SELECT tbl, 'serialization.format', '1' FROM made_tables UNION ALL SELECT id, 'serialization.format', '1' FROM made;
INSERT INTO "SDS"
  SELECT tbl, 'org.apache.hadoop.hive.ql.io.orc.OrcInputFormat', false, 'hdfs://ns/wh/external/big.db/' || name, -1,
    'org.apache.hadoop.hive.ql.io.orc.OrcOutputFormat', tbl, tbl, false FROM made_tables
  UNION ALL
  SELECT id, 'org.apache.hadoop.hive.ql.io.orc.OrcInputFormat', false,
    'hdfs://ns/wh/external/big.db/' || name || '/ds=' || ds || '/hour=' || hour, -1,
    'org.apache.hadoop.hive.ql.io.orc.OrcOutputFormat', id, tbl, false FROM made;
INSERT INTO "TBLS" ("TBL_ID", "CREATE_TIME", "DB_ID", "LAST_ACCESS_TIME", "OWNER", "OWNER_TYPE", "RETENTION", "SD_ID",
    "TBL_NAME", "TBL_TYPE", "WRITE_ID")
  SELECT tbl, 1600000000, 10, 0, 'me', 'USER', 0, tbl, name, 'EXTERNAL_TABLE', 0 FROM made_tables;
INSERT INTO "TABLE_PARAMS" SELECT tbl, 'EXTERNAL', 'TRUE' FROM made_tables;
INSERT INTO "PARTITION_KEYS" SELECT tbl, null, 'ds', 'string', 0 FROM made_tables;
INSERT INTO "PARTITION_KEYS" SELECT tbl, null, 'hour', 'int', 1 FROM made_tables;
INSERT INTO "PARTITIONS" SELECT id, 1600000000, 0, 'ds=' || ds || '/hour=' || hour, id, tbl, 0 FROM made;
INSERT INTO "PARTITION_KEY_VALS" SELECT id, ds, 0 FROM made UNION ALL SELECT id, hour, 1 FROM made;
INSERT INTO "PARTITION_PARAMS" SELECT id, key, CASE key WHEN 'COLUMN_STATS_ACCURATE' THEN '{"BASIC_STATS":"true"}'
    WHEN 'transient_lastDdlTime' THEN (1600000000 + id %% 1000000)::text ELSE (id * 37 %% 100000)::text END
  FROM made, unnest(array['COLUMN_STATS_ACCURATE', 'numFiles', 'numRows', 'rawDataSize', 'totalSize',
    'transient_lastDdlTime']) AS key;
DROP TABLE made, made_tables;
