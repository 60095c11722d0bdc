"""Reads access log files into a Spark view.

Job: read the lines of any number of files, plain or compressed, from any place that Spark can read; count and name the
invalid ones; group the others by minute, so that later queries read few rows. It makes one pass, because parsing is
most of the cost. Must not know: these queries.

The view `calls` has one row for all similar calls of a minute:

    minute timestamp, method, object, tables (how many, where several), outcome, reason, host, user,
    lines bigint, calls double (a line counts 1/sample), bytes double (of all replies), largest bigint (reply),
    us double (of all calls)

Owner: the driver's process.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from hms_cache_proxy.errors import AdviceError
from hms_cache_proxy.pipeline.session import failures
from hms_cache_proxy.plurals import counted, fitting

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

VIEW: Final = "calls"
EXAMPLE_CHARACTERS: Final = 80

_CORRUPT: Final = "not_json"
_SCHEMA: Final = (
    "time TIMESTAMP, method STRING, object STRING, tables INT, outcome STRING, reason STRING, bytes BIGINT, us BIGINT,"
    f" client STRING, user STRING, sample DOUBLE, metastore_us BIGINT, {_CORRUPT} STRING"
)
_PARSED: Final = f"""
SELECT file, value, line.* FROM (
  SELECT file, value,
         from_json(value, '{_SCHEMA}', map('mode', 'PERMISSIVE', 'columnNameOfCorruptRecord', '{_CORRUPT}')) AS line
  FROM text)
"""
_GOOD: Final = (
    f"{_CORRUPT} IS NULL AND year(time) BETWEEN 2000 AND 2199 AND method IS NOT NULL AND"
    " outcome IN ('hit', 'miss', 'relay', 'write', 'error') AND bytes >= 0 AND us >= 0"
    " AND coalesce(sample, 1) > 0 AND coalesce(sample, 1) <= 1 AND metastore_us IS NULL"
)
"""Lines of the slow log, which may be in the same directory, have one more key. Their calls are in the access log."""
_OF_GOOD: Final = {
    "minute": "date_trunc('MINUTE', time)",
    "method": "method",
    "object": "object",
    "tables": "coalesce(tables, 1)",
    "outcome": "outcome",
    "reason": "coalesce(reason, '')",
    "host": "regexp_replace(coalesce(client, ''), ':[0-9]+$', '')",
    "user": "user",
}
"""What the lines that are grouped into one row have in common."""

_FOLDED: Final = f"""
SELECT bad, example, {", ".join(_OF_GOOD)}, count(*) AS lines, sum(weight) AS calls, sum(bytes * weight) AS bytes,
       max(bytes) AS largest, sum(us * weight) AS us, count_if(empty) AS empty
FROM (
  SELECT if(good, NULL, file) AS bad,
         {", ".join(f"if(good, {value}, NULL) AS {name}" for name, value in _OF_GOOD.items())},
         if(good, 1 / coalesce(sample, 1), 0D) AS weight, if(good, bytes, 0L) AS bytes, if(good, us, 0L) AS us,
         NOT good AND trim(value) = '' AS empty,
         if(good OR trim(value) = '', NULL, substr(value, 1, {EXAMPLE_CHARACTERS})) AS example
  FROM (SELECT *, coalesce({_GOOD}, FALSE) AS good FROM parsed))
GROUP BY bad, example, {", ".join(_OF_GOOD)}
"""
"""Only numbers are summed up, so Spark groups by hashing. The minimum of a text would need a sort of all lines."""

_CALLS: Final = f"SELECT {', '.join(_OF_GOOD)}, lines, calls, bytes, largest, us FROM folded WHERE bad IS NULL"
_BAD: Final = """
SELECT bad AS file, sum(empty) AS empty, sum(lines - empty) AS invalid, min(example) AS example, sum(lines) AS lines
FROM folded WHERE bad IS NOT NULL GROUP BY bad
UNION ALL SELECT NULL, 0, 0, NULL, coalesce(sum(lines), 0) FROM folded WHERE bad IS NULL
ORDER BY invalid DESC, empty DESC, file
"""


@dataclass(frozen=True, slots=True)
class BadLines:
    """The invalid and empty lines of one file; `example`: the beginning of an invalid line."""

    file: str
    empty: int
    invalid: int
    example: str | None


@dataclass(frozen=True, slots=True)
class LinesRead:
    """What was read, besides the view `calls`."""

    lines: int
    bad: tuple[BadLines, ...]

    @property
    def empty(self) -> int:
        return sum(one.empty for one in self.bad)

    @property
    def invalid(self) -> int:
        return sum(one.invalid for one in self.bad)


def read(spark: SparkSession, logs: Sequence[str]) -> LinesRead:
    """Make the view of these files, directories or patterns. Raises AdviceError if there is no valid line."""
    with failures("access log", AdviceError):
        text = spark.read.text(list(logs)).selectExpr("_metadata.file_path AS file", "value")
        text.createOrReplaceTempView("text")
        spark.sql(_PARSED).createOrReplaceTempView("parsed")
        spark.sql(_FOLDED).persist().createOrReplaceTempView("folded")
        spark.sql(_CALLS).createOrReplaceTempView(VIEW)
        rows = [row.asDict() for row in spark.sql(_BAD).collect()]
    by_file = {row["file"]: row.pop("lines") for row in rows}
    lines = by_file[None]
    bad = tuple(BadLines(**row) for row in rows if row["file"] is not None)
    found = LinesRead(lines, bad)
    if not lines:
        raise AdviceError(f"{', '.join(logs)}: {_why_nothing(found)}")
    return found


def _why_nothing(found: LinesRead) -> str:
    if not found.bad:
        return "there are no lines"
    first = found.bad[0]
    if not found.invalid:
        return fitting(found.empty, "the only line is empty", f"all {found.empty:,} lines are empty")
    invalid = f"{counted(found.invalid, 'line')} {fitting(found.invalid, 'is', 'are')} invalid"
    return f"no line is of an access log; {invalid}, as in {first.file}: {first.example}"
