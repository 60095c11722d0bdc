"""`python -m tests.clients.trino [--figures]`, or `make trino`: Trino through a proxy and past it, on one metastore.

Job: start Hive 4.2 on PostgreSQL, a proxy and one Trino that has each catalog twice: `straight_...` on the metastore,
`by_proxy_...` on the proxy; have it execute the statements of trino_statements.py in a schema for each of the two, and
compare. The exit status is 1 on a difference. --figures keeps what was found in docs/figures/trino.json.
Must not know: how the proxy works.
Invariants: after a write through the proxy the next read goes through the proxy, at once. It is right if Trino says the
same straight afterwards. No answer is asked for a second time because it was wrong.
"""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from tests import figures
from tests.clients import calls
from tests.clients.trino_bed import TrinoBed
from tests.clients.trino_server import Result
from tests.clients.trino_statements import HIVE, ICEBERG, READS, ROLES, Overwriting, Refused, Statement
from tests.testbed.client import MetastoreClient

Ask = Callable[[str, Mapping[str, str]], Result]

STRAIGHT, BY_PROXY = "straight", "by_proxy"  # as long as one another: errors name columns of the statement
OVERWRITE: Final = "insert_existing_partitions_behavior"
CSV: Final = "one,1\ntwo,2\n"

_OWN_IDS: Final = re.compile(r"[0-9a-f]{8}(-?[0-9a-f]{4}){3}-?[0-9a-f]{12}|(?<=@)\d+\b|\b\d{8}_\d{6}_\d{5}_\w{5}\b")
"""Of two tables that were made alike these differ: UUIDs in locations of Iceberg's, ids of snapshots and of queries."""


@dataclass(frozen=True, slots=True)
class Kind:
    """Statements of one connector, and the properties of its catalogs but for where the metastore is."""

    name: str
    statements: Sequence[Statement]
    properties: Mapping[str, str]


KINDS: Final = (
    Kind(
        "hive",
        HIVE,
        {
            "connector.name": "hive",
            "hive.non-managed-table-writes-enabled": "true",  # Hive 4 makes of plain tables external ones
            "hive.allow-register-partition-procedure": "true",
            "hive.metastore-stats-cache-ttl": "0s",  # else it takes statistics for right for five minutes
        },
    ),
    Kind("roles", ROLES, {"connector.name": "hive", "hive.security": "sql-standard"}),
    Kind("iceberg", ICEBERG, {"connector.name": "iceberg", "iceberg.catalog.type": "hive_metastore"}),
)


@dataclass(frozen=True, slots=True)
class Side:
    """One catalog with one schema: what a statement's placeholders stand for."""

    catalog: str
    schema: str
    files: Path

    def filled(self, text: str) -> str:
        """The statement."""
        for mark, value in (
            ("{c}", self.catalog),
            ("{n}", self.schema),
            ("{s}", f"{self.catalog}.{self.schema}"),
            ("{w}", str(self.files)),
        ):
            text = text.replace(mark, value)
        return text


@dataclass(slots=True)
class Trial:
    """Both sides of one kind. `followed` waits until the proxy knows what was written past it."""

    kind: str
    ask: Ask
    followed: Callable[[], None]
    files: Path
    executed: int = 0
    differences: list[str] = field(default_factory=list)

    def side(self, catalog: str, schema: str) -> Side:
        """The catalog and the schema of these sides."""
        return Side(f"{catalog}_{self.kind}", f"{self.kind}_{schema}", self.files / schema)

    def run(self, statements: Sequence[Statement]) -> None:
        """All of them, one after another. One that fails, or does not, where it should not is a difference, too."""
        for statement in statements:
            sql = statement if isinstance(statement, str) else statement.sql
            if sql.startswith(READS):
                straight = self._read(sql)
            else:
                straight = self._write(sql, overwriting=isinstance(statement, Overwriting))
            error = statement.error if isinstance(statement, Refused) else ""
            if (straight.error or "").partition(":")[0] != error:
                self.differences.append(f"{sql}\n  straight, {error or 'no error'} was expected:\n    {straight}")

    def _write(self, sql: str, *, overwriting: bool) -> Result:
        """Straight in one schema, and last by the proxy in the other one: the next read is of what was just written."""
        results = []
        for name in (STRAIGHT, BY_PROXY):
            side = self.side(name, name)
            results.append(self._ask(side, sql, {f"{side.catalog}.{OVERWRITE}": "OVERWRITE"} if overwriting else {}))
        self._compare(sql, "a write straight, and one by the proxy", *map(self._alike, results))
        return results[0]

    def _read(self, sql: str) -> Result:
        fresh = self._ask(self.side(BY_PROXY, BY_PROXY), sql)
        other = self._ask(self.side(STRAIGHT, STRAIGHT), sql)
        right = self._ask(self.side(STRAIGHT, BY_PROXY), sql)
        self._compare(sql, "written by the proxy; read straight, and by the proxy", *map(self._same, (right, fresh)))
        self._compare(sql, "written and read straight, and both by the proxy", *map(self._alike, (other, fresh)))
        self.followed()
        passed = self._ask(self.side(BY_PROXY, STRAIGHT), sql)
        self._compare(sql, "written straight; read straight, and by the proxy", *map(self._same, (other, passed)))
        return other

    def _ask(self, side: Side, sql: str, session: Mapping[str, str] | None = None) -> Result:
        self.executed += 1
        return self.ask(side.filled(sql), session or {})

    def _compare(self, sql: str, what: str, expected: Result, found: Result) -> None:
        if not equal(expected, found, ordered=is_ordered(sql)):
            self.differences.append(f"{sql}\n  {what}:\n    {expected}\n    {found}")

    def _same(self, result: Result) -> Result:
        """Of one schema in both catalogs: but for the name of the catalog all must be equal."""
        names = {self.side(name, name).catalog: "C" for name in (STRAIGHT, BY_PROXY)}
        return rewritten(result, re.compile("|".join(names)), "C")

    def _alike(self, result: Result) -> Result:
        """Of two schemas in which the same was done."""
        sides = [self.side(name, name) for name in (STRAIGHT, BY_PROXY)]
        result = rewritten(self._same(result), re.compile("|".join(side.schema for side in sides)), "N")
        result = rewritten(result, re.compile("|".join(re.escape(str(side.files)) for side in sides)), "W")
        return rewritten(result, _OWN_IDS, "ID")


