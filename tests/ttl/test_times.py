"""Ages: what expires, what is refreshed behind an answer, and what makes an entry end before its time."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import pytest
from hive_metastore import ttypes  # type: ignore[import-untyped]  # generated

from tests.proxy import Proxy
from tests.testbed.client import MetastoreClient
from tests.testbed.metastore import Metastore
from tests.ttl.conftest import ALWAYS, Recorded, add_partitions, create_table, until

VALUES = [["d1", "r"], ["d2", "r"], ["d3", "r"]]
NAMES = ["dt=d1/region=r", "dt=d2/region=r", "dt=d3/region=r"]


def _own(client: Any, database: str, owner: str) -> None:
    """Change the table's owner."""
    table = client.get_table(database, "t")
    table.owner = owner
    client.alter_table(database, "t", table)


def test_an_answer_is_never_older_than_its_ttl(recorded: Callable[..., Recorded], unique_name: str) -> None:
    world = recorded(TTL_TTL="3s")
    create_table(world.direct, unique_name)
    began = time.monotonic()
    assert world.client.get_table(unique_name, "t").owner == "o"
    _own(world.direct, unique_name, "changed elsewhere")
    seen: list[tuple[float, float, str]] = []
    while not seen or seen[-1][2] == "o":
        asked = time.monotonic()
        seen.append((asked, time.monotonic(), world.client.get_table(unique_name, "t").owner))
        assert asked - began < 30
        time.sleep(0.1)
    old = [asked - began for asked, _, owner in seen if owner == "o"]
    assert old and max(old) <= 3.0, "an answer is given for its ttl, and no longer"


def test_what_is_due_is_given_and_loaded_behind(recorded: Callable[..., Recorded], unique_name: str) -> None:
    world = recorded(TTL_REFRESH_INTERVAL="1s")
    create_table(world.direct, unique_name)
    add_partitions(world.direct, unique_name, VALUES)
    world.client.get_partitions_by_names(unique_name, "t", NAMES[:2])
    world.client.get_partition_by_name(unique_name, "t", NAMES[2])
    world.client.get_table(unique_name, "t")
    _own(world.direct, unique_name, "changed elsewhere")
    world.asked.take()
    time.sleep(1.1)
    world.asked.hold()
    assert world.client.get_table(unique_name, "t").owner == "o", "the old one is given while the new one is loaded"
    assert len(world.client.get_partitions_by_names(unique_name, "t", NAMES)) == 3
    assert world.client.get_partition_by_name(unique_name, "t", NAMES[0]).values == VALUES[0]
    time.sleep(0.3)
    world.asked.let_go()
    until(lambda: world.client.get_table(unique_name, "t").owner == "changed elsewhere")
    until(lambda: world.proxy.metric("hms_proxy_ttl_refreshes_total", kind="partition", result="loaded") >= 1)
    asked = {one.method: one for one in world.asked.take()}
    assert sorted(asked["get_partitions_by_names"].args.names) == [name.encode() for name in NAMES], "one call for all"
    assert set(asked) <= {"get_table", "get_partitions_by_names", "get_partition_by_name"}


def test_filters_and_statistics_are_refreshed_together(recorded: Callable[..., Recorded], unique_name: str) -> None:
    """One call for each kind of thing, however many entries and requests; then nothing is due."""
    world = recorded(TTL_REFRESH_INTERVAL="2s")
    create_table(world.direct, unique_name)
    values = [[f"d{number:02}", "r"] for number in range(30)]
    names = [f"dt={dt}/region={region}" for dt, region in values]
    add_partitions(world.direct, unique_name, values)
    client = world.client

    def statistics(wanted: list[str]) -> Any:
        request = ttypes.PartitionsStatsRequest(dbName=unique_name, tblName="t", colNames=["c"], partNames=wanted)
        return client.get_partitions_statistics_req(request)

    def read() -> int:
        client.get_table(unique_name, "t")
        shown = client.get_partitions_by_filter(unique_name, "t", "dt < 'd20'", -1)
        client.get_partitions_by_filter(unique_name, "t", "dt >= 'd10'", -1)
        client.get_partitions_by_names(unique_name, "t", names[5:25])
        statistics(names[:15])
        statistics(names[10:])
        return int(shown[3].lastAccessTime)

    read()
    partition = world.direct.get_partition_by_name(unique_name, "t", names[3])
    partition.lastAccessTime = 77
    world.direct.alter_partition(unique_name, "t", partition)
    world.asked.take()
    time.sleep(2.1)
    began_s = time.monotonic()
    world.asked.hold()
    assert read() == 0, "the old one is given"
    time.sleep(0.3)
    world.asked.let_go()
    until(lambda: read() == 77)
    time.sleep(0.3)
    asked = world.asked.take()
    calls = sorted(one.method for one in asked)
    once = ["get_partition_names", "get_partitions_by_names", "get_partitions_statistics_req", "get_table"]
    if time.monotonic() - began_s < 2.0:
        assert calls == once
    assert sorted(set(calls)) == once  # on a busy machine they were due again meanwhile
    wanted = sorted(name.encode() for name in names)
    for one in asked:
        if one.method == "get_partitions_by_names":
            assert sorted(one.args.names) == wanted
        elif one.method == "get_partitions_statistics_req":
            assert sorted(one.args.request.partNames) == wanted


