"""Which entries are kept, and for how long, where several settings or several requests meet."""

from __future__ import annotations

from pathlib import Path
from time import monotonic_ns, sleep
from typing import Any

import pytest

from hms_cache_proxy.methods.decision import Forward, Serve
from hms_cache_proxy.methods.ttl.partitions import ASKED_AT_ONCE
from hms_cache_proxy.wire import spec
from tests.methods.world import struct
from tests.ttl.bench import Bench, call, opened, reply
from tests.ttl.local import answering


def kept(bench: Bench, method: str, success: object, **arguments: object) -> bool:
    """The request is answered by the metastore. Is an equal one answered from the cache afterwards?"""
    forward = bench.asked(bench.session, method, **arguments)
    assert isinstance(forward, Forward) and forward.ask is None
    forward.pending.reply_done(bench.session, reply(method, success), monotonic_ns())
    return isinstance(bench.asked(bench.session, method, **arguments), Serve)


@pytest.mark.parametrize("order", [[b"often", b"seldom"], [b"seldom", b"often"]])
def test_an_answer_about_several_tables_is_as_old_as_each_may_be(tmp_path: Path, order: list[bytes]) -> None:
    tables = [struct("Table", dbName=b"d", tableName=name) for name in order]
    asked = {"dbname": b"d", "tbl_names": order}
    for ttl, expected in (("0s", False), ("2s", True)):
        directory = tmp_path / ttl
        directory.mkdir()
        with opened(directory, {"ttl.tables": [{"pattern": "d.often", "ttl": ttl}]}) as bench:
            assert kept(bench, "get_table_objects_by_name", tables, **asked) is expected
            sleep(2.1)
            assert isinstance(bench.asked(bench.session, "get_table_objects_by_name", **asked), Forward)


def partition(columns: int) -> spec.Struct:
    fields = [struct("FieldSchema", name=b"c%d" % number, type=b"int") for number in range(columns)]
    return struct("Partition", values=[b"1"], dbName=b"d", tableName=b"t", sd=struct("StorageDescriptor", cols=fields))


@pytest.mark.parametrize("method", ["get_partitions_by_names", "get_partition_by_name"])
def test_a_partition_that_has_become_too_wide_is_not_shown_as_it_was(tmp_path: Path, method: str) -> None:
    """Without a ttl that would be for ever, though it is reloaded."""
    asked: dict[str, Any] = {"db_name": b"d", "tbl_name": b"t"}
    many = method == "get_partitions_by_names"
    asked |= {"names": [b"p=1"]} if many else {"part_name": b"p=1"}
    narrow, wide = ([partition(1)], [partition(2)]) if many else (partition(1), partition(2))
    settings = {"ttl.ttl": "never", "ttl.refresh_interval": "0s", "ttl.partition_column_limit": 1}
    with opened(tmp_path, settings) as bench:
        assert kept(bench, method, narrow, **asked)
        (due,) = filter(None, bench.dispatcher.due.take())
        due.learn(reply(method, wide))
        assert isinstance(bench.asked(bench.session, method, **asked), Forward)


def test_a_filter_that_selects_too_many_partitions_is_answered_by_its_own_reply(tmp_path: Path) -> None:
    """The reply is kept as a whole, as those of filters are that only the metastore can evaluate."""
    keys = [struct("FieldSchema", name=b"p", type=b"string")]
    table = struct("Table", dbName=b"d", tableName=b"t", partitionKeys=keys, parameters={})
    asked = {"db_name": b"d", "tbl_name": b"t", "filter": b"p >= '00000'", "max_parts": -1}
    names = reply("get_partition_names", [b"p=%05d" % number for number in range(ASKED_AT_ONCE + 1)])
    with opened(tmp_path) as bench:
        assert kept(bench, "get_table", table, dbname=b"d", tbl_name=b"t")
        forward = bench.asked(bench.session, "get_partitions_by_filter", **asked)
        assert isinstance(forward, Forward) and forward.ask is not None
        assert forward.ask.header.name == b"get_partition_names"
        assert forward.pending.answered(names) is None, "the metastore is asked the request itself"
        forward.pending.reply_done(bench.session, reply("get_partitions_by_filter", [partition(1)]), monotonic_ns())
        assert isinstance(bench.asked(bench.session, "get_partitions_by_filter", **asked), Serve)


@pytest.mark.parametrize(
    ("earlier", "later"),
    [(([b"c0\0c1"], None), ([b"c0", b"c1"], None)), (([b"c0"], b""), ([b"c0"], None))],
)
def test_statistics_are_kept_for_the_columns_and_the_engine_of_a_request(
    tmp_path: Path, earlier: tuple[list[bytes], bytes | None], later: tuple[list[bytes], bytes | None]
) -> None:
    """A name may have a NUL; an empty engine is none, while a request without an engine means Hive's."""
    count = struct("ColumnStatisticsData", longStats=struct("LongColumnStatsData", numNulls=1, numDVs=5))
    objects = [struct("ColumnStatisticsObj", colName=name, colType=b"int", statsData=count) for name in (b"c0", b"c1")]
    described = struct("ColumnStatisticsDesc", isTblLevel=False, dbName=b"d", tableName=b"t", partName=b"p=1")
    with answering(tmp_path) as local:
        local.catalog.table(b"t")
        local.catalog.add(b"t", [b"1"])
        statistics = struct("ColumnStatistics", statsDesc=described, statsObj=objects)
        local.catalog.call("update_partition_column_statistics", stats_obj=statistics)
        for columns, engine in (earlier, later):
            wanted = {"colNames": columns, "engine": engine, "partNames": [b"p=1"]}
            request = struct("PartitionsStatsRequest", dbName=b"d", tblName=b"t", **wanted)
            asked = call("get_partitions_statistics_req", request=request)[1]
            assert local.ask(asked).reply == local.catalog.reply(asked)
