"""The questions to the access log, in Spark SQL, and the answers.

Job: hold one statement for each question to the view `calls` (lines.py). The answers have few rows, except `items`,
which has one for each object. Must not know: what follows from the answers, how they are shown.

Terms: a *read* is a call of a method that the cache answers, or whose replies it keeps (the method table). It counts as
*served* if it was a hit, or would have been one with its table in the cache: it was a miss because the table was not
loaded, was left out by include or exclude, or had no room (CURABLE), or there was no cache at all. Any other miss stays
a miss, whatever is cached. Calls that ended in an error do not count, because they do not show what a cache would do.
Owner: the driver's process.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from hms_cache_proxy.consistency.gate import Reason
from hms_cache_proxy.errors import AdviceError
from hms_cache_proxy.methods.table import METHODS, MethodKind
from hms_cache_proxy.pipeline.advise.lines import VIEW
from hms_cache_proxy.pipeline.session import failures

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CURABLE: Final = (Reason.NOT_LOADED.value, Reason.EXCLUDED.value, Reason.FULL.value)
NO_CACHE: Final = "no_store"
WHOLE_LISTINGS: Final = ("get_partitions", "get_partitions_with_auth", "get_partitions_pspec", "get_partitions_req")
"""Methods that return all partitions of a table with their descriptors."""

LARGE_LISTING_BYTES: Final = 256 << 10
REPEATED_A_MINUTE: Final = 600
"""A client that asks the same question this often in one minute (ten times a second) is hammering."""

SHOWN: Final = 50
SLOTS: Final = 240
_TIMES: Final = ("first", "last", "slot")

_CACHED: Final = tuple(
    sorted(one.name for one in METHODS.values() if one.kind is MethodKind.READ and (one.reads or one.learn))
)
_READS: Final = f"""
SELECT *, method IN {_CACHED} AND outcome <> 'error' AS is_read,
       method IN {_CACHED} AND (outcome = 'hit' OR (outcome = 'miss' AND reason IN {CURABLE})
         OR (outcome = 'relay' AND reason = '{NO_CACHE}')) AS is_served,
       tables = 1 AND coalesce(length(object) - length(replace(object, '.', '')) >= 2, FALSE) AS of_table
FROM {VIEW}
"""
_OVERVIEW: Final = """
SELECT unix_seconds(min(minute)) AS first, unix_seconds(max(minute)) + 60 AS last, sum(lines) AS lines,
       sum(calls) AS calls, sum(bytes) AS bytes,
       coalesce(sum(calls) FILTER (WHERE is_read), 0) AS reads,
       coalesce(sum(calls) FILTER (WHERE is_read AND outcome = 'hit'), 0) AS hits,
       coalesce(sum(calls) FILTER (WHERE is_served), 0) AS served,
       (SELECT count(DISTINCT object) FROM reads WHERE of_table) AS tables,
       (SELECT count(DISTINCT host) FROM reads) AS hosts, (SELECT count(DISTINCT user) FROM reads) AS users,
       coalesce(sum(calls) FILTER (WHERE tables > 1), 0) AS about_several, max(calls / lines) > 1.001 AS sampled
FROM reads
"""
"""Several DISTINCT in one statement would multiply all rows."""

_OUTCOMES: Final = (
    "SELECT outcome, sum(calls) AS calls, sum(us) / 1e6 AS seconds FROM reads GROUP BY ALL ORDER BY calls DESC, outcome"
)
_TRAFFIC: Final = """
SELECT unix_seconds(minute) DIV {slot_s} * {slot_s} AS slot, outcome, sum(calls) / {slot_s} AS per_s
FROM reads GROUP BY ALL ORDER BY slot, outcome
"""
_ITEMS: Final = """
SELECT object, bool_and(of_table) AS of_table, sum(reads) AS reads, sum(served) AS served, sum(hits) AS hits,
       sum(writes) AS writes, sum(us) / 1e6 AS seconds, sum(largest) AS size
FROM (
  SELECT object, method, bool_and(of_table) AS of_table,
         coalesce(sum(calls) FILTER (WHERE is_read), 0) AS reads,
         coalesce(sum(calls) FILTER (WHERE is_served), 0) AS served,
         coalesce(sum(calls) FILTER (WHERE is_read AND outcome = 'hit'), 0) AS hits,
         coalesce(sum(calls) FILTER (WHERE outcome = 'write'), 0) AS writes,
         coalesce(sum(us) FILTER (WHERE is_read), 0) AS us, coalesce(max(largest) FILTER (WHERE is_read), 0) AS largest
  FROM reads WHERE tables = 1 GROUP BY object, method)
GROUP BY object
"""
_RELAYED: Final = """
WITH relayed AS (
  SELECT method, outcome, reason, sum(calls) AS calls, sum(us) / 1e6 AS seconds, count(object) AS objects,
         max_by(object, struct(calls, object)) AS most
  FROM (SELECT method, outcome, reason, object, sum(calls) AS calls, sum(us) AS us
        FROM reads WHERE outcome IN ('miss', 'relay') GROUP BY ALL)
  GROUP BY method, outcome, reason)
SELECT relayed.*, cached.method IS NULL AS always
FROM relayed LEFT JOIN (SELECT DISTINCT method FROM reads WHERE outcome = 'hit') AS cached
  ON relayed.method = cached.method
