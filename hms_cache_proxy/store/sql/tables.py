"""Reads tables from the database.

Job: make TableRecords by name, with the same number of statements for any number of tables, and the list of a
database's tables. Must not know: how descriptors are built.

What the metastore does with its rows (tested with Hive 3.1.3, 4.0.0 and 4.2.0; get_table_req and
get_table_objects_by_name_req return the same):
- owner type: USER for NULL or empty; the two view texts only if TBL_TYPE is a view or a materialized view;
- TBL_TYPE NULL: a view if there is a view text, else external if a parameter is EXTERNAL=TRUE, else managed;
- rewriteEnabled, catalog, owner type, write id and id are always set; privileges, temporary and isStatsCompliant never
  are;
- a materialized view has its creation metadata, with its sources as whole tables in their current state;
- Hive 2.3 has no catalogs, owner types and creation metadata; in addition, as in 3.1:
- Hive 3.1 has no write ids and ids of tables, and no whole sources, and returns the view texts of every table. The list
  of transactions in a materialized view's metadata is the number of a large object.

Owner: a snapshot.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from sqlalchemy import Select, Text, cast, func, literal_column, null, select

from hms_cache_proxy.store import encode
from hms_cache_proxy.store.protocol import Constraints, TableKey, TableName, TableRecord
from hms_cache_proxy.store.sql.constraints import ConstraintStatements, read_constraints
from hms_cache_proxy.store.sql.descriptors import MAP_TYPES, Descriptor, Descriptors, descriptor_columns
from hms_cache_proxy.store.sql.dialect import ByIds, Column, Dialect, Row
from hms_cache_proxy.store.sql.schema import Schema
from hms_cache_proxy.store.sql.statistics import StatisticsReader, StatisticsStatements

_VIEWS = (b"VIRTUAL_VIEW", b"MATERIALIZED_VIEW")
OWNER_TYPES = {b"USER": 1, b"ROLE": 2, b"GROUP": 3}
_HIVE: Column = cast(literal_column("'hive'"), Text)
_NO_PARAMETERS = encode.EMPTY_MAP[2:]
_TABLE_COLUMNS = 15  # of the statement's columns; the rest are the descriptor's


def catalog_column(schema: Schema) -> Column:
    """DBS.CTLG_NAME, or 'hive' if there are no catalogs."""
    columns = schema["DBS"].c
    return columns.CTLG_NAME if "CTLG_NAME" in columns else _HIVE


class TableStatements:
    """The statements, compiled once per store."""

    def __init__(self, schema: Schema, database: Dialect) -> None:
        table, parameters, keys = schema["TBLS"].c, schema["TABLE_PARAMS"].c, schema["PARTITION_KEYS"].c
        place = (
            database.is_text(catalog_column(schema), "catalog"),
            database.is_text(schema["DBS"].c.NAME, "database"),
        )
        self.with_ids = "WRITE_ID" in table
        self.with_catalogs = "CTLG_NAME" in schema["DBS"].c
        base = self._base(schema)
        self.named = database.compile(base.where(*place, database.among_texts(table.TBL_NAME, "names")))
        self.numbered = database.by_ids(lambda among: base.where(among(table.TBL_ID)))
        catalog, of_database = catalog_column(schema), schema["DBS"].c.NAME
        self.ids = database.compile(
            select(table.TBL_ID, catalog, of_database, table.TBL_NAME)
            .select_from(schema["TBLS"].join(schema["DBS"], schema["DBS"].c.DB_ID == table.DB_ID))
            .where(
                database.among_texts(catalog, "catalogs"),
                database.among_texts(of_database, "databases"),
                database.among_texts(table.TBL_NAME, "names"),
            )
        )
        self.names = database.compile(
            select(
                table.TBL_NAME,
                table.TBL_TYPE,
                table.TBL_ID,
                table.VIEW_ORIGINAL_TEXT.is_not(None),
                _external(schema),
            )
            .select_from(schema["TBLS"].join(schema["DBS"], schema["DBS"].c.DB_ID == table.DB_ID))
            .where(*place)
            .order_by(database.bytewise(table.TBL_NAME))
        )
        self.parameters = database.maps_by_ids(parameters.TBL_ID, parameters.PARAM_KEY, parameters.PARAM_VALUE)
        self.keys = database.by_ids(
            lambda among: (
                select(keys.TBL_ID, keys.PKEY_NAME, keys.PKEY_TYPE, keys.PKEY_COMMENT)
                .where(among(keys.TBL_ID))
                .order_by(keys.TBL_ID, keys.INTEGER_IDX)
            )
        )
        partitions = schema["PARTITIONS"].c
        self.partition_counts = database.compile(  # no range: a table in between can be huge
            select(partitions.TBL_ID, func.count())
            .where(database.among_ids(partitions.TBL_ID, "tables"))
            .group_by(partitions.TBL_ID)
        )
        self.constraints = ConstraintStatements(schema, database)
        self.statistics = StatisticsStatements(schema, database)
        self.creation = _creation(schema, database)

    @staticmethod
    def _base(schema: Schema) -> Select[Row]:
        table, dbs = schema["TBLS"], schema["DBS"]
        storage, serdes = schema["SDS"], schema["SERDES"]
        columns = table.c
        joined = table.join(dbs, dbs.c.DB_ID == columns.DB_ID).outerjoin(storage, storage.c.SD_ID == columns.SD_ID)
        return select(
            catalog_column(schema),
            dbs.c.NAME,
            columns.TBL_NAME,
            columns.TBL_ID,
            columns.TBL_TYPE,
            columns.OWNER,
            columns.OWNER_TYPE if "OWNER_TYPE" in columns else null(),
            columns.CREATE_TIME,
            columns.LAST_ACCESS_TIME,
            columns.RETENTION,
            columns.VIEW_ORIGINAL_TEXT,
            columns.VIEW_EXPANDED_TEXT,
            columns.IS_REWRITE_ENABLED,
            columns.WRITE_ID if "WRITE_ID" in columns else null(),
            columns.SD_ID,
            *descriptor_columns(schema),
        ).select_from(joined.outerjoin(serdes, serdes.c.SERDE_ID == storage.c.SERDE_ID))


class Tables:
    """Tables of one snapshot."""

    def __init__(self, database: Dialect, statements: TableStatements, descriptors: Descriptors) -> None:
        self._database = database
        self._statements = statements
        self._descriptors = descriptors
        self._statistics = StatisticsReader(database, statements.statistics)

    def names(self, catalog: bytes, database: bytes) -> list[tuple[bytes, bytes, int]]:
        """(name, type, id), ordered by name."""
        place = self._database.texts(catalog=catalog, database=database)
        if place is None:
            return []
        rows = self._database.rows(self._statements.names, **place)
        return sorted((name, _type(kind, viewed, external), id_) for name, kind, id_, viewed, external in rows)

    def counts(self, table_ids: Sequence[int]) -> dict[int, int]:
        """The number of partitions, by table id."""
        if not table_ids:
            return {}
        ids = self._database.id_list(table_ids)
        counts: dict[int, int] = dict(self._database.rows(self._statements.partition_counts, tables=ids))
        return {table_id: counts.get(table_id, 0) for table_id in table_ids}

    def named(self, keys: Sequence[TableKey]) -> dict[TableKey, TableRecord]:
        """The named tables that exist."""
        databases = {key[:2] for key in keys}
        if len(databases) == 1:
            rows = self._of_database(*databases.pop(), [name for _, _, name in keys])
        else:
            rows = self._of_databases(keys)
        records = self._records(rows)
        tables = [TableName(record.catalog, record.database, record.name, record.table_id) for record in records]
        constraints, statistics = self.constraints(tables), self._statistics.of_tables(tables)
        return {
            (record.catalog, record.database, record.name): replace(
                record, constraints=constraints[record.table_id], statistics=statistics[record.table_id]
            )
            for record in records
        }

    def _of_database(self, catalog: bytes, database: bytes, names: Sequence[bytes]) -> Sequence[Row]:
        place, wanted = (
            self._database.texts(catalog=catalog, database=database),
            self._database.text_list(names),
        )
        if place is None or not wanted:
            return []
        return self._database.rows(self._statements.named, **place, names=wanted)

    def _of_databases(self, keys: Sequence[TableKey]) -> Sequence[Row]:
        """Finds the ids first: of each of these names in each of these databases, few of which may be wanted."""
        wanted = frozenset(keys)
        found = self._database.rows(self._statements.ids, **self._among(wanted)) if wanted else ()
        ids = {id_ for id_, *key in found if tuple(key) in wanted}
        return [row for row in self._database.rows_by_ids(self._statements.numbered, ids) if row[3] in ids]

    def _among(self, keys: Collection[TableKey]) -> dict[str, object]:
        """Parameters for statements that find each of these names in each of these databases."""
        parts = zip(("catalogs", "databases", "names"), zip(*keys, strict=True), strict=True)
        return {parameter: self._database.text_list(sorted(set(part))) for parameter, part in parts}

    def constraints(self, tables: Sequence[TableName]) -> dict[int, Constraints]:
        """Constraints by table id."""
        return read_constraints(self._database, self._statements.constraints, tables)

    def _records(self, rows: Sequence[Row]) -> list[TableRecord]:
        if not rows:
            return []
        ids = [row[3] for row in rows]
        items = {id_: bytes(found) for id_, found in self._database.rows_by_ids(self._statements.parameters, ids)}
        keys: dict[int, list[tuple[bytes, bytes, bytes | None]]] = defaultdict(list)
        for table_id, *key in self._database.rows_by_ids(self._statements.keys, ids):
            keys[table_id].append(tuple(key))
        tables = [_Table(row, items.get(row[3], _NO_PARAMETERS), keys[row[3]]) for row in rows]
        descriptors = self._descriptors.load(
            [table.row[_TABLE_COLUMNS:] for table in tables], [table.full_acid for table in tables]
        )
        views = {table.row[3]: table.key for table in tables if table.kind == b"MATERIALIZED_VIEW"}
        creations = self._creations(views) if views else {}
        return [
            self._record(table, found, creations.get(table.row[3], b""))
            for table, found in zip(tables, descriptors, strict=True)
        ]

    def _record(self, table: _Table, descriptor: Descriptor | None, creation: bytes) -> TableRecord:
        location = None if descriptor is None else table.row[_TABLE_COLUMNS + 1]
        return TableRecord(
            *table.key,
            table.row[3],
            table.kind,
            _body(table, _sd(descriptor, location), creation, self._statements),
            table.transactional,
            table.kind == b"MATERIALIZED_VIEW",
            tuple((key, type_) for key, type_, _ in table.keys),
            location,
            table.full_acid,
            summary=_summary(table) if self._statements.with_ids else None,
        )

    def _creations(self, views: Mapping[int, TableKey]) -> dict[int, bytes]:
        """Field 16, the creation metadata of materialized views, by the view's id."""
        if self._statements.creation is None:
            return {}
        of_views, sources_of = self._statements.creation
        rows = self._database.rows(of_views, **self._among(views.values()))
        found = {tuple(row[:3]): row[3:] for row in rows}
        used: defaultdict[int, dict[int, Row]] = defaultdict(dict)
        for creation_id, table_id, *counts in self._database.rows_by_ids(sources_of, [row[3] for row in rows]):
            used[creation_id][table_id] = tuple(counts)
        sources = self._sources({table_id for creation_id, *_ in found.values() for table_id in used[creation_id]})
        creations = {}
        for view_id, key in views.items():
            if key in found:
                creation_id, transactions, time_ms = found[key]
                creations[view_id] = self._creation(key, transactions, time_ms, used[creation_id], sources)
        return creations

    def _sources(self, table_ids: Collection[int]) -> dict[int, TableRecord]:
        found = self._database.rows_by_ids(self._statements.numbered, table_ids)
        records = self._records([row for row in found if row[3] in table_ids])
        return {record.table_id: record for record in records}

    def _creation(
        self,
        key: TableKey,
        transactions: bytes | None,
        time_ms: int,
        counts: Mapping[int, Row],
        tables: Mapping[int, TableRecord],
    ) -> bytes:
        sources = [tables[table_id] for table_id in sorted(counts) if table_id in tables]
        sources.sort(key=lambda source: source.full_acid)
        body = b"".join(encode.string_field(number, name) for number, name in enumerate(key, 1))
        used = encode.strings([source.database + b"." + source.name for source in sources])
        body += encode.header(encode.SET, 4) + used + encode.string_field(5, transactions)
        body += encode.i64_field(6, time_ms)
        if self._statements.with_ids:
            items = [_source(source.body, *counts[source.table_id]) for source in sources]
            body += encode.header(encode.LIST, 7) + encode.structs(items)
        return encode.header(encode.STRUCT, 16) + body + encode.STOP


