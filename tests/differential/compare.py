"""Send each request to the metastore and to the proxy and report every difference."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from tests.differential.reads import Request
from tests.differential.wire import encode
from tests.testbed.raw import EndOfStream, RawConnection
from tests.testbed.untyped import decode_message


@dataclass
class Report:
    requests: int = 0
    methods: Counter[str] = field(default_factory=Counter)
    differences: list[str] = field(default_factory=list)
    by_method: Counter[str] = field(default_factory=Counter)

    def summary(self) -> str:
        found = f"{len(self.differences)} differences {dict(self.by_method)}"
        return f"{self.requests} reads of {len(self.methods)} methods, {found}"


BROKEN_OFF = b"(broken off)"


def compare(direct: RawConnection, proxied: RawConnection, requests: Iterable[Request], *, keep: int = 50) -> Report:
    """Equal bytes are equal answers; else the decoded replies decide (order of map entries is free)."""
    report = Report()
    for seqid, (method, arguments) in enumerate(requests, start=1):
        message = encode(method, arguments, seqid)
        expected, answered = answer(direct, message), answer(proxied, message)
        report.requests += 1
        report.methods[method] += 1
        if expected == answered:
            continue
        if expected == BROKEN_OFF and _refuses(answered):
            continue  # the proxy has seen that the reply ends too early before it passed any of it on
        if BROKEN_OFF in (expected, answered):
            report.by_method[method] += 1
            report.differences.append(f"{method}({arguments}): a reply that breaks off, of one of them only")
            continue
        if _without_null_detail(expected) == _without_null_detail(answered):
            continue
        values = [decoded(reply, method) for reply in (expected, answered)]
        difference = first_difference(*values)
        if difference:
            report.by_method[method] += 1
            if len(report.differences) < keep:
                report.differences.append(f"{method}({arguments}): {difference}")
            else:
                report.differences.append(method)
    return report


def answer(connection: RawConnection, message: bytes) -> bytes:
    """The reply; b"" when the server closed instead, BROKEN_OFF when it closed in the middle of it, and the connection
    is made anew. (4.2 does both to some requests for column statistics.)"""
    try:
        return connection.call(message)
    except EndOfStream as closed:
        connection.reconnect()
        return BROKEN_OFF if closed.received else b""


def _refuses(reply: bytes) -> bool:
    """Is it a TApplicationException?"""
    return reply[3:4] == b"\x03"


UNORDERED = {
    "get_all_tables",
    "get_tables",
    "get_tables_by_type",
    "get_table_meta",
    "get_functions",
    "get_all_functions",
    "get_table_objects_by_name",
    "get_table_objects_by_name_req",
    "get_partition_names_ps",
    "get_partition_names_ps_req",
    "get_primary_keys",
    "get_unique_constraints",
    "get_not_null_constraints",
    "get_default_constraints",
    "get_check_constraints",
    "get_all_table_constraints",
    "get_table_statistics_req",
    "get_partitions_statistics_req",
    "get_aggr_stats_for",
    "get_table_names_by_filter",
    "get_tables_ext",
    "get_partition_values",
    "get_foreign_keys",
    "get_functions_req",
    "get_databases_req",
    "get_materialized_views_for_rewriting",
    "get_partitions_with_specs",
    "get_partitions_pspec",
    "get_part_specs_by_filter",
}
"""The metastore asks its database for these without ORDER BY: two equal calls were seen to differ, when statistics of
TBLS had been gathered in between."""


def decoded(reply: bytes, method: str) -> Any:
    """The decoded reply, lists without an order sorted."""
    if not reply:
        return "closed"
    message = decode_message(reply)
    fields = _sorted(message.fields) if method in UNORDERED else message.fields
    return message.method, message.type, message.seqid, fields


def _sorted(value: Any, depth: int = 3) -> Any:
    """The lists in a result, or in its structs and maps, sorted."""
    if isinstance(value, list):
        return sorted(value, key=repr)
    if isinstance(value, dict) and depth:
        return {key: _sorted(one, depth - 1) for key, one in value.items()}
    if isinstance(value, tuple):
        return value[0], _sorted(value[1], depth)
    return value


def _without_null_detail(reply: bytes) -> bytes:
    """The JVM drops the detail of a NullPointerException's message once the method is compiled hot: the metastore
    then differs from itself."""
    return re.sub(rb"....Cannot invoke [ -~]* is null|....null", b"null", reply[:600], flags=re.DOTALL) + reply[600:]


def _without_connection(value: Any) -> Any:
    """MariaDB's driver writes the number of its connection into the text of an error."""
    return re.sub(rb"\(conn=\d+\)", b"(conn=)", value) if isinstance(value, bytes) else value


def first_difference(expected: Any, answered: Any, path: str = "") -> str | None:
    """Where two decoded replies differ first; None when they are equal."""
    if type(expected) is not type(answered):
        return f"at {path or '/'}: metastore {expected!r:.400}, proxy {answered!r:.400}"
    if isinstance(expected, dict):
        for key in sorted(set(expected) | set(answered)):
            if key not in expected or key not in answered:
                holder = "metastore" if key in expected else "proxy"
                return f"at {path}/{key}: only the {holder} has it: {expected.get(key, answered.get(key))!r:.400}"
            found = first_difference(expected[key], answered[key], f"{path}/{key}")
            if found:
                return found
        return None
    if isinstance(expected, list | tuple) and len(expected) == len(answered):
        for index, (one, other) in enumerate(zip(expected, answered, strict=True)):
            found = first_difference(one, other, f"{path}[{index}]")
            if found:
                return found
        return None
    if _without_connection(expected) == _without_connection(answered):
        return None
    lengths = f" (of {len(expected)} and {len(answered)})" if isinstance(expected, list | tuple) else ""
    return f"at {path or '/'}{lengths}: metastore {expected!r:.400}, proxy {answered!r:.400}"
