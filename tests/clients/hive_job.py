"""`python -m tests.clients.hive_job [--figures]`, or `make hive`: Hive's own Driver through two proxies, and directly.

Job: for each of SETTINGS of `transactional_reads`, start Hive 4.2 on PostgreSQL, two proxies, and one Driver with a
session on each of these and one on the metastore itself; have it execute the statements of hive_statements.py: writes
through the proxies in turn, reads through one proxy and then directly, with the same result. The exit status is 1 on a
difference. --figures keeps what was found with each in docs/figures/hive-driver/.
Must not know: how the proxy works.
Invariants: a read follows at once, mostly through the other proxy, which knows of the write from the log alone. After
a change of what no ValidWriteIdList vouches for, both proxies first follow the log.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tests import figures
from tests.clients import calls
from tests.clients.hive_driver import HiveDriver
from tests.clients.hive_statements import JOB, READS
from tests.clients.statements import Answer
from tests.proxy import Proxy
from tests.testbed.bed import Bed
from tests.testbed.client import MetastoreClient
from tests.testbed.metastore import Metastore

COMMAND: Final = "make hive FIGURES=1"
FLAVOUR: Final = "hive42"
SETTINGS: Final = ("passthrough", "strict")
VOUCHED: Final = ("update", "delete from", "merge", "insert into shop.sales", "insert into shop.returned")
"""How statements begin after which a reader's list says what it must see."""

Run = Callable[[int, str], Answer]


@dataclass(slots=True)
class Job:
    """`run` executes a statement in a session: one for each proxy, then one on the metastore itself."""

    run: Run
    proxies: int
    followed: Callable[[], None]
    executed: int = 0
    failures: list[str] = field(default_factory=list)

    def do(self, statements: Sequence[str]) -> None:
        """All of them, one after another."""
        writer = 0
        for number, sql in enumerate(statements):
            if sql.startswith(READS):
                self._read(number % self.proxies, sql)
                continue
            writer = (writer + 1) % self.proxies
            self._expect(sql, f"through proxy {writer}", self._run(writer, sql), None)
            if not sql.startswith(VOUCHED):
                self.followed()

    def _read(self, proxy: int, sql: str) -> None:
        through = self._run(proxy, sql)
        direct = self._run(self.proxies, sql)
        self._expect(sql, "directly", direct, None)
        self._expect(sql, f"through proxy {proxy}, not as directly", through, direct)

    def _run(self, session: int, sql: str) -> Answer:
        self.executed += 1
        return self.run(session, sql)

    def _expect(self, sql: str, how: str, found: Answer, right: Answer | None) -> None:
        """The same rows as `right`, in any order; where there is none, no error."""
        equal = (
            found.error is None
            if right is None
            else (found.error == right.error and Counter(found.rows) == Counter(right.rows))
        )
        if not equal:
            self.failures.append(f"{sql}\n  {how}:\n    {found}" + (f"\n    {right}" if right is not None else ""))


@dataclass(frozen=True, slots=True)
class Outcome:
    """What was executed, and what the proxies were asked for it."""

    statements: int
    executed: int
    failures: list[str]
    seconds: float
    requests: calls.Requests

    @property
    def share(self) -> float:
        """Of reads that can be answered from the cache, those that were."""
        hits, misses = calls.hits(self.requests), calls.misses(self.requests)
        return hits / max(1, hits + misses)

    def text(self) -> str:
        """For a terminal."""
        hits, misses = calls.hits(self.requests), calls.misses(self.requests)
        done = f"{self.statements} statements, executed {self.executed} times in {self.seconds:.0f} s"
        count = f"{done}: {len(self.failures)} not as directly"
        cached = f"{hits:,} of {hits + misses:,} reads that can be cached were hits ({self.share:.1%})"
        return "\n".join([*self.failures, calls.table(self.requests), cached, count])

    def figures(self) -> dict[str, Any]:
        """For docs/figures/."""
        return {
            "statements": self.statements,
            "executed": self.executed,
            "failures": len(self.failures),
            "seconds": round(self.seconds, 1),
            "misses": calls.misses(self.requests),
            **calls.figures(self.requests),
        }


def drive(
    directory: Path,
    metastore: Metastore,
    proxies: Sequence[Proxy],
    statements: Sequence[str] = JOB,
    settings: Mapping[str, str] | None = None,
    more: Path | None = None,
) -> Outcome:
    """Have these statements executed, by one Driver with these settings and `more` jars."""
    uris = [*(proxy.uri for proxy in proxies), metastore.uri]
    with HiveDriver(directory, metastore, uris, settings, more) as hive, MetastoreClient(*metastore.address) as log:

        def followed() -> None:
            newest = log.get_current_notificationEventId().eventId
            for proxy in proxies:
                proxy.wait_event(newest)

        before, began = summed(proxies), time.monotonic()
        job = Job(hive.run, len(proxies), followed)
        job.do(statements)
        seconds = time.monotonic() - began
        requests = calls.since(before, summed(proxies))
    return Outcome(len(statements), job.executed, job.failures, seconds, requests)


def summed(proxies: Sequence[Proxy]) -> Mapping[tuple[str, str, str], float]:
    """What all of them were asked."""
    total: Counter[tuple[str, str, str]] = Counter()
    for requests in Proxy.requests_of(proxies):
        total.update({key: int(count) for key, count in requests.items()})
    return total


def proxied(stack: ExitStack, settings: Mapping[str, str]) -> tuple[Path, Metastore, list[Proxy]]:
    """A directory, a metastore, and two proxies in front of it."""
    bed = Bed()
    stack.callback(bed.close)
    directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="hms-hive-")))
    metastore = bed.private_metastore(FLAVOUR)
    assert metastore.database is not None
    proxies = []
    for name in ("one", "two"):
        proxy = Proxy(directory / name, metastore.uri, metastore.database.reader_url, settings)
        stack.callback(proxy.close)
        proxies.append(proxy.start(prewarmed=True))
    return directory, metastore, proxies


def run(stack: ExitStack, setting: str) -> Outcome:
    """Start all, with this `transactional_reads`, and do the job."""
    directory, metastore, proxies = proxied(stack, {"TRANSACTIONAL_READS": setting})
    return drive(directory / "hive", metastore, proxies)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.clients.hive_job", description=__doc__.splitlines()[0])
    parser.add_argument("settings", nargs="*", metavar="SETTING", help=f"of {', '.join(SETTINGS)}; without: all")
    parser.add_argument("--figures", action="store_true", help="keep the figures in docs/figures/hive-driver/")
    given = parser.parse_args()
    if unknown := set(given.settings) - set(SETTINGS):
        parser.error(f"no such setting: {', '.join(sorted(unknown))}")
    of = figures.origin("hms_cache_proxy", "tests/clients")
    failures = 0
    for setting in given.settings or SETTINGS:
        with ExitStack() as stack:
            outcome = run(stack, setting)
            failures += len(outcome.failures)
            print(f"transactional_reads = {setting}\n{outcome.text()}", flush=True)
            if given.figures:
                figures.write(f"hive-driver/{setting}", outcome.figures(), command=COMMAND, of=of)
    return int(failures > 0)


if __name__ == "__main__":
    sys.exit(main())
