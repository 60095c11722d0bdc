"""`snapshot publish`: adds a snapshot to a directory of snapshots, and removes old ones.

Job: choose a unique name, and decide which directories are removed. It can run from cron: two runs at once make two
snapshots, and the newest complete ones are never removed. Must not know: how a snapshot is made.

One run may remove the snapshot over which another makes an increment. No lock is needed: the first removes the
manifest, and then checks whether a complete snapshot needs the files; the second writes its manifest, and then checks
whether the manifests of the snapshots that it needs are still there. So at least one of them notices the other, and
gives way.

Owner: the driver's process.
"""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Final

from hms_cache_proxy.config import Config
from hms_cache_proxy.errors import ProxyError, SnapshotError
from hms_cache_proxy.pipeline.build import Build
from hms_cache_proxy.pipeline.increment import Increment, NoIncrement
from hms_cache_proxy.pipeline.progress import JobReport
from hms_cache_proxy.pipeline.session import RunTasks
from hms_cache_proxy.snapshots import manifest
from hms_cache_proxy.snapshots.manifest import PREFIX, Manifest
from hms_cache_proxy.snapshots.place import TIME, Place, published_us

ABANDONED_S: Final = 86_400.0
"""A snapshot without a manifest is being made; after this time it counts as abandoned."""

_OTHER: Final = re.compile(rb'"\.\./(' + re.escape(PREFIX).encode() + rb'[^/"]+)/')


def new_name(others: Iterable[str] = ()) -> str:
    """A name that sorts by time: the second, the microsecond in it (five digits), and three digits by chance. It sorts
    after the published `others`, also if a clock was ahead of this one when they were made."""
    others_us = (us for us in map(published_us, others) if us is not None)
    second, microsecond = divmod(max(time.time_ns() // 1000, max(others_us, default=-1) + 1), 1_000_000)
    chance = secrets.randbits(12)
    return f"{PREFIX}{time.strftime(TIME, time.gmtime(second))}-{microsecond:05x}{chance:03x}"


def publish(
    run_tasks: RunTasks, config: Config, uri: str, keep: int, connections: int, report: JobReport
) -> tuple[str, Manifest]:
    """Make a full snapshot below `uri`, then remove all but the newest `keep`. Returns its URI and manifest.

    Abandoned snapshots are removed first, and a build that fails is removed: nobody would resume it from cron, and a
    full disk would stay full.
    """
    place = Place(uri)
    name = new_name(place.names())
    _remove(place, 0, report)
    with _removed_if_it_fails(place, name):
        made = Build(run_tasks, config, place.below(name).uri, connections, report).run()
    _remove(place, keep, report)
    return place.below(name).uri, made


def increment(config: Config, uri: str, keep: int, report: JobReport) -> tuple[str, Manifest]:
    """Bring the newest snapshot below `uri` up to date, as a new one. Raises NoIncrement if that is not possible."""
    place = Place(uri)
    found = _published(place)
    name, newest = new_name(found), max(_complete(place, found), default=None)
    if newest is None:
        raise NoIncrement(f"{uri} has no snapshot")
    with _removed_if_it_fails(place, name):
        made = Increment(config, place, newest, name, report).run()
        gone = place.below(name).gone(made)
        if gone is not None:
            raise NoIncrement(f"{gone}, which it needs, is not there any more")
    _remove(place, keep, report)
    return place.below(name).uri, made


@contextmanager
def _removed_if_it_fails(place: Place, name: str) -> Iterator[None]:
    try:
        yield
    except ProxyError:
        with suppress(ProxyError):  # the reason of the failure must be reported, not this one
            place.delete(_manifest(name))  # first: without it, no reader takes it for a snapshot
            place.delete(name)
        raise


def _published(place: Place) -> list[str]:
    return [one for one in place.names() if published_us(one) is not None]


def _complete(place: Place, names: Iterable[str]) -> set[str]:
    return {one for one in names if place.exists(_manifest(one))}


def _manifest(name: str) -> str:
    return f"{name}/{manifest.NAME}"


def _remove(place: Place, keep: int, report: JobReport) -> None:
    """Remove outdated snapshots; `keep` 0: only abandoned ones."""
    found = _published(place)
    complete = _complete(place, found)
    newest = sorted(complete, reverse=True)[: keep or None]
    needed = set(newest).union(*(_elsewhere(place, one) for one in newest))
    leaving = outdated(found, complete, needed, time.time())
    for old in leaving:
        if _withdrawn(place, old, leaving):
            place.delete(old)
            report.tell(f"removed {old}")


def _withdrawn(place: Place, old: str, leaving: Iterable[str]) -> bool:
    """Remove a snapshot's manifest: without it, no reader takes it for a snapshot. False if one that stays needs it: an
    increment that has become complete meanwhile. Then the manifest is put back."""
    if not place.exists(_manifest(old)):
        return True
    try:
        document = place.document(_manifest(old))
    except SnapshotError:
        if place.exists(_manifest(old)):
            raise
        return True  # another run removes it
    place.delete(_manifest(old))
    stays = _complete(place, _published(place)).difference(leaving)
    if all(old not in _elsewhere(place, one) for one in stays):
        return True
    place.write(_manifest(old), document)
    return False


def _elsewhere(place: Place, name: str) -> set[str]:
    """The snapshots that have files of this one, also if a newer version of this program has made it; none if it has
    been removed meanwhile."""
    try:
        document = place.document(_manifest(name))
    except SnapshotError:
        if place.exists(_manifest(name)):
            raise
        return set()
    return {found.decode() for found in _OTHER.findall(document)}


def outdated(names: Collection[str], complete: set[str], needed: set[str], now_s: float) -> list[str]:
    """The directories to remove, of published names: complete ones, and abandoned ones, that are not needed."""
    abandoned = {name for name in names if name not in complete and now_s - _made_s(name) > ABANDONED_S}
    return sorted((complete.intersection(names) | abandoned) - needed)


def _made_s(name: str) -> float:
    made_us = published_us(name)
    assert made_us is not None, name
    return made_us / 1_000_000
