"""When tables were asked for: a file that processes share."""

from __future__ import annotations

import time
from pathlib import Path

from hms_cache_proxy.cache import targets
from hms_cache_proxy.cache.last_used import SLOTS, LastUsed

T = targets.table(b"hive", b"d", b"t")


def test_what_one_process_marks_another_sees_also_after_a_start(tmp_path: Path) -> None:
    path = tmp_path / "uses"
    worker, follower = LastUsed(path), LastUsed(path)
    assert follower.used_s(T) == 0
    before = int(time.time())
    worker.mark((targets.database(b"hive", b"d"), T))
    assert before <= follower.used_s(T) <= time.time()
    worker.close()
    follower.close()
    again = LastUsed(path)
    assert again.used_s(T) >= before
    assert path.stat().st_size == 4 * SLOTS
    again.close()


def test_a_file_of_another_size_is_begun_again(tmp_path: Path) -> None:
    (tmp_path / "uses").write_bytes(b"\xff" * 100)
    uses = LastUsed(tmp_path / "uses")
    assert uses.used_s(T) == 0
    uses.mark((T,))
    assert uses.used_s(T) > 0
    uses.close()


def test_without_a_file_marks_are_the_processs_own(tmp_path: Path) -> None:
    for path in (None, tmp_path / "absent" / "uses"):
        uses = LastUsed(path)
        uses.mark((T,))
        assert uses.used_s(T) > 0
        uses.close()
