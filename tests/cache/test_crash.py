"""kill -9 of the writer at any point: what is found again is one committed step, and the file goes on being used."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from hms_cache_proxy.cache.entries import ABSENT, TableEntry
from hms_cache_proxy.cache.reader import CacheReader
from hms_cache_proxy.cache.state import Slot, StatePage
from hms_cache_proxy.cache.writer import CacheWriter
from hms_cache_proxy.wire import spec
from tests.cache.crash_writer import PARTS, TOUCHED
from tests.cache.records import DATABASE, IDENTITY, TABLE

ROUNDS = 12


def check_one_state(reader: CacheReader) -> int:
    """Every object of a snapshot says the same number as its cursor; gives it."""
    with reader.snapshot() as snapshot:
        number = snapshot.meta.cursor
        said = b"%d" % number
        assert (snapshot.meta.fingerprint, snapshot.meta.done_ticket) == (said, number)
        assert snapshot.version(TOUCHED) == snapshot.seq
        found = snapshot.database(*DATABASE)
        assert found is not None and found is not ABSENT and found.body == said
        entry = snapshot.table(*TABLE)
        assert isinstance(entry, TableEntry) and entry.body == said
        assert entry.partition_count == len(PARTS) == len(snapshot.partition_names(entry))
        for part in random.sample(PARTS, 5):
            body = snapshot.partition(entry, part.name)
            assert body is not None
            decoded = spec.decode(spec.struct("Partition"), body)[0]
            assert decoded.parameters == {b"step": said}  # type: ignore[attr-defined]
        listed = snapshot.table_list(*DATABASE)
        assert listed is not None and len(listed) == 8
        for name, *_ in listed:
            other = snapshot.table(*DATABASE, name)
            assert isinstance(other, TableEntry) and other.body == said
        absent = b"table%d" % ((number + 4) % 8)
        assert snapshot.table(*DATABASE, absent) is ABSENT
    return number


def test_killed_at_any_point(tmp_path: Path) -> None:
    with StatePage(tmp_path / "state", create=True) as page:
        reached, generation = 0, 0
        for _ in range(ROUNDS):
            reader = CacheReader(tmp_path / "cache", page)
            with subprocess.Popen(
                [sys.executable, "-m", "tests.cache.crash_writer", str(tmp_path)], stdout=subprocess.PIPE
            ) as writer:
                assert writer.stdout is not None
                writer.stdout.readline()
                deadline, published, enough = time.monotonic() + random.uniform(0.02, 0.3), 0, reached + 15
                while time.monotonic() < deadline or reached < enough:
                    before = page[Slot.CURSOR]
                    seen = check_one_state(reader)
                    assert seen >= before >= published, "the page never runs ahead of the file, and never back"
                    published, reached = before, max(reached, seen)
                writer.kill()
            reader.close()
            again = CacheWriter.open(tmp_path / "cache", page, IDENTITY)
            assert again.rebuilt is None
            assert again.meta.cursor >= reached, "what a reader has seen is not lost"
            assert again.meta.generation >= generation
            reached, generation = again.meta.cursor, again.meta.generation
            reader = CacheReader(tmp_path / "cache", page)
            assert check_one_state(reader) == reached == page[Slot.CURSOR]
            while again.collect():
                pass
            assert check_one_state(reader) == reached
            reader.close()
            again._environment.detach(writer=True)
        assert reached > 10 * ROUNDS


def test_a_reader_that_was_killed_does_not_keep_pages(tmp_path: Path) -> None:
    """Its slot is cleared, so the file stops growing."""
    code = (
        "import sys, time\n"
        "from pathlib import Path\n"
        "from hms_cache_proxy.cache.reader import CacheReader\n"
        "from hms_cache_proxy.cache.state import StatePage\n"
        "root = Path(sys.argv[1])\n"
        "snapshot = CacheReader(root / 'cache', StatePage(root / 'state')).snapshot()\n"
        "print('open', flush=True)\n"
        "time.sleep(60)\n"
    )
    from tests.cache.crash_writer import step

    with StatePage(tmp_path / "state", create=True) as page:
        writer = CacheWriter.open(tmp_path / "cache", page, IDENTITY)
        writer.commit(step(1))
        with subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE) as holder:
            assert holder.stdout is not None and holder.stdout.readline() == b"open\n"
            for number in range(2, 60):
                writer.commit(step(number))
                writer.collect()
            held = (tmp_path / "cache" / "data.mdb").stat().st_size
            holder.kill()
        assert writer._environment.env.reader_check() == 1, "what the writer does every few seconds"
        sizes = []
        for number in range(60, 200):
            writer.commit(step(number))
            writer.collect()
            sizes.append((tmp_path / "cache" / "data.mdb").stat().st_size)
        assert sizes[-1] <= held + (1 << 16)
        writer.close()


class Renumbered:
    """A transaction under the id of an earlier one: LMDB's own, when the writer commits twice while one begins."""

    def __init__(self, txn: Any, number: int) -> None:
        self._txn, self._number = txn, number
        self.get = txn.get

    def id(self) -> int:
        return self._number


def test_the_meta_record_is_that_of_the_objects(tmp_path: Path) -> None:
    from tests.cache.crash_writer import step

    with StatePage(tmp_path / "state", create=True) as page:
        writer = CacheWriter.open(tmp_path / "cache", page, IDENTITY)
        writer.commit(step(1))
        reader = CacheReader(tmp_path / "cache", page)
        with reader.snapshot() as snapshot:
            environment, number = snapshot._environment, snapshot._txn.id()
        writer.commit(step(2))
        with environment.env.begin() as txn:
            assert reader.meta_of(environment, Renumbered(txn, number)).cursor == 2
        reader.close()
        writer.close()
