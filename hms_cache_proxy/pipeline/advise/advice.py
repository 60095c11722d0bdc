"""Turns the answers into advice: which tables to cache, how large the cache must be, what else helps.

Job: draw these conclusions. Must not know: Spark, files, how they are shown. Pure.

Tables are chosen in the order of served reads (questions.py) per byte of replies. Reads of databases, of lists, and of
several tables at once always count as served, because they take almost no space. The size of a table is an estimate:
the sum of the largest reply of each method. The cache file stores partitions in a smaller form, so the estimate is on
the safe side for tables that are listed in full. For tables that are only read one partition at a time, the log does
not tell the size.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final

from hms_cache_proxy.consistency.gate import Reason
from hms_cache_proxy.pipeline.advise.lines import LinesRead
from hms_cache_proxy.pipeline.advise.patterns import KnownTable, Patterns, patterns
from hms_cache_proxy.pipeline.advise.questions import CURABLE, NO_CACHE, Answers, ClientTraffic, ObjectTraffic

HEADROOM: Final = 1.25
LEAST_CACHE_BYTES: Final = 64 << 20
MIB: Final = 1 << 20
CURVE_POINTS: Final = 400

REMEDIES: Final[Mapping[str, str]] = {
    Reason.EXCLUDED.value: "the tables are left out by include and exclude",
    Reason.FULL.value: "cache.max_bytes is too small",
    Reason.NOT_LOADED.value: 'not loaded yet: wait for the prewarm, or set ready_when = "prewarmed"',
    Reason.ORDER.value: 'list_order = "name" answers such lists from the cache',
    Reason.NO_WRITE_ID.value: "set transactional_reads for reads of transactional tables without a ValidWriteIdList",
    Reason.ABSENT.value: "cache_absent = true lets the cache answer for objects that do not exist",
    Reason.AUTHORIZATION.value: "set authorization in the settings",
    Reason.VERDICT.value: "raise authorization_ttl_s; reads of what a user may not see stay misses",
    Reason.UNCONFIRMED.value: "the follower falls behind: check its log lines and the database",
    Reason.BOUNDED.value: "raise max_staleness_ms, or lower follower.poll_interval_max_ms",
    Reason.STRICT.value: 'no look at the database ended in time: this is what "strict" costs',
    Reason.FILTER.value: "put conditions on the first partition key",
    Reason.FILTER_LIKE.value: "LIKE differs between databases: use =, IN or ranges",
    Reason.VARIANT.value: "set store_url: over Thrift, calls for one partition are relayed",
    Reason.SETMETACONF.value: "these clients change metastore settings for their connection",
    Reason.CAPABILITIES.value: "set the client's hive.metastore.client.capabilities to HiveServer2's",
    NO_CACHE: 'store = "none": nothing is cached',
}
"""What can be done about a reason; docs/metrics.md lists all reasons."""

TO_CACHE: Final = "cache the chosen tables (advice.toml)"

SETTINGS: Final[Mapping[str, tuple[str, str]]] = {
    Reason.ORDER.value: ('list_order = "name"', "lists come in the order of names"),
    Reason.NO_WRITE_ID.value: (
        'transactional_reads = "strict"',
        "these reads wait for a look at the database, and are then answered as the metastore would",
    ),
    Reason.ABSENT.value: ("cache_absent = true", "the cache answers that something does not exist"),
}
"""Settings that would make hits of these misses, and what they change for readers."""


@dataclass(frozen=True, slots=True)
class Choice:
    """Tables to be cached for a hit ratio. Ratios are of all reads; `curve`: (bytes, ratio) as tables are added."""

    wanted: float
    now: float
    best: float
    reached: float
    tables: tuple[ObjectTraffic, ...]
    size: int
    curve: tuple[tuple[int, float], ...]


@dataclass(frozen=True, slots=True)
class Worth:
    """What one suggestion is worth: the hit ratio of this log if it had been followed alone. `reason` None: to cache
    the chosen tables."""

    reason: str | None
    suggestion: str
    calls: float
    after: float


@dataclass(frozen=True, slots=True)
class NeverRead:
    """Tables that no line names. `known` None: it is not known which tables there are."""

    known: int | None
    names: tuple[KnownTable, ...]


@dataclass(frozen=True, slots=True)
class Advice:
    """The advice. `cache_bytes`: the recommended cache.max_bytes."""

    logs: tuple[str, ...]
    read: LinesRead
    answers: Answers
    choice: Choice
    patterns: Patterns
    cache_bytes: int
    hot: tuple[ObjectTraffic, ...]
    never: NeverRead
    hammering: tuple[ClientTraffic, ...]

    @property
    def worth(self) -> tuple[Worth, ...]:
        """What each suggestion that makes hits of misses is worth, the best first."""
        overview, choice = self.answers.overview, self.choice
        total = max(overview.reads, 1e-9)
        found = [Worth(None, TO_CACHE, (choice.reached - choice.now) * total, choice.reached)]
        missed: defaultdict[str, float] = defaultdict(float)
        for one in self.answers.relayed:
            if one.outcome == "miss" and one.reason in REMEDIES and one.reason not in CURABLE:
                missed[one.reason] += one.calls
        found += (
            Worth(reason, REMEDIES[reason], calls, min(1.0, (overview.hits + calls) / total))
            for reason, calls in missed.items()
        )
        return tuple(sorted((one for one in found if one.after > choice.now), key=lambda one: -one.after))

    def summary(self) -> dict[str, Any]:
        """The advice as plain values, for JSON."""
        overview, choice = self.answers.overview, self.choice
        return {
            "lines": {"read": self.read.lines, "empty": self.read.empty, "invalid": self.read.invalid},
            "from": overview.first.isoformat(),
            "to": overview.last.isoformat(),
            "sampled": overview.sampled,
            "calls": round(overview.calls),
            "reads": round(overview.reads),
            "hit_ratio": {
                "now": round(choice.now, 4),
                "best": round(choice.best, 4),
                "wanted": choice.wanted,
                "reached": round(choice.reached, 4),
            },
            "worth": [
                {
                    **{"reason": one.reason, "suggestion": one.suggestion, "calls": round(one.calls)},
                    "hit_ratio": {"before": round(choice.now, 4), "after": round(one.after, 4)},
                }
                for one in self.worth
            ],
            "include": list(self.patterns.include),
            "exclude": list(self.patterns.exclude),
            "cache_max_bytes": self.cache_bytes,
            "cached_tables": len(choice.tables),
            "hot": [{"object": one.object, "reads": round(one.reads), "bytes": one.size} for one in self.hot],
            "never_read": {"known": self.never.known, "tables": [".".join(name) for name in self.never.names]},
            "relayed": [
                {
                    **{"method": one.method, "outcome": one.outcome, "reason": one.reason, "calls": round(one.calls)},
                    **{"always": one.always, "remedy": REMEDIES.get(one.reason)},
                }
                for one in self.answers.relayed
            ],
            "hammering": [
                {
                    **{"host": one.host, "user": one.user, "calls": round(one.calls)},
                    **{"method": one.repeated_method, "object": one.repeated_object},
                    "in_one_minute": round(one.repeated_a_minute),
                }
                for one in self.hammering
            ],
            "listings": [
                {
                    **{"table": one.object, "method": one.method, "calls": round(one.calls), "bytes": round(one.bytes)},
                    **{"host": one.host, "user": one.user},
                }
                for one in self.answers.listings
            ],
        }


def advise(
    logs: Collection[str], read: LinesRead, answers: Answers, catalogue: frozenset[KnownTable] | None, wanted: float
) -> Advice:
    """`catalogue`: all existing tables, None if they are not known; `wanted`: a hit ratio, 0 to 1."""
    choice = choose(answers, wanted)
    tables = [item for item in answers.items if item.of_table]
    chosen = {name_of(item) for item in choice.tables}
    known = frozenset(name_of(item) for item in tables) | (catalogue or frozenset())
    if any(item.served for item in tables):
        made = patterns(chosen, known - chosen, all_known=catalogue is not None)
    else:  # no call could have been answered from a cache, so the log does not say what to cache
        made = Patterns((), (), known)
    admitted = sum(item.size for item in answers.items if not item.of_table or name_of(item) in made.admitted)
    seen = {name_of(item) for item in tables if item.reads}
    never = tuple(sorted(catalogue - seen)) if catalogue is not None else ()
    by_reads = sorted((item for item in tables if item.reads), key=lambda one: (-one.reads, one.object or ""))
    return Advice(
        tuple(logs),
        read,
        answers,
        choice,
        made,
        cache_bytes(admitted),
        tuple(by_reads[:50]),
        NeverRead(None if catalogue is None else len(catalogue), never),
        tuple(one for one in answers.clients if one.hammers),
    )


def choose(answers: Answers, wanted: float) -> Choice:
    """The smallest tables that give the wanted share of hits; if none do, all tables that give any hits."""
    overview = answers.overview
    tables = [item for item in answers.items if item.of_table and item.served > 0]
    tables.sort(key=lambda item: (-item.served / max(item.size, 1), item.object or ""))
    total = max(overview.reads, 1e-9)
    served = overview.served - sum(item.served for item in tables)
    size = sum(item.size for item in answers.items if not item.of_table)
    curve = [(size, served / total)]
    chosen, reached, needed = 0, served / total, size
    for number, item in enumerate(tables, 1):
        served += item.served
        size += item.size
        curve.append((size, served / total))
        if reached < wanted:
            chosen, reached, needed = number, served / total, size
    step = max(1, len(curve) // CURVE_POINTS)
    points = (*curve[:-1:step], curve[-1])
    return Choice(wanted, overview.hits / total, served / total, reached, tuple(tables[:chosen]), needed, points)


def cache_bytes(size: int) -> int:
    """The cache.max_bytes for this many bytes of replies, in whole MiB."""
    return max(LEAST_CACHE_BYTES, -(-int(size * HEADROOM) // MIB) * MIB)


def name_of(item: ObjectTraffic) -> KnownTable:
    """The name of a table without its catalog, because patterns apply to all catalogs."""
    assert item.of_table and item.object is not None
    _, database, table = item.object.split(".", 2)
    return KnownTable(database, table)
