"""What a handler gets: the call's transaction, its session, and the metastore's settings.

Job: define `Call`, and `ServedMethod`, which is a row of the method table. Must not know: how calls arrive, what a
method means.
Invariants: each call has one transaction. A handler changes things outside of the database after the commit
(`after_commit`), or before it with a way to undo the change (`undo`). Owner: the thread of a connection.
"""

from __future__ import annotations

import getpass
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from sqlalchemy import Connection

from hms_cache_proxy.embedded.warehouse import Warehouse
from hms_cache_proxy.wire.spec import Struct

PARTITION_LIMIT = "metastore.limit.partition.request"
TRANSFORMER_CLASS = "metastore.metadata.transformer.class"


class Access(Enum):
    """The access to the database that a method needs."""

    NONE = "none"
    READ = "read"
    WRITE = "write"


@dataclass(slots=True)
class MetastoreSession:
    """One client connection."""

    peer: str
    user: str = ""
    groups: list[str] = field(default_factory=list)
    settings: dict[str, str] = field(default_factory=dict)  # of setMetaConf


@dataclass(frozen=True, slots=True)
class Removal:
    """A directory that is removed with `owner`, and the number of parents that are removed too if they are empty."""

    location: str
    owner: str
    purge: bool
    parents: int


@dataclass(slots=True)
class Call:
    """One call in progress. `connection` must not be used by a method whose access is NONE."""

    session: MetastoreSession
    warehouse: Warehouse
    settings: dict[str, str]
    connection: Connection
    now: int = field(default_factory=lambda: int(time.time()))
    removals: list[Removal] = field(default_factory=list)  # for directories.py
    on_commit: list[Callable[[], None]] = field(default_factory=list)
    on_rollback: list[Callable[[], object]] = field(default_factory=list)

    @property
    def user(self) -> str:
        """The user of the call: from set_ugi, else the account of this process."""
        return self.session.user or getpass.getuser()

    @property
    def transforms(self) -> bool:
        """Are tables changed as Hive's default transformer does?"""
        return bool(self.settings.get(TRANSFORMER_CLASS, "default").strip())

    @property
    def partition_limit(self) -> int:
        """The largest number of partitions in a listing; below 0: no limit."""
        return int(self.settings.get(PARTITION_LIMIT, "-1"))

    def execute(self, statement: Any, parameters: Any = None) -> Any:
        """Execute a statement in the call's transaction. Any: only statements determine the types of Core's results."""
        return self.connection.execute(statement, parameters)

    def rows(self, statement: Any) -> list[Any]:
        """All rows of a query."""
        return list(self.connection.execute(statement))

    def after_commit(self, action: Callable[[], None]) -> None:
        """Do this after the transaction is committed."""
        self.on_commit.append(action)

    def undo(self, action: Callable[[], object]) -> None:
        """Do this if the transaction is rolled back."""
        self.on_rollback.append(action)


MethodHandler = Callable[[Call, Struct], Any]


@dataclass(frozen=True, slots=True)
class ServedMethod:
    """A served method: the access that it needs, and the handler, which returns the value of `success`."""

    run: MethodHandler
    access: Access


def reads(**handlers: MethodHandler) -> dict[str, ServedMethod]:
    """Rows of the table for methods that read."""
    return {name: ServedMethod(run, Access.READ) for name, run in handlers.items()}


def writes(**handlers: MethodHandler) -> dict[str, ServedMethod]:
    """Rows of the table for methods that write."""
    return {name: ServedMethod(run, Access.WRITE) for name, run in handlers.items()}


def neither(**handlers: MethodHandler) -> dict[str, ServedMethod]:
    """Rows of the table for methods that do not use the database."""
    return {name: ServedMethod(run, Access.NONE) for name, run in handlers.items()}
