"""`python -m tests.torture.planted [NAME ...]`: faults of the proxy are put back, one at a time; are they found?

Job: `RUNS` says which planted bug of tests/history/planted puts which fault back, which kinds of faults bring it out,
and what the machine must say then. What it says is kept in docs/figures/torture-planted.json, from which `make docs`
makes the table of docs/test-results.md. `ELSEWHERE` are faults that the machine cannot find, with what finds them.
Must not know: how the machine works.
"""

from __future__ import annotations

import random
import re
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from tests import figures
from tests.testbed.bed import Bed
from tests.torture.faults import every
from tests.torture.run import tortured
from tests.torture.schedule import planned
from tests.torture.world import World, world

NAME: Final = "torture-planted"
STALE: Final = r"required|was written on the same|this connection saw|not converged|columns"


@dataclass(frozen=True, slots=True)
class Run:
    """`says`: a pattern that what was found must have."""

    fault: str
    planted: str
    kinds: str
    says: str
    minutes: float = 0.4
    seed: int = 1


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """A fault that this machine does not bring about."""

    fault: str
    why: str
    test: str


RUNS: Final = (
    Run("a full disk: hits of what could not be fenced", "full_disk_forgotten", "full_disk,limited_files", STALE, 1),
    Run("a full disk: writes fail", "full_disk_refuses", "limited_files", "limited_files at", 1),
    Run("a leaked fence", "fence_leaked", "cut,kill_metastore", "fences stand", 1),
    Run("slots of dead readers", "dead_readers_kept", "kill_workers", "readers of fences that have ended", 1),
    Run("a sick metastore", "sick_metastore_preferred", "sick_metastore", "have their reads answered", 0.6),
    Run("connections of silent clients", "idle_connections_kept", "connection_flood", "connections to the metastore"),
    Run("connections without a bound", "connections_unbounded", "connection_flood", "connections to the metastore"),
    Run("a worker that hangs", "hung_worker_left", "hang_worker", "no other worker has taken over"),
    Run("one request stops a worker", "one_request_at_a_time", "huge_lists", "p99"),
    Run("no total of memory and disk", "budgets_endless", "long_requests", "bytes are taken"),
    Run("a log that goes back", "told_ids_never_go_down", "restore_database", "restore_database at", 0.8),
    Run("locks of readers", "shared_locks_fence", "shared_locks", "others take shared locks"),
    Run("equal misses at once", "misses_alone", "same_misses", "equal reads at once"),
    Run("an outage", "session_calls_wait", "kill_metastore", "have their reads answered", 0.8),
    Run("a stuck follower", "confirmed_for_ever", "hang_follower", STALE, 2),
    Run("a log that was purged", "purged_log_followed", "purge_log,gap_in_log", STALE, 1),
)

ELSEWHERE: Final = (
    Elsewhere("a backlog that kills the follower", "its floods are too small", "tests/follower/test_backlog.py"),
    Elsewhere("loads put off by changes", "nobody writes the wide table", "tests/follower/test_large_loads.py"),
    Elsewhere("a replica that confirms", "its database has no replica", "tests/follower/test_replica.py"),
    Elsewhere("eviction of what changes", "its caches are not full", "tests/follower/test_eviction.py"),
    Elsewhere("revokes", "its proxies do not answer by user", "tests/methods/test_dispatch.py"),
    Elsewhere("`eventual` of any age", "its proxies are `session`", "tests/consistency/test_gate.py"),
    Elsewhere("listings taken for slow clients", "its listings take less than a second", "tests/cache/test_streams.py"),
    Elsewhere("a start that forgets writes", "nobody was told of them", "tests/consistency/test_fences_at_starts.py"),
    Elsewhere("sockets of each worker", "no planted bug is that large", "tests/ops/test_sockets.py"),
)


def planted(there: World, one: Run, prefix: str) -> dict[str, Any]:
    """Start the proxies with it, run; what the machine said of it."""
    of = figures.origin("hms_cache_proxy", "tests/torture")
    for side in there.sides:
        side.proxy.stop()
        side.proxy.planted = one.planted
        side.proxy.start(prewarmed=True)
    there.complaints.clear()
    kinds = {name: kind.seconds for name, kind in every(one.kinds.split(",")).items()}
    seconds = one.minutes * 60
    random.seed(one.seed)
    try:
        outcome = tortured(there, planned(one.seed, seconds, kinds), seconds=seconds, prefix=prefix)
    except AssertionError as error:
        said = [str(error).partition("\n")[0].rstrip(":")]
    else:
        said = [*outcome.wrong, *outcome.slow]
    found = [PORTS.sub("", line)[:200] for line in said if re.search(one.says, line)]
    return {**asdict(one), "found": bool(found), "said": found[0] if found else "", "commit": of.commit}


PORTS: Final = re.compile(r" on port \d+|(?<=on )\d{5}")


def keep(rows: Sequence[Mapping[str, Any]]) -> None:
    """Beside those of other faults that are there."""
    before = figures.read(NAME).figures["faults"] if figures.exists(NAME) else ()
    by_name = {row["planted"]: row for row in (*before, *rows)}
    faults = [by_name[one.planted] for one in RUNS if one.planted in by_name]
    document = {"faults": faults, "elsewhere": [asdict(one) for one in ELSEWHERE]}
    of = figures.origin("hms_cache_proxy", "tests/torture")
    figures.write(NAME, document, command="python -m tests.torture.planted", of=of)


def main() -> int:
    by_name = {one.planted: one for one in RUNS}
    missed = 0
    with tempfile.TemporaryDirectory(prefix="torture-") as directory, closing(Bed()) as bed:
        with world(Path(directory), bed) as there:
            there.scale = 0.1
            for number, name in enumerate(sys.argv[1:] or by_name):
                row = planted(there, by_name[name], f"planted{number}")
                print(f"{name}: {row['said'] or 'not found'}", flush=True)
                missed += not row["found"]
                keep([row])
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main())
