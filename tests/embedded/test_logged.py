"""The notification log that the same calls leave in Hive 4.2.0 and in the embedded metastore, for every kind of event.

Rows column by column and messages key by key. What kinds there are is asked of Hive's own list.
"""

from __future__ import annotations

import difflib
import json
import struct
import zipfile
from collections.abc import Iterator
from itertools import groupby
from typing import Any

import pytest

from tests.comparison import first_difference
from tests.embedded.differential import struct as new
from tests.embedded.event_flows import FLOWS, Flow
from tests.embedded.logged import Logged
from tests.testbed import artifacts
from tests.testbed.metastore import Metastore

KINDS = frozenset(
    "CREATE_DATABASE ALTER_DATABASE DROP_DATABASE CREATE_TABLE ALTER_TABLE DROP_TABLE ADD_PARTITION ALTER_PARTITION"
    " ALTER_PARTITIONS DROP_PARTITION INSERT RELOAD CREATE_FUNCTION DROP_FUNCTION ADD_PRIMARYKEY ADD_FOREIGNKEY"
    " ADD_UNIQUECONSTRAINT ADD_NOTNULLCONSTRAINT ADD_DEFAULTCONSTRAINT ADD_CHECKCONSTRAINT DROP_CONSTRAINT OPEN_TXN"
    " COMMIT_TXN ABORT_TXN ALLOC_WRITE_ID_EVENT UPDATE_TBL_COL_STAT_EVENT DELETE_TBL_COL_STAT_EVENT"
    " UPDATE_PART_COL_STAT_EVENT DELETE_PART_COL_STAT_EVENT COMMIT_COMPACTION_EVENT".split()
)
NEVER = {
    **dict.fromkeys(("CREATE_CATALOG", "ALTER_CATALOG", "DROP_CATALOG"), "the listener has no such method"),
    **dict.fromkeys((f"{verb}_DATACONNECTOR" for verb in ("CREATE", "ALTER", "DROP")), "likewise"),
    **dict.fromkeys((f"{verb}_ISCHEMA" for verb in ("CREATE", "ALTER", "DROP")), "likewise"),
    **dict.fromkeys((f"{verb}_SCHEMA_VERSION" for verb in ("ADD", "ALTER", "DROP")), "likewise"),
    "ACID_WRITE_EVENT": "a row of TXN_WRITE_NOTIFICATION_LOG instead, which test_flows.py compares",
    "BATCH_ACID_WRITE_EVENT": "likewise",
    "UPDATE_PART_COL_STAT_EVENT_BATCH": "a row of UPDATE_PART_COL_STAT_EVENT for each partition instead",
    "CONFIG_CHANGE_EVENT": "it changes the listener's own settings",
}
OTHERWISE_CALLED = frozenset(
    "ALLOC_WRITE_ID ACID_WRITE BATCH_ACID_WRITE UPDATE_TABLE_COLUMN_STAT DELETE_TABLE_COLUMN_STAT"
    " UPDATE_PARTITION_COLUMN_STAT UPDATE_PARTITION_COLUMN_STAT_BATCH DELETE_PARTITION_COLUMN_STAT COMMIT_COMPACTION"
    " CONFIG_CHANGE".split()
)
"""Members of Hive's list by the names that they have in Java, where rows have another one."""
EVENT_TYPE = "org/apache/hadoop/hive/metastore/messaging/EventMessage$EventType.class"


def left_by(metastore: Metastore, flow: Flow, database: str) -> tuple[list[Any], list[Any]]:
    """The kinds of replies that a flow gets, and the events that it leaves."""
    places = {str(metastore.external): b"/WH/external", str(metastore.warehouse): b"/WH/managed"}
    asked = Logged(metastore.address, database, places)
    asked.ask("create_database", {"database": new("Database", name=database)})
    flow(asked, database)
    found = asked.events()
    asked.ask("drop_database", {"name": database, "deleteData": True, "cascade": True})
    asked.close()
    return asked.outcomes, found


@pytest.mark.real
def test_every_kind_of_event(hms42: Metastore, embedded: Metastore, unique_name: str) -> None:
    kinds: list[set[str]] = [set(), set()]
    found = []
    for flow in FLOWS:
        left = [left_by(metastore, flow, f"{unique_name}_{flow.__name__}") for metastore in (hms42, embedded)]
        outcomes, both = zip(*left, strict=True)
        found += [f"{flow.__name__}: {a} != {b}" for a, b in zip(*outcomes, strict=True) if a != b]
        for mine, events in zip(kinds, both, strict=True):
            mine |= {row["eventType"].decode() for row, _ in events}
        found += [f"{flow.__name__}: {line}" for line in differences(*both)]
    assert not found, "\n".join(found)
    assert kinds == [KINDS, KINDS]


def differences(hive: list[Any], ours: list[Any]) -> Iterator[str]:
    """Rows that one has and the other has not, and where messages of equal rows differ."""
    hive, ours = in_order(hive), in_order(ours)
    rows = [[json.dumps(row, default=bytes.decode) for row, _ in events] for events in (hive, ours)]
    for what, at, end, our_at, our_end in difflib.SequenceMatcher(None, rows[0], rows[1], False).get_opcodes():
        if what != "equal":
            yield f"{at}: Hive has {rows[0][at:end]}, this {rows[1][our_at:our_end]}"
            continue
        for number in range(end - at):
            where = first_difference(hive[at + number][1], ours[our_at + number][1])
            if where:
                yield f"{at + number} {hive[at + number][0]['eventType'].decode()} {where}"


def in_order(events: list[Any]) -> list[Any]:
    """With statistics of several partitions or columns of one call sorted: Hive logs them as a hash table has them."""
    found = []
    for statistics, group in groupby(events, key=lambda event: b"COL_STAT" in event[0]["eventType"]):
        some = list(group)
        found += sorted(some, key=repr) if statistics else some
    return found


@pytest.mark.real
def test_these_are_all_kinds() -> None:
    """Every member of EventMessage.EventType is compared, or said never to be written."""
    (jar,) = artifacts.install(artifacts.HIVE42).glob("hive-exec-*.jar")
    with zipfile.ZipFile(jar) as archive:
        named = set(string_constants(archive.read(EVENT_TYPE)))
    assert named == KINDS | NEVER.keys() | OTHERWISE_CALLED
    assert KINDS.isdisjoint(NEVER)


def string_constants(java: bytes) -> Iterator[str]:
    """The string literals of a class file (JVM specification, section 4.4)."""
    sizes = {3: 4, 4: 4, 5: 8, 6: 8, 7: 2, 8: 2, 9: 4, 10: 4, 11: 4, 12: 4, 15: 3, 16: 2, 17: 4, 18: 4, 19: 2, 20: 2}
    (count,) = struct.unpack_from(">H", java, 8)
    texts: dict[int, str] = {}
    literals = []
    offset, index = 10, 1
    while index < count:
        tag = java[offset]
        size = 2 + struct.unpack_from(">H", java, offset + 1)[0] if tag == 1 else sizes[tag]
        if tag == 1:
            texts[index] = java[offset + 3 : offset + 1 + size].decode()
        elif tag == 8:
            literals.append(struct.unpack_from(">H", java, offset + 1)[0])
        offset += 1 + size
        index += 2 if tag in (5, 6) else 1
    return (texts[literal] for literal in literals)
