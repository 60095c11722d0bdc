"""Exported snapshots: every row of a snapshot, in files that DuckDB, pandas and Spark SQL read without this package."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest

from hms_cache_proxy.errors import SnapshotError
from hms_cache_proxy.pipeline import export as exports
from hms_cache_proxy.pipeline import publish
from hms_cache_proxy.pipeline.export import NAME, SCHEMAS, Export
from hms_cache_proxy.pipeline.progress import LineReport
from hms_cache_proxy.pipeline.session import in_process
from hms_cache_proxy.snapshots.place import newest
from tests.document_blocks import blocks
from tests.pipeline.conftest import World
from tests.pipeline.two_tables import fill
from tests.testbed.bed import Bed
from tests.testbed.client import MetastoreClient
from tests.testbed.packages import required

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")
PAGE = Path(__file__).parents[2] / "docs" / "howto" / "catalog-as-tables.md"
SILENT = LineReport(lambda line: None)
WITHOUT_THIS_PACKAGE = "import sys; sys.modules['hms_cache_proxy'] = None; exec(open(sys.argv[1]).read())"
SCRIPT_S = 300.0


def full(world: World, directory: Path) -> str:
    return publish.publish(in_process, world.config, directory.as_uri(), 100, 2, SILENT)[0]


def export(uri: str, out: Path, jobs: int = 1) -> dict[str, int]:
    return Export(uri, out.as_uri(), jobs, SILENT).run()


def rows_of(out: Path, kind: str) -> list[dict[str, Any]]:
    """In an order that does not depend on files."""
    found = pyarrow.parquet.read_table(out / kind).to_pylist()
    return sorted(found, key=lambda row: json.dumps(row, sort_keys=True, default=str))


def test_every_row(embedded_world: World, tmp_path: Path) -> None:
    """Counts are those of the snapshot; names are those that the metastore lists."""
    uri = full(embedded_world, tmp_path / "published")
    counts = export(uri, tmp_path / "out")
    made = newest(uri)[1]
    assert {kind: counts[kind] for kind in ("databases", "tables", "partitions")} == {
        kind: made.counts[kind] for kind in ("databases", "tables", "partitions")
    }
    assert counts["columns"] > counts["tables"] and counts["statistics"] > 0
    document = json.loads((tmp_path / "out" / NAME).read_text())
    assert document["rows"] == counts and document["events"] == {"before": made.before, "after": made.after}
    partitions = rows_of(tmp_path / "out", "partitions")
    keyed = {(row["database"], row["table"]) for row in partitions if row["catalog"] == "hive"}
    assert len(keyed) > 3
    for database, table in keyed:
        mine = sorted(
            row["name"]
            for row in partitions
            if (row["catalog"], row["database"], row["table"]) == ("hive", database, table)
        )
        try:
            names = embedded_world.client.get_partition_names(database, table, -1)
        except UnicodeDecodeError:
            continue
        assert mine == sorted(names)


def test_an_increment(embedded_world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """... is exported as the full snapshot that says the same; in several processes and files, too."""
    full(embedded_world, tmp_path / "published")
    for _ in range(25):
        embedded_world.changes.one()
    uri, _ = publish.increment(embedded_world.config, (tmp_path / "published").as_uri(), 9, SILENT)
    monkeypatch.setattr(exports, "ROWS_PER_GROUP", 7)
    monkeypatch.setattr(exports, "FILE_BYTES", 1)
    counts = export(uri, tmp_path / "one")
    monkeypatch.undo()
    assert counts == export(full(embedded_world, tmp_path / "full"), tmp_path / "two", jobs=2)
    for kind in SCHEMAS:
        assert rows_of(tmp_path / "one", kind) == rows_of(tmp_path / "two", kind), kind


def test_a_directory_in_use(embedded_world: World, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "something").write_text("")
    with pytest.raises(SnapshotError, match="is not empty: --out must name a new directory"):
        export("file:///nowhere", tmp_path / "out")


def test_the_page_names_the_columns() -> None:
    page = PAGE.read_text()
    documented = dict(re.findall(r"^\| `(\w+)` \| (.*?) \|$", page, re.MULTILINE))
    assert {kind: columns.split(", ") for kind, columns in documented.items()} == {
        kind: list(columns) for kind, columns in SCHEMAS.items()
    }
    assert f"format {exports.FORMAT} of exported files" in page


def test_the_recipes(bed: Bed, pipeline_extra: None, tmp_path: Path) -> None:
    """The scripts of the page, to a catalog in which their answers are known."""
    required("duckdb", "pandas")
    metastore = bed.private_metastore("embedded")
    with MetastoreClient(*metastore.address) as client:
        client.get_metastore_db_uuid()
        fill(client)
    assert metastore.database is not None
    command = [sys.executable, "-m", "hms_cache_proxy", "snapshot"]
    world = World(metastore, None, None, None)  # type: ignore[arg-type]  # only its config is used
    uri = full(world, tmp_path / "published")
    ended = subprocess.run(
        [*command, "export", "--uri", uri, "--out", str(tmp_path / "catalog")], capture_output=True, text=True
    )
    assert ended.returncode == 0 and "2 tables" in ended.stdout, ended.stderr
    said = {}
    for block in blocks(PAGE.read_text()):
        if block.language == "python":
            (tmp_path / block.title).write_text(block.text)
            ended = subprocess.run(
                [sys.executable, "-c", WITHOUT_THIS_PACKAGE, block.title],
                cwd=tmp_path,
                capture_output=True,
                text=True,
                timeout=SCRIPT_S,
            )
            assert ended.returncode == 0, ended.stderr
            said[block.title] = ended.stdout
    bed.release(metastore)
    assert re.search(r"drifted\W+4\W+4294967296\W+536870912", said["largest.py"]), said
    assert re.search(r"EXTERNAL_TABLE\W+2", said["largest.py"]), said
    assert re.search(r"questions\s+drifted\s+4", said["without_statistics.py"]), said
    assert re.search(r"questions\|drifted\|\s+1\|", said["drift.py"]), said
