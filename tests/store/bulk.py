"""A table with any number of partitions, written straight into an empty metastore database: a second for 100,000.

Must not know: hms_cache_proxy. The rows are those that a metastore writes for ORC partitions with basic statistics.
"""

from __future__ import annotations

from tests.testbed.mariadb import MariaDatabase
from tests.testbed.postgres import MetastoreDatabase
from tests.testbed.sqlite import SqliteDatabase

DATABASE, TABLE, COLUMNS = b"big", b"parts", 20
_ORC = "org.apache.hadoop.hive.ql.io.orc.Orc"
_ROWS = f"""
INSERT INTO "CTLGS" VALUES (1, 'hive', 'default', 'file:/wh', 0) ON CONFLICT DO NOTHING;
INSERT INTO "DBS" ("DB_ID", "NAME", "DB_LOCATION_URI", "OWNER_NAME", "OWNER_TYPE", "CTLG_NAME", "CREATE_TIME", "TYPE")
  VALUES (10, 'big', 'file:/wh/big.db', 'me', 'USER', 'hive', 1600000000, 'NATIVE');
INSERT INTO "CDS" VALUES (10);
INSERT INTO "COLUMNS_V2" ("CD_ID", "COLUMN_NAME", "TYPE_NAME", "INTEGER_IDX")
  SELECT 10, 'col_' || i, 'string', i FROM generate_series(0, {COLUMNS - 1}) i;
CREATE TEMP TABLE made AS
  SELECT 10 + row_number() OVER (ORDER BY ORDERED) AS id, (date '2000-01-01' + i / 24)::text AS ds,
    (i % 24)::text AS hour
  FROM generate_series(0, COUNTED - 1) i;
INSERT INTO "SERDES" ("SERDE_ID", "SLIB") SELECT id, '{_ORC}Serde' FROM made UNION ALL SELECT 1, '{_ORC}Serde';
INSERT INTO "SERDE_PARAMS" SELECT "SERDE_ID", 'serialization.format', '1' FROM "SERDES";
INSERT INTO "SDS" SELECT id, '{_ORC}InputFormat', false,
  'hdfs://ns/wh/external/big.db/parts/ds=' || ds || '/hour=' || hour, -1, '{_ORC}OutputFormat', id, 10, false FROM made;
INSERT INTO "SDS" VALUES (1, '{_ORC}InputFormat', false, 'hdfs://ns/wh/external/big.db/parts', -1, '{_ORC}OutputFormat',
  1, 10, false);
INSERT INTO "TBLS" ("TBL_ID", "CREATE_TIME", "DB_ID", "LAST_ACCESS_TIME", "OWNER", "OWNER_TYPE", "RETENTION", "SD_ID",
  "TBL_NAME", "TBL_TYPE", "WRITE_ID") VALUES (10, 1600000000, 10, 0, 'me', 'USER', 0, 1, 'parts', 'EXTERNAL_TABLE', 0);
INSERT INTO "TABLE_PARAMS" VALUES (10, 'EXTERNAL', 'TRUE');
INSERT INTO "PARTITION_KEYS" VALUES (10, null, 'ds', 'string', 0), (10, null, 'hour', 'int', 1);
INSERT INTO "PARTITIONS" SELECT id, 1600000000 + id, 0, 'ds=' || ds || '/hour=' || hour, id, 10, 0 FROM made;
INSERT INTO "PARTITION_KEY_VALS" SELECT id, ds, 0 FROM made UNION ALL SELECT id, hour, 1 FROM made;
INSERT INTO "PARTITION_PARAMS" SELECT id, key, CASE key WHEN 'COLUMN_STATS_ACCURATE' THEN '{{"BASIC_STATS":"true"}}'
  WHEN 'transient_lastDdlTime' THEN (1600000000 + id)::text ELSE (id * 37 % 100000)::text END
  FROM made, unnest(array['COLUMN_STATS_ACCURATE', 'numFiles', 'numRows', 'rawDataSize', 'totalSize',
  'transient_lastDdlTime']) AS key;
DROP TABLE made;
"""
_ROWS_MARIADB = f"""
INSERT IGNORE INTO CTLGS VALUES (1, 'hive', 'default', 'file:/wh', 0);
INSERT INTO DBS (DB_ID, NAME, DB_LOCATION_URI, OWNER_NAME, OWNER_TYPE, CTLG_NAME, CREATE_TIME, TYPE)
  VALUES (10, 'big', 'file:/wh/big.db', 'me', 'USER', 'hive', 1600000000, 'NATIVE');
INSERT INTO CDS VALUES (10);
INSERT INTO COLUMNS_V2 (CD_ID, COLUMN_NAME, TYPE_NAME, INTEGER_IDX)
  SELECT 10, concat('col_', seq), 'string', seq FROM seq_0_to_{COLUMNS - 1};
CREATE TEMPORARY TABLE made (id bigint PRIMARY KEY, ds varchar(10), hour varchar(2)) CHARACTER SET latin1 AS
  SELECT 10 + row_number() OVER (ORDER BY ORDERED) AS id,
    cast(date_add('2000-01-01', INTERVAL seq DIV 24 DAY) AS CHAR) AS ds, cast(seq % 24 AS CHAR) AS hour
  FROM seq_0_to_HIGHEST;
INSERT INTO SERDES (SERDE_ID, SLIB) SELECT id, '{_ORC}Serde' FROM made;
INSERT INTO SERDES (SERDE_ID, SLIB) VALUES (1, '{_ORC}Serde');
INSERT INTO SERDE_PARAMS SELECT SERDE_ID, 'serialization.format', '1' FROM SERDES;
INSERT INTO SDS (SD_ID, INPUT_FORMAT, IS_COMPRESSED, LOCATION, NUM_BUCKETS, OUTPUT_FORMAT, SERDE_ID, CD_ID,
  IS_STOREDASSUBDIRECTORIES) SELECT id, '{_ORC}InputFormat', 0,
  concat('hdfs://ns/wh/external/big.db/parts/ds=', ds, '/hour=', hour), -1, '{_ORC}OutputFormat', id, 10, 0 FROM made;
INSERT INTO SDS (SD_ID, INPUT_FORMAT, IS_COMPRESSED, LOCATION, NUM_BUCKETS, OUTPUT_FORMAT, SERDE_ID, CD_ID,
  IS_STOREDASSUBDIRECTORIES)
  VALUES (1, '{_ORC}InputFormat', 0, 'hdfs://ns/wh/external/big.db/parts', -1, '{_ORC}OutputFormat', 1, 10, 0);
INSERT INTO TBLS (TBL_ID, CREATE_TIME, DB_ID, LAST_ACCESS_TIME, OWNER, OWNER_TYPE, RETENTION, SD_ID,
  TBL_NAME, TBL_TYPE, WRITE_ID) VALUES (10, 1600000000, 10, 0, 'me', 'USER', 0, 1, 'parts', 'EXTERNAL_TABLE', 0);
INSERT INTO TABLE_PARAMS VALUES (10, 'EXTERNAL', 'TRUE');
INSERT INTO PARTITION_KEYS VALUES (10, null, 'ds', 'string', 0), (10, null, 'hour', 'int', 1);
INSERT INTO PARTITIONS (PART_ID, CREATE_TIME, LAST_ACCESS_TIME, PART_NAME, SD_ID, TBL_ID, WRITE_ID)
  SELECT id, 1600000000 + id, 0, concat('ds=', ds, '/hour=', hour), id, 10, 0 FROM made;
INSERT INTO PARTITION_KEY_VALS (PART_ID, PART_KEY_VAL, INTEGER_IDX)
  SELECT id, if(at.seq, hour, ds), at.seq FROM made, seq_0_to_1 AS at;
INSERT INTO PARTITION_PARAMS SELECT id, elt(kind.seq, 'COLUMN_STATS_ACCURATE', 'numFiles', 'numRows', 'rawDataSize',
    'totalSize', 'transient_lastDdlTime'),
  CASE kind.seq WHEN 1 THEN '{{"BASIC_STATS":"true"}}' WHEN 6 THEN 1600000000 + id ELSE id * 37 % 100000 END
  FROM made, seq_1_to_6 AS kind;
DROP TEMPORARY TABLE made;
"""

