"""A follower that commits as fast as it can until it is killed; run as a program by test_crash.

Step N makes every object say N: database body, table bodies, a parameter of every partition, and N is the cursor, the
fingerprint and the done ticket. So any state whose objects and cursor do not agree is not one that was committed.
Every seventh step is a chunk of a load, every hundredth a reset.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

from hms_cache_proxy.cache import targets
from hms_cache_proxy.cache.changes import Changes, PartitionChange, PartitionChunk
from hms_cache_proxy.cache.state import StatePage
from hms_cache_proxy.cache.writer import CacheWriter
from hms_cache_proxy.store.protocol import TableKey, TableRecord
from tests.cache.records import DATABASE, IDENTITY, TABLE, TABLE_ID, database, days, flat_table, table

PARTS = days(40)
TOUCHED = b"touched in every step"


def step(number: int) -> Changes:
    said = b"%d" % number
    parts = [replace(part, parameters=((b"step", said),)).record() for part in PARTS]
    tables: dict[TableKey, TableRecord | None] = {TABLE: table(body=said)}
    for other in range(5):
        name = b"table%d" % ((number + other) % 8)
        dropped = other == 4
        tables[b"hive", b"sales", name] = None if dropped else flat_table(name, 100 + (number + other) % 8, said)
    for rest in range(5, 8):
        name = b"table%d" % ((number + rest) % 8)
        tables[b"hive", b"sales", name] = flat_table(name, 100 + (number + rest) % 8, said)
    whole = PartitionChange(TABLE_ID, parts, replace_all=True)
    chunk = PartitionChunk(TABLE_ID, parts[:20], first=True)
    return Changes(
        cursor=number,
        fingerprint=said,
        done_ticket=number,
        reset="again" if number % 100 == 0 else None,
        databases={DATABASE: database(body=said)},
        tables=tables,
        partitions=[whole],
        chunks=[chunk] if number % 7 == 0 else [],
        complete={targets.databases(b"hive"), targets.tables(*DATABASE)},
        touched={TOUCHED},
    )


def main() -> None:
    root = Path(sys.argv[1])
    writer = CacheWriter.open(root / "cache", StatePage(root / "state"), IDENTITY)
    number = writer.meta.cursor
    while True:
        number += 1
        writer.commit(step(number))
        writer.collect(rows=100)
        if number % 10 == 0:
            print(number, flush=True)


if __name__ == "__main__":
    main()
