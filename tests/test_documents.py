"""Pages for newcomers are done by the page alone: their own code blocks run, in order, on the embedded metastore."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.document_blocks import Reader, blocks

ROOT = Path(__file__).parents[1]


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[Reader]:
    made = Reader(tmp_path)
    yield made
    made.close()


def test_blocks_are_found() -> None:
    page = 'text\n\n```sh title="first terminal"\nserve\n```\n\n```\nshown\n```\n\n'
    page += '```python title="a.py"\nx = 1\n\n```\n'
    assert [tuple(block) for block in blocks(page)] == [
        ("sh", "first terminal", "serve\n"),
        ("", "", "shown\n"),
        ("python", "a.py", "x = 1\n\n"),
    ]


@pytest.mark.real
def test_the_tutorial(reader: Reader) -> None:
    reader.follow((ROOT / "docs" / "tutorial.md").read_text("utf-8"))
    counted = next(text for name, text in reader.printed.items() if name.startswith("curl"))
    hits = re.search(r'method="get_table",outcome="hit",reason=""\} (\d+)', counted)
    assert hits is not None and int(hits[1]) >= 15, counted
    assert "3 rows" in reader.printed["hms-cache-proxy status"] + reader.printed["read.py"]


@pytest.mark.real
def test_why_fewer_reads_are_hits(reader: Reader) -> None:
    many = r"[1-9]\d+"
    expected = {
        "hms-cache-proxy status": rf"misses .* {many} left out by include or exclude \(excluded\)",
        "curl -s http://localhost:9084/metrics | grep '^hms_proxy_requests_total'": (
            rf'method="get_table",outcome="miss",reason="excluded"\}} {many}'
        ),
        "tail -q -n 3 logs/access-*.jsonl": '"object":"hive.sales.orders","outcome":"miss","reason":"excluded"',
        "python job.py && hms-cache-proxy status": rf"reads .* {many} hits",
    }
    reader.follow((ROOT / "docs" / "howto" / "hit-ratio.md").read_text("utf-8"), expected)
    assert expected.keys() <= reader.printed.keys()
    assert "(excluded)" not in reader.printed["python job.py && hms-cache-proxy status"]
