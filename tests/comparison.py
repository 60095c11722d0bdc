"""When two replies are the same: the one comparison of the tests.

Job: `settled` takes out of a decoded reply what may differ between two equal calls, `in_any_order` sorts what has no
order, `first_difference` says where two replies part.
Must not know: how a reply was decoded. It takes what `untyped` gives (field id -> (wire type, value)) and what
tests/methods gives ((class name, {field name: value})).
Invariant: everything that is passed over is in this module, with its reason; tests/differential/test_exclusions.py
shows that it is still needed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

_CONNECTION = re.compile(rb"\(conn=\d+\)")
"""MariaDB's driver writes the number of its connection into the text of an error, and a metastore has several."""

_NULL_DETAIL = re.compile(rb"((?<=NullPointerException): )?Cannot invoke [ -~]*? is null")
"""The JVM drops the detail of a NullPointerException's message once the method is compiled hot: a metastore then
differs from itself."""


UNORDERED = {
    "get_all_tables": "TBLS",
    "get_table_meta": "TBLS",
    "get_table_names_by_filter": "TBLS",
    "get_materialized_views_for_rewriting": "TBLS",
    "get_table_objects_by_name": "TBLS",
    "get_table_objects_by_name_req": "TBLS",
    "get_all_functions": "FUNCS",
    "get_partition_names_ps": "PARTITIONS",
    "get_partition_names_ps_req": "PARTITIONS",
    "get_partition_values": "PARTITIONS",
    "get_primary_keys": "KEY_CONSTRAINTS",
    "get_foreign_keys": "KEY_CONSTRAINTS",
    "get_unique_constraints": "KEY_CONSTRAINTS",
    "get_not_null_constraints": "KEY_CONSTRAINTS",
    "get_default_constraints": "KEY_CONSTRAINTS",
    "get_check_constraints": "KEY_CONSTRAINTS",
    "get_all_table_constraints": "KEY_CONSTRAINTS",
    "get_table_statistics_req": "TAB_COL_STATS",
    "get_partitions_statistics_req": "PART_COL_STATS",
    "get_aggr_stats_for": "PART_COL_STATS",
}
"""A metastore asks its database for what these list without ORDER BY, of this table: two equal calls were seen to
differ. (Statistics of partitions are in the order of the partitions' names, and those of one partition in none.)
tests/differential/test_exclusions.py shows it of each."""

UNORDERED_BEFORE = {
    "get_tables": "TBLS",
    "get_tables_by_type": "TBLS",
    "get_partitions_ps": "PARTITIONS",
    "get_partitions_ps_with_auth": "PARTITIONS",
    "get_partitions_ps_with_auth_req": "PARTITIONS",
}
"""Likewise of Hive before 4.2, which asks for these in the order of names."""

UNORDERED_IF_ALL = {"get_tables": "TBLS", "get_tables_by_type": "TBLS"}
"""Likewise of Hive 4.2, if there is no pattern, or `.*`."""


def is_unordered(method: str, arguments: Mapping[str, Any], *, newest: bool = True) -> bool:
    """Does Hive (the newest, or one before 4.2) list what this request asks for in no order?"""
    if not newest:
        return method in UNORDERED or method in UNORDERED_BEFORE
    return method in UNORDERED or (method in UNORDERED_IF_ALL and arguments.get("pattern") in (None, ".*", b".*"))


def settled(value: Any) -> Any:
    """The value without numbers of connections and details of null pointers, however deep they are."""
    if isinstance(value, bytes):
        return _NULL_DETAIL.sub(lambda found: b"" if found[1] else b"null", _CONNECTION.sub(b"(conn=)", value))
    if isinstance(value, str):
        return settled(value.encode("utf-8", "surrogateescape")).decode("utf-8", "surrogateescape")
    if isinstance(value, list):
        return [settled(item) for item in value]
    if isinstance(value, tuple) and not hasattr(value, "_fields"):
        return tuple(settled(item) for item in value)
    if isinstance(value, dict):
        return {settled(key): settled(item) for key, item in value.items()}
    return value


def in_any_order(value: Any, depth: int = 3) -> Any:
    """The lists in a result, or in its structs and maps, sorted; lists in their elements are as they are."""
    if isinstance(value, list):
        return sorted(value, key=repr)
    if isinstance(value, dict) and depth:
        return {key: in_any_order(one, depth - 1) for key, one in value.items()}
    if isinstance(value, tuple) and len(value) == 2:
        return value[0], in_any_order(value[1], depth)
    return value


def first_difference(expected: Any, found: Any, path: str = "") -> str:
    """Where two settled values part, and how; empty if they are equal."""
    if isinstance(expected, dict) and isinstance(found, dict):
        for key in [*expected, *(key for key in found if key not in expected)]:
            if key not in expected or key not in found:
                return f"{path}.{key}: {expected.get(key, 'absent')!r:.400} != {found.get(key, 'absent')!r:.400}"
            deeper = first_difference(expected[key], found[key], f"{path}.{key}")
            if deeper:
                return deeper
        return ""
    if type(expected) is type(found) and isinstance(expected, list | tuple) and len(expected) == len(found):
        pairs = zip(expected, found, strict=True)
        return next(filter(None, (first_difference(a, b, f"{path}[{n}]") for n, (a, b) in enumerate(pairs))), "")
    if type(expected) is type(found) and settled(expected) == settled(found):
        return ""
    lengths = ""
    if isinstance(expected, list | tuple) and isinstance(found, list | tuple):
        lengths = f" (of {len(expected)} and {len(found)})"
    return f"{path or '.'}{lengths}: {expected!r:.400} != {found!r:.400}"
