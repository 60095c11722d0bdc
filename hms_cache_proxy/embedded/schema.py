"""The tables of the embedded metastore: those of Hive 4.2.0, created at the first start.

Job: make SQLAlchemy Core tables of schema_tables.py (`T.TBLS.c.TBL_ID`), create them with the rows that a metastore
needs, and check that an existing database was made here. Must not know: calls, Thrift.

Invariants: a database is created completely or not at all, in one transaction. A database made by Hive's scripts is
refused unless the setting allows it (`foreign`), because a Java metastore may write to it. On PostgreSQL, a Java
metastore 4.2.0 can start on a database made here, which has the same tables, VERSION row and numbering (SEQUENCE_TABLE,
database.py). Owner: the metastore's process.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

from sqlalchemy import (
    CHAR,
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    Connection,
    Double,
    ForeignKeyConstraint,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    SmallInteger,
    String,
    Table,
    Text,
    UniqueConstraint,
    insert,
    inspect,
    literal,
    select,
    text,
)
from sqlalchemy import TIMESTAMP as Timestamp

from hms_cache_proxy.embedded import marks
from hms_cache_proxy.embedded.schema_tables import TEXT
from hms_cache_proxy.errors import StoreError

VERSION = "4.2.0"
MADE_HERE = "embedded.metastore"
"""PROPERTY_KEY of the row in METASTORE_DB_PROPERTIES that marks a database made here."""
UUID_KEY = "guid"  # ObjectStore.getMetastoreDbUuid, 4.2
MODEL = "org.apache.hadoop.hive.metastore.model."

_TYPES: dict[str, Any] = {
    "n": BigInteger,
    "i": Integer,
    "s": SmallInteger,
    "b": Boolean,
    "d": Double,
    "t": Text,
    "y": LargeBinary,
    "ts": Timestamp,
}


def _metadata() -> MetaData:
    metadata = MetaData()
    for name, lines in _blocks():
        columns = [_column(word) for word in lines[0].split()]
        Table(name, metadata, *columns, *(_key(name, line) for line in lines[1:]))
    sequence = metadata.tables["NOTIFICATION_SEQUENCE"]
    sequence.append_constraint(CheckConstraint(text('"NNI_ID" = 1'), name="ONE_ROW_CONSTRAINT"))
    return metadata


def _blocks() -> Iterator[tuple[str, list[str]]]:
    name = ""
    lines: list[str] = []
    for line in TEXT.strip().splitlines():
        if line.startswith("    "):
            lines[-1] += " " + line.strip()
        elif line.startswith("  "):
            lines.append(line.strip())
        else:
            if name:
                yield name, lines
            name, lines = line, []
    yield name, lines


def _column(word: str) -> Column[Any]:
    name, _, rest = word.partition(":")
    declared, _, default = rest.partition("=")
    kind = declared.removesuffix("!")
    numbered = default == "seq"
    type_: Any
    if kind in _TYPES:
        type_ = Integer() if numbered and kind == "i" else _TYPES[kind]()
    else:
        type_ = CHAR(int(kind[1:])) if kind.startswith("c") else String(int(kind))
    if numbered:
        type_ = type_.with_variant(Integer(), "sqlite")  # SQLite numbers only this type
    return Column(
        name,
        type_,
        nullable=not declared.endswith("!"),
        autoincrement=numbered,
        server_default=_default(default, kind) if default and not numbered else None,
    )


def _default(value: str, kind: str) -> Any:
    return text(value) if kind in _TYPES else value


def _key(table: str, line: str) -> Any:
    kind, name, *words = line.split()
    if kind == "pk":
        return PrimaryKeyConstraint(*words, name=name)
    if kind == "unique":
        return UniqueConstraint(*words, name=name)
    if kind in ("index", "uindex"):
        return Index(name, *words, unique=kind == "uindex")
    columns, other, targets, *cascade = words
    return ForeignKeyConstraint(
        columns.split(","),
        [f"{other}.{target}" for target in targets.split(",")],
        name=name,
        deferrable=True if kind == "fk" else None,
        ondelete="CASCADE" if cascade else None,
    )


_Rows = dict[str, list[dict[str, Any]]]
"""Rows by table."""

METADATA = _metadata()
T: Any = SimpleNamespace(**METADATA.tables)
"""The tables by name: `T.DBS`. Any: their columns exist only at run time."""


def prepare(connection: Connection, *, warehouse: str, external: str, foreign: bool) -> bool:
    """Inside a transaction: create the tables if there are none, else check them; True if they were created.

    `warehouse` and `external` are the URIs of the default catalog and database. `foreign`: accept a database that was
    made elsewhere. Raises StoreError for a database of another version, or made elsewhere without `foreign`.
    """
    if not inspect(connection).has_table("VERSION"):
        METADATA.create_all(connection)
        _seed(connection, warehouse, external)
        _keep_marks(connection)
        return True
    found = connection.execute(select(T.VERSION.c.SCHEMA_VERSION)).scalars().all()
    if found != [VERSION]:
        raise StoreError(f"the metastore's database is of version {', '.join(found) or 'none'}, not {VERSION}")
    properties = T.METASTORE_DB_PROPERTIES
    ours = select(properties.c.PROPERTY_VALUE).where(properties.c.PROPERTY_KEY == MADE_HERE)
    if connection.execute(ours).first() is None and not foreign:
        raise StoreError(
            "the database was made by Hive, and its metastore may write to it: set metastore.foreign_database to use it"
        )
    _keep_marks(connection)
    _keep_writes(connection)
    return False


def _keep_writes(connection: Connection) -> None:
    """An earlier version did not store what open and aborted transactions write: store the tables of their write ids.

    Without these rows, housekeeping would forget that a transaction was aborted, and its files would be read.
    """
    ids, known = T.TXN_TO_WRITE_ID.c, T.TXN_COMPONENTS.c
    stored = select(known.TC_TXNID).where(known.TC_TXNID == ids.T2W_TXNID, known.TC_DATABASE == ids.T2W_DATABASE)
    not_committed = select(T.TXNS.c.TXN_ID).where(T.TXNS.c.TXN_STATE.in_(("o", "a")))
    missing = select(ids.T2W_TXNID, ids.T2W_DATABASE, ids.T2W_TABLE, ids.T2W_WRITEID, literal("i")).where(
        ids.T2W_TXNID.in_(not_committed), ~stored.where(known.TC_TABLE == ids.T2W_TABLE).exists()
    )
    names = [known.TC_TXNID, known.TC_DATABASE, known.TC_TABLE, known.TC_WRITEID, known.TC_OPERATION_TYPE]
    connection.execute(insert(T.TXN_COMPONENTS).from_select(names, missing))


def _keep_marks(connection: Connection) -> None:
    if connection.dialect.name == "sqlite":
        marks.prepare(connection)


def _seed(connection: Connection, warehouse: str, external: str) -> None:
    """Insert the rows of Hive's script, and those that a metastore adds at its first start (default objects, roles)."""
    now = int(time.time())
    for rows in (_counters(), _default_objects(warehouse, external, now), _roles(now)):
        for name, values in rows.items():
            connection.execute(METADATA.tables[name].insert(), values)


