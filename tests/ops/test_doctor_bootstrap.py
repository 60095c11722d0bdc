"""What the doctor says of `bootstrap`: whether an empty cache would be filled from a snapshot there, and why not."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from hms_cache_proxy.config import load
from hms_cache_proxy.doctor.bootstrap import look_at_bootstrap
from hms_cache_proxy.doctor.finding import Finding, Severity
from hms_cache_proxy.snapshots.manifest import NAME, Manifest
from hms_cache_proxy.store.sql.store import open_sql_store
from tests.follower.stepping import Catalog

OLD, NEW = "snapshot-20260101T000000Z-00000000", "snapshot-20260102T000000Z-00000000"


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[Catalog]:
    (tmp_path / "metastore").mkdir()
    with Catalog(tmp_path / "metastore") as made:
        yield made


@pytest.fixture
def manifest(catalog: Catalog) -> Manifest:
    """Of a snapshot of this metastore, as of now."""
    with closing(open_sql_store(catalog.url)) as store, store.snapshot() as source:
        event, fingerprint = source.event_id, source.fingerprint(source.event_id)
        counts = {"databases": 1, "tables": 2, "partitions": 1, "transactional_tables": 0}
        return Manifest("0", "now", store.identity, (), (), event, event, True, fingerprint, None, counts, ())


def put(place: Path, manifest: Manifest) -> None:
    place.mkdir(parents=True)
    (place / NAME).write_bytes(manifest.dump())


def looked_at(store_url: str, place: Path, **settings: object) -> list[Finding]:
    given = {"upstream": "thrift://127.0.0.1:1", "store_url": store_url, "bootstrap": str(place), **settings}
    return look_at_bootstrap(load(cli=given))


def test_nothing_to_say_without_it(catalog: Catalog) -> None:
    assert look_at_bootstrap(load(cli={"upstream": "thrift://127.0.0.1:1", "store_url": catalog.url})) == []


def test_a_snapshot_that_can_be_used(catalog: Catalog, manifest: Manifest, tmp_path: Path) -> None:
    put(tmp_path / "made" / OLD, manifest)
    put(tmp_path / "made" / NEW, replace(manifest, after=manifest.after + 1))
    refused, used = looked_at(catalog.url, tmp_path / "made")
    assert refused.level is Severity.NOTE and f"{NEW} is not used: the log ends at event" in refused.text
    event = manifest.before
    assert used.level is Severity.OK and used.text.endswith(f"{OLD}, as of event {event}: 2 tables, 1 partition")


def test_none_that_can_be_used(catalog: Catalog, manifest: Manifest, tmp_path: Path) -> None:
    put(tmp_path / "other", replace(manifest, identity=replace(manifest.identity, database_uuid="another")))
    put(tmp_path / "some", replace(manifest, include=("sales.*",)))
    (tmp_path / "empty").mkdir()
    for name, words in (
        ("missing", "cannot be listed"),
        ("empty", "there is no snapshot"),
        ("other", "another"),
        ("some", "it has only what include = ['sales.*']"),
    ):
        found = looked_at(catalog.url, tmp_path / name)[-1]
        assert found.level is Severity.WARNING and not found.bad, found
        assert f"no snapshot at {tmp_path / name} can be used: " in found.text and words in found.text
        assert "correct bootstrap, or publish a snapshot" in found.advice


def test_a_database_that_cannot_be_read(manifest: Manifest, tmp_path: Path) -> None:
    put(tmp_path / "made", manifest)
    (found,) = looked_at(f"sqlite:///{tmp_path}/none.db", tmp_path / "made")
    assert found.level is Severity.NOTE and "is not looked at, because the database cannot be read" in found.text
