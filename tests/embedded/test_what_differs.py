"""What docs/metastore.md says differs from Hive: each of it does differ, on Hive 4.2.0 and on the embedded metastore.

A failure here says that the document is wrong, or that a difference is gone: take it out.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from tests.differential.test_exclusions import test_details_of_null_pointers as null_pointers
from tests.embedded.acid_scripts import ABLE, FORMATS, FULL
from tests.embedded.differential import ELSEWHERE, Asked, Step, struct
from tests.embedded.file_scripts import OUTSIDE, added, made
from tests.embedded.plan_scripts import Plans
from tests.embedded.registry_scripts import Registry
from tests.embedded.scheduled_scripts import CREATE, DROP, Queries
from tests.embedded.scripts import descriptor, field, table
from tests.embedded.test_like_hive import connected, events
from tests.embedded.test_questions import test_what_is_left_out_differs as left_out
from tests.embedded.test_writers import test_aborted_writers as aborted_writers
from tests.testbed.metastore import Metastore

PAGE: Final = Path(__file__).parents[2] / "docs" / "metastore.md"
BULLET: Final = re.compile(r"^- (.*(?:\n  .*)*)", re.MULTILINE)
FILTER: Final = b'p = "1"'
"""Where Hive takes a Java object."""

LENGTHS: Final = "PostgreSQL refuses values that are too long"
VALUES: Final = ("bb", "a", "ccc", "z9", "kk1", "q", "m77", "x0")

Case = Callable[[Asked, str], Any]
"""Calls; what is told is the last reply, in a form that can be compared."""


def steps(listed: Callable[[str], list[Step]]) -> Case:
    """The reply to the last of some calls."""

    def case(asked: Asked, db: str) -> Any:
        return [asked.ask(*step) for step in listed(db)][-1]

    return case


def parted(db: str) -> list[Step]:
    return [made(db, "t", ("p",), parameters=OUTSIDE), added(db, "t", "1"), added(db, "t", "2")]


def by_expression(db: str) -> list[Step]:
    wanted = struct("PartitionsByExprRequest", dbName=db, tblName="t", expr=FILTER)
    return [*parted(db), ("get_partitions_by_expr", {"req": wanted})]


def dropped_by_expression(db: str) -> list[Step]:
    parts = struct("RequestPartsSpec", exprs=[struct("DropPartitionsExpr", expr=FILTER)])
    wanted = struct("DropPartitionsRequest", dbName=db, tblName="t", parts=parts, deleteData=True)
    return [*parted(db), ("drop_partitions_req", {"req": wanted})]


def plan_without_pools(db: str) -> list[Step]:
    p = Plans(db)
    return [p.make("x"), p.alter("x", isSetDefaultPoolPath=True), p.drop_pool("x", "default"), p.get("x")]


def names_of_plans(repeated: str) -> Callable[[str], list[Step]]:
    def listed(db: str) -> list[Step]:
        p = Plans(db)
        return {
            "plan": [*[p.make("x")] * 2],
            "pool": [p.make("x"), *[p.pool("x", "etl")] * 2],
            "trigger": [p.make("x"), *[p.trigger("x", "slow")] * 2],
            "mapping": [p.make("x"), p.pool("x", "etl"), p.goes("x", "USER", "ann", "etl"), p.drop_pool("x", "etl")],
        }[repeated]

    return listed


def serde_of_a_version(db: str) -> list[Step]:
    r, name = Registry(db), f"{db}_serde"
    return [r.make(name), r.add(name, 1), r.add_serde(name), r.mapped(name, 1, name), r.get_serde(name)]


def versions_by_columns(db: str) -> list[Step]:
    r, name = Registry(db), f"{db}_columns"
    return [r.make(name), r.add(name, 1, [field(name)]), r.with_columns(colName=name)]


def after_2038(db: str) -> list[Step]:
    q = Queries(db)
    return [q.keep(CREATE, "late", schedule="0 0 0 1 1 ? 2040"), q.get("late")]


def dropped_by_its_name(db: str) -> list[Step]:
    q = Queries(db)
    nothing = dict.fromkeys(("schedule", "user", "query", "enabled"))
    return [q.keep(CREATE, "some"), q.keep(DROP, "some", **nothing)]


def acid_table(asked: Asked, db: str) -> None:
    wanted = table(db, "t", tableType="MANAGED_TABLE", parameters=FULL, sd=descriptor(**FORMATS))
    asked.ask("create_table_req", {"request": struct("CreateTableRequest", table=wanted, **ABLE)})


def opened(asked: Asked, count: int) -> list[int]:
    request = struct("OpenTxnRequest", num_txns=count, user="u", hostname="h")
    return list(asked.value("open_txns", {"rqst": request}).txn_ids)


def second_write(asked: Asked, db: str) -> Any:
    """Of one transaction to one table."""
    acid_table(asked, db)
    (txn,) = opened(asked, 1)
    for name in "ab":
        info = struct("InsertEventRequestData", filesAdded=[f"file:/{name}"])
        write = struct("WriteNotificationLogRequest", txnId=txn, writeId=1, db=db, table="t", fileInfo=info)
        reply = asked.ask("add_write_notification_log", {"rqst": write})
    asked.ask("abort_txn", {"rqst": struct("AbortTxnRequest", txnid=txn)})
    return reply


def files_of_no_bucket(asked: Asked, db: str) -> Any:
    """In the directory of a table that gets transactions."""
    where = asked.elsewhere / "t"
    where.mkdir(parents=True)
    (where / "data.orc").write_text("x")
    plain = table(db, "t", parameters={"EXTERNAL": "TRUE"}, sd=descriptor(**FORMATS, location=f"{ELSEWHERE}/t"))
    asked.ask("create_table", {"tbl": plain})
    acid = table(
        db, "t", tableType="MANAGED_TABLE", parameters=FULL, sd=descriptor(**FORMATS, location=f"{ELSEWHERE}/t")
    )
    values = {"dbName": db, "tableName": "t", "table": acid}
    return asked.ask("alter_table_req", {"req": struct("AlterTableRequest", **values, **ABLE)})


def merged_decimals(db: str) -> list[Step]:
    """2.55 is stored, and 1.00 added: as bytes, 00 ff is less than 64."""

    def told(low: bytes) -> tuple[str, dict[str, Any]]:
        bound = struct("Decimal", unscaled=low, scale=2)
        numbers = struct("DecimalColumnStatsData", lowValue=bound, highValue=bound, numNulls=0, numDVs=1)
        data = struct("ColumnStatisticsData", decimalStats=numbers)
        one = struct("ColumnStatisticsObj", colName="d", colType="decimal(10,2)", statsData=data)
        place = struct("ColumnStatisticsDesc", isTblLevel=True, dbName=db, tableName="t", catName="hive")
        wanted = [struct("ColumnStatistics", statsDesc=place, statsObj=[one])]
        fields = {"colStats": wanted, "needMerge": low == b"\x64", "engine": "hive"}
        return "set_aggr_stats_for", {"request": struct("SetPartitionsStatsRequest", **fields)}

    described = table(db, "t", sd=descriptor([field("d", "decimal(10,2)")]), parameters=OUTSIDE)
    asked = struct("TableStatsRequest", dbName=db, tblName="t", colNames=["d"], engine="hive")
    made_, read = ("create_table", {"tbl": described}), ("get_table_statistics_req", {"request": asked})
    return [made_, told(b"\0\xff"), told(b"\x64"), read]


def statistics_logged(asked: Asked, db: str) -> Any:
    """Of many partitions, by one call: their names, as the log has them."""
    after = asked._oracle.do("get_current_notificationEventId").eventId
    names = [f"p={value}" for value in VALUES]
    for step in [made(db, "t", ("p",), parameters=OUTSIDE), *(added(db, "t", value) for value in VALUES)]:
        asked.ask(*step)
    numbers = struct("LongColumnStatsData", lowValue=1, highValue=2, numNulls=3, numDVs=4)
    data = struct("ColumnStatisticsData", longStats=numbers)
    one = struct("ColumnStatisticsObj", colName="a", colType="int", statsData=data)
    of = {"isTblLevel": False, "dbName": db, "tableName": "t"}
    every = [
        struct("ColumnStatistics", statsDesc=struct("ColumnStatisticsDesc", **of, partName=name), statsObj=[one])
        for name in names
    ]
    request = struct("SetPartitionsStatsRequest", colStats=every, needMerge=False, engine="hive")
    asked.ask("set_aggr_stats_for", {"request": request})
    found = [repr(event) for event in events(asked, after, db) if b"PART_COL_STAT" in event[0]]
    told = [re.findall(r"p=\w+", event) for event in found]
    assert sorted({name for some in told for name in some}) == sorted(names)
    return told


REFUSED: Final = "TApplicationException"
CLOSED: Final = "closed"
DIFFERS: Final[dict[str, list[tuple[Case, str, str]]]] = {
    "`get_table` and `get_table_objects_by_name`, which": [
        (steps(lambda db: [*parted(db), ("get_table", {"dbname": db, "tbl_name": "t"})]), REFUSED, "success"),
        (
            steps(lambda db: [*parted(db), ("get_table_objects_by_name", {"dbname": db, "tbl_names": ["t"]})]),
            REFUSED,
            "success",
        ),
    ],
    "Hive's own partition expressions": [
        (steps(by_expression), "o1", "success"),
        (steps(dropped_by_expression), "o2", "success"),
    ],
    "If a resource plan, pool or trigger": [
        (steps(names_of_plans("plan")), "o3", "o1"),
        (steps(names_of_plans("pool")), "o4", "o1"),
        (steps(names_of_plans("trigger")), "o4", "o1"),
        (steps(names_of_plans("mapping")), "o3", "o2"),
        (steps(plan_without_pools), CLOSED, "success"),
    ],
    "A serde to which a version of a schema": [
        (steps(serde_of_a_version), "o2", "success"),
        (steps(versions_by_columns), "o1", "success"),
    ],
    "A scheduled query whose next time": [
        (steps(after_2038), "success", "success"),
        (steps(dropped_by_its_name), REFUSED, ""),
    ],
    "A second write of a transaction": [(second_write, REFUSED, "success")],
    "`alter_table` does not check the names of files": [(files_of_no_bucket, "o2", "success")],
    "Statistics of several partitions or columns": [(statistics_logged, "", "")],
    "Where a client has statistics merged": [(steps(merged_decimals), "success", "success")],
}
"""By the first words of what the page says: calls, and what each answers: the field that the reply has, or none."""

ELSEWHERE_SHOWN: Final[dict[str, Callable[..., None]]] = {
    "`get_fields` and `get_schema` return": left_out,
    "`get_tables_ext` returns tables": left_out,
    "`get_aggr_stats_for` answers": left_out,
    "`|` alone is not accepted as a pattern": left_out,
    "Names of databases that end with": left_out,
    "A request without a field that Thrift requires": left_out,
    "Java's own texts in exceptions": null_pointers,
    "Nothing is compacted": aborted_writers,
}


def kind(reply: Any) -> str:
    """What answered: the name of the reply's one field, of an exception's class, or `closed`."""
    if not isinstance(reply, tuple):
        return CLOSED if reply == CLOSED else ""
    return REFUSED if reply[0] == REFUSED else " ".join(reply[1])


@pytest.mark.real
@pytest.mark.parametrize(
    ("case", "by_hive", "by_us"),
    [
        pytest.param(*one, id=f"{'_'.join(re.findall('[a-z]+', words.lower())[:4])}-{number}")
        for words, every in DIFFERS.items()
        for number, one in enumerate(every)
    ],
)
@pytest.mark.parametrize("embedded", ["embedded"], indirect=True)
def test_it_differs(
    hms42: Metastore, embedded: Metastore, unique_name: str, case: Case, by_hive: str, by_us: str
) -> None:
    answers = []
    for metastore in (hms42, embedded):
        asked = connected(metastore, unique_name)
        asked.ask("create_database", {"database": struct("Database", name=unique_name)})
        answers.append(case(asked, unique_name))
        asked.ask("drop_database", {"name": unique_name, "deleteData": True, "cascade": True})
        asked.close()
    assert answers[0] != answers[1]
    assert [kind(answer) for answer in answers] == [by_hive, by_us], answers


@pytest.mark.real
def test_lengths(hms42: Metastore, embedded: Metastore, unique_name: str) -> None:
    """SQLite does not check them."""
    kinds = []
    for metastore in (hms42, embedded):
        asked = connected(metastore, unique_name)
        asked.ask("create_database", {"database": struct("Database", name=unique_name)})
        too_long = table(unique_name, "t", parameters={"EXTERNAL": "TRUE"}, owner="x" * 5000)
        kinds.append(kind(asked.ask("create_table", {"tbl": too_long})))
        asked.ask("drop_database", {"name": unique_name, "deleteData": True, "cascade": True})
        asked.close()
    assert kinds == ["o3", "" if embedded.flavour.name == "embedded" else "o3"]


def test_all_that_the_page_says_is_shown() -> None:
    section = PAGE.read_text().split("\n## What differs from Hive\n")[1].split("\n## ")[0]
    said = BULLET.findall(section)
    shown = (*DIFFERS, *ELSEWHERE_SHOWN, LENGTHS)
    assert [words for words in shown if sum(text.startswith(words) for text in said) != 1] == []
    assert len(said) == len(shown)
