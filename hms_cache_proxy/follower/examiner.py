"""Checks the metastores again and again, in a thread, because they may be slow or down.

Job: produce verdicts. Must not know what is done about them. Owner: the follower's process; the thread only writes the
latest verdict and reads the database's uuid.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from hms_cache_proxy.config import Config
from hms_cache_proxy.follower.checks import Examination, Verdict
from hms_cache_proxy.security.metastore_security import MetastoreSecurity, towards_metastores
from hms_cache_proxy.upstream.checks import UpstreamFacts, examine
from hms_cache_proxy.upstream.service import ServiceConnection

CHECK_INTERVAL_S = 30.0
"""A metastore that was restarted with other settings is noticed within this time."""

RETRY_INTERVAL_S = 2.0
"""Pause after a round in which a metastore could not be asked."""


class _Metastore:
    """One metastore over its service connection."""

    def __init__(self, host: str, port: int, timeout_s: float, secured: MetastoreSecurity) -> None:
        self._connection = ServiceConnection(host, port, timeout_s=timeout_s, secured=secured)
        self.uri = self._connection.uri

    def facts(self) -> UpstreamFacts:
        with self._connection as connection:  # opened each time: an idle one would use a thread of the server
            return examine(connection)


class Examiner:
    """The thread. `verdict` is the one that was taken last; None before the first. It changes only in `take`, so all
    decisions of one turn of the loop use the same verdict."""

    def __init__(self, config: Config, told: Callable[[], None]) -> None:
        """`told` is called in the thread when there is a new verdict to take."""
        self._told = told
        timeout_s = config.upstream_options.connect_timeout_s
        secured = towards_metastores(config)
        self._metastores = [_Metastore(host, port, timeout_s, secured) for host, port in config.upstream]
        self._examination = Examination(config.authorization)
        self._database_uuid: str | None = None
        self._stopping = threading.Event()
        self._wanted = threading.Event()
        self._thread: threading.Thread | None = None
        self._latest: Verdict | None = None  # the thread's
        self.verdict: Verdict | None = None

    def ensure(self) -> None:
        """Starts the thread; starts it again if a bug has ended it (Python has printed the traceback)."""
        if self._thread is None or not self._thread.is_alive():
            self._thread = threading.Thread(target=self._run, name="examiner", daemon=True)
            self._thread.start()

    def database_uuid(self, uuid: str) -> None:
        """The store's database is known (again). Starts a round of checks."""
        self._database_uuid = uuid
        self._wanted.set()

    def take(self) -> Verdict | None:
        """A verdict that was not taken before, or None. From now on it is `verdict`."""
        latest = self._latest
        if latest is self.verdict:
            return None
        self.verdict = latest
        return latest

    def stop(self) -> None:
        """Ends the thread. If it waits for a metastore, it is left behind as a daemon."""
        self._stopping.set()
        self._wanted.set()

    def _run(self) -> None:
        ended_by_a_bug = self._database_uuid is not None
        pause_s = RETRY_INTERVAL_S if ended_by_a_bug else None
        while not self._stopping.is_set():
            self._wanted.wait(pause_s)
            self._wanted.clear()
            uuid = self._database_uuid
            if uuid is None or self._stopping.is_set():
                continue
            verdict = self._examination.examine(self._metastores, uuid)
            self._latest = verdict
            self._told()
            pause_s = RETRY_INTERVAL_S if verdict.unreachable else CHECK_INTERVAL_S
