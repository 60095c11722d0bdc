"""What the store needs from a database, and the values that belong to it.

Job: the two Protocols that postgres.py, mysql.py and sqlite.py implement. `StatementPieces` makes statements; `Dialect`
is a connection that sends them. common.py has what the three share. Must not know: a driver, the metastore's tables.

Rules for all of them:
- Only SELECTs are sent. Text travels as UTF-8 bytes and is never decoded.
- An error of the driver becomes a StoreError with its cause, and drops the connection and its snapshot. The next
  snapshot opens a new connection.
- Binary values have the form of the Thrift binary protocol: a string is its length in 4 bytes, and its UTF-8 bytes.

Owner: the store's one thread.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

from sqlalchemy import ClauseElement, ColumnElement, FromClause, Table

Column = ColumnElement[Any]  # an expression of any type
Condition = ColumnElement[bool]
Row = tuple[Any, ...]  # what a driver returns: as typed as its statement


@dataclass(frozen=True, slots=True)
class ByIds:
    """A statement in two forms: for a range of ids, and for a list of ids."""

    dense: str
    sparse: str


@dataclass(frozen=True, slots=True)
class DatabaseServer:
    """`schema`: where tables without a schema's name are found; empty if there is no such schema."""

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


class StatementPieces(Protocol):
    """Parts of statements, and values for their parameters.

    `is_binary`: by default, the database orders text by bytes (known after `binary_collation`). `folds_names`: it
    stores names of tables that a script did not quote in lower case. `exact_text`: texts that differ in any byte are
    different for it.
    """

    is_binary: bool
    folds_names: bool
    exact_text: bool

    @abstractmethod
    def compile(self, statement: ClauseElement) -> str:
        """The text of a Core statement, for `rows` and `stream`."""

    @abstractmethod
    def by_ids(self, build: Callable[[Callable[[Column], Condition]], ClauseElement]) -> ByIds:
        """A statement for `rows_by_ids`. `build` gets a function that returns the condition on a column of ids."""

    @abstractmethod
    def among_ids(self, of: Column, name: str) -> Condition:
        """The column is one of the ids in the parameter `name`, an `id_list`."""

    @abstractmethod
    def id_list(self, ids: Iterable[int]) -> object:
        """The value of a parameter of `among_ids`."""

    @abstractmethod
    def maps_by_ids(self, owner: Column, key: Column, value: Column) -> ByIds:
        """(owner, items of its map<string,string> without the two type bytes), for `rows_by_ids`.

        Pairs with NULL are left out. The items are in the order of their keys, so equal maps are equal bytes.
        """

    @abstractmethod
    def among_texts(self, of: Column, name: str) -> Condition:
        """The column is one of the texts in the parameter `name`, a `text_list`."""

    @abstractmethod
    def is_text(self, of: Column, name: str) -> Condition:
        """The column is the text in the parameter `name`, one of `texts`."""

    @abstractmethod
    def text_list(self, values: Sequence[bytes]) -> list[str]:
        """The value of a parameter of `among_texts`. Values that the database cannot store are left out, because no row
        has them."""

    @abstractmethod
    def texts(self, **values: bytes) -> dict[str, str] | None:
        """Parameters of `is_text`; None if the database cannot store one of them."""

    @abstractmethod
    def pairs(self, first: Column, second: Column) -> FromClause:
        """A table of the `pairs_parameters`, with the columns `first` and `second`, texts like these columns."""

    @abstractmethod
    def pairs_parameters(self, firsts: Sequence[str], seconds: Sequence[str]) -> dict[str, object]:
        """The parameters of `pairs`."""

    @abstractmethod
    def bytewise(self, of: Column) -> Column:
        """The column, compared and ordered by its bytes.

        If this is the database's default, the column must stay as it is, or an index would not be used.
        """

    @abstractmethod
    def size(self, of: Column) -> Column:
        """About how many bytes a text has; NULL for NULL."""

    @abstractmethod
    def digest(self, of: Column) -> Column:
        """A replacement for a long text, if only equality counts."""

    @abstractmethod
    def mark(self, of: Table, most: int) -> Column:
        """A text that differs after any row of the table was inserted, changed (also to the same values) or deleted.
        NULL if there is no such text, or if the rows must be read for it and there are more than `most`."""

    @abstractmethod
    def string(self, of: Column) -> Column:
        """The wire bytes of a string: length and bytes; NULL for NULL."""

    @abstractmethod
    def struct(self, fields: dict[int, Column]) -> Column:
        """The wire bytes of a struct of strings; a NULL is an unset field."""

    @abstractmethod
    def counted(self, item: Column, present: Column, order: Column | None = None) -> Column:
        """Aggregate: the number of rows where `present` is not NULL, then the bytes of all items that are not NULL."""

    @abstractmethod
    def account_script(self, account: str) -> str:
        """The statement that creates an account; empty if the database has no accounts."""

    @abstractmethod
    def grant_script(self, server: DatabaseServer, tables: Sequence[str]) -> str:
        """Statements for the database's owner that let the account read these tables, and nothing else."""