def is_ordered(sql: str) -> bool:
    """Whether the order of the rows is a part of the answer: the statement's, or Trino's for what it lists. It lists
    grants as the metastore does, which asks its database for them without an order."""
    return "order by" in sql or not sql.startswith(("select", "show grants"))


def equal(expected: Result, found: Result, *, ordered: bool) -> bool:
    """The same answer."""
    if (expected.error, expected.columns) != (found.error, found.columns):
        return False
    if ordered:
        return expected.rows == found.rows
    return Counter(expected.rows) == Counter(found.rows)


def rewritten(result: Result, pattern: re.Pattern[str], name: str) -> Result:
    """The answer with all that the pattern finds replaced."""

    def value(one: Any) -> Any:
        if isinstance(one, str):
            return pattern.sub(name, one)
        return tuple(map(value, one)) if isinstance(one, tuple) else one

    error = None if result.error is None else pattern.sub(name, result.error)
    return replace(result, rows=tuple(map(value, result.rows)), error=error)


@dataclass(frozen=True, slots=True)
class Outcome:
    """One kind of statements: how often they were executed, and what the proxy was asked for them."""

    name: str
    statements: int
    executed: int
    differences: list[str]
    seconds: float
    requests: calls.Requests

    def text(self) -> str:
        """For a terminal."""
        done = f"{self.statements} statements, executed {self.executed:,} times in {self.seconds:.0f} s"
        count = f"{self.name}: {done}: {len(self.differences)} differences"
        return "\n".join([*self.differences, calls.table(self.requests), calls.summary(self.requests), count])

    def figures(self) -> dict[str, Any]:
        """For docs/figures/."""
        return {
            "statements": self.statements,
            "executed": self.executed,
            "differences": len(self.differences),
            "seconds": round(self.seconds, 1),
            **calls.figures(self.requests),
        }


def catalogs(kinds: Sequence[Kind], straight: str, by_proxy: str) -> dict[str, dict[str, str]]:
    """Each kind's two. Trino's own caches are off: all by default but for that of statistics."""
    return {
        f"{name}_{kind.name}": {**kind.properties, "hive.metastore.uri": uri, "fs.hadoop.enabled": "true"}
        for kind in kinds
        for name, uri in ((STRAIGHT, straight), (BY_PROXY, by_proxy))
    }


def run(stack: ExitStack, kinds: Sequence[Kind] = KINDS, planted: str | None = None) -> Iterator[Outcome]:
    """Start all, and have the statements of these kinds done. `planted`: a bug of tests/history/planted."""
    bed = TrinoBed(stack)
    proxy = bed.proxy("proxy", planted=planted)
    trino = bed.trino(catalogs(kinds, bed.metastore.uri, proxy.uri))
    log = stack.enter_context(MetastoreClient(*bed.metastore.address))

    def followed() -> None:
        proxy.wait_event(log.get_current_notificationEventId().eventId)

    files = _with_files(bed.directory)
    for kind in kinds:
        trial = Trial(kind.name, trino.ask, followed, files)
        before, began = proxy.requests(), time.monotonic()
        trial.run(kind.statements)
        seconds = time.monotonic() - began
        requests = calls.since(before, proxy.requests())
        yield Outcome(kind.name, len(kind.statements), trial.executed, trial.differences, seconds, requests)


def _with_files(directory: Path) -> Path:
    """Of an external table: the same for both sides."""
    for name in (STRAIGHT, BY_PROXY):
        place = directory / "files" / name / "csv"
        place.mkdir(parents=True)
        (place / "rows.csv").write_text(CSV)
    return directory / "files"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.clients.trino", description=__doc__.splitlines()[0])
    names = [kind.name for kind in KINDS]
    parser.add_argument("kinds", nargs="*", metavar="KIND", help=f"of {', '.join(names)}; without: all")
    parser.add_argument("--planted", help="a bug of tests/history/planted in the proxy: differences must be found")
    parser.add_argument("--figures", action="store_true", help="keep the figures in docs/figures/trino.json")
    given = parser.parse_args()
    if unknown := set(given.kinds) - set(names):
        parser.error(f"no such kind: {', '.join(sorted(unknown))}")
    kinds = [kind for kind in KINDS if not given.kinds or kind.name in given.kinds]
    if given.figures and (given.planted or len(kinds) < len(KINDS)):
        parser.error("figures are of a whole run")
    of = figures.origin("hms_cache_proxy", "tests/clients")
    outcomes = []
    with ExitStack() as stack:
        for outcome in run(stack, kinds, given.planted):
            print(outcome.text(), flush=True)
            outcomes.append(outcome)
    if given.figures:
        found = {outcome.name: outcome.figures() for outcome in outcomes}
        figures.write("trino", found, command="make trino FIGURES=1", of=of)
    return int(any(outcome.differences for outcome in outcomes))


if __name__ == "__main__":
    sys.exit(main())
