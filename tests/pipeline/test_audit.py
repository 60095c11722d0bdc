"""An audit finds nothing in a cache that is right, and each of a set of planted differences."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from hms_cache_proxy.cache.changes import Changes, PartitionChange
from hms_cache_proxy.cache.writer import CacheWriter
from hms_cache_proxy.config import paths
from hms_cache_proxy.errors import AuditError
from hms_cache_proxy.pipeline.audit import Audit
from hms_cache_proxy.pipeline.audit_plan import AuditPlan
from hms_cache_proxy.pipeline.audit_progress import AuditResult
from hms_cache_proxy.pipeline.progress import LineReport
from hms_cache_proxy.pipeline.session import on
from hms_cache_proxy.store.protocol import Constraints
from hms_cache_proxy.store.sql.store import open_sql_store
from tests.follower.harness import Followed
from tests.pipeline.conftest import World

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.real, pytest.mark.filterwarnings("ignore::ResourceWarning")]
Follow = Callable[..., Followed]
MAIN = (b"hive", b"shapes_main")


def audit(spark: SparkSession, followed: Followed, out: str = "") -> AuditResult:
    return Audit(AuditPlan(followed.config, out), 2, LineReport(print), on(spark)).run()


def test_nothing_while_it_changes(world: World, spark: SparkSession, follow: Follow) -> None:
    """The proxy and the metastore go on meanwhile."""
    followed = follow(world.metastore)
    followed.loaded()
    over = threading.Event()

    def change() -> None:
        while not over.wait(0.3):
            world.changes.one()

    thread = threading.Thread(target=change)
    thread.start()
    try:
        found = audit(spark, followed)
    finally:
        over.set()
        thread.join()
    assert not found.differences, found
    assert found.compared["tables"] > 50 and found.compared["partitions"] > 100
    assert not list(Path(followed.config.data_dir).glob("audit-*")), "the copy is removed"


def plant(world: World, followed: Followed) -> dict[tuple[str, str, str | None], int]:
    """Make the cache wrong in ways of every kind; gives what the audit has to find."""
    store = open_sql_store(world.config.store_url)
    followed.reader.close()  # a process opens the file once
    writer = CacheWriter.open(paths.cache(followed.config), followed.page, store.identity, scope=repr(((), ())))
    assert writer.rebuilt is None
    changes = Changes(writer.meta.cursor, writer.meta.fingerprint)
    with store.snapshot() as snapshot:
        assert snapshot.event_id == writer.meta.cursor
        names = [name for name, kind, _ in snapshot.table_names(*MAIN) if kind != b"MATERIALIZED_VIEW"]
        tables = list(snapshot.tables(*MAIN, names).values())
        keyed = [table for table in tables if table.partition_keys and not table.transactional]
        most = max(keyed, key=lambda table: snapshot.partition_counts([table.table_id])[table.table_id])
        some = snapshot.partitions(most)
        assert len(some) > 3
        database = snapshot.databases([MAIN])[MAIN]
    store.close()
    plain = [table for table in tables if not table.partition_keys and not table.transactional]
    recommented = next(table for table in plain if b"someone" in table.body)
    gone, moved, constrained = [table for table in plain if table is not recommented][:3]
    changes.databases[MAIN] = replace(database, body=database.body.replace(b"shapes_main", b"shapes_mein", 1))
    changes.tables[(*MAIN, gone.name)] = None
    changes.tables[(*MAIN, moved.name)] = replace(moved, location=b"elsewhere")
    owner = recommented.body.replace(b"someone", b"nobody!", 1)
    assert owner != recommented.body
    changes.tables[(*MAIN, recommented.name)] = replace(recommented, body=owner)
    changes.tables[(*MAIN, constrained.name)] = replace(constrained, constraints=Constraints({}, (17,)))
    changes.tables[(*MAIN, b"never")] = replace(gone, name=b"never", table_id=999_999)
    changes.partitions.append(
        PartitionChange(
            most.table_id,
            sorted(
                (some[1]._replace(location=b"elsewhere"), some[2]._replace(name=b"zz=never")),
                key=lambda record: record.name,
            ),
            [some[0].name],
        )
    )
    writer.commit(changes)
    writer.close()
    return {
        ("database", "different", "body"): 1,
        ("table", "missing", None): 1,
        ("table", "extra", None): 1,
        ("table", "different", "location"): 1,
        ("table", "different", "owner"): 1,
        ("table", "different", "constraints"): 1,
        ("partition", "missing", None): 1,
        ("partition", "extra", None): 1,
        ("partition", "different", "sd"): 1,  # once: all kinds of calls show the same
    }


def test_planted_differences(world: World, spark: SparkSession, follow: Follow, tmp_path: Path) -> None:
    followed = follow(world.metastore)
    followed.loaded()
    followed.kill()
    planted = plant(world, followed)
    out = tmp_path / "differences"
    found = audit(spark, followed, out.as_uri())
    kinds: dict[tuple[str, str, str | None], int] = {}
    for row in found.shown:
        key = row.kind, row.difference, row.field
        kinds[key] = kinds.get(key, 0) + 1
    assert kinds == planted
    assert found.differences == sum(planted.values()) == spark.read.parquet(out.as_uri()).count()
    process = subprocess.run(
        [sys.executable, "-m", "hms_cache_proxy", "audit", "--data-dir", followed.config.data_dir, "--json"],
        env={**os.environ, "HMS_CACHE_PROXY_STORE_URL": world.config.store_url},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert process.returncode == 1, process.stderr
    assert json.loads(process.stdout)["differences"] == found.differences


def test_a_cache_that_nobody_follows(world: World, spark: SparkSession, follow: Follow) -> None:
    followed = follow(world.metastore)
    followed.loaded()
    followed.kill()
    world.client.create_database(world.client.get_database("default").__class__(name="random_late"))
    with pytest.raises(AuditError, match="no proxy is following the database"):
        audit(spark, followed)
    world.client.drop_database("random_late", True, True)
