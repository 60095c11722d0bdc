"""What a start makes of the fences that it finds."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import lmdb
import pytest

from hms_cache_proxy.cache.state import StatePage
from hms_cache_proxy.cache.targets import ALL
from hms_cache_proxy.consistency import fence_rows, lmdb_check
from hms_cache_proxy.consistency.fences import REQUEST_TIMEOUT_NS, FenceStore
from hms_cache_proxy.consistency.mirror import FenceMirror
from tests.consistency.writes import ME, A, B, follow


@pytest.fixture
def page(tmp_path: Path) -> Iterator[StatePage]:
    with StatePage(tmp_path / "state", create=True) as made:
        yield made


def restart(
    tmp_path: Path, store: FenceStore, *, clean: bool = False, request_timeout_ns: int = REQUEST_TIMEOUT_NS
) -> FenceStore:
    store.close(clean=clean)
    return FenceStore.recover(
        tmp_path / "fences", StatePage(tmp_path / "state", create=True), request_timeout_ns=request_timeout_ns
    )


def test_writes_in_flight_of_a_predecessor_that_crashed(tmp_path: Path, page: StatePage) -> None:
    store = FenceStore.recover(tmp_path / "fences", page)
    done = follow(store)
    store.begin([A], ME)
    finite = store.finish(store.begin([B], ME))
    store.remember_lock(1, [A])
    store = restart(tmp_path, store, request_timeout_ns=1000)
    mirror = FenceMirror(store)
    assert mirror.active([A], done) and mirror.active([B], done)
    assert not mirror.active([b"tc"], done)
    assert store.pending_tickets() == (finite, {B})
    assert store.lock_targets(1) == (A,)
    done = follow(store)
    assert mirror.active([A], done) and not mirror.active([B], done)
    assert store.expire(time.monotonic_ns() + 1000) == 1
    assert not mirror.active([A], follow(store))
    store.close()


def make_file(path: Path, page_bytes: int) -> None:
    """A file as LMDB makes it on a system with pages of this size. It uses what the file says."""
    with lmdb.open(str(path)) as env:
        system_bytes = env.stat()["psize"]
    whole = (path / "data.mdb").read_bytes()
    made = bytearray()
    for number in range(2):
        meta = bytearray(whole[number * system_bytes :][: lmdb_check.META.size].ljust(page_bytes, b"\0"))
        meta[40:44] = page_bytes.to_bytes(4, "little")
        made += meta
    (path / "data.mdb").write_bytes(made)


@pytest.mark.parametrize("page_bytes", [1 << 12, 1 << 14, 1 << 15])
def test_fences_in_pages_of_any_size_survive_a_restart(tmp_path: Path, page: StatePage, page_bytes: int) -> None:
    make_file(tmp_path / "fences", page_bytes)
    store = FenceStore(tmp_path / "fences", page)
    assert store._env.stat()["psize"] == page_bytes
    kept = {store.begin([b"thive\0db\0%d" % number], ME) for number in range(1000)}
    store = restart(tmp_path, store)
    assert store.standing().keys() == kept
    mirror, done = FenceMirror(store), follow(store)
    assert mirror.active([b"thive\0db\0999"], done) and not mirror.active([A], done)
    store.close()


@pytest.mark.parametrize("page_bytes", [0, 64, 3000, 1 << 16, 1 << 31])
def test_a_page_size_that_lmdb_does_not_use_is_damage(tmp_path: Path, page_bytes: int) -> None:
    make_file(tmp_path / "fences", 1 << 12)
    with (tmp_path / "fences" / "data.mdb").open("r+b") as file:
        file.seek(40)
        file.write(page_bytes.to_bytes(4, "little"))
    assert lmdb_check.damage(tmp_path / "fences") == "a meta page is damaged"


@pytest.mark.parametrize("how", ["restarted machine", "damaged", "truncated"])
def test_records_that_cannot_be_trusted(tmp_path: Path, page: StatePage, how: str) -> None:
    """Any write may be in flight: all is fenced for the longest request time, then all is reloaded."""
    store = FenceStore.recover(tmp_path / "fences", page)
    store.begin([A], ME)
    last = follow(store)
    data = tmp_path / "fences" / "data.mdb"
    if how == "restarted machine":
        with store._change() as txn:
            txn.put(b"b", b"an earlier run")
        store = restart(tmp_path, store)
    else:
        store.close()
        if how == "damaged":
            data.write_bytes(os.urandom(data.stat().st_size))
        else:
            os.truncate(data, 3 * 4096)
        store = FenceStore.recover(tmp_path / "fences", StatePage(tmp_path / "state", create=True))
    mirror = FenceMirror(store)
    done = follow(store)
    assert done >= last, "numbers go on"
    assert mirror.active([b"anything"], done)
    store.expire(time.monotonic_ns() + REQUEST_TIMEOUT_NS)
    last, wanted = store.pending_tickets()
    assert wanted == {ALL}
    store.done(last)
    assert not mirror.active([A], last)
    store.close()


def test_an_orderly_stop_survives_a_restart_of_the_machine(tmp_path: Path, page: StatePage) -> None:
    store = FenceStore.recover(tmp_path / "fences", page)
    store.unknown(store.begin([A], ME), (1 << 63) - 1)  # on the clock of that run
    with store._change() as txn:
        txn.put(b"b", b"an earlier run")
    store = restart(tmp_path, store, clean=True, request_timeout_ns=1000)
    mirror = FenceMirror(store)
    done = follow(store)
    assert mirror.active([A], done) and not mirror.active([B], done)
    assert store.expire(time.monotonic_ns() + 1000) == 1, "no longer than the longest request time from now"
    store.close()


def test_the_first_start(tmp_path: Path, page: StatePage) -> None:
    store = FenceStore.recover(tmp_path / "fences", page)
    assert not FenceMirror(store).active([A], 0)
    assert (tmp_path / "fences" / "data.mdb").stat().st_mode & 0o777 == 0o600
    assert fence_rows.MAP_BYTES > (tmp_path / "fences" / "data.mdb").stat().st_size
    store.close()
