"""Deletes, in slices, what no reader can see any more: rows of old generations, dropped sets, versions below the floor.

Nothing here changes what a reader sees: rows of another generation are never looked up, no row points to a set on the
garbage list, and a version at or below the floor counts as the floor. Owner: the follower, between its steps.
"""

from __future__ import annotations

from typing import Any

from hms_cache_proxy.cache import layout
from hms_cache_proxy.cache.environment import Environment
from hms_cache_proxy.cache.layout import Meta
from hms_cache_proxy.cache.sets import SetRow

_SET_TAG = b"s"


def collect_slice(environment: Environment, txn: Any, meta: Meta, rows: int) -> bool:
    """Deletes about `rows` rows at most in this transaction; True if there may be more."""
    left = rows - _old_generations(environment, txn, meta, rows)
    if left > 0:
        left -= _sets(environment, txn, left)
    if left > 0:
        left -= _versions(environment, txn, meta, left)
    return left <= 0


def _old_generations(environment: Environment, txn: Any, meta: Meta, rows: int) -> int:
    current = layout.GENERATION.pack(meta.generation)
    done = 0
    with txn.cursor(environment.objects) as cursor:
        found = cursor.first()
        while found and done < rows and not cursor.key().startswith(current):
            if cursor.key()[4:5] == _SET_TAG:
                row = SetRow.unpack(cursor.value())
                for number in (row.number, row.loading):
                    if number:
                        txn.put(layout.SET.pack(number), b"", db=environment.garbage)
            cursor.delete()
            found = bool(cursor.key())
            done += 1
    return done


def _sets(environment: Environment, txn: Any, rows: int) -> int:
    done = 0
    with txn.cursor(environment.garbage) as garbage:
        found = garbage.first()
        while found and done < rows and len(garbage.key()) == layout.SET.size:
            number = garbage.key()
            done += 1
            for database in (environment.partitions, environment.statistics, environment.shared):
                done += _under(txn, database, number, rows - done)
            if done >= rows:
                break
            garbage.delete()
            found = bool(garbage.key())
    return done


def _under(txn: Any, database: Any, prefix: bytes, rows: int) -> int:
    done = 0
    with txn.cursor(database) as cursor:
        found = cursor.set_range(prefix)
        while found and done < rows and cursor.key().startswith(prefix):
            cursor.delete()
            found = bool(cursor.key())
            done += 1
    return done


def _versions(environment: Environment, txn: Any, meta: Meta, rows: int) -> int:
    """Deletes versions at or below the floor, from where the last slice stopped."""
    after = txn.get(layout.SWEEP_VERSIONS, db=environment.garbage)
    if after is None:
        return 0
    done = 0
    with txn.cursor(environment.versions) as cursor:
        found = cursor.set_range(after) if after else cursor.first()
        while found and done < rows:
            done += 1
            if layout.SEQ.unpack(cursor.value())[0] <= meta.floor_version:
                cursor.delete()
                found = bool(cursor.key())
            else:
                found = cursor.next()
        if found:
            txn.put(layout.SWEEP_VERSIONS, cursor.key(), db=environment.garbage)
        else:
            txn.delete(layout.SWEEP_VERSIONS, db=environment.garbage)
    return done
