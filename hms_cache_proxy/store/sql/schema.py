"""The metastore's relational schema: the tables and columns that are read, and from which version of Hive on.

Job: make the SQLAlchemy Core tables for one line of Hive, and find the line for a VERSION row. Must not know:
connections, dialects, wire bytes. A metastore's database is never created or altered, so there are no keys, lengths or
defaults here, only what a SELECT needs.

Invariants: every column has the first line of Hive in which it exists, unless all have it; `Schema.of(line)` has only
columns that exist in that line. Source: the published schema scripts of 2.3, 3.1 and 4.0, and what 4.2's server reads.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import get_args

from sqlalchemy import BigInteger, Boolean, Column, Double, Integer, MetaData, Table, Text

from hms_cache_proxy.errors import StoreError
from hms_cache_proxy.store.protocol import HiveLine

LINES: tuple[HiveLine, ...] = get_args(HiveLine)
READABLE_LINES: tuple[HiveLine, ...] = ("2.3", "3.1", "4.0", "4.1", "4.2")
"""Lines whose objects were compared with the answers of their metastore."""

_TYPES = {"n": BigInteger, "i": Integer, "b": Boolean, "t": Text, "d": Double}
_STATISTICS = (
    " ENGINE:t>=4.0 COLUMN_NAME:t>=4.0 COLUMN_TYPE:t>=4.0 LAST_ANALYZED:n>=4.0 LONG_LOW_VALUE:n>=4.0"
    " LONG_HIGH_VALUE:n>=4.0 DOUBLE_LOW_VALUE:d>=4.0 DOUBLE_HIGH_VALUE:d>=4.0 BIG_DECIMAL_LOW_VALUE:t>=4.0"
    " BIG_DECIMAL_HIGH_VALUE:t>=4.0 NUM_NULLS:n>=4.0 NUM_DISTINCTS:n>=4.0 AVG_COL_LEN:d>=4.0 MAX_COL_LEN:n>=4.0"
    " NUM_TRUES:n>=4.0 NUM_FALSES:n>=4.0"
)
"""Hive 3.1 has these tables, too, but logs no changes of statistics."""

# table: columns as NAME:type[>=first line][<first line without it]
_TABLES = {
    "VERSION": "VER_ID:n SCHEMA_VERSION:t",
    "METASTORE_DB_PROPERTIES": "PROPERTY_KEY:t>=3.1 PROPERTY_VALUE:t>=3.1",
    "NOTIFICATION_SEQUENCE": "NNI_ID:n NEXT_EVENT_ID:n",
    "NOTIFICATION_LOG": "NL_ID:n EVENT_ID:n EVENT_TIME:i EVENT_TYPE:t CAT_NAME:t>=3.1 DB_NAME:t TBL_NAME:t MESSAGE:t"
    " MESSAGE_FORMAT:t",
    "TXNS": "TXN_ID:n>=3.1 TXN_STATE:t>=3.1 TXN_TYPE:i>=3.1",
    "NEXT_TXN_ID": "NTXN_NEXT:n>=3.1<4.0",
    "NEXT_WRITE_ID": "NWI_DATABASE:t>=3.1 NWI_TABLE:t>=3.1 NWI_NEXT:n>=3.1",
    "TXN_TO_WRITE_ID": "T2W_TXNID:n>=3.1 T2W_DATABASE:t>=3.1 T2W_TABLE:t>=3.1 T2W_WRITEID:n>=3.1",
    "DBS": "DB_ID:n NAME:t CTLG_NAME:t>=3.1 DESC:t DB_LOCATION_URI:t DB_MANAGED_LOCATION_URI:t>=4.0 OWNER_NAME:t"
    " OWNER_TYPE:t CREATE_TIME:n>=4.0 TYPE:t>=4.0 DATACONNECTOR_NAME:t>=4.0 REMOTE_DBNAME:t>=4.0",
    "DATABASE_PARAMS": "DB_ID:n PARAM_KEY:t PARAM_VALUE:t",
    "TBLS": "TBL_ID:n DB_ID:n TBL_NAME:t TBL_TYPE:t OWNER:t OWNER_TYPE:t>=3.1 CREATE_TIME:n LAST_ACCESS_TIME:n"
    " RETENTION:n SD_ID:n VIEW_EXPANDED_TEXT:t VIEW_ORIGINAL_TEXT:t IS_REWRITE_ENABLED:b WRITE_ID:n>=4.0",
    "TABLE_PARAMS": "TBL_ID:n PARAM_KEY:t PARAM_VALUE:t",
    "KEY_CONSTRAINTS": "CONSTRAINT_NAME:t CONSTRAINT_TYPE:i PARENT_TBL_ID:n PARENT_CD_ID:n PARENT_INTEGER_IDX:n"
    " CHILD_TBL_ID:n CHILD_CD_ID:n CHILD_INTEGER_IDX:n POSITION:n UPDATE_RULE:i DELETE_RULE:i ENABLE_VALIDATE_RELY:i"
    " DEFAULT_VALUE:t>=3.1",
    "TAB_COL_STATS": "CAT_NAME:t>=4.0<4.1 DB_NAME:t>=4.0<4.1 TABLE_NAME:t>=4.0<4.1 TBL_ID:n>=4.0" + _STATISTICS,
    "PART_COL_STATS": "CAT_NAME:t>=4.0<4.1 DB_NAME:t>=4.0<4.1 TABLE_NAME:t>=4.0<4.1 PARTITION_NAME:t>=4.0<4.1"
    " PART_ID:n>=4.0" + _STATISTICS,
    "PARTITION_KEYS": "TBL_ID:n PKEY_NAME:t PKEY_TYPE:t PKEY_COMMENT:t INTEGER_IDX:n",
    "PARTITIONS": "PART_ID:n TBL_ID:n PART_NAME:t SD_ID:n CREATE_TIME:n LAST_ACCESS_TIME:n WRITE_ID:n>=4.0",
    "PARTITION_PARAMS": "PART_ID:n PARAM_KEY:t PARAM_VALUE:t",
    "PARTITION_KEY_VALS": "PART_ID:n PART_KEY_VAL:t INTEGER_IDX:n",
    "SDS": "SD_ID:n CD_ID:n SERDE_ID:n INPUT_FORMAT:t OUTPUT_FORMAT:t LOCATION:t NUM_BUCKETS:n IS_COMPRESSED:b"
    " IS_STOREDASSUBDIRECTORIES:b",
    "SERDES": "SERDE_ID:n NAME:t SLIB:t DESCRIPTION:t>=3.1 SERIALIZER_CLASS:t>=3.1 DESERIALIZER_CLASS:t>=3.1"
    " SERDE_TYPE:i>=3.1",
    "SERDE_PARAMS": "SERDE_ID:n PARAM_KEY:t PARAM_VALUE:t",
    "SD_PARAMS": "SD_ID:n PARAM_KEY:t PARAM_VALUE:t",
    "COLUMNS_V2": "CD_ID:n COLUMN_NAME:t TYPE_NAME:t COMMENT:t INTEGER_IDX:i",
    "BUCKETING_COLS": "SD_ID:n BUCKET_COL_NAME:t INTEGER_IDX:n",
    "SORT_COLS": "SD_ID:n COLUMN_NAME:t ORDER:n INTEGER_IDX:n",
    "SKEWED_COL_NAMES": "SD_ID:n SKEWED_COL_NAME:t INTEGER_IDX:n",
    "SKEWED_VALUES": "SD_ID_OID:n STRING_LIST_ID_EID:n INTEGER_IDX:n",
    "SKEWED_COL_VALUE_LOC_MAP": "SD_ID:n STRING_LIST_ID_KID:n LOCATION:t",
    "SKEWED_STRING_LIST_VALUES": "STRING_LIST_ID:n STRING_LIST_VALUE:t INTEGER_IDX:n",
    "MV_CREATION_METADATA": "MV_CREATION_METADATA_ID:n>=3.1 CAT_NAME:t>=3.1 DB_NAME:t>=3.1 TBL_NAME:t>=3.1"
    " TXN_LIST:t>=3.1 MATERIALIZATION_TIME:n>=3.1",
    "FUNCS": "FUNC_ID:n DB_ID:n FUNC_NAME:t CLASS_NAME:t OWNER_NAME:t OWNER_TYPE:t FUNC_TYPE:i CREATE_TIME:i",
    "FUNC_RU": "FUNC_ID:n RESOURCE_TYPE:i RESOURCE_URI:t INTEGER_IDX:i",
    "CTLGS": "CTLG_ID:n>=3.1 NAME:t>=3.1 DESC:t>=3.1 LOCATION_URI:t>=3.1 CREATE_TIME:n>=4.0",
    "MV_TABLES_USED": "MV_CREATION_METADATA_ID:n>=3.1 TBL_ID:n>=3.1 INSERTED_COUNT:n>=4.0 UPDATED_COUNT:n>=4.0"
    " DELETED_COUNT:n>=4.0",
}

_UNQUOTED = frozenset(("TXNS", "NEXT_TXN_ID", "NEXT_WRITE_ID", "TXN_TO_WRITE_ID"))
"""Tables whose names the scripts before 4.0 do not quote. In a database that folds such names, they are in lower
case."""


@dataclass(frozen=True, slots=True)
class Schema:
    """The tables of one line of Hive. `schema["TBLS"].c["TBL_ID"]` is a column, whether its name in the database is in
    upper or lower case."""

    line: HiveLine
    tables: dict[str, Table]

    def __getitem__(self, name: str) -> Table:
        return self.tables[name]

    @property
    def names(self) -> tuple[str, ...]:
        """The names in the database of the tables that are read: the account needs SELECT on these."""
        return tuple(table.name for table in self.tables.values())

    @classmethod
    def of(cls, line: HiveLine, *, folds: bool = True) -> Schema:
        """The schema of a line. `folds`: the database stores names that are not quoted in lower case."""
        metadata = MetaData()
        tables = {}
        for name, text in _TABLES.items():
            lower = folds and name in _UNQUOTED and LINES.index(line) < _index("4.0")
            columns = _columns(text, line, lower=lower)
            if columns:
                tables[name] = Table(name.lower() if lower else name, metadata, *columns)
        return cls(line, tables)


def _columns(text: str, line: HiveLine, *, lower: bool) -> list[Column[object]]:
    columns = []
    for word in text.split():
        declared, _, until = word.partition("<")
        declared, _, since = declared.partition(">=")
        name, _, kind = declared.partition(":")
        at = LINES.index(line)
        if (not since or at >= _index(since)) and (not until or at < _index(until)):
            columns.append(Column(name.lower() if lower else name, _TYPES[kind](), key=name))
    return columns


def _index(line: str) -> int:
    return [*map(str, LINES)].index(line)


READ_TABLES = Schema.of(LINES[-1]).names
"""Every table that is read for the newest Hive."""


def hive_line(version: str) -> HiveLine:
    """The line for a VERSION row, by its first two numbers; so a vendor's 3.1.3000 is 3.1.

    Raises StoreError for a version that is not supported.
    """
    prefix = ".".join(version.strip().split("-")[0].split(".")[:2])
    for line in READABLE_LINES:
        if line == prefix:
            return line
    readable = ", ".join(READABLE_LINES)
    raise StoreError(
        f"the metastore's schema version is {version!r}; versions that can be read from the database are {readable}."
        " Leave store_url empty to relay without a cache, or point it at the database of such a metastore"
    )
