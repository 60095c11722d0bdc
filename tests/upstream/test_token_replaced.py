"""A user's token that is replaced by a new one: whoever connects meanwhile does not wait for the end of the old one."""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import Iterator
from contextlib import closing
from typing import cast

import pytest
import uvloop

from hms_cache_proxy.security.metastore_security import MetastoreSecurity
from hms_cache_proxy.security.service_login import ServiceLogins
from hms_cache_proxy.security.tokens import Token
from hms_cache_proxy.upstream import delegation
from hms_cache_proxy.upstream.delegation import Delegation
from hms_cache_proxy.upstream.endpoints import Endpoint
from tests.server.scripted import STOP, Call, ScriptedMetastore, string_field
from tests.testbed.processes import SOON_S


class Logins:
    """Of the proxy itself; the metastore here asks for none."""

    principal = "proxy/localhost@REALM"


def given(message: bytes, call: Call) -> Iterator[bytes]:
    token = Token(b"token %d" % next(numbers), b"password")
    yield call.reply(string_field(0, token.text().encode()) + STOP)


numbers = itertools.count(1)


def test_a_metastore_that_does_not_answer_when_the_old_one_is_cancelled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delegation, "REPLACED_AFTER_S", 0.0)
    over = threading.Event()

    def cancelled(message: bytes, call: Call) -> Iterator[bytes]:
        over.wait(SOON_S)
        yield call.reply(STOP)

    async def tokens() -> list[bytes]:
        tokens = Delegation(MetastoreSecurity(logins=cast(ServiceLogins, Logins())), SOON_S)
        endpoint = Endpoint(*metastore.address)
        found = [await tokens.token(endpoint, "alice", lambda: None) for _ in range(2)]
        assert not over.is_set()
        while not metastore.named("cancel_delegation_token"):
            await asyncio.sleep(0.01)
        over.set()
        while tokens.ending:
            await asyncio.sleep(0.01)
        return [one.identifier for one in found]

    with closing(ScriptedMetastore()) as metastore:
        metastore.answers |= {"get_delegation_token": given, "cancel_delegation_token": cancelled}
        first, second = uvloop.run(asyncio.wait_for(tokens(), SOON_S / 2))
    assert first != second
