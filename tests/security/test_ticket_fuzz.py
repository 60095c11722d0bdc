"""Logins with a ticket (GSSAPI), damaged in each of their messages: 100,000 in full.

Whatever a client sends, its login ends, and is refused unless it is right; others log in meanwhile; nothing is left of
it.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from hms_cache_proxy.config.security import KerberosSection
from hms_cache_proxy.security import kerberos_settings
from hms_cache_proxy.server.mechanisms import KerberosMechanism
from hms_cache_proxy.wire.message import NEED_MORE
from hms_cache_proxy.wire.sasl import MESSAGE_BYTES, Layers, Message, Status, message, parse_message
from tests.chance import chance as chance_of
from tests.lengths import by_tier
from tests.security.damaged import LEFT_OBJECTS, TOGETHER, AttackedLogins, Conversation, Damage, damaged, intact
from tests.server.logged_in import Realm, realm_in

MESSAGES = 4  # of the client: the mechanism, the ticket, an empty one, the protection
MOST_TURNS = 50  # of the loop, in which a server that answers has done so


class Place(AttackedLogins):
    """A server's logins in a realm."""

    def __init__(self, realm: Realm) -> None:
        self.realm = realm
        super().__init__(KerberosMechanism(kerberos_settings.for_clients(KerberosSection(keytab=str(realm.proxy)))))


class TicketLogin(Conversation):
    """A client with a ticket."""

    def __init__(self, place: Place, layer: Layers, damage: Damage) -> None:
        super().__init__(place.logins, damage)
        self._realm, self._layer = place.realm, layer
        self._read = 0

    async def talk(self) -> None:
        import gssapi

        with suppress(gssapi.exceptions.GSSError):  # type: ignore[attr-defined]  # of an answer to what was damaged
            await self._negotiate(self._realm.client())

    async def _negotiate(self, context: Any) -> None:
        self.send(message(Status.START, b"GSSAPI"))
        self.send(message(Status.OK, context.step()))
        if (found := await self._answer()) is not None and found.status is Status.OK:
            context.step(found.payload)
            self.send(message(Status.OK))
            if (found := await self._answer()) is not None and found.status is Status.OK:
                offered = context.unwrap(found.payload).message
                assert offered[0] & self._layer
                choice = bytes([self._layer]) + (b"\0\0\0" if self._layer is Layers.AUTH else b"\1\0\0")
                self.send(message(Status.COMPLETE, context.wrap(choice, False).message))

    async def _answer(self) -> Message | None:
        """The server's next message; None if it says no more."""
        for _ in range(MOST_TURNS):
            found = parse_message(self.wire.sent[self._read :])
            if found is not NEED_MORE:
                self._read += found.end
                return found
            if self.wire.closing:
                return None
            await asyncio.sleep(0)
        return None


def attacked(directory: Path, logins: int) -> Mapping[str, int]:
    """How so many damaged logins ended, and those of clients beside them that do nothing wrong."""
    chance = chance_of("damaged logins with tickets")
    layers = list(Layers)

    async def some(place: Place, count: int) -> None:
        for _ in range(count // TOGETHER):
            good = [TicketLogin(place, layer, intact) for layer in layers]
            bad = [TicketLogin(place, chance.choice(layers), damaged(chance, MESSAGES)) for _ in range(TOGETHER)]
            await asyncio.gather(*(one.run() for one in (*good, *bad)))
            assert not any(one.wire.closing for one in good), "who logs in rightly is let in, whatever others do"
            assert set(place.served) == {"alice"}
            assert all(len(one.stream._received) <= 4 * MESSAGE_BYTES for one in bad)
            place.served.clear()

    with realm_in(directory) as realm:
        place = Place(realm)
        asyncio.run(some(place, logins // 2))
        gc.collect()
        there = len(gc.get_objects())
        asyncio.run(some(place, logins // 2))
        gc.collect()
        assert len(gc.get_objects()) - there < LEFT_OBJECTS
    ended = place.counted.ended
    assert sum(ended.values()) == logins // TOGETHER // 2 * 2 * (TOGETHER + len(layers))
    assert ended["failed"] > logins / 2
    return ended


def test_damaged_logins(tmp_path: Path) -> None:
    attacked(tmp_path, int(by_tier(test=500, all=5_000, every=100_000)))
