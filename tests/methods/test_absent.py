"""`cache_absent`: whether the cache answers for what does not exist."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from hms_cache_proxy.metrics import WorkerMetrics
from tests.methods.local import Local, followed_over
from tests.methods.oracle import Oracle
from tests.methods.world import World, struct

pytestmark = pytest.mark.real
DB = b"{db}"
ABSENT: list[tuple[str, dict[str, Any]]] = [
    ("get_database", {"name": b"{prefix}absent"}),
    ("get_database_req", {"request": struct("GetDatabaseRequest", name=b"{prefix}absent", catalogName=b"hive")}),
    ("get_all_tables", {"db_name": b"{prefix}absent"}),
    ("get_table_req", {"req": struct("GetTableRequest", dbName=DB, tblName=b"absent")}),
    ("get_table_req", {"req": struct("GetTableRequest", dbName=b"{prefix}absent", tblName=b"x")}),
    (
        "get_table_objects_by_name_req",
        {"req": struct("GetTablesRequest", dbName=DB, tblNames=[b"plain", b"absent"])},
    ),
    ("get_fields", {"db_name": DB, "table_name": b"absent"}),
    ("get_partitions", {"db_name": DB, "tbl_name": b"absent", "max_parts": -1}),
    ("get_partition_names", {"db_name": DB, "tbl_name": b"absent", "max_parts": -1}),
    ("get_partition", {"db_name": DB, "tbl_name": b"keyed", "part_vals": [b"absent"]}),
    ("get_partition_by_name", {"db_name": DB, "tbl_name": b"keyed", "part_name": b"dt=absent"}),
    ("get_partitions_by_names", {"db_name": DB, "tbl_name": b"keyed", "names": [b"dt=a", b"dt=absent"]}),
    ("get_partitions_ps", {"db_name": DB, "tbl_name": b"absent", "part_vals": [b"1"], "max_parts": -1}),
    (
        "get_partitions_by_filter",
        {"db_name": DB, "tbl_name": b"absent", "filter": b'dt = "a"', "max_parts": -1},
    ),
    ("get_primary_keys", {"request": struct("PrimaryKeysRequest", db_name=DB, tbl_name=b"absent", catName=b"hive")}),
    ("get_table_column_statistics", {"db_name": DB, "tbl_name": b"absent", "col_name": b"id"}),
]
LEARNED = ("get_function", {"dbName": DB, "funcName": b"absent"})
PRESENT: list[tuple[str, dict[str, Any]]] = [
    ("get_table_req", {"req": struct("GetTableRequest", dbName=DB, tblName=b"plain")}),
    ("get_partition", {"db_name": DB, "tbl_name": b"keyed", "part_vals": [b"a"]}),
    ("get_partitions_by_names", {"db_name": DB, "tbl_name": b"keyed", "names": [b"dt=a", b"dt=A"]}),
    ("get_partitions_by_filter", {"db_name": DB, "tbl_name": b"keyed", "filter": b'dt = "none"', "max_parts": -1}),
]


@pytest.fixture(scope="module", params=[True, False], ids=["on", "off"])
def answered(
    request: pytest.FixtureRequest, world42: World, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[bool, Local]]:
    """The setting, and a connection to a dispatcher that has it."""
    directory = tmp_path_factory.mktemp("absent") / "data"
    with followed_over(world42, directory, list_order="name", cache_absent=request.param) as followed:
        followed.loaded()
        local = Local.connect(followed, world42.address, WorkerMetrics())
        yield request.param, local
        local.close()


def asked_twice(world: World, local: Local, method: str, arguments: dict[str, Any]) -> list[tuple[str, str]]:
    """Who answered and why; the answers are the metastore's."""
    filled = world.filled(arguments)
    with Oracle(world.address) as hms:
        own = hms.ask(method, **filled)
    found = []
    for _ in range(2):
        local.followed.confirmed()  # type: ignore[attr-defined]  # it has a follower here
        asked = local.ask(method, **filled)
        assert (asked.reply.type, asked.reply.plain) == (own.type, own.plain)
        found.append((asked.by, asked.reason))
    return found


@pytest.mark.parametrize(("method", "arguments"), ABSENT, ids=[f"{at}-{name}" for at, (name, _) in enumerate(ABSENT)])
def test_what_does_not_exist(
    world42: World, answered: tuple[bool, Local], method: str, arguments: dict[str, Any]
) -> None:
    on, local = answered
    wanted = [("hit", ""), ("hot", "")] if on else [("miss", "absent")] * 2
    assert asked_twice(world42, local, method, arguments) == wanted


def test_what_is_learned(world42: World, answered: tuple[bool, Local]) -> None:
    on, local = answered
    second = ("hot", "") if on else ("miss", "not_cached")
    assert asked_twice(world42, local, *LEARNED) == [("miss", "not_cached"), second]


@pytest.mark.parametrize(("method", "arguments"), PRESENT, ids=[name for name, _ in PRESENT])
def test_what_exists(world42: World, answered: tuple[bool, Local], method: str, arguments: dict[str, Any]) -> None:
    _, local = answered
    assert {by for by, _ in asked_twice(world42, local, method, arguments)} == {"hit", "hot"}
