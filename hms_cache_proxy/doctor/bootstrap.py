"""The doctor's check of `bootstrap`: is there a snapshot from which an empty cache would be filled?

It chooses as the follower does. The files that the manifest names are not read. Owner: the command's process.
"""

from __future__ import annotations

from contextlib import closing

from hms_cache_proxy.config import Config
from hms_cache_proxy.doctor.finding import Finding, Severity
from hms_cache_proxy.errors import SnapshotError, StoreError
from hms_cache_proxy.follower.bootstrap import choose
from hms_cache_proxy.plurals import counted
from hms_cache_proxy.store.sql.store import open_sql_store

_SUBJECT = "bootstrap"


def look_at_bootstrap(config: Config) -> list[Finding]:
    """The findings about its snapshots; none without `bootstrap`."""
    if not config.bootstrap:
        return []
    found: list[Finding] = []

    def refused(uri: str, why: str) -> None:
        found.append(Finding(_SUBJECT, Severity.NOTE, f"{uri} is not used: {why}"))

    try:
        with closing(open_sql_store(config.store_url)) as store, store.snapshot() as source:
            scope = config.include, config.exclude
            place, manifest = choose(config.bootstrap, store.identity, source, scope, refused)
    except StoreError:
        text = f"{config.bootstrap} is not looked at, because the database cannot be read"
        return [Finding(_SUBJECT, Severity.NOTE, text)]
    except SnapshotError as error:
        text = f"no snapshot at {config.bootstrap} can be used: {error}"
        advice = (
            "correct bootstrap, or publish a snapshot of this database; until then, an empty cache is filled from it"
        )
        return [*found, Finding(_SUBJECT, Severity.WARNING, text, advice)]
    counts = manifest.counts
    size = f"{counted(counts.get('tables', 0), 'table')}, {counted(counts.get('partitions', 0), 'partition')}"
    return [*found, Finding(_SUBJECT, Severity.OK, f"{place.uri}, as of event {manifest.before}: {size}")]