class _Table:
    """A row with its parameters (map items) and partition keys (name, type, comment), and what follows from them."""

    __slots__ = ("comment", "full_acid", "key", "keys", "kind", "parameters", "row", "transactional")

    def __init__(self, row: Row, parameters: bytes, keys: list[tuple[bytes, bytes, bytes | None]]) -> None:
        values = encode.read_map(MAP_TYPES + parameters)
        self.row = row
        self.key: TableKey = row[:3]
        self.parameters = parameters
        self.keys = keys
        self.comment = values.get(b"comment")
        self.kind = _type(row[4], row[10] is not None, values.get(b"EXTERNAL", b"").upper() == b"TRUE")
        self.transactional = values.get(b"transactional", b"").lower() == b"true"
        insert_only = values.get(b"transactional_properties", b"").lower() == b"insert_only"
        self.full_acid = self.transactional and not insert_only


def _summary(table: _Table) -> bytes | None:
    """What `TableMeta` says in Hive 4 beside name and type: an owner without a type has none there, unlike in `Table`.
    None where no type is stored: the metastore then fails."""
    stored_type, owner, owner_type = table.row[4:7]
    if stored_type is None:
        return None
    kind = OWNER_TYPES.get(owner_type)
    parts = (encode.string_field(4, table.comment), encode.string_field(6, owner), encode.i32_field(7, kind))
    return b"".join((*parts, encode.STOP))


