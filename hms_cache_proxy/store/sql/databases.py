"""Reads databases from the database.

Job: make DatabaseRecords. What the metastore does with its rows (tested with Hive 3.1.3, 4.0.0 and 4.2.0): in Hive 4
the type is always set, and is NATIVE unless the column has REMOTE; connector fields are set only for REMOTE; the owner
type is unset for NULL or empty; NULL columns are unset.

Owner: a snapshot.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import and_, null, select

from hms_cache_proxy.store import encode
from hms_cache_proxy.store.protocol import DatabaseKey, DatabaseRecord
from hms_cache_proxy.store.sql.descriptors import MAP_TYPES
from hms_cache_proxy.store.sql.dialect import Dialect, Row
from hms_cache_proxy.store.sql.schema import Schema
from hms_cache_proxy.store.sql.tables import OWNER_TYPES, catalog_column

_NATIVE, _REMOTE = 1, 2
_NO_PARAMETERS = encode.EMPTY_MAP[2:]
_LATER = "CREATE_TIME DB_MANAGED_LOCATION_URI TYPE DATACONNECTOR_NAME REMOTE_DBNAME".split()


class DatabaseStatements:
    """The statements, compiled once per store."""

    def __init__(self, schema: Schema, database: Dialect) -> None:
        dbs, parameters = schema["DBS"].c, schema["DATABASE_PARAMS"].c
        catalog = catalog_column(schema)
        order = (database.bytewise(catalog), database.bytewise(dbs.NAME))
        self.names = database.compile(select(catalog, dbs.NAME).order_by(*order))
        self.typed = "TYPE" in dbs
        self.with_catalogs = "CTLG_NAME" in dbs
        later = [dbs[name] if name in dbs else null() for name in _LATER]
        base = select(
            catalog,
            dbs.NAME,
            dbs.DB_ID,
            dbs.DESC,
            dbs.DB_LOCATION_URI,
            dbs.OWNER_NAME,
            dbs.OWNER_TYPE,
            *later,
        )
        named = and_(database.among_texts(catalog, "catalogs"), database.among_texts(dbs.NAME, "names"))
        self.named = database.compile(base.where(named))
        self.parameters = database.maps_by_ids(parameters.DB_ID, parameters.PARAM_KEY, parameters.PARAM_VALUE)


class Databases:
    """Databases of one snapshot."""

    def __init__(self, database: Dialect, statements: DatabaseStatements) -> None:
        self._database = database
        self._statements = statements

    def names(self) -> list[DatabaseKey]:
        """(catalog, name), ordered."""
        return sorted((catalog, name) for catalog, name in self._database.rows(self._statements.names))

    def named(self, keys: Sequence[DatabaseKey]) -> dict[DatabaseKey, DatabaseRecord]:
        """The named databases that exist."""
        wanted = set(keys)
        catalogs = self._database.text_list(sorted({catalog for catalog, _ in wanted}))
        names = self._database.text_list(sorted({name for _, name in wanted}))
        if not catalogs or not names:
            return {}
        rows = self._database.rows(self._statements.named, catalogs=catalogs, names=names)
        rows = [row for row in rows if row[:2] in wanted]
        ids = [row[2] for row in rows]
        parameters: dict[int, bytes] = dict(self._database.rows_by_ids(self._statements.parameters, ids))
        return {row[:2]: _record(row, bytes(parameters.get(row[2], _NO_PARAMETERS)), self._statements) for row in rows}


def _record(row: Row, parameters: bytes, line: DatabaseStatements) -> DatabaseRecord:
    (
        catalog,
        name,
        _,
        description,
        location,
        owner,
        owner_type,
        created,
        managed,
        kind,
        connector,
        remote_name,
    ) = row
    remote = kind == b"REMOTE"
    body = b"".join(
        (
            encode.string_field(1, name),
            encode.string_field(2, description),
            encode.string_field(3, location),
            encode.header(encode.MAP, 4) + MAP_TYPES + parameters,
            encode.string_field(6, owner),
            encode.i32_field(7, OWNER_TYPES.get(owner_type)),
            encode.string_field(8, catalog if line.with_catalogs else None),
            encode.i32_field(9, created),
            encode.string_field(10, managed),
            encode.i32_field(11, _REMOTE if remote else _NATIVE) if line.typed else b"",
            encode.string_field(12, connector if remote else None),
            encode.string_field(13, remote_name if remote else None),
            encode.STOP,
        )
    )
    return DatabaseRecord(catalog, name, body, remote, location)
