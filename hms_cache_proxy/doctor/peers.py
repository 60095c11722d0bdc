"""The doctor's check of the other proxies: does each address of `peers` answer, and does it know the secret?

Owner: the command's process.
"""

from __future__ import annotations

from collections.abc import Iterator

from hms_cache_proxy.config import Config
from hms_cache_proxy.doctor.finding import Finding, Severity
from hms_cache_proxy.errors import WireError
from hms_cache_proxy.peers.connections import greet, look_up

ANSWER_S = 3.0


def look_at_peers(config: Config) -> list[Finding]:
    """The findings about the other proxies; none without `peers`."""
    return [finding for peer in config.peers for finding in _looked_at(config, peer)]


def _looked_at(config: Config, peer: str) -> Iterator[Finding]:
    try:
        addresses = look_up(peer)
    except OSError as error:
        yield Finding(f"peer {peer}", Severity.ERROR, f"it cannot be looked up: {error.strerror}", "correct peers")
        return
    for address in addresses:
        subject = f"peer {peer}" if len(addresses) == 1 else f"peer {peer}, {address[0]}"
        yield _asked(subject, address, config.peer_secret)


def _asked(subject: str, address: tuple[str, int], secret: str) -> Finding:
    try:
        greet(address, secret.encode(), ANSWER_S)
    except WireError as error:
        return Finding(subject, Severity.ERROR, str(error), "give all proxies the same peer_secret and version")
    except OSError as error:
        advice = "start it, open its peer_listen to this machine, or take it out of all lists if it is gone for good"
        return Finding(subject, Severity.WARNING, f"it does not answer: {error.strerror or error}", advice)
    return Finding(subject, Severity.OK, "it answers, and has the same peer_secret")
