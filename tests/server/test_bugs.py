"""A bug that ends a client's connection leaves nothing of its call behind."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from hms_cache_proxy.methods.effects import FencedWrite
from hms_cache_proxy.server import hub as hub_module
from hms_cache_proxy.server.driver import Client
from hms_cache_proxy.server.hub import Hub
from hms_cache_proxy.upstream.endpoints import Endpoints
from tests.methods.warm import opened
from tests.server.hubs import hub_of
from tests.server.scripted import ScriptedMetastore
from tests.testbed.processes import SOON_S
from tests.testbed.raw import encode_call

WRITE = encode_call("drop_table", "sales", "orders", True, seqid=3)
UNKNOWN_METHOD = WRITE.replace(b"drop_table", b"drop_tbale")


async def last_words(hub: Hub, message: bytes) -> bytes:
    """All that a client of its own gets for this message, until its connection ends."""
    server = await asyncio.get_running_loop().create_server(lambda: Client(hub), "127.0.0.1", 0)
    async with server:
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        writer.write(message)
        try:
            return await asyncio.wait_for(reader.read(), 30)
        except ConnectionResetError:
            return b""
        finally:
            writer.close()


@pytest.mark.parametrize("message", [WRITE, UNKNOWN_METHOD], ids=["one table", "everything"])
@pytest.mark.parametrize("hook", ["reply_began", "reply_done"])
def test_a_bug_on_the_way_back_leaves_a_write_of_unknown_outcome(
    scripted: ScriptedMetastore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hook: str, message: bytes
) -> None:
    def bug(*_: object) -> None:
        raise ZeroDivisionError("a planted bug")

    with opened(tmp_path) as bench:
        monkeypatch.setattr(FencedWrite, hook, bug)
        assert asyncio.run(last_words(hub_of(bench, scripted), message)) == b""
        assert scripted.calls, "it has left"
        assert list(bench.fences.standing().values()) == ["unknown"]
        assert bench.fences.read()[1], "fenced until it is known what became of it"
        bench.fences.expire(1 << 62)
        bench.step()
        assert bench.fences.read()[1] == {}, "and then no more"


def test_a_bug_before_a_write_leaves_no_fence(
    scripted: ScriptedMetastore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original: Callable[..., None] = FencedWrite.sending
    fenced: list[int] = []

    def bug(self: FencedWrite) -> None:
        original(self)
        fenced.extend(self.shared.fences.standing())
        raise ZeroDivisionError("a planted bug")

    with opened(tmp_path) as bench:
        monkeypatch.setattr(FencedWrite, "sending", bug)
        assert asyncio.run(last_words(hub_of(bench, scripted), WRITE)) == b""
        assert fenced and not scripted.calls
        assert bench.fences.standing() == {}


def test_a_bug_while_a_metastore_is_connected_to_ends_the_client(scripted: ScriptedMetastore, tmp_path: Path) -> None:
    """Such as an error that nobody expects of a host's name: the client would wait for ever."""
    with opened(tmp_path) as bench:
        hub = hub_of(bench, scripted)
        hub.endpoints = Endpoints([("not..a.name", 9083)])
        assert asyncio.run(last_words(hub, WRITE)) == b""
        assert bench.fences.standing() == {}
        assert bench.metrics.registry.get_sample_value("hms_proxy_internal_errors_total", {"where": "connection"}) == 1


def test_a_bug_in_a_task_of_the_worker_does_not_end_it_for_good(
    scripted: ScriptedMetastore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as the one that ends what has waited for too long."""
    monkeypatch.setattr(hub_module, "AGAIN_S", 0.01)
    began: list[int] = []

    async def sweep() -> None:
        began.append(len(began))
        if len(began) < 3:
            raise ZeroDivisionError("a planted bug")
        going_on.set()
        await asyncio.Event().wait()

    async def worker() -> None:
        with opened(tmp_path) as bench:
            hub = hub_of(bench, scripted)
            hub.keep(sweep, "sweep")
            await asyncio.wait_for(going_on.wait(), SOON_S)
            errors = bench.metrics.registry.get_sample_value("hms_proxy_internal_errors_total", {"where": "task"})
            assert errors == 2

    going_on = asyncio.Event()
    asyncio.run(worker())
    assert began == [0, 1, 2]


def test_a_task_that_has_done_its_work_is_over(scripted: ScriptedMetastore, tmp_path: Path) -> None:
    done: list[str] = []

    async def write_out() -> None:
        done.append("all")

    async def worker() -> None:
        with opened(tmp_path) as bench:
            hub_of(bench, scripted).keep(write_out, "write the recording")
            for _ in range(10):
                await asyncio.sleep(0)

    asyncio.run(worker())
    assert done == ["all"]
