"""What readers with lists may see, on top of what all readers are (tests/history/checker.py).

A list in which a write is valid was made after its transaction committed, or by that transaction itself; both come
after the change was made. So a read that brings the list must show that change, wherever it is answered.
Must not know: how versions are stored in a metastore.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

from tests.history.checker import Checker
from tests.write_ids.history_hive import Scope


@dataclass
class WriteIdChecker(Checker):
    """Thread-safe."""

    made: dict[int, list[tuple[int, int]]] = field(default_factory=lambda: defaultdict(list))
    """Table id -> (write id, version) of changes that were made, versions ascending."""

    tried: dict[int, list[tuple[int, int]]] = field(default_factory=lambda: defaultdict(list))
    """The same of those that were begun."""

    def trying(self, table_id: int, write_id: int, version: int) -> None:
        """This change is about to be made."""
        with self._lock:
            self.tried[table_id].append((write_id, version))

    def wrote(self, table_id: int, write_id: int, version: int) -> None:
        """Whoever sees this write id as valid from now on must be shown this version."""
        with self._lock:
            self.made[table_id].append((write_id, version))

    def proved(self, scope: Scope) -> int:
        """The newest version whose write is valid in the list."""
        made = reversed(self.made.get(scope.table_id, ()))
        return next((version for write_id, version in made if scope.valid.shows(write_id)), 0)

    def may_hide(self, scope: Scope, required: int) -> bool:
        """Is there a version that this reader may be at, of a writer that is not valid in its list?"""
        for write_id, version in reversed(self.tried.get(scope.table_id, ())):
            if version < required:
                return False
            if not scope.valid.shows(write_id):
                return True
        return False
