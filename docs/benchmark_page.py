"""What docs/benchmarks.md shows of one run of `python -m benchmarks`: sentences and tables from its figures.

Must not know: how they were measured. The names of servers and cases are those of the file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from docs import attempts
from docs.markdown import number, table
from tests.figures import Figures

HIVE, CACHED_STORE, HIT, BARE = "Hive 4.2", "CachedStore", "proxy hit", "bare uvloop"
BUSY = "under a steady load"


def answers(found: Figures) -> Iterator[str]:
    """What users ask first."""
    run = found.figures
    row, many = run["results"]["get_table"], run["results"]["many_tables"]
    first = run["first"]["many_tables"]
    yield (
        f"- **How many reads does one worker answer?** {_rate(row, HIT)} `get_table_req` per second of one table,"
        f" {_rate(many, HIT)} of {run['tables']:,} tables in turn ({_rate(first, HIT)} when each is read for the first"
        f" time). Hive 4.2 on the same machine answers {_rate(row, HIVE)} and {_rate(many, HIVE)}, its CachedStore"
        f" {_rate(row, CACHED_STORE)} and {_rate(many, CACHED_STORE)}."
    )
    if HIT in row and HIVE in row:
        times = row[HIVE]["cpu_us"] / row[HIT]["cpu_us"]
        cost = f"{row[HIT]['cpu_us']:.1f} us of CPU time"
        yield f"- **What does a read cost?** {cost}; Hive and its database use {times:,.0f} times as much."
    if "get_table" in run["half"]:
        half = run["half"]["get_table"]
        yield (
            f"- **How long does a read take?** At {half['rps']:,.0f} calls per second, half of the maximum: median"
            f" {half['p50_ms']:.2f} ms, 99th percentile {half['p99_ms']:.2f} ms."
        )
    busy = run["freshness"][BUSY]
    yield (
        f"- **How soon is a change at the metastore seen?** After {busy['median_ms']:.0f} ms (median; 95 %:"
        f" {busy['p95_ms']:.0f} ms), with {busy['changes_per_s']:.0f} other changes per second;"
        f" meanwhile {busy['hit_share']:.1%} of the reads of other tables are hits."
    )
    if run["prewarm"]:
        warm, again = run["prewarm"], run["restart"]
        yield (
            f"- **How long does a prewarm take?** {warm['seconds']:.0f} s for {warm['partitions']:,} partitions,"
            f" while calls are answered; the file has {warm['cache_bytes'] / 1e6:,.0f} MB. After a restart the first"
            f" hit comes after {again['first_hit_ms'] / 1000:.1f} s."
        )
    relay = run["relay"]["get_table"]
    yield (
        f"- **What does a relayed call cost?** {relay['relayed_ms'] - relay['direct_ms']:.2f} ms more than"
        f" the {relay['direct_ms']:.2f} ms of the metastore (`get_table_req`)."
    )


def picture(found: Figures) -> Iterator[str]:
    """Drawn by the run itself."""
    yield "![calls a second, server CPU, freshness, prewarm](benchmarks.png)"


REASONS: Final[Mapping[str, str]] = {
    "share": "A hit is one look-up more than what the bare server does, and a larger process pays more after each"
    " system call. A higher share would need C.",
    "cpu_cached": "A CachedStore with a warm JVM is fast: a fifth of its time can be less than the time of the bare"
    " server.",
    "half": "At this rate the worker and the load generator together use more than one of two cores, so whatever else"
    " runs (a JVM, the follower, the database) probably makes one of them wait. This was not measured by itself.",
    "many": "Such a read is decoded, looked up and answered in Python, in many small calls: a profile shows none that"
    " stands out.",
    "names_1000": "Each name is decoded and looked up in LMDB, and a new reply is joined and sent. A kept reply costs"
    " as much as on the bare server.",
    "loop": "A slice of a large reply takes less than a millisecond; the worker and two load generators share two"
    " cores, and the wait for one is in this figure.",
    "relay": "A relayed call costs the worker CPU time in Python and passes two more sockets. A tenth of what a fast"
    " metastore takes is less than that.",
    "prewarm": "The follower and PostgreSQL wait for each other in turn.",
    "restart": "The supervisor, the worker and the follower start one after another: three Python interpreters with"
    " their imports (`SQLAlchemy`, `pydantic`, `aiohttp`).",
    "fresh": "The median counts only if the metastore makes almost as many changes per second as the goal names, and"
    " it may make fewer.",
}
"""By the key of a goal (benchmarks/goals.py), why a run may miss it. A goal that no run has missed has none."""


def goals(found: Figures) -> Iterator[str]:
    """What was aimed at, and why the run missed what it missed."""
    rows = found.figures["goals"]
    cells = [[row["work"], row["goal"], row["found"], "yes" if row["reached"] else "**no**"] for row in rows]
    yield from table([["work", "goal", "measured", "reached"], *cells], text=4)
    missed: dict[str, list[str]] = {}
    for row in rows:
        if not row["reached"]:
            missed.setdefault(row["key"], []).append(row["work"])
    works = {key: "; ".join(those) for key, those in missed.items()}
    if works:
        yield from ("", "Why goals were missed:", "")
    yield from (f"- **{those}.** {_reason(key)}" for key, those in works.items())
    yield from attempts.shown(works)


def _reason(key: str) -> str:
    """ValueError if nobody has found out why this goal may be missed."""
    if key not in REASONS:
        raise ValueError(
            f"the run missed the goal {key!r}: find out why, and add it to REASONS in docs/benchmark_page.py"
        )
    return REASONS[key]


def calls(found: Figures) -> Iterator[str]:
    """Warm."""
    run = found.figures
    warmed = "; ".join(f"{run['cases'][case]['label']}: {count:,}" for case, count in run["warmed"].items())
    yield f"CachedStore reloads everything every {run['cached_store_refresh']}."
    yield f"Warm-up calls that each server answered first: {warmed}."
    yield ""
    yield from _rows(found.figures, found.figures["results"])


def first(found: Figures) -> Iterator[str]:
    """Cold: each request for the first time."""
    yield from _rows(found.figures, found.figures["first"])


def varied(found: Figures) -> Iterator[str]:
    """Every question another one, on one connection."""
    head = ["call", "server", "median ms", "99 % ms", "CPU ms per call", "bytes", "hits", "misses"]
    cells = [
        [found.figures["varied_cases"][case], _called(server, one)]
        + [number(value) for value in (one["p50_ms"], one["p99_ms"], one["cpu_us"] / 1000, int(one["reply_bytes"]))]
        + _counted(one)
        for case, row in found.figures["varied"].items()
        for server, one in row.items()
    ]
    yield from table([head, *cells], text=2)


def freshness(found: Figures) -> Iterator[str]:
    """How soon a change is seen."""
    head = ["load", "changes timed", "median", "95 %", "worst", "DDL/s of others"]
    head += ["hits, unrelated tables", "hits, polls"]
    cells = []
    for load, one in found.figures["freshness"].items():
        times = [f"{one[key]:.0f} ms" for key in ("median_ms", "p95_ms", "worst_ms")]
        shares = [f"{one[key]:.1%}" for key in ("hit_share", "poll_hit_share")]
        cells.append([load, str(len(one["delays_ms"])), *times, f"{one['changes_per_s']:.0f}", *shares])
    yield from table([head, *cells], text=1)


def filters(found: Figures) -> Iterator[str]:
    """On the table of the prewarm."""
    head = ["filter", "server", "median ms", "99 % ms", "CPU ms per call", "bytes", "hits", "misses"]
    cells = [
        [label, _called(server, one)]
        + [number(value) for value in (one["p50_ms"], one["p99_ms"], one["cpu_us"] / 1000, int(one["reply_bytes"]))]
        + _counted(one)
        for label, row in found.figures["filters"].items()
        for server, one in row.items()
    ]
    yield from table([head, *cells], text=2)


def missing(found: Figures) -> Iterator[str]:
    """Why a figure is not there, and where the time of the run went."""
    yield from (f"- {what}: {why}." for what, why in found.figures["missing"].items())
    seconds = found.figures["seconds"]
    yield ""
    yield (
        f"The run took {sum(seconds.values()) / 60:.1f} minutes: "
        + "; ".join(f"{what} {took:.0f} s" for what, took in seconds.items())
        + "."
    )


def _rows(run: Mapping[str, Any], results: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    head = ["call", "connections", "server", "calls/s", "CPU us per call", "median ms", "99 % ms", "times Hive"]
    cells = []
    for case, row in results.items():
        of = run["cases"][case]
        for server, one in row.items():
            times = f"{one['rps'] / row[HIVE]['rps']:,.1f}" if HIVE in row else ""
            values = [number(one[key]) for key in ("rps", "cpu_us", "p50_ms", "p99_ms")]
            cells.append([of["label"], str(of["connections"]), _called(server, one), *values, times, *_counted(one)])
    yield from table([[*head, "hits", "misses"], *cells], text=3)


def _called(server: str, one: Mapping[str, Any]) -> str:
    return str(one.get("called") or server)


def _counted(one: Mapping[str, Any]) -> list[str]:
    """Of a proxy: what its own counters say."""
    counted = one["counted"]
    if not counted:
        return ["", ""]
    hits = counted.get("hit", 0)
    return [f"{hits:,}", f"{sum(counted.values()) - hits:,}"]


def _rate(row: Mapping[str, Any], server: str) -> str:
    if server not in row:
        return "(no figure)"
    called = _called(server, row[server])
    return f"{row[server]['rps']:,.0f}" + (f" ({called})" if called != server else "")


PARTS: Final[dict[str, Callable[[Figures], Iterable[str]]]] = {
    "answers": answers,
    "picture": picture,
    "goals": goals,
    "calls": calls,
    "first": first,
    "varied": varied,
    "freshness": freshness,
    "filters on a million": filters,
    "missing": missing,
}
