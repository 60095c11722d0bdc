"""Finds out over Thrift whether a metastore's database compares text bytewise.

Job: answer yes or no. A metastore orders lists by its database's collation, so the cache, which orders bytewise, may
return such lists only if that is the same order. No call returns the collation. So this module filters an existing
partition by its first key, which the database itself compares. For the value `us-east`:

- bytewise, `~` sorts after all other printable ASCII characters; in every linguistic collation, which puts punctuation
  first, before letters and digits: is `us-east` less than `us-eas~`?
- bytewise, upper case sorts before lower case; elsewhere after it, or equal: is `us-east` greater than `Us-east`?

Must not know: the cache. Invariant: if there is no such partition, or any doubt, the answer is no, and such lists are
relayed. Owner: the follower, when the store is opened.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from typing import Final

from hms_cache_proxy.errors import StoreError
from hms_cache_proxy.store.protocol import DatabaseKey, Snapshot, TableRecord
from hms_cache_proxy.store.thrift.service import Metastore

MOST_DATABASES: Final = 50
TABLES_AT_ONCE: Final = 50
MOST_TABLES: Final = 300
"""How many tables are searched for a partition. Each costs the metastore a few milliseconds, once for each start."""
_VALUES_PER_TABLE: Final = 100

_PLAIN: Final = re.compile(rb"[A-Za-z0-9_.-]*[A-Za-z0-9]")
_LETTER: Final = re.compile(rb"[A-Za-z]")


def orders_bytewise(metastore: Metastore, snapshot: Snapshot) -> bool:
    """Whether the database was seen to compare bytewise; False if there was nothing to try."""
    seen = False
    for table in islice(_tables(snapshot), MOST_TABLES):
        if not table.partition_keys or table.partition_keys[0][1] != b"string" or table.transactional:
            continue
        for value in _values(metastore, table):
            letter = _LETTER.search(value)
            if letter is None and seen:
                continue
            try:
                if not _bytewise(metastore, table, value):
                    return False
            except StoreError:
                break  # this metastore cannot filter here; try another table
            if letter is not None:
                return True
            seen = True
    return False


def _tables(snapshot: Snapshot) -> Iterator[TableRecord]:
    keys: list[DatabaseKey] = snapshot.database_names()[:MOST_DATABASES]
    for catalog, database in keys:
        names = [name for name, _, _ in snapshot.table_names(catalog, database)]
        for start in range(0, len(names), TABLES_AT_ONCE):
            yield from snapshot.tables(catalog, database, names[start : start + TABLES_AT_ONCE]).values()


def _values(metastore: Metastore, table: TableRecord) -> list[bytes]:
    """Up to three values of the first key that need no escapes; those with letters come first."""
    names: list[bytes] = metastore.call(
        "get_partition_names",
        db_name=metastore.database(table.catalog, table.database),
        tbl_name=table.name,
        max_parts=_VALUES_PER_TABLE,
    )
    values = {name.split(b"/")[0].partition(b"=")[2] for name in names}
    return sorted((value for value in values if _PLAIN.fullmatch(value)), key=lambda v: _LETTER.search(v) is None)[:3]


def _bytewise(metastore: Metastore, table: TableRecord, value: bytes) -> bool:
    key = table.partition_keys[0][0]
    tests = [b"%b < '%b~'" % (key, value[:-1])]
    letter = _LETTER.search(value)
    if letter is not None:
        at = letter.start()
        swapped = value[:at] + value[at : at + 1].swapcase() + value[at + 1 :]
        tests += [b"%b %b '%b'" % (key, b">" if value[at : at + 1].islower() else b"<", swapped)]
    has = b"%b = '%b'" % (key, value)
    found = _count(metastore, table, has)
    return found > 0 and all(_count(metastore, table, b"%b and %b" % (has, test)) == found for test in tests)


def _count(metastore: Metastore, table: TableRecord, condition: bytes) -> int:
    answer = metastore.call(
        "get_num_partitions_by_filter",
        db_name=metastore.database(table.catalog, table.database),
        tbl_name=table.name,
        filter=condition,
    )
    return int(answer)
