"""Notes: what every peer must know before it gets another lease, and is not a write in progress.

    b"n" u64 number   NOTE: u8 kind, i64 event id; then the targets
    b"N"              u64 the last number, i64 the highest event id of a note, u64 the number of that note

A write is a fence that stands until it is over, so whoever gets a lease meanwhile is told of it first. A granted lock,
an event id that is handed out, and what could not be recorded in time have no such fence. A note takes its place: it is
committed before a worker asks whether the reply may be passed on, and the peers' process tells of all notes before it
gives a lease (peers/fleet.py). It deletes them when all followers that are connected have been told; a connection that
begins later covers them, because it begins with a full replay. The functions work in a transaction of the fences that
the caller has begun. Owner: workers write, the peers' process deletes.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from struct import Struct
from typing import Any, Final

from hms_cache_proxy.cache.targets import ALL, Target
from hms_cache_proxy.consistency.fence_rows import NUMBER, pack_targets, rows, unpack_targets

_HEAD: Final = Struct(">Bq")
_LAST: Final = Struct(">QqQ")


class NoteKind(IntEnum):
    """What peers do about it."""

    OWED = 1  # reads of the targets must show what is true now
    MISSED = 2  # the same, and the targets are reloaded
    EVENT = 3  # no read may show less than this event


@dataclass(frozen=True, slots=True)
class Note:
    """One note. `event` is used by EVENT, `targets` by the others."""

    kind: NoteKind
    targets: tuple[Target, ...] = ()
    event: int = 0


def add_note(txn: Any, note: Note) -> int:
    """Writes a note; gives its number. One that tells of no later event than an earlier note has that one's number."""
    last, event, event_number = _last(txn)
    if note.kind is NoteKind.EVENT and 0 < note.event <= event:
        return event_number
    last += 1
    txn.put(b"n" + NUMBER.pack(last), _HEAD.pack(note.kind, note.event) + pack_targets(note.targets))
    if note.event > event:
        event, event_number = note.event, last
    txn.put(b"N", _LAST.pack(last, event, event_number))
    return last


def told_event(txn: Any, event: int) -> int | None:
    """The number of a note that tells of this event or a later one."""
    _, highest, number = _last(txn)
    return number if 0 < event <= highest else None


def forget_events(txn: Any) -> None:
    """From now on, each event gets a note of its own until a later one has had one."""
    last, event, _ = _last(txn)
    if event:
        txn.put(b"N", _LAST.pack(last, 0, 0))


def last_note(txn: Any) -> int:
    """The last number that was given."""
    return _last(txn)[0]


def notes_after(txn: Any, number: int) -> list[tuple[int, Note]]:
    """The notes with larger numbers, in their order."""
    found = []
    for key, row in rows(txn, b"n"):
        own = NUMBER.unpack(key[1:])[0]
        if own > number:
            kind, event = _HEAD.unpack_from(row)
            found.append((own, Note(NoteKind(kind), unpack_targets(row[_HEAD.size :]), event)))
    return found


def drop_notes(txn: Any, number: int) -> None:
    """Deletes the notes up to this number."""
    for key, _ in list(rows(txn, b"n")):
        if NUMBER.unpack(key[1:])[0] <= number:
            txn.delete(key)


def merge_notes(txn: Any) -> None:
    """One note over everything takes the place of all, and has a larger number: who is told of it is told of them."""
    kinds = {note.kind for _, note in notes_after(txn, 0)}
    drop_notes(txn, last_note(txn))
    add_note(txn, Note(NoteKind.MISSED if NoteKind.MISSED in kinds else NoteKind.OWED, (ALL,)))


def _last(txn: Any) -> tuple[int, int, int]:
    row = txn.get(b"N")
    return (0, 0, 0) if row is None else _LAST.unpack(row)
