"""The settings of a fleet: what an address of a peer looks like, and what `peers` needs.

Must not know: other sections.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Protocol

PEER_PORT: Final = 9086
DNS_PREFIX: Final = "dns+"


def parse_peers(value: object) -> object:
    """`HOST:PORT` or `dns+NAME:PORT`, as a list or separated by commas; ValueError if one is neither."""
    items = value.split(",") if isinstance(value, str) else value
    if not isinstance(items, list | tuple):
        raise ValueError("expected a list of HOST:PORT or dns+NAME:PORT")
    return tuple(_parse_peer(str(item).strip()) for item in items if str(item).strip())


def _parse_peer(text: str) -> str:
    prefix = DNS_PREFIX if text.startswith(DNS_PREFIX) else ""
    host, colon, port = text.removeprefix(prefix).rpartition(":")
    if not colon or "]" in port:  # no port
        host, port = text.removeprefix(prefix), str(PEER_PORT)
    if not host or not port.isdecimal() or not 0 < int(port) < 65536 or (":" in host and host[0] + host[-1] != "[]"):
        raise ValueError(f"{text!r} is neither HOST:PORT nor dns+NAME:PORT")
    return f"{prefix}{host}:{port}"


class PeerListen(Protocol):
    """An address; address.Address."""

    @property
    def port(self) -> int: ...

    @property
    def loopback(self) -> bool: ...


def peer_problems(
    peers: tuple[str, ...], listen: PeerListen, *, secret: bool, cached: bool
) -> Iterator[tuple[str, str]]:
    """Keys that disagree with `peers`, and why. `cached`: there is a store, and no TTL mode."""
    if not cached:
        yield "peers", "needs a store, and cannot be used with TTL mode or a replay"
    if not listen.port:
        yield "peer_listen", "needs a port: other proxies name it"
    if not secret and not (listen.loopback and all(_loopback(peer) for peer in peers)):
        yield "peer_secret", "is required with peers, unless peer_listen and all peers are loopback addresses"


def _loopback(peer: str) -> bool:
    host = peer.rpartition(":")[0].strip("[]")
    return host in ("localhost", "::1") or host.startswith("127.")
