"""Probes of metastores, each by a task of its own: one that fails says nothing of the others, and forgets nothing."""

from __future__ import annotations

import asyncio

import pytest

from hms_cache_proxy.upstream.endpoints import Endpoints
from hms_cache_proxy.upstream.prober import Prober
from tests.server.scripted import ScriptedMetastore
from tests.testbed.processes import SOON_S, free_port

UNNAMEABLE = "x" * 64
"""A host that no look-up of names takes: the error is not one of the network."""


async def _until(told: list[tuple[str, bool]], number: int) -> None:
    async with asyncio.timeout(SOON_S):
        while len(told) < number:
            await asyncio.sleep(0.01)


def test_a_probe_that_fails_leaves_the_others_alone_and_is_taken_up_again() -> None:
    async def probed(well: tuple[str, int]) -> None:
        told: list[tuple[str, bool]] = []
        endpoints = Endpoints([("127.0.0.1", free_port()), ("127.0.0.1", free_port())])
        prober = Prober(endpoints, lambda uri, sick: told.append((uri, sick)))
        first, second = endpoints.all
        tasks = {one: asyncio.create_task(prober.watch(one)) for one in endpoints.all}
        for one in endpoints.all:
            endpoints.suspect(one)
        await _until(told, 4)
        assert {sick for _, sick in told[:2]} == {False} and {sick for _, sick in told[2:]} == {True}
        first.host = UNNAMEABLE
        with pytest.raises(UnicodeError):
            await asyncio.wait_for(tasks[first], SOON_S)
        assert not tasks[second].done() and first.sick and second.sick
        first.host, first.port = well
        told.clear()
        tasks[first] = asyncio.create_task(prober.watch(first))
        await _until(told, 2)
        assert told == [(first.uri, True), (first.uri, False)], "open until it answers"
        assert not first.sick and not tasks[second].done()
        for task in tasks.values():
            task.cancel()

    with ScriptedMetastore() as metastore:
        asyncio.run(probed(metastore.address))
