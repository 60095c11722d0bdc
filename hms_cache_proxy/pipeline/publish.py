"""`snapshot publish`: adds a snapshot to a directory of snapshots, and removes old ones.

Job: choose a unique name, and decide which directories are removed. It can run from cron: two runs at once make two
snapshots, and the newest complete ones are never removed. Must not know: how a snapshot is made.

Owner: the driver's process.
"""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from typing import Final

from hms_cache_proxy.config import Config
from hms_cache_proxy.errors import ProxyError
from hms_cache_proxy.pipeline.build import Build
from hms_cache_proxy.pipeline.increment import Increment, NoIncrement
from hms_cache_proxy.pipeline.progress import JobReport
from hms_cache_proxy.pipeline.session import RunTasks
from hms_cache_proxy.snapshots import manifest
from hms_cache_proxy.snapshots.manifest import Manifest
from hms_cache_proxy.snapshots.place import PREFIX, Place

ABANDONED_S: Final = 86_400.0
"""A snapshot without a manifest is being made; after this time it counts as abandoned."""

_TIME: Final = "%Y%m%dT%H%M%SZ"
_OTHER: Final = re.compile(rb'"\.\./(' + re.escape(PREFIX).encode() + rb'[^/"]+)/')
_NAME: Final = re.compile(re.escape(PREFIX) + r"(\d{8}T\d{6}Z)-[0-9a-f]{8}")


def new_name() -> str:
    """A name that sorts by time: the second, the microsecond in it (five digits), and three digits by chance."""
    second, nanosecond = divmod(time.time_ns(), 1_000_000_000)
    chance = secrets.randbits(12)
    return f"{PREFIX}{time.strftime(_TIME, time.gmtime(second))}-{nanosecond // 1000:05x}{chance:03x}"


def publish(
    run_tasks: RunTasks, config: Config, uri: str, keep: int, connections: int, report: JobReport
) -> tuple[str, Manifest]:
    """Make a full snapshot below `uri`, then remove all but the newest `keep`. Returns its URI and manifest.

    Abandoned snapshots are removed first, and a build that fails is removed: nobody would resume it from cron, and a
    full disk would stay full.
    """
    place, name = Place(uri), new_name()
    _remove(place, 0, report)
    with _removed_if_it_fails(place, name):
        made = Build(run_tasks, config, place.below(name).uri, connections, report).run()
    _remove(place, keep, report)
    return place.below(name).uri, made


def increment(config: Config, uri: str, keep: int, report: JobReport) -> tuple[str, Manifest]:
    """Bring the newest snapshot below `uri` up to date, as a new one. Raises NoIncrement if that is not possible."""
    place, name = Place(uri), new_name()
    newest = max(_complete(place, _published(place)), default=None)
    if newest is None:
        raise NoIncrement(f"{uri} has no snapshot")
    with _removed_if_it_fails(place, name):
        made = Increment(config, place, newest, name, report).run()
    _remove(place, keep, report)
    return place.below(name).uri, made


@contextmanager
def _removed_if_it_fails(place: Place, name: str) -> Iterator[None]:
    try:
        yield
    except ProxyError:
        with suppress(ProxyError):  # the reason of the failure must be reported, not this one
            place.delete(name)
        raise


def _published(place: Place) -> list[str]:
    return [one for one in place.names() if _NAME.fullmatch(one)]


def _complete(place: Place, names: Iterable[str]) -> set[str]:
    return {one for one in names if place.exists(f"{one}/{manifest.NAME}")}


def _remove(place: Place, keep: int, report: JobReport) -> None:
    """Remove outdated snapshots; `keep` 0: only abandoned ones."""
    found = _published(place)
    complete = _complete(place, found)
    newest = sorted(complete, reverse=True)[: keep or None]
    needed = set(newest).union(*(_elsewhere(place.below(one)) for one in newest))
    for old in outdated(found, complete, needed, time.time()):
        place.delete(f"{old}/{manifest.NAME}")  # first: without it, no reader takes it for a snapshot
        place.delete(old)
        report.tell(f"removed {old}")


def _elsewhere(place: Place) -> set[str]:
    """The snapshots that have files of this one, also if a newer version of this program has made it."""
    return {found.decode() for found in _OTHER.findall(place.document(manifest.NAME))}


def outdated(names: Iterable[str], complete: set[str], needed: set[str], now_s: float) -> list[str]:
    """The directories to remove: complete ones that are not needed, and abandoned ones."""
    return [
        name
        for name in sorted(names)
        if (name in complete and name not in needed) or (name not in complete and now_s - _made_s(name) > ABANDONED_S)
    ]


def _made_s(name: str) -> float:
    found = _NAME.fullmatch(name)
    assert found is not None, name
    return datetime.strptime(found[1], _TIME).replace(tzinfo=UTC).timestamp()
