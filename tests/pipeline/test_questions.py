"""`snapshot query --question`: the questions that are ready, to a catalog in which each has an answer that is known."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import pytest

from hms_cache_proxy.cli.snapshot import Asked, CatalogOptions
from hms_cache_proxy.config import load
from hms_cache_proxy.pipeline.build import Build
from hms_cache_proxy.pipeline.progress import LineReport
from hms_cache_proxy.pipeline.query import Catalog
from hms_cache_proxy.pipeline.ready_questions import QUESTIONS
from hms_cache_proxy.pipeline.session import in_process
from hms_cache_proxy.pipeline.snapshot_report import asked, report
from tests.pipeline.two_tables import COLUMNS, DATABASE, fill
from tests.testbed import objects
from tests.testbed.bed import Bed
from tests.testbed.client import MetastoreClient
from tests.testbed.metastore import Metastore

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")


Answer = dict[str, dict[str, Any]]


def snapshot(metastore: Metastore, place: Path) -> str:
    assert metastore.database is not None
    config = load(cli={"store_url": metastore.database.reader_url})
    Build(in_process, config, place.as_uri(), 1, LineReport(lambda line: None)).run()
    return place.as_uri()


@pytest.fixture(scope="module")
def two(bed: Bed, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """Two snapshots; before the second one, a partition was dropped and a table was made."""
    directory = tmp_path_factory.mktemp("questions")
    metastore = bed.private_metastore("embedded")
    with MetastoreClient(*metastore.address) as client:
        client.get_metastore_db_uuid()
        fill(client)
        before = snapshot(metastore, directory / "before")
        client.drop_partition(DATABASE, "drifted", ["3"], False)
        objects.create_table(client, objects.table(DATABASE, "late", COLUMNS))
        yield before, snapshot(metastore, directory / "now")
    bed.release(metastore)


@pytest.fixture(scope="module")
def catalog(two: tuple[str, str], tmp_path_factory: pytest.TempPathFactory) -> Catalog:
    """The second snapshot, with the first one and an access log."""
    log = tmp_path_factory.mktemp("logs") / "access.log"
    line = {"time": "2026-01-01T00:00:00Z", "method": "get_table", "outcome": "hit", "bytes": 1, "us": 1}
    lines = [
        {**line, "object": f"hive.{DATABASE}.drifted"},
        {**line, "object": f"hive.{DATABASE}.plain", "outcome": "write", "method": "alter_table"},
    ]
    log.write_text("".join(json.dumps(one) + "\n" for one in lines))
    return Catalog(two[1], two[0], [str(log)])


@pytest.fixture(scope="module")
def answers(spark: SparkSession, catalog: Catalog) -> dict[str, Answer]:
    """The answers by question and by their table (or location)."""
    ask, found = catalog.views(spark), {}
    for name, question in QUESTIONS.items():
        answer = ask(question.sql, 100)
        found[name] = {one["table" if "table" in answer.columns else "location"]: one for one in answer.rows}
        assert question.measure is None or question.measure in answer.columns
    return found


def test_partitions(answers: dict[str, Answer]) -> None:
    (one,) = answers["largest"].values()
    assert one == {"catalog": "hive", "database": DATABASE, "table": "drifted", "partitions": 3}
    (one,) = answers["no-statistics"].values()
    assert (one["table"], one["partitions"], one["without_statistics"]) == ("drifted", 3, 3)


def test_sizes(answers: dict[str, Answer]) -> None:
    (one,) = answers["small-files"].values()
    assert (one["table"], one["files"], one["bytes"], one["bytes_per_file"]) == ("plain", 4, 1000, 250)


def test_sizes_that_no_files_have(spark: SparkSession) -> None:
    """Parameters may hold any number."""
    most = 2**63 - 1
    sizes = [
        ("small", 9, 99),
        ("many", most, 7),
        ("more", most, 7),
        ("more", most, 7),
        ("large", 1, most),
        ("bad", "x", 1),
    ]
    partitions = [
        ("hive", "d", table, {"numFiles": str(files), "totalSize": str(size)}) for table, files, size in sizes
    ]
    schema = "catalog string, database string, table string, parameters map<string, string>"
    spark.createDataFrame(partitions, schema).createOrReplaceTempView("partitions")
    tables = spark.sql("SELECT *, table AS name, array('p') AS partition_keys FROM partitions WHERE FALSE")
    tables.createOrReplaceTempView("tables")
    found = spark.sql(QUESTIONS["small-files"].sql).collect()
    assert [(row.table, row.files, row.bytes_per_file) for row in found] == [("many", most, 0), ("small", 9, 11)]


def test_locations(answers: dict[str, Answer]) -> None:
    (one,) = answers["same-location"].values()
    assert (one["objects"], one["examples"]) == (2, [f"{DATABASE}.drifted/ds=0", f"{DATABASE}.plain"])


def test_columns(answers: dict[str, Answer]) -> None:
    (one,) = answers["drift"].values()
    assert (one["table"], one["partitions"], one["differing"]) == ("drifted", 3, 1)
    assert (one["schemas"], one["example"]) == (2, "ds=2")


def test_two_snapshots(answers: dict[str, Answer]) -> None:
    found = {table: (one["change"], one["growth"]) for table, one in answers["growth"].items()}
    assert found == {"drifted": ("", -1), "late": ("new", 0)}


def test_access_logs(answers: dict[str, Answer]) -> None:
    """What was only written was not read."""
    assert set(answers["unread"]) == {"plain", "late"}


@pytest.mark.parametrize(
    ("sql", "question", "words"),
    [
        (None, None, "give a query in SQL, or --question NAME"),
        ("SELECT 1", "drift", "give a query in SQL, or --question NAME"),
        (None, "growth", "--question growth needs --before URI"),
        (None, "unread", "--question unread needs --access-log FILES"),
    ],
)
def test_what_is_missing(sql: str | None, question: str | None, words: str) -> None:
    with pytest.raises(click.UsageError) as caught:
        Asked(sql, question).statement(CatalogOptions("file:/x", None, ()))
    assert caught.value.message == words


def test_the_page(spark: SparkSession, catalog: Catalog) -> None:
    """Has a section for each question, a plot where something is counted, and what was found."""
    found = report(spark, catalog)
    assert found.count("<h2>") == len(QUESTIONS) and found.count("<img ") == len(QUESTIONS) - 1
    assert "<td>late</td>" in found and "questions.drifted/ds=0, questions.plain" in found


def test_what_the_page_leaves_out() -> None:
    assert len(asked(Catalog("file:/x"))) == len(QUESTIONS) - 2
    assert len(asked(Catalog("file:/x", before="file:/y"))) == len(QUESTIONS) - 1
