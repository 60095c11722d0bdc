"""What all databases have in common: texts that can be parameters, rows asked for by their ids.

Job: the part of a dialect that needs no word of its own. Must not know: connections, the metastore's tables.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import ClauseElement, ColumnElement, bindparam, func

Column = ColumnElement[Any]  # an expression of any type
Row = tuple[Any, ...]  # what a driver returns: as typed as its statement

_DENSE: Final = 2  # a range may hold at most so many ids for each one that is wanted


@dataclass(frozen=True, slots=True)
class ByIds:
    """A statement in two forms: for a range of ids, and for a list of them."""

    dense: str
    sparse: str


@dataclass(frozen=True, slots=True)
class Server:
    """`schema`: where tables are found without a schema's name; empty if nowhere."""

    version: str
    account: str
    database: str
    schema: str
    is_replica: bool
    product: str = "PostgreSQL"


@dataclass(frozen=True, slots=True)
class TablePrivileges:
    """What an account may do with a table."""

    table: str
    exists: bool
    may_read: bool
    may_write: bool


class CommonPieces(ABC):
    """Parts of statements, and values for their parameters."""

    @abstractmethod
    def compile(self, statement: ClauseElement) -> str:
        """The text of a Core statement for rows() and stream()."""

    @abstractmethod
    def among_ids(self, column: Column, name: str) -> ColumnElement[bool]:
        """The column is one of the ids of parameter `name`, an id_list()."""

    @staticmethod
    @abstractmethod
    def id_list(ids: Iterable[int]) -> object:
        """Value for a parameter of among_ids()."""

    def by_ids(self, build: Callable[[Callable[[Column], ColumnElement[bool]]], ClauseElement]) -> ByIds:
        """A statement for rows_by_ids(); `build` gets a function that gives the condition on a column of ids."""

        def is_between(column: Column) -> ColumnElement[bool]:
            return column.between(bindparam("low"), bindparam("high"))

        def is_listed(column: Column) -> ColumnElement[bool]:
            return self.among_ids(column, "ids")

        return ByIds(self.compile(build(is_between)), self.compile(build(is_listed)))

    @staticmethod
    def text_list(values: Sequence[bytes]) -> list[str]:
        """Value for a parameter of among_texts(); what is no text of this database cannot be in it."""
        found = []
        for value in values:
            try:
                found.append(value.decode())
            except UnicodeDecodeError:
                continue
        return [value for value in found if "\0" not in value]

    @classmethod
    def texts(cls, **values: bytes) -> dict[str, str] | None:
        """Text parameters; None if one of them is no text of this database."""
        decoded = cls.text_list(list(values.values()))
        return dict(zip(values, decoded, strict=True)) if len(decoded) == len(values) else None

    @staticmethod
    def count() -> Column:
        """Aggregate: number of rows."""
        return func.count()


class CommonDatabase(CommonPieces):
    """What is asked of a connection."""

    _in_snapshot = False

    @contextmanager
    def snapshot(self, first: str) -> Iterator[list[Row]]:
        """A transaction that sees one state, whose first statement's rows are given, to the end of the block.

        Begin and first statement are one round trip.
        """
        assert not self._in_snapshot, "a snapshot inside a snapshot"
        rows = self._begin(first)
        self._in_snapshot = True
        try:
            yield rows
            self._commit()
        except BaseException:
            self.close()
            raise
        finally:
            self._in_snapshot = False

    def export_snapshot(self) -> str | None:
        """Within a snapshot: its name, by which other connections see the same state; None where there is no such
        thing."""
        return None

    def import_snapshot(self, name: str) -> None:
        """From now on every snapshot is the one of this name."""
        raise AssertionError("this database exports no snapshots")

    @abstractmethod
    def close(self) -> None:
        """Close the connection; the next use makes a new one."""

    @abstractmethod
    def _begin(self, first: str) -> list[Row]: ...

    @abstractmethod
    def _commit(self) -> None: ...

    @abstractmethod
    def rows(self, statement: str, **parameters: object) -> list[Row]:
        """All rows of a compiled statement."""

    @abstractmethod
    def stream(self, statement: str, **parameters: object) -> Iterator[list[Row]]:
        """The rows in batches, without the whole result in memory. To be used up before the next statement."""

    def rows_by_ids(self, statement: ByIds, ids: Iterable[int | None]) -> list[Row]:
        """All rows for these ids, None left out. Rows of other ids may be among them.

        Ids that lie close together, as those of one table's partitions mostly do, are asked for as a range, which
        costs the server a third of a list and never makes it read a whole table.
        """
        wanted = {id_ for id_ in ids if id_ is not None}
        if not wanted:
            return []
        low, high = min(wanted), max(wanted)
        if high - low < _DENSE * len(wanted):
            return self.rows(statement.dense, low=low, high=high)
        return self.rows(statement.sparse, ids=self.id_list(sorted(wanted)))

    def stream_by_ids(self, statement: ByIds, ids: Collection[int]) -> Iterator[Row]:
        """As rows_by_ids(), without all of them in memory. To be used up before the next statement."""
        if not ids:
            return
        low, high = min(ids), max(ids)
        dense = high - low < _DENSE * len(ids)
        parameters = {"low": low, "high": high} if dense else {"ids": self.id_list(sorted(ids))}
        for batch in self.stream(statement.dense if dense else statement.sparse, **parameters):
            yield from batch