def _body(table: _Table, sd: bytes, creation: bytes, line: TableStatements) -> bytes:
    catalog, database, name, table_id, stored_type, owner, owner_type, created, accessed, retention = table.row[:10]
    original, expanded, rewrite, write_id = table.row[10:14]
    with_texts = stored_type in _VIEWS or not line.with_ids
    catalogs, ids = b"", b""
    if line.with_catalogs:
        owner_kind = OWNER_TYPES.get(owner_type, OWNER_TYPES[b"USER"])
        catalogs = encode.string_field(17, catalog) + encode.i32_field(18, owner_kind)
    if line.with_ids:
        ids = encode.i64_field(19, write_id or 0) + encode.i64_field(25, table_id)
    key_items = [
        encode.string_field(1, key) + encode.string_field(2, type_) + encode.string_field(3, comment) + encode.STOP
        for key, type_, comment in table.keys
    ]
    return b"".join(
        (
            encode.string_field(1, name),
            encode.string_field(2, database),
            encode.string_field(3, owner),
            encode.i32_field(4, created),
            encode.i32_field(5, accessed),
            encode.i32_field(6, retention),
            sd,
            encode.header(encode.LIST, 8) + encode.structs(key_items),
            encode.header(encode.MAP, 9) + MAP_TYPES + table.parameters,
            encode.string_field(10, original if with_texts else None),
            encode.string_field(11, expanded if with_texts else None),
            encode.string_field(12, table.kind),
            encode.bool_field(15, rewrite),
            creation,
            catalogs,
            ids,
            encode.STOP,
        )
    )


