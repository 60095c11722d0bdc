"""Builds: what is in them, several stretches of a table, publishing, questions in SQL."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from hms_cache_proxy.config import load
from hms_cache_proxy.errors import SnapshotError
from hms_cache_proxy.pipeline.build import Build
from hms_cache_proxy.pipeline.progress import LineReport
from hms_cache_proxy.pipeline.publish import publish
from hms_cache_proxy.pipeline.query import Catalog
from hms_cache_proxy.pipeline.session import on
from hms_cache_proxy.snapshots import manifest, rows
from hms_cache_proxy.snapshots.manifest import Manifest
from hms_cache_proxy.snapshots.place import Place
from hms_cache_proxy.store.sql.store import open_sql_store
from tests.pipeline.conftest import World
from tests.store import bulk
from tests.testbed.postgres import Postgres

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.real, pytest.mark.filterwarnings("ignore::ResourceWarning")]


def test_a_table_of_several_stretches(
    spark: SparkSession, postgres: Postgres, unique_name: str, tmp_path: Path
) -> None:
    """Every partition, once, in order, whatever the order of the ids; as the store reads them."""
    database = postgres.create_metastore_database(unique_name)
    bulk.fill(database, 30_000, shuffled=True)
    config = load(cli={"store_url": database.reader_url})
    made = Build(on(spark), config, tmp_path.as_uri(), 3, LineReport(print)).run()
    assert made.counts["partitions"] == 30_000
    place = Place(str(tmp_path))
    files = made.of_kind(rows.PARTITIONS)
    assert len(files) == 2, "a stretch has 25,000"
    found = [record for file in files for run in rows.partitions(place.read(file)) for record in run.records()]
    store = open_sql_store(database.reader_url)
    with store.snapshot() as snapshot:
        table = snapshot.tables(b"hive", bulk.DATABASE, [bulk.TABLE])[bulk.TABLE]
        assert found == snapshot.partitions(table)
    store.close()
    with pytest.raises(SnapshotError, match="already has a snapshot"):
        Build(on(spark), config, tmp_path.as_uri(), 3, LineReport(print)).run()


def test_publish_keeps_the_newest(world: World, spark: SparkSession, tmp_path: Path) -> None:
    old, newer, given_up = (tmp_path / f"snapshot-2020010{day}T000000Z-00000000" for day in (1, 3, 2))
    for directory in (old, newer, given_up, tmp_path / "something else"):
        directory.mkdir()
    for directory in (old, newer):
        (directory / manifest.NAME).write_text("{}")
    uri, made = publish(on(spark), world.config, tmp_path.as_uri(), 2, 2, LineReport(print))
    assert not old.exists() and not given_up.exists() and (tmp_path / "something else").exists()
    assert [place.uri for place in Place(str(tmp_path)).snapshots()] == [uri, newer.as_uri()]
    assert Place(uri).manifest() == made


def test_questions(built: tuple[Path, Manifest], world: World, spark: SparkSession) -> None:
    """Counts and contents of the views, against the metastore."""
    made, answer = built[1], Catalog(str(built[0])).views(spark)

    def ask(text: str) -> list[dict[str, Any]]:
        return answer(text, 1000).rows

    for kind in rows.KINDS:
        assert ask(f"SELECT count(*) AS n FROM {kind}") == [{"n": made.counts[kind]}]
    (found,) = ask("SELECT * FROM tables WHERE database = 'shapes_main' AND array_size(partition_keys) > 1 LIMIT 1")
    columns = ask(
        f"SELECT name, type FROM columns WHERE database = 'shapes_main' AND table = '{found['name']}' AND partition_key"
    )
    assert [column["name"] for column in columns] == found["partition_keys"]
    (many,) = ask(
        "SELECT database, table, count(*) AS n FROM partitions WHERE database LIKE 'shapes_%'"
        " GROUP BY ALL ORDER BY n DESC LIMIT 1"
    )
    names = world.client.get_partition_names(many["database"], many["table"], -1)
    assert len(names) == many["n"]
    some = ask(
        f"SELECT name, values FROM partitions WHERE database = '{many['database']}' AND table = '{many['table']}'"
    )
    assert sorted(one["name"] for one in some) == sorted(names)
    assert ask("SELECT count(*) AS n FROM parameters WHERE partition IS NULL AND key = 'EXTERNAL'")[0]["n"] > 10
    assert ask("SELECT count(*) AS n FROM parameters WHERE partition IS NOT NULL")[0]["n"] > 10
    assert ask("SELECT count(DISTINCT column) AS n FROM statistics")[0]["n"] > 0
    with pytest.raises(SnapshotError, match="nosuch"):
        ask("SELECT * FROM nosuch")
