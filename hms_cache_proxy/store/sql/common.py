"""What the databases have in common: how a connection lives, texts that can be parameters, rows asked for by ids.

Job: the part of a dialect that needs no word of its own; dialect.py says what each method promises. Must not know: a
driver, the metastore's tables. Owner: the store's one thread.
"""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar, Final

from sqlalchemy import ClauseElement, Table, bindparam, func, literal_column, null
from sqlalchemy.engine import URL
from sqlalchemy.engine import Dialect as Compiler

from hms_cache_proxy.errors import StoreError
from hms_cache_proxy.store.sql.dialect import ByIds, Column, Condition, DatabaseServer, Dialect, Row, StatementPieces

_DENSE: Final = 2  # a range may hold at most so many ids for each one that is wanted
_CONNECT_LEAST_S, _CONNECT_MOST_S = 2, 10  # libpq takes less than 2 for 2


class CommonPieces(StatementPieces):
    """Of a database that compares texts exactly and by bytes, has no accounts and no marks; `compiler`: SQLAlchemy's
    name for its SQL."""

    compiler: ClassVar[Compiler]
    is_binary = False
    folds_names = False
    exact_text = True

    def compile(self, statement: ClauseElement) -> str:
        return str(statement.compile(dialect=self.compiler))

    def by_ids(self, build: Callable[[Callable[[Column], Condition]], ClauseElement]) -> ByIds:
        def is_between(of: Column) -> Condition:
            return of.between(bindparam("low"), bindparam("high"))

        def is_listed(of: Column) -> Condition:
            return self.among_ids(of, "ids")

        return ByIds(self.compile(build(is_between)), self.compile(build(is_listed)))

    def is_text(self, of: Column, name: str) -> Condition:
        return of == bindparam(name)

    def text_list(self, values: Sequence[bytes]) -> list[str]:
        found = []
        for value in values:
            try:
                found.append(value.decode())
            except UnicodeDecodeError:
                continue
        return [value for value in found if "\0" not in value]

    def texts(self, **values: bytes) -> dict[str, str] | None:
        decoded = self.text_list(list(values.values()))
        return dict(zip(values, decoded, strict=True)) if len(decoded) == len(values) else None

    def pairs_parameters(self, firsts: Sequence[str], seconds: Sequence[str]) -> dict[str, object]:
        """One parameter, in JSON."""
        return {"pairs": json.dumps(list(zip(firsts, seconds, strict=True)), ensure_ascii=False)}

    def digest(self, of: Column) -> Column:
        """A hash, made by the server."""
        return func.md5(of)

    def mark(self, of: Table, most: int) -> Column:
        """NULL: nothing in a row tells that it was changed and changed back."""
        return null()

    def account_script(self, account: str) -> str:
        return ""

    def grant_script(self, server: DatabaseServer, tables: Sequence[str]) -> str:
        return ""


class CommonDatabase(CommonPieces, Dialect):
    """A connection of a driver whose errors are `errors`.

    `place` begins each message. `answered` is called whenever the server has answered.
    """

    errors: ClassVar[type[Exception]]

    def __init__(self, place: str, statement_timeout_s: float, answered: Callable[[], None]) -> None:
        super().__init__()
        self._place = f"the metastore's database, {place}"
        self._statement_timeout_s = statement_timeout_s
        self._answered = answered
        self._connection: Any = None  # the driver's, kept across snapshots
        self._in_snapshot = False

    # -- what a driver does

    @abstractmethod
    def _connect(self) -> Any:
        """A new connection."""

    @abstractmethod
    def _prepare(self, connection: Any) -> None:
        """Settings of a new connection, and whether it can be used at all."""

    @abstractmethod
    def _run(self, statement: str, parameters: dict[str, object] | None) -> list[Row]:
        """All rows of a statement, none if it gives none. Without parameters it is sent as it is."""

    @abstractmethod
    def _begin(self, first: str) -> list[Row]:
        """Begin a snapshot with its first statement."""

    def _end(self, connection: Any) -> None:
        connection.close()

    def _told(self, error: Exception) -> str:
        """An error of the driver, for a message."""
        return str(error).strip() or type(error).__name__

    # -- life of a connection and a snapshot

    def _open(self) -> Any:
        if self._connection is None:
            if self._in_snapshot:
                raise StoreError(f"{self._place}: the snapshot ended with its connection")
            connection = self._connect()
            self._answered()
            try:
                self._prepare(connection)
            except BaseException:
                self._end(connection)
                raise
            self._connection = connection
        return self._connection

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            self._end(connection)

    @contextmanager
    def _asked(self) -> Iterator[None]:
        """A question to the server: what it fails with is a StoreError, and drops the connection."""
        try:
            yield
        except self.errors as error:
            self.close()
            raise StoreError(f"{self._place}: {self._told(error)}") from error
        self._answered()

    def _execute(self, statement: str, parameters: dict[str, object] | None = None) -> list[Row]:
        with self._asked():
            return self._run(statement, parameters)

    @contextmanager
    def snapshot(self, first: str) -> Iterator[list[Row]]:
        assert not self._in_snapshot, "a snapshot inside a snapshot"
        rows = self._begin(first)
        self._in_snapshot = True
        try:
            yield rows
            self._execute("COMMIT")
        except BaseException:
            self.close()
            raise
        finally:
            self._in_snapshot = False

    def look(self, first: str) -> list[Row]:
        return self._execute(first)

    def export_snapshot(self) -> str | None:
        return None

    def import_snapshot(self, name: str) -> None:
        raise AssertionError("this database exports no snapshots")

    def rows(self, statement: str, **parameters: object) -> list[Row]:
        return self._execute(statement, parameters)

    def rows_by_ids(self, statement: ByIds, ids: Iterable[int | None], **parameters: object) -> list[Row]:
        """Ids that lie close together, as those of one table's partitions mostly do, are asked for as a range, which
        costs the server a third of a list and never makes it read a whole table."""
        wanted = {id_ for id_ in ids if id_ is not None}
        if not wanted:
            return []
        low, high = min(wanted), max(wanted)
        if high - low < _DENSE * len(wanted):
            return self.rows(statement.dense, low=low, high=high, **parameters)
        return self.rows(statement.sparse, ids=self.id_list(sorted(wanted)), **parameters)

    def stream_by_ids(self, statement: ByIds, ids: Collection[int]) -> Iterator[Row]:
        if not ids:
            return
        low, high = min(ids), max(ids)
        dense = high - low < _DENSE * len(ids)
        parameters = {"low": low, "high": high} if dense else {"ids": self.id_list(sorted(ids))}
        for batch in self.stream(statement.dense if dense else statement.sparse, **parameters):
            yield from batch

    # -- what the database is

    def replica(self) -> Column:
        """A file has none."""
        return literal_column("0")

    def under_way(self) -> tuple[int, int] | None:
        return None

    def incomparable(self, names: Sequence[bytes]) -> str | None:
        """None: texts are compared by their bytes, or where they are not, statements say that they are to be."""
        return None


def server_place(url: URL, port: int) -> str:
    """A server's database, for messages; `port`: where the URL has none."""
    return f"{url.database or ''} at {url.host or 'this machine'}:{url.port or port}"


def connect_timeout_s(statement_timeout_s: float) -> int:
    """How long a server may take to accept a connection."""
    return max(_CONNECT_LEAST_S, min(_CONNECT_MOST_S, int(statement_timeout_s)))


def decoded(row: Sequence[bytes | None]) -> list[str]:
    """Texts; a NULL is an empty one."""
    return [(text or b"").decode() for text in row]
