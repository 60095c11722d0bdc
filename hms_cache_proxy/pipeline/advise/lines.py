"""Access log files as a Spark view.

Job: read lines of any number of files, plain or compressed, from wherever Spark reads; count and name those that are
none; fold the others by minute, so that whatever is asked afterwards is asked of few rows. Must not know: what that is.

The view `calls` has one row for all calls of a minute that are alike:

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

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

VIEW: Final = "calls"
EXAMPLE_CHARACTERS: Final = 80
FILES_NAMED: Final = 20

_CORRUPT: Final = "not_json"
_SCHEMA: Final = (
    "time TIMESTAMP, method STRING, object STRING, tables INT, outcome STRING, reason STRING, bytes BIGINT, us BIGINT,"
    f" client STRING, user STRING, sample DOUBLE, {_CORRUPT} STRING"
)
_PARSED: Final = f"""
SELECT file, value, line.* FROM (
  SELECT file, value,
         from_json(value, '{_SCHEMA}', map('mode', 'PERMISSIVE', 'columnNameOfCorruptRecord', '{_CORRUPT}')) AS line
  FROM text)
"""
_GOOD: Final = (
    f"{_CORRUPT} IS NULL AND time IS NOT NULL AND method IS NOT NULL AND outcome IN ('hit', 'miss', 'relay', 'write',"
    " 'error') AND bytes >= 0 AND us >= 0 AND coalesce(sample, 1) > 0 AND coalesce(sample, 1) <= 1"
)
_FOLDED: Final = f"""
SELECT date_trunc('MINUTE', time) AS minute, method, object, coalesce(tables, 1) AS tables, outcome,
       coalesce(reason, '') AS reason, regexp_replace(coalesce(client, ''), ':[0-9]+$', '') AS host, user,
       count(*) AS lines, sum(1 / coalesce(sample, 1)) AS calls, sum(bytes / coalesce(sample, 1)) AS bytes,
       max(bytes) AS largest, sum(us / coalesce(sample, 1)) AS us
FROM parsed WHERE {_GOOD} GROUP BY ALL
"""
_BAD: Final = f"""
SELECT file, count_if(trim(value) = '') AS empty, count_if(trim(value) <> '') AS invalid,
       min(CASE WHEN trim(value) <> '' THEN substr(value, 1, {EXAMPLE_CHARACTERS}) END) AS example
FROM parsed WHERE NOT coalesce({_GOOD}, FALSE) GROUP BY file ORDER BY invalid DESC, empty DESC, file
"""


@dataclass(frozen=True, slots=True)
class BadLines:
    """Lines of one file that say nothing; `example`: the beginning of an invalid one."""

    file: str
    empty: int
    invalid: int
    example: str | None


@dataclass(frozen=True, slots=True)
class Read:
    """What was read. The view `calls` is there."""

    lines: int
    bad: tuple[BadLines, ...]

    @property
    def empty(self) -> int:
        return sum(one.empty for one in self.bad)

    @property
    def invalid(self) -> int:
        return sum(one.invalid for one in self.bad)


def read(spark: SparkSession, logs: Sequence[str]) -> Read:
    """Make the view of these files, directories or patterns. Raises AdviceError if there is not one good line."""
    with failures("access log", AdviceError):
        text = spark.read.text(list(logs)).selectExpr("_metadata.file_path AS file", "value")
        text.createOrReplaceTempView("text")
        spark.sql(_PARSED).createOrReplaceTempView("parsed")
        folded = spark.sql(_FOLDED).persist()
        folded.createOrReplaceTempView(VIEW)
        lines = spark.sql(f"SELECT coalesce(sum(lines), 0) AS lines FROM {VIEW}").collect()[0]["lines"]
        bad = tuple(BadLines(**row.asDict()) for row in spark.sql(_BAD).collect())
    found = Read(lines, bad)
    if not lines:
        raise AdviceError(f"{', '.join(logs)}: {_why_nothing(found)}")
    return found


def _why_nothing(found: Read) -> str:
    if not found.bad:
        return "no line at all"
    first = found.bad[0]
    if not found.invalid:
        return f"{found.empty:,} empty lines and no other"
    return f"no line of an access log; {found.invalid:,} lines are something else, as in {first.file}: {first.example}"
