"""What follows from the answers: which tables to cache, how large the cache has to be, what else would help.

Job: decide. Must not know: Spark, files, how it is shown. Pure.

The tables are taken in the order of what they give for their size: served reads (questions.py) for a byte of replies.
Reads of databases, of lists, and of several tables at once are always served: they take next to no room. The size of a
table is an estimate from its replies: the largest of each method, added up. The cache file holds partitions in a
smaller form, so that it is on the safe side for tables that are listed as a whole; of one that is only ever read by
single partitions the log does not know the size.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final

from hms_cache_proxy.consistency.gate import Reason
from hms_cache_proxy.pipeline.advise.lines import LinesRead
from hms_cache_proxy.pipeline.advise.patterns import KnownTable, Patterns, patterns
from hms_cache_proxy.pipeline.advise.questions import NO_CACHE, Answers, ClientTraffic, ObjectTraffic

HEADROOM: Final = 1.25
LEAST_CACHE_BYTES: Final = 64 << 20
MIB: Final = 1 << 20
CURVE_POINTS: Final = 400

REMEDIES: Final[Mapping[str, str]] = {
    Reason.EXCLUDED.value: "include and exclude leave it out",
    Reason.FULL.value: "cache.max_bytes is too small",
    Reason.NOT_LOADED.value: 'not loaded yet: wait for the prewarm, or ready_when = "prewarmed"',
    Reason.ORDER.value: 'list_order = "name" answers such lists from the cache',
    Reason.NO_WRITE_ID.value: "transactional tables without a ValidWriteIdList: transactional_reads",
    Reason.ABSENT.value: "cache_absent = true answers for what does not exist",
    Reason.AUTHORIZATION.value: "decide authorization in the settings",
    Reason.UNCONFIRMED.value: "the follower falls behind: look at its log lines and at the database",
    Reason.BOUNDED.value: "raise max_staleness_ms, or lower follower.poll_interval_max_ms",
    Reason.STRICT.value: 'the price of consistency = "strict"',
    Reason.FILTER.value: "put conditions on the first partition key",
    Reason.FILTER_LIKE.value: "LIKE means something else in each database: use =, IN or ranges",
    Reason.VARIANT.value: "set store_url: over Thrift calls for one partition are the metastore's",
    Reason.SETMETACONF.value: "these clients change metastore settings for their connection",
    Reason.CAPABILITIES.value: "set the client's hive.metastore.client.capabilities as HiveServer2 has them",
    NO_CACHE: 'store = "none": nothing is cached',
}
"""What can be done about a reason; docs/metrics.md has all of them."""

SETTINGS: Final[Mapping[str, tuple[str, str]]] = {
    Reason.ORDER.value: ('list_order = "name"', "lists come in the order of names"),
    Reason.NO_WRITE_ID.value: (
        'transactional_reads = "eventual"',
        "such readers get the state of the last step, not of their transaction",
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
class NeverRead:
    """Tables that no line names. `known` None: it is not known which tables there are."""

    known: int | None
    names: tuple[KnownTable, ...]


@dataclass(frozen=True, slots=True)
class Advice:
    """All of it. `cache_bytes`: what cache.max_bytes should be."""

    logs: tuple[str, ...]
    read: LinesRead
    answers: Answers
    choice: Choice
    patterns: Patterns
    cache_bytes: int
    hot: tuple[ObjectTraffic, ...]
    never: NeverRead
    hammering: tuple[ClientTraffic, ...]

    def summary(self) -> dict[str, Any]:
        """Plain values, for JSON."""
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
    """`catalogue`: all tables, None where that is not known; `wanted`: a hit ratio, 0 to 1."""
    choice = choose(answers, wanted)
    tables = [item for item in answers.items if item.of_table]
    chosen = {name_of(item) for item in choice.tables}
    known = frozenset(name_of(item) for item in tables) | (catalogue or frozenset())
    if any(item.served for item in tables):
        made = patterns(chosen, known - chosen, all_known=catalogue is not None)
    else:  # nothing was asked that a cache could have answered: that says nothing of what should be cached
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
    """The tables that give the wanted share of hits in the least room; if they cannot, all that give any hits."""
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
    """What cache.max_bytes should be for so many bytes of replies: whole MiB."""
    return max(LEAST_CACHE_BYTES, -(-int(size * HEADROOM) // MIB) * MIB)


def name_of(item: ObjectTraffic) -> KnownTable:
    """Of a table, without its catalog: patterns apply in all of them."""
    assert item.of_table and item.object is not None
    _, database, table = item.object.split(".", 2)
    return KnownTable(database, table)