class Dialect(StatementPieces, Protocol):
    """One connection. It is opened when it is needed, kept between snapshots, and opened again after an error."""

    @property
    @abstractmethod
    def isolation(self) -> str:
        """A statement that returns the isolation level in PostgreSQL's words."""

    @abstractmethod
    def snapshot(self, first: str) -> AbstractContextManager[list[Row]]:
        """A transaction that sees one state, until the end of the block. Returns the rows of its first statement.

        Begin and first statement are one round trip.
        """

    @abstractmethod
    def look(self, first: str) -> list[Row]:
        """The rows of a snapshot's first statement, without a transaction: one statement sees one state."""

    @abstractmethod
    def export_snapshot(self) -> str | None:
        """Within a snapshot: a name with which other connections can see the same state, until the snapshot ends; None
        if the database cannot do that."""

    @abstractmethod
    def import_snapshot(self, name: str) -> None:
        """From now on, every snapshot is the one that another connection has exported under this name."""

    @abstractmethod
    def close(self) -> None:
        """Closes the connection. The next use opens a new one."""

    @abstractmethod
    def rows(self, statement: str, **parameters: object) -> list[Row]:
        """All rows of a compiled statement."""

    @abstractmethod
    def stream(self, statement: str, **parameters: object) -> Iterator[list[Row]]:
        """The rows in batches, without the whole result in memory. They must be read to the end before the next
        statement."""

    @abstractmethod
    def rows_by_ids(self, statement: ByIds, ids: Iterable[int | None], **parameters: object) -> list[Row]:
        """All rows for these ids, without None. Rows of other ids may be among them. `parameters`: further parameters
        of the statement."""

    @abstractmethod
    def stream_by_ids(self, statement: ByIds, ids: Collection[int]) -> Iterator[Row]:
        """Like `rows_by_ids`, without the whole result in memory. The rows must be read to the end before the next
        statement."""

    @abstractmethod
    def binary_collation(self) -> bool:
        """Does the database order and compare text by bytes, if no COLLATE is given? Must be called before statements
        are made, because they depend on it."""

    @abstractmethod
    def under_way(self) -> tuple[int, int] | None:
        """Of the transaction ids: the oldest in progress, and the first that is not assigned yet. None if the database
        does not show them."""

    @abstractmethod
    def replica(self) -> Column:
        """For the first statement of a snapshot: not 0 if the server is a replica, or was made read-only, as a former
        primary is. It is evaluated after the snapshot has begun, so a server that is no replica then has everything
        that was committed."""

    @abstractmethod
    def incomparable(self, names: Sequence[bytes]) -> str | None:
        """Why the database does not compare and order partitions of these names by bytes; None if it does."""

    @abstractmethod
    def server(self) -> DatabaseServer:
        """The server, and the account."""

    @abstractmethod
    def privileges(self, tables: Sequence[str]) -> list[TablePrivileges]:
        """What the account may do with each of the tables, which are found without a schema's name."""