def _sd(descriptor: Descriptor | None, location: bytes | None) -> bytes:
    if descriptor is None:
        return b""
    tail = descriptor.tail_list if descriptor.tail_single is None else descriptor.tail_single
    return encode.header(encode.STRUCT, 7) + descriptor.columns + encode.string_field(2, location) + tail


def _source(table: bytes, inserted: int, updated: int, deleted: int) -> bytes:
    counts = encode.i64_field(2, inserted) + encode.i64_field(3, updated) + encode.i64_field(4, deleted)
    return encode.header(encode.STRUCT, 1) + table + counts + encode.STOP


def _type(stored: bytes | None, has_view_text: bool, external: bool) -> bytes:
    if stored is not None:
        return stored
    if has_view_text:
        return b"VIRTUAL_VIEW"
    return b"EXTERNAL_TABLE" if external else b"MANAGED_TABLE"


def _external(schema: Schema) -> Column:
    """Is EXTERNAL=TRUE among the table's parameters? Looked up only if TBL_TYPE is NULL."""
    table, parameters = schema["TBLS"].c, schema["TABLE_PARAMS"].c
    mine = (parameters.TBL_ID == table.TBL_ID, parameters.PARAM_KEY == literal_column("'EXTERNAL'"))
    return table.TBL_TYPE.is_(None) & (
        select(literal_column("1")).where(*mine, parameters.PARAM_VALUE.ilike(literal_column("'true'"))).exists()
    )


def _creation(schema: Schema, database: Dialect) -> tuple[str, ByIds] | None:
    """Statements for the creation metadata of materialized views, and their sources; None for Hive 2.3, which does not
    store them."""
    if "MV_CREATION_METADATA" not in schema.tables:
        return None
    creation, used = schema["MV_CREATION_METADATA"].c, schema["MV_TABLES_USED"].c
    key = (creation.CAT_NAME, creation.DB_NAME, creation.TBL_NAME)
    zero: Column = literal_column("0")
    counts = [used[name] if name in used else zero for name in ("INSERTED_COUNT", "UPDATED_COUNT", "DELETED_COUNT")]
    of_views = select(*key, creation.MV_CREATION_METADATA_ID, creation.TXN_LIST, creation.MATERIALIZATION_TIME).where(
        *(database.among_texts(of, name) for of, name in zip(key, ("catalogs", "databases", "names"), strict=True))
    )
    view = used.MV_CREATION_METADATA_ID
    return database.compile(of_views), database.by_ids(
        lambda among: select(view, used.TBL_ID, *counts).where(among(view))
    )
