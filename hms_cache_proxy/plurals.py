"""Numbers of things in sentences: `1 table`, `1,200 tables`.

Job: choose between singular and plural, in one place. Must not know: what is counted. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping


def counted(number: float, one: str, several: str = "") -> str:
    """The number, rounded and with commas, and its noun. `several`: the plural, if it is not `one` with an s."""
    return f"{number:,.0f} {fitting(number, one, several or one + 's')}"


def fitting(number: float, one: str, several: str) -> str:
    """The word for a number as `counted` shows it: 0.7, which is shown as 1, takes `one`."""
    return one if f"{number:,.0f}" == "1" else several


def listed(counts: Mapping[str, float]) -> str:
    """`1 database, 20 tables` of {"databases": 1, "tables": 20}: every key is a plural that ends with s."""
    return ", ".join(counted(number, kind.removesuffix("s"), kind) for kind, number in counts.items())
