"""What a run of Trino needs beside Trino: a Hive 4.2 of its own, and proxies of it.

Job: start them on a stack, which ends them. Must not know: the statements of the run.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path

from tests.clients.trino_server import USER, Trino
from tests.proxy import Proxy
from tests.testbed.bed import Bed


class TrinoBed:
    """A metastore whose administrator is Trino's user."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack
        self._bed = Bed()
        stack.callback(self._bed.close)
        self.directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="hms-trino-")))
        self.metastore = self._bed.private_metastore("hive42", settings={"metastore.users.in.admin.role": USER})

    def proxy(self, name: str, settings: Mapping[str, str] | None = None, *, planted: str | None = None) -> Proxy:
        """A proxy of the metastore that has done its prewarm. `planted`: a bug of tests/history/planted."""
        assert self.metastore.database is not None
        url = self.metastore.database.reader_url
        proxy = Proxy(self.directory / name, self.metastore.uri, url, settings or {}, planted=planted)
        self._stack.callback(proxy.close)
        proxy.start(prewarmed=True)
        return proxy

    def trino(self, catalogs: Mapping[str, Mapping[str, str]]) -> Trino:
        """A Trino with these catalogs."""
        return self._stack.enter_context(Trino(self.directory / "trino", self._bed.logs / "trino.log", catalogs))
