"""`python -m tests.long_runs NAME [--seed N] [--runs N] [--seconds S] [--steps N]`: a long run, and what it found.

Job: run one of `RUNS` and write docs/figures/long-runs/NAME.json, of which `make docs` makes the table of
docs/test-results.md. The exit status is 1 if something was found; that is kept, too.
Must not know: how a history or random calls work.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from hms_cache_proxy.plurals import counted
from tests import figures
from tests.embedded.random_calls import AS_HIVE, compared
from tests.history.__main__ import with_proxies
from tests.proxy import Proxy
from tests.security import test_handshake_fuzz, test_ticket_fuzz
from tests.testbed.bed import Bed
from tests.visibility import hooks
from tests.visibility.rights import RulesFile
from tests.visibility.test_visibility import LEARNED, Hooked, judged, made


@dataclass(frozen=True, slots=True)
class Lengths:
    """Of each run: seconds of a history; steps, which are random calls, logins, or reads. And the seeds of the runs,
    one for each."""

    seeds: range
    seconds: float
    steps: int


@dataclass(frozen=True, slots=True)
class Found:
    """One run: what it counted, and whether anything was wrong."""

    text: str
    wrong: bool
    counts: dict[str, int]


@dataclass(frozen=True, slots=True)
class LongRun:
    """`run` gives one result for each seed, but for those that have no seed. `steps`: its length is in steps."""

    what: str
    run: Callable[[Lengths], Iterator[Found]]
    seeded: bool = True
    steps: bool = False


def history(flavour: str, store: str, peers: int, lengths: Lengths) -> Iterator[Found]:
    """Readers checked while everything is written, and proxies are stopped and killed. `peers`: so many that tell each
    other of writes, and a spare one, in place of two."""
    for seed in lengths.seeds:
        random.seed(seed)
        outcome = with_proxies(flavour, store, lengths.seconds, peers)
        told = {name: outcome.counts.get(name, 0) for name in ("hits", "writes", "increments")}
        counts = {"reads": outcome.reads, **told}
        counts |= {"violations": len(outcome.violations), "errors": len(outcome.errors)}
        yield Found(outcome.summary(), bool(outcome.violations or outcome.errors), counts)


def random_calls(flavour: str, overlapping: bool, lengths: Lengths) -> Iterator[Found]:
    """The same calls on Hive 4.2 and on the embedded metastore."""
    with ExitStack() as stack:
        bed = Bed()
        stack.callback(bed.close)
        hive = bed.shared("hive42")
        ours = bed.private_metastore(flavour, settings=AS_HIVE)
        for seed in lengths.seeds:
            found = compared(hive, ours, f"random_{seed}", seed, lengths.steps, overlapping=overlapping)
            counts = {"steps": lengths.steps, "differences": int(bool(found))}
            yield Found(found or f"{lengths.steps} steps, no difference", bool(found), counts)


def damaged_logins(attacked: Callable[[Path, int], Mapping[str, int]], lengths: Lengths) -> Iterator[Found]:
    """Clients that damage what they send before they have logged in, and others beside them."""
    for seed in lengths.seeds:
        os.environ["SEED"] = str(seed)  # of tests.chance
        with tempfile.TemporaryDirectory(prefix="hms-logins-") as directory:
            yield _judged(partial(attacked, Path(directory), lengths.steps))


def visibility(lengths: Lengths) -> Iterator[Found]:
    """Two users in front of Hive 4.2 with a filter hook and a listener, while what they may see changes."""
    with ExitStack() as stack:
        bed, directory = Bed(), Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="hms-visibility-")))
        stack.callback(bed.close)
        classes = hooks.compiled(directory)
        for seed in lengths.seeds:
            os.environ["SEED"] = str(seed)  # of tests.chance
            rules = directory / f"rules-{seed}"
            rights = RulesFile(rules)
            metastore = bed.private_metastore("hive42", settings=hooks.settings(rules), classes=(classes,))
            assert metastore.database is not None
            made("{}:{}".format(*metastore.address))
            of = metastore.uri, metastore.database.reader_url
            with closing(Proxy(directory / f"proxy-{seed}", *of, LEARNED)) as proxy:
                proxy.start(prewarmed=True)
                yield _judged(partial(judged, Hooked(metastore, rights), proxy, lengths.steps))
            bed.release(metastore)


def _judged(run: Callable[[], Mapping[str, float]]) -> Found:
    """What a run counts, or what it says is wrong."""
    try:
        counts = {name: round(count) for name, count in run().items()}
    except AssertionError as error:
        return Found(str(error), True, {"wrong": 1})
    return Found(", ".join(f"{name}: {count:,}" for name, count in counts.items()), False, counts)


def soak(lengths: Lengths) -> Iterator[Found]:
    """`make soak`, half of the time for each of its two tests."""
    tests = ["tests/history/test_history.py::test_no_violation", "tests/write_ids/test_history.py::test_no_violation"]
    environment = {**os.environ, "HISTORY_SECONDS": str(lengths.seconds / len(tests))}
    for test in tests:
        done = subprocess.run([sys.executable, "-m", "pytest", "-q", "-n", "0", test], env=environment)
        failed = done.returncode != 0
        yield Found(f"{test}: exit status {done.returncode}", failed, {"failed": int(failed)})


RUNS: Final = {
    **{
        f"history-{flavour}-{store}": LongRun(
            f"histories on {flavour}, two proxies that read its {'database' if store == 'sql' else 'Thrift port'}",
            partial(history, flavour, store, 0),
        )
        for flavour, store in (
            ("hive42", "sql"),
            ("hive42", "thrift"),
            ("hive42-mariadb", "sql"),
            ("hive31", "sql"),
            ("hive23-postgresql", "sql"),
            ("embedded", "sql"),
            ("embedded", "thrift"),
        )
    },
    "history-embedded-fleet": LongRun(
        "histories through three proxies that are peers, and a fourth one that leaves and joins",
        partial(history, "embedded", "sql", 3),
    ),
    "random-calls-apart": LongRun(
        "random calls on Hive 4.2 and the embedded metastore: replies, parameters, statistics, files",
        partial(random_calls, "embedded", False),
        steps=True,
    ),
    "random-calls-overlapping": LongRun(
        "the same on locations that overlap", partial(random_calls, "embedded", True), steps=True
    ),
    "random-calls-postgresql": LongRun(
        "the same, the embedded metastore on PostgreSQL", partial(random_calls, "embedded-postgresql", True), steps=True
    ),
    "damaged-logins-tickets": LongRun(
        "logins with tickets, damaged in each of their messages, and others beside them",
        partial(damaged_logins, test_ticket_fuzz.attacked),
        steps=True,
    ),
    "damaged-logins-secrets": LongRun(
        "the same with tokens and passwords", partial(damaged_logins, test_handshake_fuzz.attacked), steps=True
    ),
    "visibility": LongRun(
        'reads of two users with different rights, which change, with `authorization = "learned"`',
        visibility,
        steps=True,
    ),
    "soak": LongRun("histories of all tables and of transactional ones, proxies killed", soak, seeded=False),
}


def outcome(found: list[Found]) -> str:
    """One line: sums, and ranges of what differs."""
    wrong = sum(one.wrong for one in found)
    runs = counted(len(found), "run")
    parts = [f"{runs}, {wrong} with findings" if wrong else f"{runs}, nothing found"]
    for name in dict.fromkeys(name for one in found for name in one.counts):
        counts = [one.counts[name] for one in found if name in one.counts]
        least, most = min(counts), max(counts)
        if most:
            parts.append(f"{name}: {most:,}" if least == most else f"{name}: {least:,} to {most:,}")
    return "; ".join(parts)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.long_runs", description=__doc__.splitlines()[0])
    parser.add_argument("name", choices=RUNS)
    parser.add_argument("--seed", type=int, default=None, help="the first one; without: a new one, which is kept")
    parser.add_argument("--runs", type=int, default=3, help="seeds from there on")
    parser.add_argument("--seconds", type=float, default=60.0, help="of each history; of the soak in all")
    parser.add_argument("--steps", type=int, default=500, help="of each run: random calls, logins, or reads")
    given = parser.parse_args()
    first = given.seed if given.seed is not None else random.SystemRandom().randrange(100_000)
    long_run = RUNS[given.name]
    of, began = figures.origin("hms_cache_proxy", "tests"), time.monotonic()
    seeds = range(first, first + given.runs)
    found: list[Found] = []
    for one in long_run.run(Lengths(seeds, given.seconds, given.steps)):
        found.append(one)
        print(one.text, flush=True)
    taken = list(seeds) if long_run.seeded else []
    document = {
        "what": long_run.what,
        "seeds": taken,
        "seconds": round(time.monotonic() - began, 1),
        "outcome": outcome(found),
        "runs": [one.counts for one in found],
    }
    command = f"python -m tests.long_runs {given.name}"
    command += f" --seed {first} --runs {given.runs}" if taken else ""
    command += f" --steps {given.steps}" if long_run.steps else f" --seconds {given.seconds:g}"
    figures.write(f"long-runs/{given.name}", document, command=command, of=of)
    return int(any(one.wrong for one in found))


if __name__ == "__main__":
    sys.exit(main())
