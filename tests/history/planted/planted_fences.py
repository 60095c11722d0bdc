"""Calls that leave without a fence, as if they changed nothing: tests/differential/test_at_once.py sees each.

`sitecustomize` imports this module; `unfenced_METHOD` plants one of them.
"""

from __future__ import annotations

from collections.abc import Callable

from sitecustomize import BUGS, swap


def unfenced(method: str) -> Callable[[], None]:
    """A write of one method is not fenced."""

    def plant() -> None:
        from dataclasses import replace

        from hms_cache_proxy.methods import method_plan

        methods = method_plan.METHODS  # type: ignore[attr-defined]  # the name that it uses
        swap(method_plan, "METHODS", {**methods, method: replace(methods[method], rules=())})

    return plant


for name in ("alter_partitions_req", "drop_table_req", "update_partition_column_statistics_req"):
    BUGS[f"unfenced_{name}"] = unfenced(name)
