"""Ready-made questions to a snapshot: `snapshot query --question NAME`, `snapshot report`.

Job: hold one statement for each, over the views of query.py. Must not know: how views are made, how answers are shown.

Two questions need more than a snapshot: `growth` needs the views of an earlier one (`before_...`), and `unread` needs
the view of access logs (`calls`, see advise/lines.py).
"""

from __future__ import annotations

import enum
from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

SMALL_FILE_BYTES: Final = 16 << 20
"""Tables whose files are smaller on average are shown as those with small files."""

EXAMPLES: Final = 5
BEFORE: Final = "before_"
"""The beginning of the names of an earlier snapshot's views."""


class Needs(enum.Enum):
    """What a question needs besides the snapshot."""

    NOTHING = ""
    BEFORE = "--before URI"
    LOGS = "--access-log FILES"


def given(before: str | None, logs: Collection[str]) -> set[Needs]:
    """What there is besides the snapshot."""
    return {Needs.NOTHING} | ({Needs.BEFORE} if before else set()) | ({Needs.LOGS} if logs else set())


@dataclass(frozen=True, slots=True)
class ReadyQuestion:
    """`text`: what is asked, for people; `measure`: the column that a plot shows."""

    text: str
    sql: str
    measure: str | None
    needs: Needs = Needs.NOTHING


def _named(*parts: str) -> str:
    """An expression for a name; the catalog only where it is not the usual one."""
    return f"concat(if(catalog = 'hive', '', concat(catalog, '.')), {', '.join(parts)})"


_LARGEST = """
SELECT catalog, database, table, count(*) AS partitions FROM partitions
GROUP BY ALL ORDER BY partitions DESC, catalog, database, table
"""
# Anybody may write any number into a parameter: sums that are too large for one are NULL.
_SMALL_FILES = f"""
SELECT catalog, database, table, try_sum(files) AS files, try_sum(bytes) AS bytes,
       CAST(try_sum(bytes) / try_sum(files) AS BIGINT) AS bytes_per_file
FROM (SELECT catalog, database, table, try_cast(parameters['numFiles'] AS BIGINT) AS files,
             try_cast(parameters['totalSize'] AS BIGINT) AS bytes FROM partitions
      UNION ALL
      SELECT catalog, database, name, try_cast(parameters['numFiles'] AS BIGINT),
             try_cast(parameters['totalSize'] AS BIGINT) FROM tables WHERE size(partition_keys) = 0)
WHERE files > 0 AND bytes IS NOT NULL
GROUP BY ALL HAVING try_sum(bytes) / try_sum(files) < {SMALL_FILE_BYTES}
ORDER BY files DESC, catalog, database, table
"""
_NO_STATISTICS = """
SELECT p.catalog, p.database, p.table, count(*) AS partitions, count_if(s.partition IS NULL) AS without_statistics
FROM partitions p
LEFT JOIN (SELECT DISTINCT catalog, database, table, partition FROM statistics WHERE partition IS NOT NULL) s
  ON s.catalog = p.catalog AND s.database = p.database AND s.table = p.table AND s.partition = p.name
GROUP BY ALL HAVING without_statistics > 0
ORDER BY without_statistics DESC, p.catalog, p.database, p.table
"""
_LOCATIONS = f"""
SELECT location, count(*) AS objects, slice(array_sort(collect_list(object)), 1, {EXAMPLES}) AS examples
FROM (SELECT trim(TRAILING '/' FROM location) AS location, {_named("database", "'.'", "name")} AS object FROM tables
      UNION ALL
      SELECT trim(TRAILING '/' FROM location), {_named("database", "'.'", "table", "'/'", "name")} FROM partitions)
WHERE location <> ''
GROUP BY location HAVING objects > 1
ORDER BY objects DESC, location
"""
_DRIFT = """
SELECT p.catalog, p.database, p.table, count(*) AS partitions,
       count_if(p.columns_digest <> t.columns_digest) AS differing,
       count(DISTINCT p.columns_digest) AS schemas,
       min(p.name) FILTER (WHERE p.columns_digest <> t.columns_digest) AS example
FROM partitions p JOIN tables t ON t.catalog = p.catalog AND t.database = p.database AND t.name = p.table
GROUP BY ALL HAVING differing > 0
ORDER BY differing DESC, p.catalog, p.database, p.table
"""


def _counted(prefix: str) -> str:
    return (
        "SELECT t.catalog, t.database, t.name AS table, count(p.name) AS partitions"
        f" FROM {prefix}tables t LEFT JOIN {prefix}partitions p"
        " ON t.catalog = p.catalog AND t.database = p.database AND t.name = p.table GROUP BY ALL"
    )


_GROWTH = f"""
SELECT catalog, database, table,
       CASE WHEN b.partitions IS NULL THEN 'new' WHEN a.partitions IS NULL THEN 'dropped' ELSE '' END AS change,
       coalesce(b.partitions, 0) AS partitions_before, coalesce(a.partitions, 0) AS partitions,
       coalesce(a.partitions, 0) - coalesce(b.partitions, 0) AS growth
FROM ({_counted("")}) a FULL JOIN ({_counted(BEFORE)}) b USING (catalog, database, table)
WHERE a.partitions IS NULL OR b.partitions IS NULL OR a.partitions <> b.partitions
ORDER BY abs(growth) DESC, catalog, database, table
"""
_UNREAD = """
SELECT t.catalog, t.database, t.name AS table, t.type,
       date_format(timestamp_seconds(t.create_time), 'yyyy-MM-dd') AS created, t.location FROM tables t
LEFT ANTI JOIN (SELECT DISTINCT object FROM calls WHERE outcome NOT IN ('write', 'error')) r
  ON r.object = concat(t.catalog, '.', t.database, '.', t.name)
ORDER BY t.catalog, t.database, t.name
"""

QUESTIONS: Final[dict[str, ReadyQuestion]] = {
    "largest": ReadyQuestion("tables by number of partitions", _LARGEST, "partitions"),
    "small-files": ReadyQuestion(
        f"tables whose files have less than {SMALL_FILE_BYTES >> 20} MiB on average, by numFiles and totalSize",
        _SMALL_FILES,
        "files",
    ),
    "no-statistics": ReadyQuestion(
        "tables with partitions that have no column statistics", _NO_STATISTICS, "without_statistics"
    ),
    "same-location": ReadyQuestion("locations of more than one table or partition", _LOCATIONS, "objects"),
    "drift": ReadyQuestion("tables with partitions whose columns are not those of the table", _DRIFT, "differing"),
    "growth": ReadyQuestion(
        "tables whose number of partitions has changed since an earlier snapshot", _GROWTH, "growth", Needs.BEFORE
    ),
    "unread": ReadyQuestion("tables that no call in the access logs has read", _UNREAD, None, Needs.LOGS),
}
