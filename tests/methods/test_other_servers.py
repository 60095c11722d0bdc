"""Where patch releases of Hive, or databases of a metastore, answer differently, and the cache does not know which of
them it is in front of, the metastore is asked."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from hms_cache_proxy.cache.changes import Changes, PartitionChange
from hms_cache_proxy.consistency.gate import Reason
from hms_cache_proxy.methods.proof import Proof
from hms_cache_proxy.methods.readers import filters, partitions
from hms_cache_proxy.methods.readers.base import Context, Decline, Unfinished
from hms_cache_proxy.methods.readers.part_names import DEFAULT_PARTITION
from hms_cache_proxy.wire import spec
from tests.cache.conftest import Shelf
from tests.cache.records import IDENTITY, TABLE_ID, Part
from tests.methods import test_filter_spans
from tests.methods.test_expressions import asked, one
from tests.methods.test_filter_spans import finished, shelf_of

KEYS = ((b"ds", b"string"), (b"n", b"int"))
NAMES = [b"ds=a/n=1", b"ds=a/n=2", b"ds=b/n=1"]
BY_VALUES = ("get_partitions_ps", "get_partitions_ps_with_auth", "get_partitions_ps_with_auth_req")


def by_values(shelf: Shelf, method: str, values: list[bytes], *, most: int = -1, by_name: bool = True) -> Any:
    """The partitions' values; why they are declined."""
    found = answered(shelf, method, values, most=most, by_name=by_name)
    return found if isinstance(found, Reason) else [tuple(one.values) for one in found]


def serdes(shelf: Shelf, method: str, values: list[bytes]) -> list[bytes]:
    """The different serdes of the partitions."""
    found = answered(shelf, method, values)
    return sorted({one.sd.serdeInfo.serializationLib or one.sd.serdeInfo.name for one in found})


def answered(shelf: Shelf, method: str, values: list[bytes], *, most: int = -1, by_name: bool = True) -> Any:
    """The partitions; why they are declined."""
    if method.endswith("_req"):
        request = spec.struct("GetPartitionsPsWithAuthRequest")
        fields: dict[str, Any] = {"dbName": b"sales", "tblName": b"orders", "partVals": values, "maxParts": most}
        args = spec.args(method)(req=request(**fields))
    else:
        args = spec.args(method)(db_name=b"sales", tbl_name=b"orders", part_vals=values, max_parts=most)
    with shelf.reader.snapshot() as snapshot:
        context = Context(snapshot, method, by_name=by_name, proof=Proof("passthrough", exact=False))
        try:
            body = getattr(partitions, method)(context, args)
            body = finished(body.work) if isinstance(body, Unfinished) else body
        except Decline as declined:
            return declined.reason
    found = spec.decode(spec.result(method), body if isinstance(body, bytes) else b"".join(body.pieces))[0].success
    return found.partitions if method.endswith("_req") else found


def fill(shelf: Shelf, *, single: bytes | None, filtered: bytes | None = None) -> None:
    """Partitions of which the second has these serdes in calls for one partition and in calls by filter."""
    parts = [Part(name, tuple(pair.split(b"=")[1] for pair in name.split(b"/"))) for name in NAMES]
    parts[1] = replace(parts[1], single=single)
    records = [part.record() for part in parts]
    if filtered is not None:
        records[1] = records[1]._replace(sd_tail_filter=parts[1].tail(filtered))
    shelf.writer.commit(Changes(cursor=12, partitions=[PartitionChange(TABLE_ID, records, replace_all=True)]))


