"""The disk of a data directory is full; its files are cut off, damaged or gone."""

from __future__ import annotations

import os
import random
import resource
import shutil
from contextlib import ExitStack
from pathlib import Path
from struct import Struct

from tests.torture.faults.kinds import GoesOn, kind
from tests.torture.world import REQUEST_TIMEOUT_S, Side, World

HEAD_BYTES = 8192
"""LMDB's two meta pages, which are there already."""

PAGE_BYTES, HEADER_BYTES = 4096, 16
HEADER = Struct("<Q2xH")
BRANCH, LEAF, META = 1, 2, 8


@kind(grace_s=2, goes_on=GoesOn.WRITES)
def full_disk(world: World, chance: random.Random) -> None:
    """Recovers later: a disk that has room again is found by the next try to write."""
    side = chance.choice(world.sides)
    with ExitStack() as stack:
        if side.disk is not None:
            stack.enter_context(side.disk.full())
        else:
            limit_files(side, HEAD_BYTES)
            stack.callback(limit_files, side, resource.RLIM_INFINITY)
        world.last(chance.uniform(0, 4))


@kind(grace_s=2, goes_on=GoesOn.WRITES)
def limited_files(world: World, chance: random.Random) -> None:
    """No file of the workers and of the follower grows."""
    side = chance.choice(world.sides)
    limit_files(side, HEAD_BYTES)
    world.last(chance.uniform(0, 4))
    limit_files(side, resource.RLIM_INFINITY)


def limit_files(side: Side, size: int) -> None:
    for pids in side.proxy.children().values():
        for pid in pids:
            try:
                resource.prlimit(pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
            except ProcessLookupError:
                continue


def some_file(side: Side, chance: random.Random) -> Path:
    """With bytes in it: of the cache, of fences, the state page."""
    names = ["cache/data.mdb", "fences/data.mdb", "state"]
    return chance.choice([path for name in names if (path := side.data / name).exists() and path.stat().st_size])


@kind(7, grace_s=REQUEST_TIMEOUT_S)
def truncate_at_rest(world: World, chance: random.Random) -> None:
    """While the proxy is down. Without its fences nobody knows which writes are under way: nothing is served for the
    longest time that one may take."""
    side = chance.choice(world.sides)
    side.proxy.kill()
    path = some_file(side, chance)
    os.truncate(path, chance.randrange(path.stat().st_size))
    side.proxy.start()


@kind(7, grace_s=REQUEST_TIMEOUT_S)
def truncate_live(world: World, chance: random.Random) -> None:
    """The cache or its lock file, under the processes that have it mapped."""
    path = chance.choice(world.sides).data / "cache" / chance.choice(["data.mdb", "lock.mdb"])
    os.truncate(path, chance.randrange(path.stat().st_size))


@kind(7, grace_s=REQUEST_TIMEOUT_S)
def damage_fences(world: World, chance: random.Random) -> None:
    """Under the processes that have them mapped. If a write of unknown outcome was fenced, nothing is served until it
    can no longer be carried out."""
    path = chance.choice(world.sides).data / "fences" / "data.mdb"
    damage = chance.choice([_cut_off, _zeroed, _headers_overwritten, _removed, _without_lock])
    damage(path, chance)


def _cut_off(path: Path, chance: random.Random) -> None:
    os.truncate(path, chance.randrange(path.stat().st_size))


def _zeroed(path: Path, chance: random.Random) -> None:
    """From some page on; as long as before."""
    length = path.stat().st_size
    os.truncate(path, PAGE_BYTES * chance.randint(0, 2))
    os.truncate(path, length)


def _headers_overwritten(path: Path, chance: random.Random) -> None:
    """Of all pages but the first two, in which LMDB begins."""
    with path.open("r+b") as file:
        for at in _headers(file.read()):
            if at >= HEAD_BYTES:
                file.seek(at)
                file.write(chance.randbytes(HEADER_BYTES))


def _removed(path: Path, chance: random.Random) -> None:
    shutil.rmtree(path.parent)


def _without_lock(path: Path, chance: random.Random) -> None:
    """The lock file alone is cut off or removed."""
    lock = path.with_name("lock.mdb")
    if chance.random() < 0.5:
        os.truncate(lock, chance.randrange(lock.stat().st_size))
    else:
        lock.unlink()


@kind(7, grace_s=REQUEST_TIMEOUT_S)
def flip_bytes(world: World, chance: random.Random) -> None:
    """While the proxy is down. Of an LMDB file, in the headers of pages: a byte that is flipped inside a stored object
    is not noticed (docs/reliability.md)."""
    side = chance.choice(world.sides)
    side.proxy.kill()
    with some_file(side, chance).open("r+b") as file:
        whole = file.read()
        pages = _headers(whole)
        for _ in range(chance.randint(1, 20)):
            at = chance.choice(pages) + chance.randrange(HEADER_BYTES) if pages else chance.randrange(len(whole))
            file.seek(at)
            file.write(bytes([whole[at] ^ (1 << chance.randrange(8))]))
    side.proxy.start()


def _headers(whole: bytes) -> list[int]:
    """Where the pages of LMDB begin that are part of its trees: their own number is the first that each has, then come
    two bytes of padding and its kind (lmdb.h's MDB_page). Pages behind the first of a large value have no header."""
    found = []
    for page in range(len(whole) // PAGE_BYTES):
        number, kind_of = HEADER.unpack_from(whole, page * PAGE_BYTES)
        if number == page and kind_of in (BRANCH, LEAF, META):
            found.append(page * PAGE_BYTES)
    return found


@kind(7, grace_s=REQUEST_TIMEOUT_S)
def lose_files(world: World, chance: random.Random) -> None:
    """While the proxy is down: one of them, or all."""
    side = chance.choice(world.sides)
    side.proxy.kill()
    if chance.random() < 0.5:
        some_file(side, chance).unlink()
    else:
        for inside in side.data.iterdir():
            shutil.rmtree(inside) if inside.is_dir() else inside.unlink()
    side.proxy.start()
