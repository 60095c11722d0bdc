"""Whether statistics are valid for a reader. tests/write_ids compares the answers with a metastore's."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from hms_cache_proxy.cache import targets
from hms_cache_proxy.cache.changes import Changes
from hms_cache_proxy.cache.reader import CacheReader
from hms_cache_proxy.consistency.gate import Reason
from hms_cache_proxy.methods.proof import Proof
from hms_cache_proxy.methods.readers import tables
from hms_cache_proxy.methods.readers.base import Context, Decline
from hms_cache_proxy.methods.readers.compliance import ACCURATE, ListReader
from hms_cache_proxy.store.protocol import HiveLine, TableRecord
from hms_cache_proxy.wire import spec
from tests.cache.conftest import Shelf, shelf
from tests.cache.records import DATABASE, IDENTITY, database, flat_table
from tests.write_ids.transactions import struct

__all__ = ["shelf"]

LIST = b"d.t:5:3:3:4"  # 3 is open, 4 was aborted
BASIC = b'{"BASIC_STATS":"true"}'
BOTH = b'{"BASIC_STATS":"true","COLUMN_STATS":{"a":"true"}}'
COLUMNS = b'{"COLUMN_STATS":{"a":"true"}}'


def accepted(text: bytes | None, write_id: int | None, accurate: bytes | None) -> bool:
    parameters = {b"k": b"v"} if accurate is None else {ACCURATE: accurate}
    owner = {"parameters": parameters} if write_id is None else {"parameters": parameters, "writeId": write_id}
    bodies = [spec.encode(struct(kind, **owner)) for kind in ("Table", "Partition")]
    reader = ListReader(text)
    found = {reader.accepts_table(bodies[0]), reader.accepts_partition(bodies[1])}
    assert len(found) == 1
    return found.pop()


@pytest.mark.parametrize("accurate", [BASIC, BOTH])
def test_accurate_ones_of_a_write_that_the_reader_sees(accurate: bytes) -> None:
    assert [accepted(LIST, write_id, accurate) for write_id in range(1, 7)] == [True, True, False, False, True, False]
    assert accepted(b"", 7, accurate), "the empty list: everything is valid"


def test_without_accurate_basic_statistics_none_are_valid() -> None:
    for accurate in (None, COLUMNS, b"{}", b'{"BASIC_STATS":"false"}'):
        assert not accepted(LIST, 1, accurate)


def test_written_without_a_write_id_or_read_without_a_list() -> None:
    for write_id in (None, -1, 0):
        assert accepted(LIST, write_id, None)
    assert accepted(None, 7, None)


@pytest.mark.parametrize(
    ("text", "accurate"),
    [
        pytest.param(
            b"d.t:99999:3:" + b",".join(b"%05d" % number for number in range(20_000)) + b":", BASIC, id="long"
        ),
        (b"nonsense", BASIC),
        (LIST, b"true"),  # Hive 1's
        (LIST, b"[]"),
        (LIST, b"[" * 100_000),
        (LIST, b'{"BASIC_STATS":"TRUE"}'),
        (LIST, b'{"BASIC_STATS":true}'),
        (LIST, b'{"BASIC_STATS":"true","more":1}'),
    ],
)
def test_what_is_not_as_hive_writes_it_is_left_to_the_metastore(text: bytes, accurate: bytes) -> None:
    with pytest.raises(Decline) as declined:
        accepted(text, 1, accurate)
    assert declined.value.reason is Reason.ARGUMENTS


def table_of(shelf: Shelf, release: HiveLine) -> bytes | None:
    """get_table_req with a list, over a metastore of this release; None: its release is why it is asked itself."""
    shelf.reopen(replace(IDENTITY, hive_line=release, schema_version=f"{release}.0"))
    shelf.reader = CacheReader(shelf.path, shelf.page)
    body = spec.encode(struct("Table", tableName=b"t", parameters={ACCURATE: BASIC}, writeId=5))
    record = replace(flat_table(b"t", 1, body), transactional=True)
    lists = {targets.databases(b"hive"), targets.tables(*DATABASE)}
    tables_of: dict[Any, TableRecord | None] = {(*DATABASE, b"t"): record}
    shelf.writer.commit(Changes(10, databases={DATABASE: database()}, complete=lists, tables=tables_of))
    proof = Proof("passthrough", exact=True)
    proof.text = b"sales.t:5:9223372036854775807::"
    asked = struct("GetTableRequest", dbName=DATABASE[1], tblName=b"t", validWriteIdList=proof.text)
    with shelf.reader.snapshot() as snapshot:
        context = Context(snapshot, "get_table_req", True, proof)
        try:
            answer = tables.get_table_req(context, spec.args("get_table_req")(req=asked))
        except Decline as declined:
            assert declined.reason is Reason.RELEASE
            return None
    assert isinstance(answer, bytes)
    return answer


@pytest.mark.parametrize("release", ["4.0", "4.2"])
def test_hive_4_says_whether_they_are_valid(shelf: Shelf, release: HiveLine) -> None:
    answer = table_of(shelf, release)
    assert answer is not None
    assert spec.decode(spec.result("get_table_req"), answer)[0].success.table.isStatsCompliant is True


@pytest.mark.parametrize("release", ["2.3", "3.1"])
def test_older_releases_say_nothing(shelf: Shelf, release: HiveLine) -> None:
    """They have no such field in the request, nor in a table."""
    assert table_of(shelf, release) is None
