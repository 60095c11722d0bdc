"""Changes made by SQL in the test bed's own database: the object and its row of the log in one transaction, faster than
a metastore makes them.

Must not know: who follows them. The tables are those of catalog.sql.
"""

from __future__ import annotations

from typing import Any, Final

import psycopg2

from tests.follower.rows import pack, table

NEW: Final = 1_000_000
"""Ids of what is made."""

COLUMNS: Final = [f"col_{number}" for number in range(20)]

_CHANGES: Final = {
    "ALTER_TABLE": """
INSERT INTO "TABLE_PARAMS" VALUES ({table}, 'changed', '{id}')
  ON CONFLICT ("TBL_ID", "PARAM_KEY") DO UPDATE SET "PARAM_VALUE" = '{id}'""",
    "ADD_PARTITION": """
INSERT INTO "SDS" SELECT {id}, "INPUT_FORMAT", "IS_COMPRESSED", "LOCATION" || '/{id}', "NUM_BUCKETS", "OUTPUT_FORMAT",
  "SERDE_ID", "CD_ID", "IS_STOREDASSUBDIRECTORIES" FROM "SDS" WHERE "SD_ID" = {table};
INSERT INTO "PARTITIONS" VALUES ({id}, 1600000000, 0, 'ds={id}/hour=1', {id}, {table}, 0);
INSERT INTO "PARTITION_KEY_VALS" VALUES ({id}, '{id}', 0), ({id}, '1', 1);
INSERT INTO "PARTITION_PARAMS" VALUES ({id}, 'numRows', '{id}')""",
    "CREATE_TABLE": """
INSERT INTO "SDS" SELECT {id}, "INPUT_FORMAT", "IS_COMPRESSED", "LOCATION" || '/{id}', "NUM_BUCKETS", "OUTPUT_FORMAT",
  "SERDE_ID", "CD_ID", "IS_STOREDASSUBDIRECTORIES" FROM "SDS" WHERE "SD_ID" = {table};
INSERT INTO "TBLS" ("TBL_ID", "CREATE_TIME", "DB_ID", "LAST_ACCESS_TIME", "OWNER", "OWNER_TYPE", "RETENTION", "SD_ID",
    "TBL_NAME", "TBL_TYPE", "WRITE_ID")
  SELECT {id}, 1600000000, "DB_ID", 0, 'me', 'USER', 0, {id}, 'new_{id}', 'EXTERNAL_TABLE', 0
  FROM "TBLS" WHERE "TBL_ID" = {table};
INSERT INTO "TABLE_PARAMS" VALUES ({id}, 'EXTERNAL', 'TRUE')""",
}
_LOGGED: Final = """
UPDATE "NOTIFICATION_SEQUENCE" SET "NEXT_EVENT_ID" = "NEXT_EVENT_ID" + 1;
INSERT INTO "NOTIFICATION_LOG" ("NL_ID", "EVENT_ID", "EVENT_TIME", "EVENT_TYPE", "CAT_NAME", "DB_NAME", "TBL_NAME",
    "MESSAGE", "MESSAGE_FORMAT")
  SELECT "NEXT_EVENT_ID", "NEXT_EVENT_ID" - 1, extract(epoch FROM now())::int, '{kind}', 'hive', '{database}',
    '{name}', '{message}', 'gzip(json-2.0)' FROM "NOTIFICATION_SEQUENCE" RETURNING "EVENT_ID" """


class Changes:
    """One connection that makes them. As a context manager it closes the connection."""

    def __init__(self, url: str) -> None:
        """`url`: an account that may write."""
        self._connection = psycopg2.connect(url.replace("+psycopg2", ""))
        self._connection.autocommit = True
        self._cursor = self._connection.cursor()
        self._cursor.execute("SET session_replication_role = replica; SET synchronous_commit = off")
        self._cursor.execute('SELECT "NEXT_EVENT_ID" FROM "NOTIFICATION_SEQUENCE"')
        self.next_event: int = self._cursor.fetchall()[0][0]
        """The id of the first event that this object makes."""

    def __enter__(self) -> Changes:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def make(self, kind: str, number: int, table_id: int, database: str = "big") -> int:
        """One change of a kind, to this table, or another one like it that is created. `number`: another one for each
        change. Returns its event id."""
        id_ = NEW + number
        name = f"new_{id_}" if kind == "CREATE_TABLE" else f"t_{table_id:07}"
        shown = table(name, database, cols=COLUMNS, keys=("ds", "hour"), id=table_id)
        message: dict[str, Any] = {"tableObjJson": shown, "partitions": [{"ds": str(id_), "hour": "1"}]}
        if kind == "ALTER_TABLE":
            message = {"tableObjBeforeJson": shown, "tableObjAfterJson": shown}
        row = _LOGGED.format(kind=kind, database=database, name=name, message=pack(message))
        self._cursor.execute(_CHANGES[kind].format(table=table_id, id=id_) + ";" + row)  # one transaction
        event_id: int = self._cursor.fetchall()[0][0]
        return event_id
