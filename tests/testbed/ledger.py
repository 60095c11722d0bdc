"""What a run starts: every server and client process, with the time that its start took, and whether it may.

Job: `starting(kind)` around a start, `uses(kind)` where one that runs already is handed out; take() gives what was
started since the last call.
Must not know: pytest, who reads it.
Invariants: a kind is the name of a metastore's flavour or one of the names below; a start that fails is not counted;
nothing starts that ALLOWED, where it is set, does not name. It is in the environment so that a test's own subprocesses
obey, too. Any thread may call.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

POSTGRESQL: Final = "postgresql"
MARIADB: Final = "mariadb"
PROXY: Final = "proxy"
WORKER: Final = "worker"
FOLLOWER: Final = "follower"
HIVE_DRIVER: Final = "hive-driver"
HIVE_TESTS: Final = "hive-client-tests"
FLINK: Final = "flink"
TRINO: Final = "trino"
SPARK: Final = "spark"
PYICEBERG_TESTS: Final = "pyiceberg-tests"
KDC: Final = "kdc"  # with the package gssapi
SLAPD: Final = "slapd"  # with the package ldap
S3: Final = "s3"  # an object store
JAVA: Final = "java"  # a compiler, or a small program
SPIN: Final = "spin"  # the checker of models
PROMETHEUS: Final = "prometheus"  # the server, or promtool
ENVIRONMENT: Final = "environment"  # of Python, with packages that are downloaded

OURS: Final = frozenset((PROXY, WORKER, FOLLOWER))
"""Processes of the program under test: they may always start."""
ALLOWED: Final = "HMS_TESTBED_ALLOWED"
TIER: Final = "HMS_TEST_TIER"
"""Name of the tier that runs (tests/tiers_plugin.py)."""


class Undeclared(AssertionError):
    """A test starts what tests/needs.py does not find in it."""


_mutex = threading.Lock()
_started: list[tuple[str, float]] = []


def uses(kind: str) -> None:
    """Refuse a server that the running test does not declare, whether it runs already or not."""
    allowed = os.environ.get(ALLOWED)
    if allowed is not None and kind not in OURS and kind not in allowed.split():
        raise Undeclared(
            f"this test uses {kind}, and tests/needs.py finds only: {allowed or 'nothing'}. Name the flavour in the"
            " test, its parameters or its fixture, or add what starts the server to STARTS in tests/needs.py"
        )


@contextmanager
def starting(kind: str) -> Iterator[None]:
    """The body starts a process of this kind and waits for it."""
    uses(kind)
    before_s = time.monotonic()
    yield
    note(kind, time.monotonic() - before_s)


def note(kind: str, took_s: float = 0.0) -> None:
    """Count something."""
    with _mutex:
        _started.append((kind, took_s))


def take() -> list[tuple[str, float]]:
    """Kind and seconds of the starts since the last call."""
    with _mutex:
        taken = _started.copy()
        _started.clear()
    return taken
