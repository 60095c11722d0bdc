"""The page of counters."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from hms_cache_proxy.cache.state import PAGE_BYTES, Slot, StatePage
from hms_cache_proxy.errors import CacheError


def test_other_processes_see_what_is_written(tmp_path: Path) -> None:
    code = (
        "import sys\n"
        "from hms_cache_proxy.cache.state import Slot, StatePage\n"
        "page = StatePage(sys.argv[1])\n"
        "assert page[Slot.CURSOR] == 7\n"
        "page[Slot.FENCE_SEQ] = 2**64 - 1\n"
    )
    with StatePage(tmp_path / "state", create=True) as page:
        page[Slot.CURSOR] = 7
        subprocess.run([sys.executable, "-c", code, str(tmp_path / "state")], check=True)
        assert page[Slot.FENCE_SEQ] == page.words[Slot.FENCE_SEQ] == 2**64 - 1


def test_a_new_page_is_zero_and_belongs_to_the_new_start(tmp_path: Path) -> None:
    slots = [number for name, number in vars(Slot).items() if name.isupper()]
    assert len(set(slots)) == len(slots) > 20
    with StatePage(tmp_path / "state", create=True) as old:
        old[Slot.CURSOR] = 7
        with StatePage(tmp_path / "state", create=True) as new:
            assert all(new[slot] == 0 for slot in slots if slot != Slot.MAGIC)
            new[Slot.CURSOR] = 8
            assert old[Slot.CURSOR] == 7
    assert (tmp_path / "state").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("content", [b"", b"x" * PAGE_BYTES, b"\0" * 100])
def test_what_is_not_a_page_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "state").write_bytes(content)
    with pytest.raises(CacheError):
        StatePage(tmp_path / "state")


def test_there_is_none(tmp_path: Path) -> None:
    with pytest.raises(CacheError, match="state page"):
        StatePage(tmp_path / "state")
