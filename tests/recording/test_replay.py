"""Replay: what is answered from a recording, and with which words everything else is refused. No sockets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hive_metastore import ThriftHiveMetastore  # type: ignore[import-untyped]  # generated
from hive_metastore.ttypes import GetTableRequest, GetValidWriteIdsRequest  # type: ignore[import-untyped]  # generated

from hms_cache_proxy.methods.decision import ClientCall, ClientSession, Forward, Serve
from hms_cache_proxy.methods.table import METHODS, MethodKind
from hms_cache_proxy.recording.file import RecordingFile
from hms_cache_proxy.recording.format import Record, encode
from hms_cache_proxy.recording.replay import SLICE_BYTES, Recorded, ReplayDispatcher
from hms_cache_proxy.wire import spec
from hms_cache_proxy.wire.facts import METHODS as FACTS
from hms_cache_proxy.wire.message import Header, MessageType, message_header, parse_exception, parse_header
from tests.testbed.raw import decode_reply, encode_call

TABLE = encode_call("get_table", "d", "t")


def body(message: bytes) -> bytes:
    return message[12 + message[7] :]


def with_list(text: str | None, table_id: int = -1, table: str = "t") -> bytes:
    """get_table_req as Hive asks it."""
    request = GetTableRequest(dbName="d", tblName=table, validWriteIdList=text, id=table_id)
    return encode_call("get_table_req", request)


def recorded(path: Path, *results: tuple[bytes, bytes] | tuple[bytes, bytes, int]) -> ReplayDispatcher:
    """A replay of (request, result, time)."""
    file, _ = RecordingFile.begin(str(path), now_ms=1, until_ms=0)
    for number, (request, result, *time) in enumerate(results):
        name = request[8 : 8 + request[7]]
        file.append([encode(Record(time[0] if time else number, 2, name, body(request), result))], 1 << 30)
    file.close()
    return ReplayDispatcher(Recorded(str(path)))


def ask(replay: ReplayDispatcher, message: bytes, *, complete: bool = True) -> Serve | Forward:
    header = parse_header(message)
    assert isinstance(header, Header)
    return replay.decide(ClientCall.of(ClientSession(), header, message, 0, complete=complete))


def answer(replay: ReplayDispatcher, message: bytes) -> bytes:
    served = ask(replay, message)
    assert isinstance(served, Serve)
    return served.chunks if isinstance(served.chunks, bytes) else b"".join(served.chunks)


def test_the_same_request(tmp_path: Path) -> None:
    replay = recorded(tmp_path / "r", (TABLE, b"old"), (TABLE, b"new"), (encode_call("get_all_databases"), b"x"))
    asked = encode_call("get_table", "d", "t", seqid=77)
    assert answer(replay, asked) == message_header(b"get_table", MessageType.REPLY, 77) + b"new"
    served = ask(replay, asked)
    assert isinstance(served, Serve) and (served.outcome, served.reason) == ("hit", "")


def test_the_latest_counts_not_the_last(tmp_path: Path) -> None:
    """Workers write a moment after they have answered."""
    replay = recorded(tmp_path / "r", (TABLE, b"later", 9), (TABLE, b"earlier", 8))
    assert answer(replay, TABLE).endswith(b"later")


def test_a_long_result(tmp_path: Path) -> None:
    result = bytes(range(256)) * (3 * SLICE_BYTES // 256) + b"end"
    replay = recorded(tmp_path / "r", (TABLE, result))
    served = ask(replay, TABLE)
    assert isinstance(served, Serve) and not isinstance(served.chunks, bytes)
    assert b"".join(served.chunks) == message_header(b"get_table", MessageType.REPLY, 0) + result


def test_lists_of_write_ids(tmp_path: Path) -> None:
    replay = recorded(
        tmp_path / "r",
        (with_list("d.t:5:9223372036854775807::", 3), b"five"),
        (with_list("d.t:6:9223372036854775807::", 3), b"six"),
        (with_list("d.other:6:9223372036854775807::", 3, "other"), b"other"),
    )
    assert answer(replay, with_list("d.t:5:9223372036854775807::", 3)).endswith(b"five"), "the very list"
    for request in (with_list("d.t:7:9223372036854775807::", 3), with_list(None), with_list("d.t:5::", 99)):
        served = ask(replay, request)
        assert isinstance(served, Serve) and isinstance(served.chunks, bytes)
        assert served.chunks.endswith(b"six") and served.reason == "other_list", "the latest of any list"
    missing = ask(replay, with_list("d.t:7::", 3, "third"))
    assert isinstance(missing, Serve) and missing.reason == "not_recorded"


def test_write_ids_by_another_list_of_transactions(tmp_path: Path) -> None:
    def request(text: str) -> bytes:
        return encode_call("get_valid_write_ids", GetValidWriteIdsRequest(fullTableNames=["d.t"], validTxnList=text))

    replay = recorded(tmp_path / "r", (request("8:9::"), b"ids"))
    assert answer(replay, request("12:13::")).endswith(b"ids")


def text_of(reply: bytes) -> str:
    """Of a MetaException, or of a TApplicationException."""
    header = parse_header(reply)
    assert isinstance(header, Header)
    if header.type is MessageType.EXCEPTION:
        return (parse_exception(reply, header.body).message or b"").decode()
    result, _ = spec.decode(spec.result(header.name.decode()), reply, header.body)
    (error,) = (value for name in result._names if (value := getattr(result, name)) is not None)
    assert type(error).__name__ == "MetaException"
    return bytes(error.message).decode()


def test_what_is_not_held(tmp_path: Path) -> None:
    path = tmp_path / "r"
    replay = recorded(path, (TABLE, b"x"), (encode_call("get_table", "d", "u"), b"x"))
    text = text_of(answer(replay, encode_call("get_table", "d", "other")))
    assert text.startswith(f"get_table: the recording {path} does not hold this call (it holds 2 with other arguments)")
    assert f"serve --record {path}" in text
    text = text_of(answer(replay, encode_call("get_database", "d")))
    assert "get_database: " in text and "holds no call of get_database" in text
    text = text_of(answer(replay, encode_call("getVersion")))
    assert "getVersion: the recording" in text, "declares no exception at all"


@pytest.mark.parametrize("name", sorted(METHODS))
def test_every_method_is_answered(tmp_path: Path, name: str) -> None:
    """With no arguments at all, whole and too large to look at: an error in words, but for calls about the session that
    were read. (To a call that was not, the server takes nothing else for an answer: ClientConnection._carry_out.)"""
    replay = recorded(tmp_path / "r", (TABLE, b"x"))
    message = message_header(name.encode(), MessageType.CALL, 3) + b"\0"
    for complete in (True, False):
        served = ask(replay, message, complete=complete)
        if FACTS[name].oneway:
            assert isinstance(served, Forward)
            continue
        assert isinstance(served, Serve) and isinstance(served.chunks, bytes)
        method, seqid, result = decode_reply(served.chunks) if name not in _UNKNOWN_HERE else (name, 3, None)
        assert (method, seqid) == (name, 3)
        if METHODS[name].kind is MethodKind.SESSION and complete:
            assert served.outcome == "relay"
            continue
        text = text_of(served.chunks)
        assert name in text and str(tmp_path / "r") in text and served.outcome == "error"
        if METHODS[name].kind in (MethodKind.WRITE, MethodKind.LOCK):
            assert "would change something" in text and served.reason == "read_only"
        declares = any(row.type == "MetaException" for row in FACTS[name].result)
        assert (served.chunks[3] == MessageType.REPLY) == declares


def test_a_method_of_no_hive(tmp_path: Path) -> None:
    reply: Any = answer(recorded(tmp_path / "r", (TABLE, b"x")), encode_call("get_table").replace(b"table", b"tabel"))
    assert text_of(reply) == "Invalid method name: 'get_tabel'"


def test_session_calls(tmp_path: Path) -> None:
    replay = recorded(tmp_path / "r", (TABLE, b"x"))
    assert decode_reply(answer(replay, encode_call("set_ugi", "u", ["g", "h"])))[2].success == ["g", "h"]
    conf = decode_reply(answer(replay, encode_call("setMetaConf", "metastore.try.direct.sql", "false")))
    assert conf[2].o1 is None


def test_a_recording_that_becomes_shorter(tmp_path: Path) -> None:
    path = tmp_path / "r"
    replay = recorded(path, (TABLE, b"x" * 100))
    with path.open("r+b") as file:
        file.truncate(100)
    assert "became shorter during the replay" in text_of(answer(replay, TABLE))


_UNKNOWN_HERE = frozenset(name for name in METHODS if not hasattr(ThriftHiveMetastore, f"{name}_result"))
"""Methods that the generated client of the tests does not have."""