def _counters() -> _Rows:
    """The initial counters, and the rows about the whole database."""
    return {
        "VERSION": [{"VER_ID": 1, "SCHEMA_VERSION": VERSION, "VERSION_COMMENT": f"Hive release version {VERSION}"}],
        "NOTIFICATION_SEQUENCE": [{"NNI_ID": 1, "NEXT_EVENT_ID": 1}],
        "SEQUENCE_TABLE": [
            {"SEQUENCE_NAME": MODEL + name, "NEXT_VAL": value}
            for name, value in (
                ("MNotificationLog", 1),
                ("MTxnWriteNotificationLog", 1),
                ("MDatabase", 11),
                ("MRole", 11),
                ("MGlobalPrivilege", 11),
                ("MCatalog", 11),
            )
        ],
        "NEXT_LOCK_ID": [{"NL_NEXT": 1}],
        "NEXT_COMPACTION_QUEUE_ID": [{"NCQ_NEXT": 1}],
        "TXN_LOCK_TBL": [{"TXN_LOCK": 1}],
        "TXNS": [
            {"TXN_ID": 0, "TXN_STATE": "c", "TXN_STARTED": 0, "TXN_LAST_HEARTBEAT": 0, "TXN_USER": "", "TXN_HOST": ""}
        ],
        "METASTORE_DB_PROPERTIES": [
            {"PROPERTY_KEY": UUID_KEY, "PROPERTY_VALUE": str(uuid.uuid4()), "DESCRIPTION": "Metastore DB GUID"},
            {"PROPERTY_KEY": MADE_HERE, "PROPERTY_VALUE": VERSION, "DESCRIPTION": "Made by hms-cache-proxy"},
        ],
    }


def _default_objects(warehouse: str, external: str, now: int) -> _Rows:
    return {
        "CTLGS": [
            {
                "CTLG_ID": 1,
                "NAME": "hive",
                "DESC": "Default catalog for Hive",
                "LOCATION_URI": warehouse,
                "CREATE_TIME": now,
            }
        ],
        "DBS": [
            {
                "DB_ID": 1,
                "DESC": "Default Hive database",
                "DB_LOCATION_URI": external,
                "NAME": "default",
                "OWNER_NAME": "public",
                "OWNER_TYPE": "ROLE",
                "CTLG_NAME": "hive",
                "CREATE_TIME": now,
                "TYPE": "NATIVE",
            }
        ],
    }


def _roles(now: int) -> _Rows:
    return {
        "ROLES": [
            {"ROLE_ID": 1, "CREATE_TIME": now, "OWNER_NAME": "admin", "ROLE_NAME": "admin"},
            {"ROLE_ID": 2, "CREATE_TIME": now, "OWNER_NAME": "public", "ROLE_NAME": "public"},
        ],
        "GLOBAL_PRIVS": [
            {
                "USER_GRANT_ID": 1,
                "CREATE_TIME": now,
                "GRANT_OPTION": 1,
                "GRANTOR": "admin",
                "GRANTOR_TYPE": "ROLE",
                "PRINCIPAL_NAME": "admin",
                "PRINCIPAL_TYPE": "ROLE",
                "USER_PRIV": "All",
                "AUTHORIZER": "SQL",
            }
        ],
    }
