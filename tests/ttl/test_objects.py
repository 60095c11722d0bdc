"""Calls upstream prove that keys are objects: what a real metastore without a log is asked, and what it would say."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import pytest
from hive_metastore import ttypes  # type: ignore[import-untyped]  # generated

from tests.proxy import Proxy
from tests.testbed.client import MetastoreClient
from tests.testbed.metastore import Metastore
from tests.testbed.recording_proxy import RecordingProxy
from tests.ttl.conftest import ALWAYS, Recorded, add_partitions, create_table

NAMES = [f"dt=d{number:04}/region=r{number % 7}" for number in range(1000)]
VALUES = [[f"d{number:04}", f"r{number % 7}"] for number in range(1000)]


@pytest.fixture(scope="module")
def thousand(silent_hms: Metastore) -> str:
    """A database with a table of 1,000 partitions; not to be changed."""
    with MetastoreClient(*silent_hms.address, timeout_s=600) as direct:
        create_table(direct, "thousand")
        for at in range(0, 1000, 100):
            add_partitions(direct, "thousand", VALUES[at : at + 100])
    return "thousand"


@pytest.fixture
def filled(recorded: Callable[..., Recorded], thousand: str) -> tuple[Recorded, str]:
    """The table behind a proxy that has not seen it."""
    return recorded(), thousand


def test_only_missing_partitions_are_asked_for(filled: tuple[Recorded, str]) -> None:
    world, database = filled
    assert len(world.client.get_partitions_by_names(database, "t", NAMES[:990])) == 990
    asked = world.asked.take("get_partitions_by_names")
    assert [len(one.args.names) for one in asked] == [990]
    got = world.client.get_partitions_by_names(database, "t", NAMES)
    asked = world.asked.take()
    assert [(one.method, [name.decode() for name in one.args.names]) for one in asked] == [
        ("get_partitions_by_names", NAMES[990:])
    ]
    assert got == world.direct.get_partitions_by_names(database, "t", NAMES)
    assert world.client.get_partitions_by_names(database, "t", NAMES[5:20] + ["dt=x/region=y"]) == got[5:20]
    assert [one.args.names for one in world.asked.take()] == [[b"dt=x/region=y"]]


def test_point_and_list_calls_share_entries(filled: tuple[Recorded, str]) -> None:
    world, database = filled
    world.client.get_partitions_by_names(database, "t", NAMES[:10])
    world.asked.take()
    assert world.client.get_partition_by_name(database, "t", NAMES[3]) == world.direct.get_partition_by_name(
        database, "t", NAMES[3]
    )
    assert world.client.get_partition(database, "t", VALUES[4]).values == VALUES[4]
    assert world.asked.take() == []
    world.client.get_partition_by_name(database, "t", NAMES[20])
    world.client.get_partitions_by_names(database, "t", NAMES[20:21])
    assert [one.method for one in world.asked.take()] == ["get_partition_by_name"]


def test_lists_fill_the_entries_of_partitions(filled: tuple[Recorded, str]) -> None:
    """On 2.3 every list does; once the table is known."""
    world, database = filled
    lists: list[Callable[[], Any]] = [
        lambda: world.client.get_partitions(database, "t", 20),
        lambda: world.client.get_partitions_ps(database, "t", ["d0030", ""], -1),
        lambda: world.client.get_partitions_ps_with_auth(database, "t", ["d0031", ""], -1, "u", ["g"]),
        lambda: world.client.get_partitions_with_auth(database, "t", 25, "u", ["g"]),
    ]
    world.client.get_partitions(database, "t", 5)
    world.client.get_partitions_by_names(database, "t", NAMES[:5])
    assert [one.method for one in world.asked.take()] == ["get_partitions", "get_partitions_by_names"]
    world.client.get_table(database, "t")
    shown = [partition for ask in lists for partition in ask()]
    world.asked.take()
    names = [f"dt={dt}/region={region}" for dt, region in (partition.values for partition in shown)]
    assert len(set(names)) == 27
    assert world.client.get_partitions_by_names(database, "t", sorted(set(names))) == sorted(
        {tuple(one.values): one for one in shown}.values(), key=lambda one: one.values
    )
    for name, partition in zip(names, shown, strict=True):
        assert world.client.get_partition_by_name(database, "t", name) == partition
    assert world.asked.take() == []
    world.client.get_partitions(database, "t", -1)
    world.asked.take()
    assert world.client.get_partition_by_name(database, "t", NAMES[500]).values == VALUES[500]
    assert world.asked.take() == []


def test_a_longer_list_fills_nothing(new_proxy: Callable[..., Proxy], new_metastore: Callable[..., Metastore]) -> None:
    """Before the embedded metastore, which takes 1,001 partitions in a second."""
    with ExitStack() as stack:
        metastore = new_metastore("embedded")
        asked = stack.enter_context(RecordingProxy(*metastore.address))
        proxy = new_proxy(None, settings=ALWAYS, store=False, upstream=asked.uri)
        client = stack.enter_context(MetastoreClient(*proxy.address))
        names = [f"dt=d{number:04}" for number in range(1001)]
        create_table(client, "more", keys="dt")
        add_partitions(client, "more", [[name.removeprefix("dt=")] for name in names])
        client.get_table("more", "t")
        assert len(client.get_partitions("more", "t", -1)) == 1001
        client.get_partitions_by_names("more", "t", names[:1])
        client.get_partitions("more", "t", 1000)
        asked.take()
        assert len(client.get_partitions_by_names("more", "t", names[:1000])) == 1000
        assert asked.take() == []
        client.get_partitions_by_names("more", "t", names)
        (one,) = asked.take()
        assert one.args.names == [names[1000].encode()]


def test_get_table_and_its_req_twin_share_entries(filled: tuple[Recorded, str]) -> None:
    world, database = filled
    table = world.client.get_table(database, "t")
    request = ttypes.GetTableRequest(dbName=database.upper(), tblName="T")
    assert world.client.get_table_req(request).table == table == world.direct.get_table(database, "t")
    assert [one.method for one in world.asked.take()] == ["get_table"]


def test_many_readers_make_one_load(filled: tuple[Recorded, str]) -> None:
    world, database = filled
    world.asked.hold()
    with ThreadPoolExecutor(8) as pool:

        def read(_: int) -> Any:
            with world.another() as client:
                return client.get_table(database, "t").tableName

        answers = [pool.submit(read, number) for number in range(8)]
        while not (asked := world.asked.take("get_table")):
            pass
        world.asked.let_go()
        assert {answer.result() for answer in answers} == {"t"}
    assert len(asked) + len(world.asked.take("get_table")) == 1


def test_statistics_of_missing_partitions_only(filled: tuple[Recorded, str]) -> None:
    world, database = filled
    statistics = ttypes.ColumnStatistics(
        statsDesc=ttypes.ColumnStatisticsDesc(isTblLevel=False, dbName=database, tableName="t", partName=NAMES[0]),
        statsObj=[
            ttypes.ColumnStatisticsObj(
                colName="c",
                colType="bigint",
                statsData=ttypes.ColumnStatisticsData(
                    longStats=ttypes.LongColumnStatsData(lowValue=1, highValue=9, numNulls=0, numDVs=5)
                ),
            )
        ],
    )
    world.direct.update_partition_column_statistics(statistics)

    def request(names: list[str]) -> Any:
        return ttypes.PartitionsStatsRequest(dbName=database, tblName="t", colNames=["c"], partNames=names)

    first = world.client.get_partitions_statistics_req(request(NAMES[:3]))
    assert list(first.partStats) == NAMES[:1]
    world.asked.take()
    second = world.client.get_partitions_statistics_req(request(NAMES[:5]))
    assert second == world.direct.get_partitions_statistics_req(request(NAMES[:5]))
    assert [one.args.request.partNames for one in world.asked.take()] == [[n.encode() for n in NAMES[3:5]]]


def test_other_spellings_of_a_name_are_the_metastores_to_answer(
    recorded: Callable[..., Recorded], unique_name: str
) -> None:
    """Calls by names take a name as it is stored, calls for one also others; neither may teach the other."""
    world, where = recorded(TTL_CACHE_MISSING="true"), (unique_name, "t")
    create_table(world.direct, unique_name)
    add_partitions(world.direct, unique_name, [["x", "x"]])
    good, others = "dt=x/region=x", ["DT=x/region=x", "dt=%78/region=x", "region=x/dt=x"]
    for known in (False, True):
        for name in (*others, good):
            shown: list[Any] = []
            for client in (world.client, world.direct):
                try:
                    shown.append(client.get_partition_by_name(*where, name))
                except (ttypes.NoSuchObjectException, ttypes.MetaException) as refusal:
                    shown.append((type(refusal), refusal.message))
            assert shown[0] == shown[1], (name, known)
        for other in others:
            for names in ([good, other], [other], [other, good], [good]):
                got = world.client.get_partitions_by_names(*where, names)
                assert got == world.direct.get_partitions_by_names(*where, names), (names, known)
        world.client.get_table(*where)


def test_a_table_made_anew_has_other_partition_keys(recorded: Callable[..., Recorded], unique_name: str) -> None:
    world, where = recorded(), (unique_name, "t")
    for keys in ("dt region", "day area"):
        create_table(world.client, unique_name, keys=keys)
        add_partitions(world.client, unique_name, [["a", "r"]])
        assert world.client.get_partition(*where, ["a", "r"]).values == ["a", "r"]
        names = world.direct.get_partition_names(*where, -1)
        assert world.client.get_partition_by_name(*where, names[0]).values == ["a", "r"]
        if keys == "dt region":
            world.client.drop_database(unique_name, False, True)
    with pytest.raises(ttypes.NoSuchObjectException):
        world.client.get_partition_by_name(*where, "dt=a/region=r")


def test_partitions_with_too_many_columns_are_never_kept(recorded: Callable[..., Recorded], unique_name: str) -> None:
    world, where = recorded(TTL_PARTITION_COLUMN_LIMIT="1"), (unique_name, "t")
    create_table(world.direct, unique_name)
    add_partitions(world.direct, unique_name, [["narrow", "r"]])
    wide = world.direct.get_partition(*where, ["narrow", "r"])
    wide.values = ["wide", "r"]
    wide.sd.cols.append(ttypes.FieldSchema(name="e", type="string"))
    wide.sd.location += "wide"
    world.direct.add_partition(wide)
    client = world.client
    client.get_table(*where)
    reads: dict[str, Callable[[str], Any]] = {
        "get_partitions_by_names": lambda dt: client.get_partitions_by_names(*where, [f"dt={dt}/region=r"]),
        "get_partition_by_name": lambda dt: client.get_partition_by_name(*where, f"dt={dt}/region=r"),
        "get_partition": lambda dt: client.get_partition(*where, [dt, "r"]),
        "get_partition_with_auth": lambda dt: client.get_partition_with_auth(*where, [dt, "r"], "u", []),
        "get_partitions_ps": lambda dt: client.get_partitions_ps(*where, [dt, ""], -1),
        "get_partitions_ps_with_auth": lambda dt: client.get_partitions_ps_with_auth(*where, [dt, ""], -1, "u", []),
        "get_partitions_by_filter": lambda dt: client.get_partitions_by_filter(*where, f"dt = '{dt}'", 5),
        "get_part_specs_by_filter": lambda dt: client.get_part_specs_by_filter(*where, f"dt = '{dt}'", 5),
    }
    for method, read in reads.items():
        for dt, asked in (("narrow", []), ("wide", [method])):
            read(dt)
            world.asked.take()
            read(dt)
            assert [one.method for one in world.asked.take()] == asked, dt
    for listed in (lambda: client.get_partitions(*where, -1), lambda: client.get_partitions_pspec(*where, -1)):
        listed()
        world.asked.take()
        listed()
        assert len(world.asked.take()) == 1
    world.proxy.wait_counted()
    assert world.proxy.metric("hms_proxy_ttl_over_column_limit_total") == 2 * len(reads) + 4


def test_a_write_invalidates_for_everybody_also_when_it_fails(
    recorded: Callable[..., Recorded], unique_name: str
) -> None:
    world, database = recorded(), unique_name
    create_table(world.direct, database)
    with world.another() as other:
        other.get_table(database, "t")
        other.get_partition_names(database, "t", -1)
        add_partitions(world.client, database, [["new", "r"]])
        assert "dt=new/region=r" in other.get_partition_names(database, "t", -1)
        world.client.drop_table(database, "t", False)
        with pytest.raises(ttypes.NoSuchObjectException):
            other.get_table(database, "t")
        world.asked.take()
        other.get_all_tables(database)
        with pytest.raises(ttypes.NoSuchObjectException):
            world.client.drop_table(database, "t", False)
        world.asked.take()
        other.get_all_tables(database)
        assert [one.method for one in world.asked.take()] == ["get_all_tables"]


def test_filter_asks_once_for_the_names(filled: tuple[Recorded, str]) -> None:
    world, database = filled
    world.client.get_table(database, "t")
    world.asked.take()

    def ask(text: str) -> list[tuple[str, int]]:
        got = world.client.get_partitions_by_filter(database, "t", text, -1)
        assert got == world.direct.get_partitions_by_filter(database, "t", text, -1)
        return [(one.method, len(getattr(one.args, "names", None) or ())) for one in world.asked.take()]

    selected = [name for name in NAMES if name.endswith("r3") and name < "dt=d0100"]
    assert ask("region = 'r3' and dt < 'd0100'") == [
        ("get_partition_names_ps", 0),
        ("get_partitions_by_names", len(selected)),
    ]
    assert ask("region = 'r3' and dt < 'd0050'") == []
    assert ask("region='r3' and dt >= 'd0090' and dt < 'd0110'") == [("get_partitions_by_names", 2)]
    assert ask("dt > 'd0990'") == [("get_partition_names", 0), ("get_partitions_by_names", 9)]
    assert ask("dt between 'd0990' and 'd0999' and region != 'r1'") == [("get_partitions_by_names", 1)]
    assert ask("dt like 'd000%'") == [("get_partitions_by_filter", 0)]
    assert ask("dt like 'd000%'") == []
