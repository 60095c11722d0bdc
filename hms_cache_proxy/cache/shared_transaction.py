"""A read transaction of LMDB that a snapshot, its streams and its walks use together.

Job: end the transaction when its last user is done, whoever that is. Must not know: what is read. Owner: one thread.
"""

from __future__ import annotations

from typing import Any


class SharedTransaction:
    """A read transaction with several users. The last one ends it."""

    __slots__ = ("txn", "users")

    def __init__(self, txn: Any) -> None:
        self.txn = txn
        self.users = 1

    @property
    def ended(self) -> bool:
        """Is the last user done?"""
        return self.users == 0

    def release(self) -> None:
        """A user is done."""
        self.users -= 1
        if self.ended:
            self.txn.abort()
