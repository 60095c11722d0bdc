"""Makes a number from a `Decimal` of the interface.

Job: do so exactly, whatever precision the thread's decimal context has. Must not know: columns. Owner: any thread; no
state.
"""

from __future__ import annotations

from decimal import Decimal

from hms_cache_proxy.wire.spec import Struct


def exact(value: Struct) -> Decimal:
    """The number, with its scale. Its `str` is what Java's BigDecimal.toString returns, which Hive stores."""
    return Decimal(f"{int.from_bytes(value.unscaled, 'big', signed=True)}E{-(value.scale or 0)}")