@pytest.mark.parametrize("method", BY_VALUES)
def test_hive_4_0_may_be_the_one_that_reads_partitions_by_values_one_by_one(
    method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """4.0.0 reads them with its ORM, without an order and in the form of the calls for one partition (ObjectStore's
    listPartitionsPsWithAuth); 4.0.1 as 4.2 does (HIVE-28205). Without any value both read a list."""
    monkeypatch.setattr(test_filter_spans, "IDENTITY", replace(IDENTITY, hive_line="4.0"))
    with shelf_of(KEYS, []) as shelf:
        fill(shelf, single=None)
        assert by_values(shelf, method, [b"a"]) == [(b"a", b"1"), (b"a", b"2")]
        assert by_values(shelf, method, [b"a"], most=1) == [(b"a", b"1")]
        assert by_values(shelf, method, [b"a"], by_name=False) is Reason.ORDER
        assert by_values(shelf, method, [b"a"], most=1, by_name=False) is Reason.ORDER
        assert by_values(shelf, method, [b"b"], by_name=False) == [(b"b", b"1")]
        fill(shelf, single=b"described")
        assert by_values(shelf, method, [b"a"]) is Reason.VARIANT
        assert by_values(shelf, method, [b"", b"2"], by_name=False) is Reason.VARIANT
        assert by_values(shelf, method, [b"", b"1"]) == [(b"a", b"1"), (b"b", b"1")]
        assert len(by_values(shelf, method, [b"", b""], by_name=False)) == len(NAMES)
        assert len(by_values(shelf, method, [b""], by_name=False)) == len(NAMES)


def test_many_of_hive_4_0_are_compared_in_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(test_filter_spans, "IDENTITY", replace(IDENTITY, hive_line="4.0"))
    rows = [(b"a", b"%d" % number) for number in range(2 * partitions.JOINED_AT_ONCE + 5)]
    with shelf_of(KEYS, rows) as shelf:
        assert sorted(by_values(shelf, "get_partitions_ps", [b"a"])) == sorted(rows)


@pytest.mark.parametrize("method", BY_VALUES)
def test_later_releases_read_them_as_by_a_filter(method: str) -> None:
    """In order, and without what calls by filter leave out of a full ACID table; without any value, as lists."""
    with shelf_of(KEYS, []) as shelf:
        fill(shelf, single=b"described", filtered=b"bare")
        assert by_values(shelf, method, [b"a"], by_name=False) == [(b"a", b"1"), (b"a", b"2")]
        assert serdes(shelf, method, [b"a"]) == [b"bare", b"org.example.Serde"]
        assert serdes(shelf, method, [b"", b"2"]) == [b"bare"]
        for every in ([b"", b""], [b""], []):
            assert serdes(shelf, method, every) == [b"org.example.Serde"]


STAMPED = ((b"ts", b"timestamp"), (b"s", b"string"))
STAMPS = [(b"2024-01-02 10:00:00", b"de"), (b"2024-01-02 10:00:00", DEFAULT_PARTITION), (DEFAULT_PARTITION, b"de")]


def by_filter(shelf: Shelf, text: bytes) -> Any:
    with shelf.reader.snapshot() as snapshot:
        method = "get_partitions_by_filter"
        context = Context(snapshot, method, by_name=True, proof=Proof("passthrough", exact=False))
        args = spec.args(method)(db_name=b"sales", tbl_name=b"orders", filter=text, max_parts=-1)
        try:
            body = filters.get_partitions_by_filter(context, args)
            body = finished(body.work) if isinstance(body, Unfinished) else body
        except Decline as declined:
            return declined.reason
    assert isinstance(body, bytes)
    return [tuple(one.values) for one in spec.decode(spec.result(method), body)[0].success]


def test_only_postgresql_is_sent_filters_of_timestamps(monkeypatch: pytest.MonkeyPatch) -> None:
    """On MySQL a metastore reads such a filter with its ORM, and evaluates such an expression over names. Then
    `s <> 'fr'` is no longer true of the default partition, as it is in the database."""
    stamped = b"ts != '%b' and s != 'fr'" % DEFAULT_PARTITION
    with shelf_of(STAMPED, STAMPS) as shelf:
        assert sorted(by_filter(shelf, stamped)) == sorted(STAMPS[:2])
    for other in (replace(IDENTITY, exact_text=False), replace(IDENTITY, exact=False)):
        monkeypatch.setattr(test_filter_spans, "IDENTITY", other)
        with shelf_of(STAMPED, STAMPS) as shelf:
            assert by_filter(shelf, stamped) is Reason.FILTER
            assert len(by_filter(shelf, b"s != 'fr'")) == 3


def test_an_expression_with_a_timestamp_is_pushed_down_only_to_postgresql(monkeypatch: pytest.MonkeyPatch) -> None:
    null = one(f"(ts = '{DEFAULT_PARTITION.decode()}')")
    with shelf_of(STAMPED, STAMPS) as shelf:
        assert len(asked(shelf, "get_partition_names_req", null)) == 1
    monkeypatch.setattr(test_filter_spans, "IDENTITY", replace(IDENTITY, exact_text=False))
    with shelf_of(STAMPED, STAMPS) as shelf:
        assert asked(shelf, "get_partition_names_req", null) is Reason.FILTER