def test_ttl_of_one_kind_and_of_one_table(recorded: Callable[..., Recorded], unique_name: str) -> None:
    world = recorded(
        TTL_KINDS='{"table_names": {"ttl": "0s"}}', TTL_TABLES=f'[{{"pattern": "{unique_name}.t", "ttl": "0s"}}]'
    )
    create_table(world.direct, unique_name)
    for _ in range(2):
        world.client.get_all_tables(unique_name)
        world.client.get_table(unique_name, "t")
        world.client.get_database(unique_name)
    assert [one.method for one in world.asked.take()] == [
        "get_all_tables",
        "get_table",
        "get_database",
        "get_all_tables",
        "get_table",
    ]


def test_scope_partition(recorded: Callable[..., Recorded], unique_name: str) -> None:
    world = recorded(TTL_SCOPE="partition")
    create_table(world.direct, unique_name)
    add_partitions(world.direct, unique_name, VALUES)
    for _ in range(2):
        world.client.get_table(unique_name, "t")
        world.client.get_partitions_by_names(unique_name, "t", NAMES)
    methods = [one.method for one in world.asked.take()]
    assert methods == ["get_table", "get_partitions_by_names", "get_table"]


@pytest.mark.parametrize("missing", ["false", "true"])
def test_absent_objects_by_setting(recorded: Callable[..., Recorded], unique_name: str, missing: str) -> None:
    world = recorded(TTL_CACHE_MISSING=missing)
    create_table(world.direct, unique_name)
    for _ in range(2):
        with pytest.raises(ttypes.NoSuchObjectException) as through:
            world.client.get_table(unique_name, "none")
        assert world.client.get_partitions_by_names(unique_name, "t", NAMES[:1]) == []
        with pytest.raises(ttypes.NoSuchObjectException):
            world.client.get_partition_by_name(unique_name, "t", NAMES[0])
    assert len(world.asked.take()) == (3 if missing == "true" else 6)
    add_partitions(world.client, unique_name, VALUES[:1])
    assert world.client.get_partition_by_name(unique_name, "t", NAMES[0]).values == VALUES[0]
    with pytest.raises(ttypes.NoSuchObjectException) as direct:
        world.direct.get_table(unique_name, "none")
    assert through.value.message == direct.value.message


def test_each_user_has_entries_of_his_own(recorded: Callable[..., Recorded], unique_name: str) -> None:
    world = recorded(TTL_IMPERSONATION="on")
    create_table(world.direct, unique_name)
    with world.another() as anna, world.another() as bert:
        anna.set_ugi("anna", ["staff"])
        bert.set_ugi("bert", ["staff"])
        for client in (anna, bert, anna, bert):
            client.get_table(unique_name, "t")
        assert [one.method for one in world.asked.take("get_table")] == ["get_table"] * 2
        _own(anna, unique_name, "new")
        assert bert.get_table(unique_name, "t").owner == "new", "a write invalidates everybody's"


def test_who_holds_a_lock_reads_what_is_true(recorded: Callable[..., Recorded], unique_name: str) -> None:
    world = recorded()
    create_table(world.direct, unique_name)
    world.client.get_table(unique_name, "t")
    _own(world.direct, unique_name, "changed elsewhere")
    component = ttypes.LockComponent(
        type=ttypes.LockType.EXCLUSIVE,
        level=ttypes.LockLevel.TABLE,
        dbname=unique_name,
        tablename="t",
        operationType=ttypes.DataOperationType.NO_TXN,
    )
    with world.another() as committer:
        lock = committer.lock(ttypes.LockRequest(component=[component], user="u", hostname="h"))
        assert lock.state == ttypes.LockState.ACQUIRED
        assert committer.get_table(unique_name, "t").owner == "changed elsewhere"
        committer.unlock(ttypes.UnlockRequest(lockid=lock.lockid))


