"""The session calls of one client, which are repeated on each new connection to a metastore.

Job: keep the messages of set_ugi and the like in their order, and decide whether a reply is a success. Must not know
sockets. Invariant: if a call cannot be kept, or the client has logged in at the metastore itself, `complete` is False
from then on; the client must then be closed when its upstream connection is lost, because a call must never run as
another user. Owner: one client connection.
"""

from __future__ import annotations

from typing import NamedTuple

from hms_cache_proxy.errors import WireError
from hms_cache_proxy.wire import spec
from hms_cache_proxy.wire.message import NEED_MORE, Header, MessageType, message_header, parse_header

MAX_CALLS = 100  # setMetaConf once for each key; a session has a few
MAX_BYTES = 1 << 18
MAX_REPLY_BYTES = 1 << 16  # set_ugi returns the user's groups


class Naming(NamedTuple):
    """How a user is named: the arguments of a set_ugi, and the call."""

    identity: bytes
    call: tuple[Header, bytes]


def naming(user: str) -> Naming:
    """For a user that has logged in here. The metastore looks its groups up itself."""
    begin = message_header(b"set_ugi", MessageType.CALL, 0)
    identity = spec.encode(spec.args("set_ugi")(user_name=user.encode(), group_names=[]))
    return Naming(identity, (Header(b"set_ugi", MessageType.CALL, 0, len(begin)), begin + identity))


def user_named(identity: bytes | None) -> str | None:
    """The user in the arguments of a set_ugi; bytes that are not UTF-8 become U+FFFD. None: they name nobody."""
    if identity is None:
        return None
    try:
        name: bytes | None = spec.decode(spec.args("set_ugi"), identity)[0].user_name
    except WireError:
        return None
    return None if name is None else name.decode("utf-8", "replace")


class SessionCalls:
    """The session calls that succeeded, without superseded ones."""

    __slots__ = ("messages", "problem")

    def __init__(self) -> None:
        self.messages: list[tuple[Header, bytes]] = []
        self.problem = ""  # why they cannot be repeated

    @property
    def complete(self) -> bool:
        """Can the session begin again on another connection?"""
        return not self.problem

    def remember(self, header: Header, message: bytes, *, whole: bool = True) -> None:
        """Keeps a session call that succeeded. It supersedes an equal earlier one. set_ugi supersedes any other
        set_ugi, because Hive does not answer a second one on a connection. Not `whole`: this is only its beginning."""
        if not whole:
            self.problem = "a session call is too long to be repeated on a new connection"
            return
        kept = [entry for entry in self.messages if not _superseded(entry, header, message)] + [(header, message)]
        if len(kept) > MAX_CALLS or sum(len(entry[1]) for entry in kept) > MAX_BYTES:
            self.problem = "too many session calls to repeat them on a new connection"
            return
        self.messages = kept


def calls_of(user: str | None) -> SessionCalls:
    """Of a new client. `user`: whom metastores are told; None: nobody yet."""
    calls = SessionCalls()
    if user is not None:
        calls.remember(*naming(user).call)
    return calls


def _superseded(entry: tuple[Header, bytes], header: Header, message: bytes) -> bool:
    if entry[0].name != header.name:
        return False
    return header.name == b"set_ugi" or entry[1][entry[0].body :] == message[header.body :]


def succeeded(reply: bytes) -> bool:
    """Is this complete message a REPLY without a declared exception? (Exceptions have field ids from 1 on.)"""
    header = parse_header(reply)
    if header is NEED_MORE or header.type is not MessageType.REPLY:
        return False
    at = header.body
    return reply[at] == 0 or reply[at + 1 : at + 3] == b"\0\0"
