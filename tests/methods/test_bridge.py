"""The bridge on a metastore without the old methods says what a metastore with them says."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from hms_cache_proxy.methods import bridge
from hms_cache_proxy.wire.message import Header, MessageType, parse_header
from tests.methods.oracle import Oracle, Reply, plain, request
from tests.methods.world import World

pytestmark = pytest.mark.real

TABLES: list[tuple[Any, Any]] = [
    (b"{db}", b"plain"),
    (b" {DB}\t", b" PLAIN "),
    (b"@hive#{db}", b"plain"),
    (b"@HIVE#{DB}", b"Plain"),
    (b"{db}", b"keyed"),
    (b"{db}", b"a_view"),
    (b"{db}", b"Absent "),
    (b"{db}", b""),
    (b"{db}", None),
    (None, b"plain"),
    (b"", b"plain"),
    (b"no_such_db", b"plain"),
    (b"@nocat#{db}", b"plain"),
    (b"@#{db}", b"plain"),
    (b"@hive", b"plain"),
    (b"@hive#", b"plain"),
    (b"@hive#!", b"plain"),
]

LISTS: list[tuple[Any, Any]] = [
    (b"{db}", [b"plain", b"PLAIN ", b"Absent", b"a_view"]),
    (b"@hive#{DB}", [b"plain"]),
    (b"{db}", []),
    (b"no_such_db", []),
    (b"no_such_db", [b"plain"]),
    (b"{db}", None),
    (None, [b"plain"]),
    (b"", [b"plain"]),
    (b"@#{db}", [b"plain"]),
    (b"@hive", [b"plain"]),
    (b"@hive#", [b"plain"]),
    (b"{db}", [b""]),
]


def bridged(oracle: Oracle, method: str, arguments: dict[str, Any]) -> Reply:
    message = request(method, arguments, 77)
    header = parse_header(message)
    assert isinstance(header, Header)
    twin = bridge.twin_request(header, message)
    if twin is None:
        reply = bridge.refusal(header, message)
        assert reply is not None
    else:
        reply = bridge.splice(header, oracle.call(twin))
    answer = parse_header(reply)
    assert isinstance(answer, Header) and (answer.name, answer.seqid) == (header.name, 77)
    return Reply(method, answer.type, reply[answer.body :])


def cases() -> Iterator[tuple[str, dict[str, Any]]]:
    for database, table in TABLES:
        yield "get_table", {"dbname": database, "tbl_name": table}
    for database, tables in LISTS:
        yield "get_table_objects_by_name", {"dbname": database, "tbl_names": tables}


@pytest.mark.parametrize(("method", "arguments"), list(cases()))
def test_as_the_old_method(world40: World, method: str, arguments: dict[str, Any]) -> None:
    """4.0.0 has both methods: its own answer, and the one made of its twin's."""
    arguments = world40.filled(arguments)
    with Oracle(world40.address) as oracle:
        own = oracle.ask(method, **arguments)
    with Oracle(world40.address) as oracle:
        made = bridged(oracle, method, arguments)
    assert (made.type, made.plain) == (own.type, own.plain)


def test_tables_are_the_metastores_own_bytes(world42: World) -> None:
    with Oracle(world42.address) as oracle:
        made = bridged(oracle, "get_table", {"dbname": world42.database, "tbl_name": b"keyed"})
        twin = oracle.do("get_table_req", req=world42.request("GetTableRequest", dbName=None, tblName=b"keyed"))
        assert made.type is MessageType.REPLY and plain(made.value.success) == plain(twin.table)
        missing = oracle.ask("get_table", dbname=world42.database, tbl_name=b"keyed")
        assert missing.type is MessageType.EXCEPTION, "this metastore has no get_table"
