"""docs/snapshot-format.md says what the files have: compared with files that were written, and with a manifest."""

from __future__ import annotations

import json
import re
from dataclasses import fields
from pathlib import Path

import pyarrow.parquet
import pytest

from hms_cache_proxy.snapshots import manifest, rows
from hms_cache_proxy.snapshots.place import Place
from hms_cache_proxy.snapshots.row_writer import FileWriter
from tests.snapshots.test_manifest import MADE

PAGE = Path(__file__).parents[2] / "docs" / "snapshot-format.md"
EXAMPLES = {
    rows.DATABASES: (0, b"hive", b"a", b"", False, None),
    rows.TABLES: (0, b"hive", b"a", b"t", 7, b"VIRTUAL_VIEW", *(None,) * 11),
    rows.PARTITIONS: rows.unfit_row(0, 7, "odd"),
    rows.CHANGES: rows.change_row("all", 7),
}


def documented(section: str) -> list[tuple[str, str]]:
    """The first two cells of the rows of a section's table: the name, and what follows it."""
    _, found, text = PAGE.read_text().partition(f"\n## {section}\n")
    assert found, f"the page has no section {section}"
    return re.findall(r"^\| `(\w+)` \| (.*?) \|", text.partition("\n## ")[0], re.MULTILINE)


@pytest.mark.parametrize("kind", EXAMPLES)
def test_columns(kind: str, tmp_path: Path) -> None:
    writer = FileWriter(Place(str(tmp_path)), kind, kind)
    writer.add(EXAMPLES[kind])
    (file,) = writer.close()
    schema = pyarrow.parquet.read_schema(tmp_path / file.name)
    of_partitions = documented(rows.PARTITIONS) if kind == rows.CHANGES else []
    assert [(field.name, str(field.type)) for field in schema] == of_partitions + documented(kind)
    assert set(EXAMPLES) == set(rows.COLUMNS), "every kind is described"


def test_columns_that_format_1_lacks() -> None:
    text = PAGE.read_text()
    assert re.findall(r"`(\w+)` \|[^|]*\|[^|]*Format 1 lacks this column", text) == list(rows.ADDED)


def test_manifest() -> None:
    text = PAGE.read_text()
    keys = dict(documented("manifest.json"))
    assert list(json.loads(MADE.dump())) == list(keys)
    assert keys["format"] == str(manifest.FORMAT) and f"describes format {manifest.FORMAT} of" in text
    *earlier, newest = map(str, manifest.READABLE)
    assert f"Formats {', '.join(earlier)} and {newest} can be read" in text
    for field in fields(manifest.File):
        assert f"`{field.name}`" in text
