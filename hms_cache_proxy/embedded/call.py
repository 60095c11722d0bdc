"""What a handler gets: the call's transaction, its session, the metastore's settings, and the log of its events.

Job: `Call` and `ServedMethod`, the row of the method table. Must not know: how calls arrive, what a method means.

Invariants: one call, one transaction; what a handler changed outside of the database is done after the commit
(`after_commit`) or undone when there is none (`undo`). Owner: the thread of a connection.
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
    """What a method needs of the database."""

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
    """A directory that goes with `owner`, and the number of directories above it that go with it if they are empty."""

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
    removals: list[Removal] = field(default_factory=list)  # directories.py's
    on_commit: list[Callable[[], None]] = field(default_factory=list)
    on_rollback: list[Callable[[], object]] = field(default_factory=list)

    @property
    def user(self) -> str:
        """Who calls: of set_ugi, else this process's account."""
        return self.session.user or getpass.getuser()

    @property
    def transforms(self) -> bool:
        """Are tables changed as Hive's default transformer does?"""
        return bool(self.settings.get(TRANSFORMER_CLASS, "default").strip())

    @property
    def partition_limit(self) -> int:
        """How many partitions a listing may have; below 0 any number."""
        return int(self.settings.get(PARTITION_LIMIT, "-1"))

    def execute(self, statement: Any, parameters: Any = None) -> Any:
        """Run a statement in the call's transaction. Any: Core's results are typed by their statements only."""
        return self.connection.execute(statement, parameters)

    def rows(self, statement: Any) -> list[Any]:
        """All rows of a query."""
        return list(self.connection.execute(statement))

    def after_commit(self, action: Callable[[], None]) -> None:
        """Do this once the transaction is committed."""
        self.on_commit.append(action)

    def undo(self, action: Callable[[], object]) -> None:
        """Do this if the transaction is rolled back."""
        self.on_rollback.append(action)


MethodHandler = Callable[[Call, Struct], Any]


@dataclass(frozen=True, slots=True)
class ServedMethod:
    """A served method: what it needs and what answers it (the value of `success`)."""

    run: MethodHandler
    access: Access


def reads(**handlers: MethodHandler) -> dict[str, ServedMethod]:
    """Rows of the table for methods that read."""
    return {name: ServedMethod(run, Access.READ) for name, run in handlers.items()}


def writes(**handlers: MethodHandler) -> dict[str, ServedMethod]:
    """Rows of the table for methods that write."""
    return {name: ServedMethod(run, Access.WRITE) for name, run in handlers.items()}


def neither(**handlers: MethodHandler) -> dict[str, ServedMethod]:
    """Rows of the table for methods that do not ask the database."""
    return {name: ServedMethod(run, Access.NONE) for name, run in handlers.items()}
