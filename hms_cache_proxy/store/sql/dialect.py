"""What the store asks of a database, whichever it is, and the values that go with it.

Job: the two Protocols that postgres.py, mysql.py and sqlite.py implement. `StatementPieces` makes statements, `Dialect`
is a connection that sends them. common.py has what the three share. Must not know: a driver, the metastore's tables.

Rules for each of them:
- Only SELECTs are sent. Text travels as UTF-8 bytes and is never decoded.
- An error of the driver becomes a StoreError with its cause, and drops the connection and the snapshot with it. The
  next snapshot makes a new connection.
- Binary values are those of the Thrift binary protocol: a string is its length in 4 bytes and its UTF-8 bytes.

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
    """A statement in two forms: for a range of ids, and for a list of them."""

    dense: str
    sparse: str


@dataclass(frozen=True, slots=True)
class DatabaseServer:
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


class StatementPieces(Protocol):
    """Parts of statements, and values for their parameters.

    `is_binary`: the database itself orders text by bytes (known from `binary_collation` on). `folds_names`: it puts
    names of tables that a script did not quote into lower case. `exact_text`: names that differ in any byte differ for
    it.
    """

    is_binary: bool
    folds_names: bool
    exact_text: bool

    @abstractmethod
    def compile(self, statement: ClauseElement) -> str:
        """The text of a Core statement for `rows` and `stream`."""

    @abstractmethod
    def by_ids(self, build: Callable[[Callable[[Column], Condition]], ClauseElement]) -> ByIds:
        """A statement for `rows_by_ids`; `build` gets a function that gives the condition on a column of ids."""

    @abstractmethod
    def among_ids(self, of: Column, name: str) -> Condition:
        """The column is one of the ids of parameter `name`, an `id_list`, and no other."""

    @abstractmethod
    def id_list(self, ids: Iterable[int]) -> object:
        """The value of a parameter of `among_ids`."""

    @abstractmethod
    def maps_by_ids(self, owner: Column, key: Column, value: Column) -> ByIds:
        """(owner, items of its map<string,string> without the two type bytes), for `rows_by_ids`.

        Pairs with NULL are left out. The items are in order of their keys, so that equal maps are equal bytes.
        """

    @abstractmethod
    def among_texts(self, of: Column, name: str) -> Condition:
        """The column is one of the texts of parameter `name`, a `text_list`."""

    @abstractmethod
    def is_text(self, of: Column, name: str) -> Condition:
        """The column is the text of parameter `name`, one of `texts`."""

    @abstractmethod
    def text_list(self, values: Sequence[bytes]) -> list[str]:
        """The value of a parameter of `among_texts`; what is no text of this database is left out, as no row has it."""

    @abstractmethod
    def texts(self, **values: bytes) -> dict[str, str] | None:
        """Parameters of `is_text`; None if one of them is no text of this database."""

    @abstractmethod
    def pairs(self, first: Column, second: Column) -> FromClause:
        """A table of two columns, `first` and `second`, texts like these columns: the `pairs_parameters`."""

    @abstractmethod
    def pairs_parameters(self, firsts: Sequence[str], seconds: Sequence[str]) -> dict[str, object]:
        """The parameters of `pairs`."""

    @abstractmethod
    def bytewise(self, of: Column) -> Column:
        """The column, compared and ordered by its bytes.

        Where the database does so anyway, nothing may be said of it: an index would not be used.
        """

    @abstractmethod
    def digest(self, of: Column) -> Column:
        """What stands for a long text where only equality counts."""

    @abstractmethod
    def mark(self, of: Table, most: int) -> Column:
        """A text that is another one once any row of the table was inserted, changed (also to what it was) or deleted;
        NULL where that cannot be told, and where the table has more than `most` rows if they have to be read."""

    @abstractmethod
    def string(self, of: Column) -> Column:
        """Wire bytes of a string: length and bytes; NULL for NULL."""

    @abstractmethod
    def struct(self, fields: dict[int, Column]) -> Column:
        """Wire bytes of a struct of strings; a NULL is an unset field."""

    @abstractmethod
    def counted(self, item: Column, present: Column, order: Column | None = None) -> Column:
        """Aggregate: the number of rows where `present` is not NULL, then the bytes of the items that are not."""

    @abstractmethod
    def account_script(self, account: str) -> str:
        """The statement that makes an account; empty where there are none."""

    @abstractmethod
    def grant_script(self, server: DatabaseServer, tables: Sequence[str]) -> str:
        """Statements for the database's owner that let the account read these tables, and nothing else."""


class Dialect(StatementPieces, Protocol):
    """One connection, made when it is needed, kept across snapshots, made again after an error."""

    @property
    @abstractmethod
    def isolation(self) -> str:
        """A statement that tells the isolation level, in PostgreSQL's words."""

    @abstractmethod
    def snapshot(self, first: str) -> AbstractContextManager[list[Row]]:
        """A transaction that sees one state, whose first statement's rows are given, to the end of the block.

        Begin and first statement are one round trip.
        """

    @abstractmethod
    def look(self, first: str) -> list[Row]:
        """The rows of a snapshot's first statement without the snapshot: one statement sees one state."""

    @abstractmethod
    def export_snapshot(self) -> str | None:
        """Within a snapshot: its name, by which other connections see the same state until it ends; None where there
        is no such thing."""

    @abstractmethod
    def import_snapshot(self, name: str) -> None:
        """From now on every snapshot is the one that another connection has exported by this name."""

    @abstractmethod
    def close(self) -> None:
        """Close the connection; the next use makes a new one."""

    @abstractmethod
    def rows(self, statement: str, **parameters: object) -> list[Row]:
        """All rows of a compiled statement."""

    @abstractmethod
    def stream(self, statement: str, **parameters: object) -> Iterator[list[Row]]:
        """The rows in batches, without the whole result in memory. To be used up before the next statement."""

    @abstractmethod
    def rows_by_ids(self, statement: ByIds, ids: Iterable[int | None], **parameters: object) -> list[Row]:
        """All rows for these ids, None left out. Rows of other ids may be among them. `parameters`: others of the
        statement."""

    @abstractmethod
    def stream_by_ids(self, statement: ByIds, ids: Collection[int]) -> Iterator[Row]:
        """As `rows_by_ids`, without all of them in memory. To be used up before the next statement."""

    @abstractmethod
    def binary_collation(self) -> bool:
        """Does the database order text, and tell names apart, by bytes where no COLLATE is given? Asked before any
        statement is made, since the statements depend on it."""

    @abstractmethod
    def under_way(self) -> tuple[int, int] | None:
        """Of the transaction ids: the oldest that still runs, and the first that is not given out yet; None where none
        runs, or where it cannot be seen."""

    @abstractmethod
    def replica(self) -> Column:
        """For the first statement of a snapshot: not 0 if the server is a replica, or was made read-only as an old
        primary is. Evaluated when the snapshot has begun, so a server that was none then has all that was committed."""

    @abstractmethod
    def incomparable(self, names: Sequence[bytes]) -> str | None:
        """Why partitions of these names cannot be told apart and ordered by bytes; None if they can."""

    @abstractmethod
    def server(self) -> DatabaseServer:
        """What server and account this is."""

    @abstractmethod
    def privileges(self, tables: Sequence[str]) -> list[TablePrivileges]:
        """What the account may do with each of the tables, as they are found without a schema's name."""
