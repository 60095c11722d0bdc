"""Removes, empties and moves the directories of objects; and protects directories that contain other objects.

Job: make every change of files that a call asks for. Must not know: what the calls mean.

Invariants:
- Files are removed after the commit: a crash in between leaves files without objects, never objects without files.
- A directory that contains the location of an object that the call does not name is left unchanged. A truncation is
  then refused before anything changes. A removal or a move changes rows and log as Hive does, and logs a warning with
  the directory's owner and the other object. `metastore.delete_shared_directories` turns the protection off, because
  Hive has none.

Owner: the thread of a call.
"""

from __future__ import annotations

import os.path
from collections.abc import Iterable, Sequence
from functools import partial

import structlog

from hms_cache_proxy.embedded.call import Call, Removal
from hms_cache_proxy.embedded.failures import meta
from hms_cache_proxy.embedded.rows.locations import Tenant, TenantTest, above, paths_of, tenants

log = structlog.get_logger()


def make(call: Call, location: str) -> bool:
    """Make a directory; True if this call made it. It is removed again if the call fails. MetaException."""
    made = call.warehouse.make(location)
    if made:
        call.undo(partial(call.warehouse.unmake, location))
    return made


def remove(call: Call, location: str | None, owner: str, *, purge: bool = False, parents: int = 0) -> None:
    """Remove the directory of `owner` after the call is committed, and up to `parents` parents that are then empty.

    `purge`: do not use the trash.
    """
    if location:
        call.removals.append(Removal(location, owner, purge, parents))


def settle(call: Call) -> None:
    """At the end of a call's transaction, decide which directories are removed: those without other objects.

    What the call drops has no rows by now, so every object that is found is another one.
    """
    places = {removal.location: paths_of(call, [removal.location]) for removal in call.removals}
    directories = {
        path: None
        for removal in call.removals
        for place in places[removal.location]
        for path in [place, *_parents(place, removal.parents)]
    }
    taken = _taken(call, directories)
    for removal in call.removals:
        for place in places[removal.location]:
            held = [parent in taken for parent in _parents(place, removal.parents)]
            parents = held.index(True) if True in held else removal.parents
            if place in taken:
                call.after_commit(partial(_tell, place, removal.owner, taken[place]))
            else:
                call.after_commit(partial(_remove, call, place, removal.purge, parents))


def _taken(call: Call, paths: Iterable[str], named: TenantTest = lambda tenant: False) -> dict[str, Tenant]:
    """The protected directories among these, each with the object in it."""
    return {} if call.warehouse.delete_shared else tenants(call, paths, named)


def _parents(path: str, depth: int) -> list[str]:
    found = []
    for _ in range(depth):
        path = os.path.dirname(path)
        found.append(path)
    return found


def _remove(call: Call, path: str, purge: bool, parents: int) -> None:
    call.warehouse.remove(path, purge=purge)
    call.warehouse.remove_empty_parents(path, parents, purge=purge)


def _tell(path: str, owner: str, tenant: Tenant) -> None:
    log.warning("a directory is kept: another object lives in it", directory=path, of=owner, holds=tenant.name)


def empty(call: Call, locations: Sequence[str], owner: str, named: TenantTest, *, purge: bool) -> None:
    """Remove the contents of directories after the call is committed.

    MetaException, before anything changes, if one does not exist, is inside one that is emptied earlier, or contains
    an object that is not `named`.
    """
    paths = paths_of(call, locations)
    before: set[str] = set()
    for path in paths:
        if not os.path.exists(path) or above(os.path.dirname(path), before):  # Hive removes it with the earlier one
            raise meta(f"File file:{path} does not exist")
        before.add(path)
    taken = _taken(call, paths, named)
    for path, tenant in taken.items():
        raise meta(
            f"{owner} is not truncated: {tenant.name} lives in its directory {path} and would lose its files. Give one"
            " of them a directory of its own, or set metastore.delete_shared_directories"
        )
    for path in dict.fromkeys(paths):
        call.after_commit(partial(call.warehouse.empty, path, purge=purge))


def copy(call: Call, source: str, target: str) -> bool:
    """Copy a directory to a place where nothing is; the copy is removed if the call fails. False if there is none to
    copy. MetaException."""
    if not call.warehouse.exists(source):
        return False
    call.undo(partial(call.warehouse.remove, target, purge=True))
    call.warehouse.copy(source, target)
    return True


def move(call: Call, source: str, target: str, owner: str, named: TenantTest) -> bool:
    """Move a directory now, and back if the call fails. False if it is protected or does not exist. MetaException."""
    paths = paths_of(call, [source])
    taken = _taken(call, paths, named)
    for path, tenant in taken.items():
        call.after_commit(partial(_tell, path, owner, tenant))
    if taken or not call.warehouse.move(source, target):
        return False
    call.undo(partial(call.warehouse.move, target, source))
    return True
