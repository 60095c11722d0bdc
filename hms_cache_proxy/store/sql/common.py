"""What the databases have in common: the life of a connection, texts that can be parameters, rows by ids.

Job: implement the part of a dialect that is the same for all; dialect.py has the contract of each method. Must not
know: a driver, the metastore's tables. Owner: the store's one thread.
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

_FEW: Final = 50  # ids whose rows are read at once: a stream takes two round trips more
_DENSE: Final = 2  # a range has at most so many ids for each wanted one
_CONNECT_LEAST_S, _CONNECT_MOST_S = 2, 10  # libpq takes values below 2 as 2


class CommonPieces(StatementPieces):
    """The pieces for a database that compares texts exactly and by bytes, and has no accounts and no marks. `compiler`:
    SQLAlchemy's dialect."""

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
        """One parameter in JSON."""
        return {"pairs": json.dumps(list(zip(firsts, seconds, strict=True)), ensure_ascii=False)}

    def size(self, of: Column) -> Column:
        return func.octet_length(of)

    def digest(self, of: Column) -> Column:
        """A hash by the server."""
        return func.md5(of)

    def mark(self, of: Table, most: int) -> Column:
        """NULL: nothing in a row shows that it was changed and changed back."""
        return null()

    def account_script(self, account: str) -> str:
        return ""

    def grant_script(self, server: DatabaseServer, tables: Sequence[str]) -> str:
        return ""


class CommonDatabase(CommonPieces, Dialect):
    """A connection of a driver. `errors`: the base class of the driver's errors.

    `place` begins each message. `answered` is called after each answer of the server.
    """

    errors: ClassVar[type[Exception]]

    def __init__(self, place: str, statement_timeout_s: float, answered: Callable[[], None]) -> None:
        super().__init__()
        self._place = f"the metastore's database, {place}"
        self._statement_timeout_s = statement_timeout_s
        self._answered = answered
        self._connection: Any = None  # the driver's; kept between snapshots
        self._in_snapshot = False

    # -- what a driver does

    @abstractmethod
    def _connect(self) -> Any:
        """A new connection."""

    @abstractmethod
    def _prepare(self, connection: Any) -> None:
        """Sets up a new connection, and checks whether it can be used."""

    @abstractmethod
    def _run(self, statement: str, parameters: dict[str, object] | None) -> list[Row]:
        """All rows of a statement, if it returns any. Without parameters it is sent unchanged."""

    @abstractmethod
    def _begin(self, first: str) -> list[Row]:
        """Begins a snapshot; returns the rows of its first statement."""

    def _end(self, connection: Any) -> None:
        connection.close()

    def _told(self, error: Exception) -> str:
        """The text of a driver's error, for a message."""
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
        """Around a question to the server: an error becomes a StoreError, and drops the connection."""
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
        """Ids that are close together, as those of one table's partitions usually are, are asked for as a range. This
        costs the server a third of a list, and never makes it read a whole table."""
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
        parameters: dict[str, object] = {"low": low, "high": high} if dense else {"ids": self.id_list(sorted(ids))}
        text = statement.dense if dense else statement.sparse
        if len(ids) <= _FEW:
            yield from self.rows(text, **parameters)
            return
        for batch in self.stream(text, **parameters):
            yield from batch

    # -- what the database is

    def replica(self) -> Column:
        """A constant: a file has no replicas."""
        return literal_column("0")

    def under_way(self) -> tuple[int, int] | None:
        return None

    def incomparable(self, names: Sequence[bytes]) -> str | None:
        """None: texts are compared by their bytes, by default or because statements say so."""
        return None


def server_place(url: URL, port: int) -> str:
    """A server's database, for messages. `port`: the default, if the URL has none."""
    return f"{url.database or ''} at {url.host or 'this machine'}:{url.port or port}"


def connect_timeout_s(statement_timeout_s: float) -> int:
    """How long a server may take to accept a connection."""
    return max(_CONNECT_LEAST_S, min(_CONNECT_MOST_S, int(statement_timeout_s)))


def decoded(row: Sequence[bytes | None]) -> list[str]:
    """The values as texts; a NULL is an empty text."""
    return [(text or b"").decode() for text in row]
