"""Names of any length keep their bytewise order, and each finds its own value."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import lmdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hms_cache_proxy.cache import layout
from hms_cache_proxy.cache.layout import Meta
from hms_cache_proxy.errors import CacheError

PREFIX = b"\0\0\0\7"
STEM = b"k=" + b"a" * 503  # behind the prefix: keys of 509 bytes, so a few bytes more cross the limit


@pytest.fixture(scope="module")
def env(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    path: Path = tmp_path_factory.mktemp("names")
    with lmdb.open(str(path), max_dbs=1, map_size=1 << 28, sync=False) as opened:
        yield opened


NAMES = st.one_of(
    st.binary(min_size=1, max_size=12),
    st.binary(min_size=0, max_size=4).map(lambda end: STEM + end),
    st.tuples(st.sampled_from([b"", b"a", b"b\xff"]), st.binary(max_size=260)).map(lambda p: STEM + p[0] + p[1]),
    st.integers(500, 600).map(lambda length: b"x" * length),
)


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(NAMES, st.booleans()), min_size=1, max_size=60))
def test_behaves_like_a_sorted_dict(env: Any, steps: list[tuple[bytes, bool]]) -> None:
    db = env.open_db(b"names")
    with env.begin(write=True) as txn:
        txn.drop(db, delete=False)
        txn.put(b"\0\0\0\6zzz", b"before", db=db)
        txn.put(b"\0\0\0\x08", b"after", db=db)
        model: dict[bytes, bytes] = {}
        for number, (name, keep) in enumerate(steps):
            if keep:
                fresh = layout.store(txn, db, PREFIX, name, b"%d" % number)
                assert fresh == (name not in model)
                model[name] = b"%d" % number
            else:
                assert layout.remove(txn, db, PREFIX, name) == (name in model)
                model.pop(name, None)
        assert layout.names_under(txn, db, PREFIX, b"") == sorted(model.items())
        begin = steps[0][0][:506]
        wanted = [item for item in sorted(model.items()) if item[0].startswith(begin)]
        assert layout.names_under(txn, db, PREFIX, begin) == wanted
        for name, _ in steps:
            assert layout.find(txn, db, PREFIX, name) == model.get(name)


def test_order_across_the_limit(env: Any) -> None:
    """Names just below, at and over the limit of a key, shuffled in, come out in bytewise order."""
    db = env.open_db(b"names")
    names = [STEM + end for end in (b"", b"\0", b"\0\0", b"a", b"aa", b"aaa", b"aab", b"ab", b"b", b"b" * 262, b"\xff")]
    shuffled = random.sample(names, len(names))
    with env.begin(write=True) as txn:
        txn.drop(db, delete=False)
        for name in shuffled:
            layout.store(txn, db, PREFIX, name, name)
        assert [name for name, _ in layout.names_under(txn, db, PREFIX, b"")] == sorted(names)
        assert all(layout.find(txn, db, PREFIX, name) == name for name in names)


def test_meta_round_trip_and_other_formats() -> None:
    for fingerprint in (None, b"", b"hash"):
        for held in (frozenset[bytes](), frozenset((b"t1", b"t2"))):
            meta = Meta(3, 5, 7, 11, 2, 13, 17, 19, 23, 29, 31, fingerprint, held)
            assert Meta.unpack(meta.pack()) == meta
    with pytest.raises(CacheError, match="format is version 99"):
        Meta.unpack(b"\0\x63" + Meta().pack()[2:])
    with pytest.raises(CacheError, match="missing"):
        Meta.unpack(None)


def test_partition_keys_round_trip() -> None:
    keys = ((b"dt", b"string"), (b"", b"decimal(10,2)"), (b"\xff" * 300, b"int"))
    assert layout.partition_keys_unpack(layout.partition_keys_pack(keys)) == keys
    assert layout.partition_keys_unpack(b"") == ()


def test_long_targets_have_keys_of_their_own() -> None:
    left, right = b"t" + b"x" * 600 + b"1", b"t" + b"x" * 600 + b"2"
    assert layout.version_key(left) != layout.version_key(right)
    assert len(layout.version_key(left)) <= layout.KEY_BYTES
    assert layout.version_key(b"t" * 510) == b"t" * 510