_SQLITE = (
    (f"generate_series(0, {COLUMNS - 1}) i", f"numbers WHERE i < {COLUMNS}"),
    ("generate_series(0, COUNTED - 1) i", "numbers WHERE i < COUNTED"),
    ("(date '2000-01-01' + i / 24)::text", "date('2000-01-01', (i / 24) || ' days')"),
    ("::text", " || ''"),
    ("unnest(array[", "(SELECT value AS key FROM json_each(json_array("),
    ("]) AS key", ")))"),
)
"""What the same statements are called there; `numbers` is a table of them."""


def fill(database: MetastoreDatabase, count: int, *, shuffled: bool = False) -> None:
    """Make the table. `shuffled`: the ids are in another order than the names."""
    if isinstance(database, MariaDatabase):
        order = "md5(seq)" if shuffled else "seq"
        with database.connect() as connection, connection.cursor() as cursor:
            cursor.execute(_ROWS_MARIADB.replace("ORDERED", order).replace("HIGHEST", str(count - 1)))
            while cursor.nextset():
                pass
        return
    if isinstance(database, SqliteDatabase):
        rows = _ROWS
        for here, there in _SQLITE:
            assert here in rows
            rows = rows.replace(here, there)
        order = "i * 7919 % 1000003" if shuffled else "i"
        with database.connect() as connection, connection.cursor() as cursor:
            cursor.execute("BEGIN")
            cursor.execute("CREATE TEMP TABLE numbers (i INTEGER PRIMARY KEY)")
            cursor.executemany("INSERT INTO numbers VALUES (?)", ((i,) for i in range(max(count, COLUMNS))))
            for statement in rows.replace("ORDERED", order).replace("COUNTED", str(count)).split(";\n"):
                cursor.execute(statement)
            cursor.execute("COMMIT")
        return
    with database.connect() as connection, connection.cursor() as cursor:
        order = "md5(i::text)" if shuffled else "i"
        cursor.execute(_ROWS.replace("ORDERED", order).replace("COUNTED", str(count)))
        cursor.execute("ANALYZE")


def add_names(database: MetastoreDatabase, names: list[str], *, first: int = 10_000_000) -> None:
    """Partitions with these names and nothing else that differs; ids far apart, from `first` on."""
    with database.connect() as connection, connection.cursor() as cursor:
        for number, name in enumerate(names):
            id_ = first + number * 1000
            cursor.execute('INSERT INTO "SERDES" ("SERDE_ID") VALUES (%s)', (id_,))
            cursor.execute(
                """INSERT INTO "SDS" ("SD_ID", "INPUT_FORMAT", "IS_COMPRESSED", "LOCATION", "NUM_BUCKETS",
                "OUTPUT_FORMAT", "SERDE_ID", "CD_ID", "IS_STOREDASSUBDIRECTORIES")
                VALUES (%s, 'i', false, 'l', -1, 'o', %s, 10, false)""",
                (id_, id_),
            )
            cursor.execute(
                """INSERT INTO "PARTITIONS" ("PART_ID", "CREATE_TIME", "LAST_ACCESS_TIME", "PART_NAME", "SD_ID",
                "TBL_ID", "WRITE_ID") VALUES (%s, 1, 0, %s, %s, 10, 0)""",
                (id_, name, id_),
            )