def test_flush_of_a_table_and_of_everything(recorded: Callable[..., Recorded], unique_name: str) -> None:
    world = recorded()
    create_table(world.direct, unique_name)
    for arguments in (f"db={unique_name}&table=t", f"db={unique_name}", ""):
        world.client.get_table(unique_name, "t")
        world.asked.take()
        world.proxy.flush(arguments)
        world.client.get_table(unique_name, "t")
        assert [one.method for one in world.asked.take()] == ["get_table"], arguments


def test_sizes_by_kind(recorded: Callable[..., Recorded], unique_name: str) -> None:
    world = recorded()
    create_table(world.direct, unique_name)
    add_partitions(world.direct, unique_name, VALUES)
    world.client.get_partitions_by_names(unique_name, "t", NAMES[:2])
    world.client.get_table(unique_name, "t")
    sizes = world.proxy.status()["ttl"]
    assert {kind: size["entries"] for kind, size in sizes.items() if size["entries"]} == {
        "database_names": 1,
        "partition": 2,
        "table": 1,
    }
    assert sizes["partition"]["bytes"] > 2 * 150 and sizes["functions"] == {"entries": 0, "bytes": 0}
    until(lambda: world.proxy.metric("hms_proxy_ttl_bytes", kind="partition") == sizes["partition"]["bytes"])
    assert world.proxy.metric("hms_proxy_cache_objects", kind="partition") == 2


def test_flush_of_one_partition(recorded: Callable[..., Recorded], unique_name: str) -> None:
    """What is asked again: this partition, and what may speak of it; nothing of the others and of the table."""
    world = recorded()
    create_table(world.direct, unique_name)
    add_partitions(world.direct, unique_name, VALUES[:2])
    client, where = world.client, (unique_name, "t")
    statistics = ttypes.PartitionsStatsRequest(dbName=where[0], tblName="t", colNames=["c"], partNames=NAMES)
    asks: dict[str, Callable[[], Any]] = {
        "get_table": lambda: client.get_table(*where),
        "get_partitions_by_names": lambda: client.get_partitions_by_names(*where, NAMES),
        "get_partitions_statistics_req": lambda: client.get_partitions_statistics_req(statistics),
        "get_partition_names": lambda: client.get_partition_names(*where, -1),
        "get_partitions": lambda: client.get_partitions(*where, -1),
        "get_partition_names_ps": lambda: client.get_partition_names_ps(*where, ["d1", ""], -1),
        "get_partitions_by_filter": lambda: client.get_partitions_by_filter(*where, "dt like 'd%'", -1),
    }

    def asked() -> dict[str, Any]:
        world.asked.take()
        for ask in asks.values():
            ask()
        return {one.method: one.args for one in world.asked.take()}

    assert asked().keys() == asks.keys()
    assert asked().keys() == {"get_partitions_by_names"}, "the third one is not there, which is not remembered"
    add_partitions(world.direct, unique_name, VALUES[2:])
    asked()
    assert asked() == {}
    for name in (NAMES[1], "DT=d2/region=%72"):
        world.proxy.flush(f"db={where[0]}&table=t&partition={quote(name)}")
        again = asked()
        assert again.keys() == asks.keys() - {"get_table"}
        assert again["get_partitions_by_names"].names == [NAMES[1].encode()]
        assert again["get_partitions_statistics_req"].request.partNames == [NAMES[1].encode()]
        assert asked() == {}
    world.proxy.flush(f"db={where[0]}&table=t&partition={quote('dt=of/region=none')}")
    assert asked().keys() == asks.keys() - {"get_table", "get_partitions_by_names", "get_partitions_statistics_req"}


def test_it_steps_in_where_the_log_is_silent(
    silent_hms: Metastore, new_proxy: Callable[..., Proxy], unique_name: str
) -> None:
    settings = {**ALWAYS, "STORE": "thrift"}
    proxy = new_proxy(silent_hms, settings=settings, store=False)
    with MetastoreClient(*silent_hms.address) as direct, MetastoreClient(*proxy.address) as client:
        create_table(direct, unique_name)
        until(lambda: proxy.status()["mode"] == "ttl")
        client.get_table(unique_name, "t")
        client.get_table(unique_name, "t")
        _own(client, unique_name, "new")
        assert client.get_table(unique_name, "t").owner == "new"
        _own(direct, unique_name, "newer")
        assert client.get_table(unique_name, "t").owner == "new", "it is TTL mode that answers"
