"""Raw messages to a real metastore: whole, in pieces, pipelined; what the reply's bytes decode to."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hive_metastore.ttypes import GetTableRequest  # type: ignore[import-untyped]  # generated
from thrift.Thrift import TApplicationException

from tests.testbed import objects
from tests.testbed.client import MetastoreClient
from tests.testbed.hive import FRAMED_SETTING
from tests.testbed.metastore import Metastore
from tests.testbed.raw import RawConnection, decode_reply, encode_call

pytestmark = pytest.mark.real


def test_a_reply_decodes_to_the_typed_answer(hms42: Metastore, client42: MetastoreClient, unique_name: str) -> None:
    objects.create_database(client42, unique_name)
    table = objects.create_table(client42, objects.table(unique_name, "t", objects.wide_columns(300)))
    request = encode_call("get_table_req", GetTableRequest(dbName=unique_name, tblName="t"), seqid=7)
    with RawConnection(*hms42.address) as connection:
        method, seqid, result = decode_reply(connection.call(request))
        assert (method, seqid) == ("get_table_req", 7)
        assert result.success.table == table


def test_pieces_and_pipelined_messages(hms42: Metastore) -> None:
    first, second = (encode_call("get_all_databases", seqid=n) for n in (1, 2))
    with RawConnection(*hms42.address) as connection:
        for byte in first[:-1]:
            connection.send_bytes(bytes([byte]))
        connection.send_bytes(first[-1:] + second)
        replies = [decode_reply(connection.receive()) for _ in range(2)]
    assert [seqid for _, seqid, _ in replies] == [1, 2]
    assert all("default" in result.success for _, _, result in replies)


def test_an_unknown_method_is_an_application_exception(hms42: Metastore) -> None:
    message = encode_call("get_all_databases", seqid=3).replace(b"get_all_databases", b"get_all_databeses")
    with RawConnection(*hms42.address) as connection:
        method, seqid, error = decode_reply(connection.call(message))
        assert (method, seqid, error.type) == ("get_all_databeses", 3, TApplicationException.UNKNOWN_METHOD)


def test_the_end_of_the_stream_is_seen(hms42: Metastore) -> None:
    with RawConnection(*hms42.address) as connection:
        connection.send_bytes(b"GET / HTTP/1.1\r\n\r\n")
        assert connection.at_end()


def test_framed(bed_framed: Metastore) -> None:
    with RawConnection(*bed_framed.address, framed=True) as connection:
        _, _, result = decode_reply(connection.call(encode_call("get_all_databases")))
        assert "default" in result.success
    with MetastoreClient(*bed_framed.address, framed=True) as client:
        assert "default" in client.get_all_databases()


@pytest.fixture
def bed_framed(new_metastore: Callable[..., Metastore]) -> Metastore:
    """A metastore that speaks the framed transport."""
    return new_metastore(settings={FRAMED_SETTING: "true"})
