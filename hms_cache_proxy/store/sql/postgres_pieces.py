"""Pieces of PostgreSQL statements: conditions on lists, wire bytes made by the server.

Job: what SQLAlchemy has no word for. Must not know: connections, the metastore's tables. Binary values are those of
the Thrift binary protocol: a string is its length in 4 bytes and its UTF-8 bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from sqlalchemy import (
    ARRAY,
    BigInteger,
    ClauseElement,
    ColumnElement,
    Integer,
    Table,
    TableValuedAlias,
    Text,
    any_,
    bindparam,
    case,
    cast,
    collate,
    func,
    literal_column,
    select,
)
from sqlalchemy.dialects import postgresql
from sqlalchemy.dialects.postgresql import aggregate_order_by

from hms_cache_proxy.store.sql.common import ByIds, Column, CommonPieces

_EMPTY: Column = literal_column("''::bytea")
_DIALECT = postgresql.dialect(paramstyle="pyformat")  # type: ignore[no-untyped-call]


class PostgresPieces(CommonPieces):
    """Makes statements and parts of them. `is_binary`: the database itself orders text by bytes. `folds_names`: it puts
    names of tables that a script did not quote into lower case."""

    is_binary = False
    folds_names = True
    exact_text = True

    def compile(self, statement: ClauseElement) -> str:
        """The text of a Core statement for rows() and stream()."""
        return str(statement.compile(dialect=_DIALECT))

    def among_ids(self, column: Column, name: str) -> ColumnElement[bool]:
        """As an array."""
        return column == any_(cast(bindparam(name), ARRAY(BigInteger)))

    @staticmethod
    def id_list(ids: Iterable[int]) -> object:
        """The text of an array."""
        return "{" + ",".join(map(str, ids)) + "}"

    @staticmethod
    def among_texts(column: Column, name: str) -> ColumnElement[bool]:
        """column is one of the texts of parameter `name`."""
        return column == any_(cast(bindparam(name), ARRAY(Text)))

    @staticmethod
    def is_text(column: Column, name: str) -> ColumnElement[bool]:
        """column is the text of parameter `name`."""
        return column == bindparam(name)

    @staticmethod
    def pairs(first: Column, second: Column) -> TableValuedAlias:
        """A table of two columns, `first` and `second`: the parameters pairs_parameters(), texts like those columns."""
        lists = (cast(bindparam("firsts"), ARRAY(Text)), cast(bindparam("seconds"), ARRAY(Text)))
        return func.unnest(*lists).table_valued("first", "second").render_derived()

    def bytewise(self, column: Column) -> Column:
        """The column, compared and ordered by bytes.

        Where the database does so anyway, nothing may be said of it: an index would not be used.
        """
        return column if self.is_binary else collate(column, "C")

    @staticmethod
    def digest(column: Column) -> Column:
        """A hash of a long text, made by the server."""
        return func.md5(column)

    @staticmethod
    def mark(table: Table, most: int) -> Column:
        """A text that is another one once any row of the table was inserted, changed (also to what it was) or deleted;
        NULL where the table has more than `most` rows.

        Where a row lies and which transaction wrote it is never the same twice. VACUUM FULL moves rows, too.
        """
        place: Column = literal_column("ctid")
        writer: Column = literal_column("xmin")
        rows = select(place, writer).select_from(table).limit(literal_column(str(most + 1))).subquery()
        row: Column = literal_column("tidsend(ctid) || xidsend(xmin)")
        digest = func.md5(func.coalesce(func.string_agg(row, _EMPTY), _EMPTY))
        marked = case((func.count() > literal_column(str(most)), None), else_=digest)
        return select(marked).select_from(rows).scalar_subquery()

    @staticmethod
    def string(column: Column) -> Column:
        """Wire bytes of a string: length and bytes; NULL for NULL."""
        data = func.textsend(column)
        return func.int4send(func.octet_length(data)).op("||")(data)

    @classmethod
    def struct(cls, fields: dict[int, Column]) -> Column:
        """Wire bytes of a struct of strings; a NULL is an unset field."""
        value: Column = literal_column("'\\x'::bytea")
        for number, column in fields.items():
            head: Column = literal_column(f"'\\x0b{number:04x}'::bytea")
            value = value.op("||")(case((column.is_(None), _EMPTY), else_=head.op("||")(cls.string(column))))
        return value.op("||")(literal_column("'\\x00'::bytea"))

    @classmethod
    def counted(cls, item: Column, present: Column, order: Column | None = None) -> Column:
        """Aggregate: the number of rows where `present` is not NULL, then the bytes of the items that are not."""
        end = _EMPTY if order is None else aggregate_order_by(_EMPTY, order)
        joined = func.coalesce(func.string_agg(item, end), _EMPTY)
        return func.int4send(cast(func.count(present), Integer)).op("||")(joined)

    def maps_by_ids(self, owner: Column, key: Column, value: Column) -> ByIds:
        """(owner, items of its map<string,string> without the two type bytes), for rows_by_ids().

        Pairs with NULL are left out. The items are in order of their keys, so that equal maps are equal bytes: sorted
        before they are grouped, which costs half of sorting each group.
        """

        def build(among: Callable[[Column], ColumnElement[bool]]) -> ClauseElement:
            rows = select(owner.label("owner"), key.label("key"), value.label("value")).where(among(owner))
            found = rows.order_by(owner, key).subquery().c
            item = self.string(found.key).op("||")(self.string(found.value))
            return select(found.owner, self.counted(item, found.value)).group_by(found.owner)

        return self.by_ids(build)
