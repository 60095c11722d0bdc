"""What is joined from segments decodes to what was cut into them: two codecs, and partitions of a real metastore's."""

from __future__ import annotations

from struct import pack
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from thriftpy2.protocol.binary import TBinaryProtocol
from thriftpy2.transport import TMemoryBuffer

from hms_cache_proxy.cache.segments import (
    END,
    MAX_ALIKE,
    SetEncoder,
    TableNames,
    Variant,
    pack_index,
    pieces,
    split_parameters,
)
from hms_cache_proxy.errors import CacheError
from hms_cache_proxy.wire import spec
from tests.cache.records import LOCATION, Part, mapping, string
from tests.testbed.interface import Structs

IDL = Structs("4.2.0")


class Shelf:
    """One set's shared rows in memory."""

    def __init__(self) -> None:
        self.rows: list[bytes] = []
        self.encoder = SetEncoder(self._intern)

    def _intern(self, row: bytes) -> bytes:
        if row not in self.rows:
            self.rows.append(row)
        return pack_index(self.rows.index(row))

    def join(self, part: Part, variant: Variant = Variant.LIST, catalog: bytes | None = b"hive") -> bytes:
        row = self.encoder.encode(part.record(), LOCATION + b"/")
        names = TableNames(b"sales", b"orders", catalog)
        begin, body, own = pieces(self._row(row[:3]), names, variant, self._row)
        last, rest = (part.name, row[3:]) if own < 0 else (row[3 : 3 + own], row[3 + own :])
        return begin[len(END) :] + rest + body + last + END

    def _row(self, index: bytes) -> bytes:
        return self.rows[int.from_bytes(index, "big")]


def decoded(data: bytes) -> object:
    value, end = spec.decode(spec.struct("Partition"), data)
    assert end == len(data)
    return value


def decoded_by_the_other_codec(data: bytes) -> Any:
    buffer = TMemoryBuffer(data)
    value = IDL.Partition()
    value.read(TBinaryProtocol(buffer, decode_response=False))
    return value


CASES = {
    "plain": Part(b"dt=2024-01-01/hour=7"),
    "read once": Part(b"dt=2024-01-01/hour=7", access_time=1_700_000_001),
    "no location": Part(b"p=1", location=None),
    "empty parameters": Part(b"p=1", parameters=()),
    "own directory": Part(b"p=1", location=LOCATION + b"/2024/01/01"),
    "elsewhere": Part(b"p=1", location=b"hdfs://other/place"),
    "elsewhere, same name": Part(b"p=1", location=b"hdfs://other/place/p=1"),
    "location is a slash": Part(b"p=1", location=b"/"),
    "shared parameters only": Part(b"p=1", parameters=((b"EXTERNAL", b"TRUE"),)),
    "shared parameter last": Part(b"p=1", parameters=((b"a", b"1"), (b"b", b""), (b"EXTERNAL", b"TRUE"))),
    "bytes that are not UTF-8": Part(b"p=\xff%25", values=(b"\xff%",), parameters=((b"\xfe%s", b"%b\0"),)),
    "single differs": Part(b"p=1", single=b"another serde"),
    "no columns": Part(b"p=1", width=0),
    "write id": Part(b"p=1", write_id=5),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("variant", list(Variant))
def test_decodes_to_what_was_encoded(case: str, variant: Variant) -> None:
    part = CASES[case]
    joined = Shelf().join(part, variant)
    wanted = part.struct(single=variant == Variant.SINGLE)
    assert decoded(joined) == decoded(wanted)
    assert decoded_by_the_other_codec(joined) == decoded_by_the_other_codec(wanted)


def test_without_a_catalog_field() -> None:
    """Hive 2.3's partitions have none."""
    part = CASES["plain"]
    assert decoded(Shelf().join(part, catalog=None)) == decoded(part.struct(catalog=None))


TEXT = st.binary(max_size=20)


@settings(max_examples=200, deadline=None)
@given(
    st.lists(
        st.builds(
            Part,
            name=st.binary(min_size=1, max_size=30),
            values=st.lists(TEXT, max_size=3).map(tuple),
            create_time=st.integers(-(2**31), 2**31 - 1),
            access_time=st.sampled_from([0, 1, -1]),
            location=st.one_of(st.none(), st.just(b""), TEXT, TEXT.map(lambda end: LOCATION + b"/" + end)),
            parameters=st.dictionaries(st.one_of(TEXT, st.sampled_from([b"EXTERNAL", b"STATS_GENERATED"])), TEXT).map(
                lambda found: tuple(found.items())
            ),
            width=st.integers(0, 2),
            serde_name=st.sampled_from([b"", b"one", b"two"]),
        ),
        min_size=1,
        max_size=8,
    )
)
def test_any_partitions_of_one_set(parts: list[Part]) -> None:
    shelf = Shelf()
    for part in parts:
        assert decoded(shelf.join(part)) == decoded(part.struct())


def test_what_is_alike_is_stored_once() -> None:
    shelf = Shelf()
    for number in range(100):
        shelf.join(Part(b"p=%02d" % number, values=(b"%02d" % number,), create_time=number))
    assert len(shelf.rows) == 5  # parameters' beginning, columns, rest of the sd, directory, and the template


def test_a_write_with_another_write_id_leaves_nothing_in_the_set() -> None:
    """A set lives as long as its table is not reloaded, and may see millions of writes."""
    shelf = Shelf()
    for write_id in range(1000):
        part = Part(b"p=%d" % (write_id % 7), write_id=write_id)
        assert decoded(shelf.join(part)) == decoded(part.struct())
    assert len(shelf.rows) <= 4 + MAX_ALIKE + 1


def test_parameters_are_cut_behind_the_first_key_that_differs() -> None:
    run = mapping(7, {b"numFiles": b"1", b"EXTERNAL": b"TRUE", b"z": b"2"})
    shared, rest = split_parameters(run)
    assert shared == run[:9] + string(b"EXTERNAL") + string(b"TRUE") + string(b"numFiles")
    assert rest == string(b"1") + string(b"z") + string(b"2")


def test_another_run_than_a_map_of_strings_is_left_alone() -> None:
    assert split_parameters(b"") == (b"", b"")
    odd = b"\x0d\x00\x07\x0b\x08" + pack(">i", 0)
    assert split_parameters(odd) == (b"", odd)


@pytest.mark.parametrize("run", [mapping(7, {b"a": b"b", b"EXTERNAL": b"TRUE"})[:-1], mapping(7, {b"abc": b""})[:-6]])
def test_lengths_that_do_not_add_up_are_refused(run: bytes) -> None:
    with pytest.raises(CacheError):
        split_parameters(run)
