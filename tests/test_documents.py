"""Pages for newcomers are done by the page alone: their own code blocks run, in order, on the embedded metastore, or in
front of a Hive with a database on PostgreSQL."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.document_blocks import Reader, blocks
from tests.testbed.client import MetastoreClient
from tests.testbed.metastore import Metastore
from tests.testbed.objects import create_database, create_table, table
from tests.testbed.postgres import SUPERUSER

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


@pytest.mark.real
@pytest.mark.timeout(1800)
def test_in_front_of_an_existing_hive(tmp_path: Path, hms42: Metastore, unique_name: str) -> None:
    """The account of the page is made by the doctor's script, and has no more rights than it gives."""
    database, account = hms42.database, f"reader_of_{unique_name}"
    assert database is not None
    with MetastoreClient(*hms42.address) as client:
        create_database(client, unique_name)
        create_table(client, table(unique_name, "orders", parameters={"table_type": "ICEBERG", "EXTERNAL": "TRUE"}))
    server = f"{database.host}:{database.port}/{database.name}"
    own = {
        "metastore.example.com:9083": hms42.uri.removeprefix("thrift://"),
        "hive@db.example.com/metastore": f"{SUPERUSER}@{server}",
        "db.example.com/metastore": server,
        "hms_reader": account,
        "sales": unique_name,
    }
    reader = Reader(tmp_path, own)
    try:
        reader.follow((ROOT / "docs" / "howto" / "existing-hive.md").read_text("utf-8"))
    finally:
        reader.close()
        if database.rows("SELECT FROM pg_roles WHERE rolname = %s", (account,)):
            with database.connect() as connection, connection.cursor() as cursor:
                cursor.execute(f"DROP OWNED BY {account}; DROP ROLE {account}")
    first = reader.printed["hms-cache-proxy doctor --upstream thrift://metastore.example.com:9083"]
    assert "store_url is not set" in first, first
    told = reader.printed["hms-cache-proxy doctor --config proxy.toml"]
    assert f"as {account}" in told and "tables it needs, and write none" in told and "no errors" in told, told
    assert "'orders'" in reader.printed["read.py"]
    counted = next(text for name, text in reader.printed.items() if name.startswith("curl"))
    assert re.search(r'method="get_table_objects_by_name",outcome="hit",reason=""\} [1-9]', counted), counted
