"""The checks of a resource plan before it is enabled.

Job: `problems()` returns those of a plan's pools. Must not know: the database. Source:
ObjectStore.getResourcePlanErrors of 4.2. Where Hive lists pools in the order of a hash table, they are in the order of
their paths here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

POLICIES = ("fair", "fifo")
_TOLERANCE = 0.00001


def valid_policy(policy: str | None) -> bool:
    """Is it a scheduling policy of pools?"""
    return policy is None or policy.lower() in POLICIES


def problems(parallelism: int | None, pools: Sequence[Any]) -> tuple[list[str], list[str]]:
    """(errors, warnings) of a plan's parallelism and the rows of its pools."""
    errors: list[str] = []
    fractions: dict[str, float] = {}
    total = 0
    for pool in pools:
        parent = pool.PATH.rpartition(".")[0]
        fractions[parent] = fractions.get(parent, 0.0) + pool.ALLOC_FRACTION
        if pool.QUERY_PARALLELISM < 1:
            errors.append(f"Invalid query parallelism for pool: {pool.PATH}")
        else:
            total += pool.QUERY_PARALLELISM
        if not valid_policy(pool.SCHEDULING_POLICY):
            errors.append(f"Invalid scheduling policy {pool.SCHEDULING_POLICY} for pool: {pool.PATH}")
    sums = f"Sum of all pools' query parallelism: {total}"
    warnings = []
    if parallelism is not None and parallelism < total:
        errors.append(f"{sums} exceeds resource plan query parallelism: {parallelism}")
    elif parallelism is not None and parallelism != total:
        warnings.append(f"{sums} is less than resource plan query parallelism: {parallelism}")
    return errors + _of_children(fractions, {pool.PATH for pool in pools}), warnings


def _of_children(fractions: dict[str, float], paths: set[str]) -> list[str]:
    """Errors in the sums of fractions, by parent; `""` is the parent of the pools at the top."""
    errors = []
    if paths and "" not in fractions:
        errors.append("Root has no children")
    for parent, fraction in sorted(fractions.items()):
        if not parent and abs(1.0 - fraction) > _TOLERANCE:
            errors.append(f"Sum of root children pools' alloc fraction should be 1.0 got: {fraction} for pool: ")
        if parent and parent not in paths:
            errors.append(f"Pool does not exists but has children: {parent}")
        if parent and fraction - 1.0 > _TOLERANCE:
            errors.append(
                f"Sum of children pools' alloc fraction should be less than 1 got: {fraction} for pool: {parent}"
            )
    return errors
