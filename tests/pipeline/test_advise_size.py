"""Which compiler the JVM of `hms-cache-proxy advise` uses depends on how much there is to read."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from hms_cache_proxy.pipeline.advise import size


@pytest.fixture
def logs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with two files of 600 bytes each, where 1,000 are few."""
    monkeypatch.setattr(size, "SMALL_BYTES", 1000)
    for name in ("access-0.jsonl", "access-1.jsonl"):
        (tmp_path / name).write_bytes(b"x" * 600)
    return tmp_path


def test_all_files_count_together(logs: Path) -> None:
    first, second = (str(logs / f"access-{number}.jsonl") for number in range(2))
    assert size.is_small([first])
    assert size.is_small([(logs / "access-0.jsonl").as_uri()])
    assert not size.is_small([first, second])
    assert not size.is_small([str(logs)])
    assert not size.is_small([str(logs / "access-*")])


def test_what_is_compressed_counts_as_more(logs: Path) -> None:
    (logs / "access-0.jsonl").rename(logs / "access-0.jsonl.gz")
    assert not size.is_small([str(logs / "access-0.jsonl.gz")])


@pytest.mark.parametrize("log", ["s3a://logs/today", "hdfs://n:8020/logs", "hdfs:/logs"])
def test_remote_files_may_be_large(log: str) -> None:
    assert not size.is_small([log])


@pytest.mark.parametrize("log", ["nothing there", "{a,b}", "[", "a#b?c"])
def test_what_is_missing_is_left_to_spark(log: str) -> None:
    assert size.is_small([log])


def test_what_may_not_be_read_is_left_to_spark(tmp_path: Path) -> None:
    """As the account nobody, because root may read everywhere; or as who runs the tests."""
    (tmp_path / "closed").mkdir(mode=0)
    code = (
        "import os; from hms_cache_proxy.pipeline.advise import size\n"
        f"os.geteuid() or os.setresuid(65534, 65534, 65534); print(size.is_small([{str(tmp_path / 'closed')!r}]))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr) == ("True\n", "")