ORDER BY calls DESC, relayed.method, outcome, reason
"""
_CLIENTS: Final = f"""
WITH clients AS (
  SELECT host, user, sum(calls) AS calls, sum(us) / 1e6 AS seconds, sum(bytes) AS bytes, max(calls) AS busiest_minute,
         max(repeated).calls AS repeated_a_minute, max(repeated).method AS repeated_method,
         max(repeated).object AS repeated_object, sum(upstream) AS upstream
  FROM (
    SELECT host, user, minute, sum(calls) AS calls, sum(us) AS us, sum(bytes) AS bytes,
           sum(upstream) AS upstream, max(struct(calls, method, object)) AS repeated
    FROM (SELECT host, user, minute, method, object, sum(calls) AS calls, sum(us) AS us, sum(bytes) AS bytes,
                 coalesce(sum(calls) FILTER (WHERE outcome <> 'hit'), 0) AS upstream
          FROM reads GROUP BY ALL)
    GROUP BY host, user, minute)
  GROUP BY host, user)
SELECT * EXCEPT (place, place_repeated) FROM (
  SELECT *, row_number() OVER (ORDER BY calls DESC, host, user) AS place,
         row_number() OVER (ORDER BY repeated_a_minute DESC, host, user) AS place_repeated
  FROM clients)
WHERE place <= {SHOWN} OR (place_repeated <= {SHOWN} AND repeated_a_minute >= {REPEATED_A_MINUTE})
ORDER BY calls DESC, host, user
"""
"""Those with most calls, and those that repeat one most often."""
_LISTINGS: Final = f"""
SELECT object, method, sum(calls) AS calls, sum(bytes) AS bytes, max(largest) AS largest, sum(us) / 1e6 AS seconds,
       max_by(host, struct(bytes, host, user)) AS host, max_by(user, struct(bytes, host, user)) AS user
FROM (SELECT object, method, host, user, sum(calls) AS calls, sum(bytes) AS bytes, max(largest) AS largest,
             sum(us) AS us
      FROM reads WHERE of_table AND method IN {WHOLE_LISTINGS} AND outcome <> 'error' GROUP BY ALL)
GROUP BY object, method HAVING max(largest) >= {LARGE_LISTING_BYTES} AND sum(calls) > 1
ORDER BY bytes DESC, object, method LIMIT {SHOWN}
"""


@dataclass(frozen=True, slots=True)
class Overview:
    """All calls together; `sampled`: some lines stand for more than one call."""

    first: datetime
    last: datetime
    lines: int
    calls: float
    bytes: float
    reads: float
    hits: float
    served: float
    tables: int
    hosts: int
    users: int
    about_several: float
    """Calls that name several tables at once; the log does not say which."""

    sampled: bool


@dataclass(frozen=True, slots=True)
class Outcomes:
    outcome: str
    calls: float
    seconds: float
    """Total time that clients waited for these calls."""


@dataclass(frozen=True, slots=True)
class Traffic:
    slot: datetime
    outcome: str
    per_s: float


@dataclass(frozen=True, slots=True)
class ObjectTraffic:
    """What calls were about: a table (`of_table`), a database, a catalog, or nothing (None)."""

    object: str | None
    of_table: bool
    reads: float
    served: float
    hits: float
    writes: float
    seconds: float
    size: int
    """Bytes: the sum of the largest replies of all methods that read it."""


@dataclass(frozen=True, slots=True)
class Relayed:
    """Calls that went to the metastore for one reason. `always`: no call of the method was a hit."""

    method: str
    outcome: str
    reason: str
    calls: float
    seconds: float
    objects: int
    always: bool
    most: str | None


@dataclass(frozen=True, slots=True)
class ClientTraffic:
    """`busiest_minute`: calls in it; `repeated_...`: the question that it asked most often within a minute;
    `upstream`: calls that were not answered from the cache."""

    host: str
    user: str | None
    calls: float
    seconds: float
    bytes: float
    busiest_minute: float
    repeated_a_minute: float
    repeated_method: str
    repeated_object: str | None
    upstream: float

    @property
    def hammers(self) -> bool:
        return self.repeated_a_minute >= REPEATED_A_MINUTE


@dataclass(frozen=True, slots=True)
class Listing:
    """A table whose partitions were all requested, more than once; `host`, `user`: who requested the most bytes."""

    object: str
    method: str
    calls: float
    bytes: float
    largest: int
    seconds: float
    host: str
    user: str | None


@dataclass(frozen=True, slots=True)
class Answers:
    """The answers to all questions."""

    overview: Overview
    outcomes: list[Outcomes]
    slot_s: int
    traffic: list[Traffic]
    items: list[ObjectTraffic]
    relayed: list[Relayed]
    clients: list[ClientTraffic]
    listings: list[Listing]


def ask(spark: SparkSession) -> Answers:
    """Ask all questions."""
    with failures("access log", AdviceError):
        spark.sql(_READS).createOrReplaceTempView("reads")
        overview = Overview(**_rows(spark, _OVERVIEW)[0])
        minutes = int((overview.last - overview.first).total_seconds()) // 60
        slot_s = 60 * max(1, -(-minutes // SLOTS))
        return Answers(
            overview,
            [Outcomes(**row) for row in _rows(spark, _OUTCOMES)],
            slot_s,
            [Traffic(**row) for row in _rows(spark, _TRAFFIC.format(slot_s=slot_s))],
            [ObjectTraffic(**row) for row in _rows(spark, _ITEMS)],
            [Relayed(**row) for row in _rows(spark, _RELAYED)],
            [ClientTraffic(**row) for row in _rows(spark, _CLIENTS)],
            [Listing(**row) for row in _rows(spark, _LISTINGS)],
        )


def _rows(spark: SparkSession, statement: str) -> list[dict[str, Any]]:
    return [_in_utc(row.asDict()) for row in spark.sql(statement).collect()]


def _in_utc(row: dict[str, Any]) -> dict[str, Any]:
    """Times are selected as seconds, because Spark's own would be in this machine's time zone."""
    return {key: datetime.fromtimestamp(value, UTC) if key in _TIMES else value for key, value in row.items()}
