"""Parts of statements for PostgreSQL: conditions on lists, wire bytes made by the server.

Job: provide what SQLAlchemy does not have. Must not know: connections, the metastore's tables.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from sqlalchemy import (
    ARRAY,
    BigInteger,
    ClauseElement,
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

from hms_cache_proxy.store.sql.common import CommonPieces
from hms_cache_proxy.store.sql.dialect import ByIds, Column, Condition, DatabaseServer

_EMPTY: Column = literal_column("''::bytea")
UTF_8 = "utf_8"


class PostgresPieces(CommonPieces):
    """Makes statements and parts of them. `codec`: Python's name of the database's encoding."""

    codec = UTF_8
    compiler = postgresql.dialect(paramstyle="pyformat")  # type: ignore[no-untyped-call]
    folds_names = True

    def among_ids(self, of: Column, name: str) -> Condition:
        """As an array."""
        return of == any_(cast(bindparam(name), ARRAY(BigInteger)))

    def id_list(self, ids: Iterable[int]) -> object:
        """The text of an array."""
        return "{" + ",".join(map(str, ids)) + "}"

    def among_texts(self, of: Column, name: str) -> Condition:
        return of == any_(cast(bindparam(name), ARRAY(Text)))

    def text_list(self, values: Sequence[bytes]) -> list[str]:
        """Without texts with characters that the database's encoding lacks: it would refuse the statement."""
        found = super().text_list(values)
        return found if self.codec == UTF_8 else [text for text in found if self._holds(text)]

    def _holds(self, text: str) -> bool:
        try:
            text.encode(self.codec)
        except UnicodeEncodeError:
            return False
        return True

    def pairs(self, first: Column, second: Column) -> TableValuedAlias:
        lists = (cast(bindparam("firsts"), ARRAY(Text)), cast(bindparam("seconds"), ARRAY(Text)))
        return func.unnest(*lists).table_valued("first", "second").render_derived()

    def pairs_parameters(self, firsts: Sequence[str], seconds: Sequence[str]) -> dict[str, object]:
        """Two lists."""
        return {"firsts": list(firsts), "seconds": list(seconds)}

    def bytewise(self, of: Column) -> Column:
        return of if self.is_binary else collate(of, "C")

    def mark(self, of: Table, most: int) -> Column:
        """A hash of where each row is and which transaction wrote it; both together never repeat. (VACUUM FULL changes
        it, too.)"""
        place: Column = literal_column("ctid")
        writer: Column = literal_column("xmin")
        rows = select(place, writer).select_from(of).limit(literal_column(str(most + 1))).subquery()
        row: Column = literal_column("tidsend(ctid) || xidsend(xmin)")
        digest = func.md5(func.coalesce(func.string_agg(row, _EMPTY), _EMPTY))
        marked = case((func.count() > literal_column(str(most)), None), else_=digest)
        return select(marked).select_from(rows).scalar_subquery()

    def string(self, of: Column) -> Column:
        data = func.textsend(of)
        return func.int4send(func.octet_length(data)).op("||")(data)

    def struct(self, fields: dict[int, Column]) -> Column:
        value: Column = literal_column("'\\x'::bytea")
        for number, of in fields.items():
            head: Column = literal_column(f"'\\x0b{number:04x}'::bytea")
            value = value.op("||")(case((of.is_(None), _EMPTY), else_=head.op("||")(self.string(of))))
        return value.op("||")(literal_column("'\\x00'::bytea"))

    def counted(self, item: Column, present: Column, order: Column | None = None) -> Column:
        end = _EMPTY if order is None else aggregate_order_by(_EMPTY, order)
        joined = func.coalesce(func.string_agg(item, end), _EMPTY)
        return func.int4send(cast(func.count(present), Integer)).op("||")(joined)

    def maps_by_ids(self, owner: Column, key: Column, value: Column) -> ByIds:
        """The pairs are sorted before they are grouped, which costs half as much as sorting each group."""

        def build(among: Callable[[Column], Condition]) -> ClauseElement:
            rows = select(owner.label("owner"), key.label("key"), value.label("value")).where(among(owner))
            found = rows.order_by(owner, key).subquery().c
            item = self.string(found.key).op("||")(self.string(found.value))
            return select(found.owner, self.counted(item, found.value)).group_by(found.owner)

        return self.by_ids(build)

    def account_script(self, account: str) -> str:
        return f"CREATE ROLE {quoted(account)} LOGIN PASSWORD '...';\n"

    def grant_script(self, server: DatabaseServer, tables: Sequence[str]) -> str:
        account, schema = quoted(server.account), quoted(server.schema or "public")
        names = ",\n  ".join(f"{schema}.{quoted(name)}" for name in tables)
        return (
            f"GRANT CONNECT ON DATABASE {quoted(server.database)} TO {account};\n"
            f"GRANT USAGE ON SCHEMA {schema} TO {account};\n"
            f"GRANT SELECT ON\n  {names}\n  TO {account};\n"
        )


def quoted(name: str) -> str:
    """An identifier."""
    return '"' + name.replace('"', '""') + '"'
