"""Session calls of one client, to be repeated on each new connection to a metastore.

Job: keep the messages of set_ugi and the like in their order, and tell whether a reply is a success. Must not know
sockets. Invariant: what cannot be kept whole makes `complete` False for good; the client must then be closed when its
upstream connection is lost, because a call must never run as somebody else. Owner: one client connection.
"""

from __future__ import annotations

from hms_cache_proxy.wire.message import NEED_MORE, Header, MessageType, parse_header

MAX_CALLS = 100  # setMetaConf once per key; a session has a few
MAX_BYTES = 1 << 18
MAX_REPLY_BYTES = 1 << 16  # set_ugi answers with the user's groups


class SessionCalls:
    """The session calls that succeeded, latest state only."""

    __slots__ = ("complete", "messages")

    def __init__(self) -> None:
        self.messages: list[tuple[Header, bytes]] = []
        self.complete = True

    def remember(self, header: Header, message: bytes) -> None:
        """A session call succeeded. It supersedes an equal one before it, and set_ugi any other: Hive does not answer a
        second one on a connection."""
        kept = [entry for entry in self.messages if not _superseded(entry, header, message)] + [(header, message)]
        if len(kept) > MAX_CALLS or sum(len(entry[1]) for entry in kept) > MAX_BYTES:
            self.complete = False
            return
        self.messages = kept


def _superseded(entry: tuple[Header, bytes], header: Header, message: bytes) -> bool:
    if entry[0].name != header.name:
        return False
    return header.name == b"set_ugi" or entry[1][entry[0].body :] == message[header.body :]


def succeeded(reply: bytes) -> bool:
    """Is this whole message a REPLY without a declared exception? (Those have field ids from 1.)"""
    header = parse_header(reply)
    if header is NEED_MORE or header.type is not MessageType.REPLY:
        return False
    at = header.body
    return reply[at] == 0 or reply[at + 1 : at + 3] == b"\0\0"
