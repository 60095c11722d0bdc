"""The metastore that a store over Thrift reads: one connection, its version, and its refusals as values or StoreError.

Job: turn failures of a service connection into StoreError, in one place; find out the line of Hive; spell names for it.
Must not know: records, snapshots, the cache.

Invariants:
- There is no set_ugi, so the metastore answers as for its own user.
- A store has one connection to one metastore. When it fails, the owner closes the store and opens it again; only then
  may another metastore be used. So a snapshot is never read from two.
- A metastore of a version that was not tested is refused.

Owner: one thread of the follower's process.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Collection
from typing import Any

from hms_cache_proxy.errors import LogClosed, StoreError, UpstreamError, WireError
from hms_cache_proxy.store.protocol import HiveLine, unwatched
from hms_cache_proxy.upstream.service import Declared, LongReply, ServiceConnection, UnknownMethod

_LINES: dict[str, HiveLine] = {"3.0": "3.1", "3.1": "3.1", "4.0": "4.0", "4.1": "4.1", "4.2": "4.2"}
_PROTOCOL_VERSION = "3.0"  # what both 2.3 and 3.1 return
NOTHING: frozenset[str] = frozenset()


class TooLong(StoreError):
    """A reply is longer than what can be read."""


class NoSuchObject(enum.Enum):
    """The metastore's answer that the object does not exist."""

    NO_SUCH_OBJECT = 0


NO_SUCH_OBJECT = NoSuchObject.NO_SUCH_OBJECT


def askable(*names: bytes) -> bool:
    """Can an object have these names? A metastore reads bytes that are not UTF-8 as other text, and refuses NUL."""
    try:
        return not any("\0" in name.decode("utf-8") for name in names)
    except UnicodeDecodeError:
        return False


class Metastore:
    """One metastore, as the store uses it."""

    def __init__(self, connection: ServiceConnection, answered: Callable[[], None] = unwatched) -> None:
        self._answered = answered
        self._connection = connection
        self.uri = self._connection.uri
        self.version = ""
        self.database_uuid = ""
        self.line: HiveLine = "4.2"

    def examine(self) -> None:
        """Finds out version and uuid. Raises StoreError if it cannot be reached or its line is not supported, LogClosed
        if its log may not be read."""
        self.version = bytes(self.call("getVersion")).decode("utf-8", "replace")
        uuid = self.optional("get_metastore_db_uuid")
        self.database_uuid = "" if uuid is None else bytes(uuid).decode("utf-8", "replace")
        self.line = self._line(known_by_id=uuid is not None)
        try:
            self._connection.call("get_current_notificationEventId")
        except UpstreamError as error:
            if not error.sent:
                raise StoreError(str(error)) from error
            raise LogClosed(
                f"{error}: it does not let this proxy read its notification log. Set"
                " metastore.event.db.notification.api.auth=false there, or allow its own user from this machine with"
                " hadoop.proxyuser.<user>.hosts in its core-site.xml; or set store_url"
            ) from error

    def _line(self, *, known_by_id: bool) -> HiveLine:
        if self.version == _PROTOCOL_VERSION and not known_by_id:
            return "2.3"
        line = _LINES.get(".".join(self.version.split("-")[0].split(".")[:2]))
        if line is None:
            readable = ", ".join(("2.3", *dict.fromkeys(_LINES.values())))
            raise StoreError(
                f"{self.uri} is a metastore of version {self.version!r};"
                f" versions that are followed over Thrift are {readable}"
            )
        return line

    @property
    def has_catalogs(self) -> bool:
        return self.line != "2.3"

    @property
    def has_write_ids(self) -> bool:
        return self.line != "2.3"

    def database(self, catalog: bytes, name: bytes) -> bytes:
        """The database argument for methods that have no field for the catalog."""
        return b"@%b#%b" % (catalog, name) if self.has_catalogs else name

    def call(self, method: str, *, absent: Collection[str] = NOTHING, **arguments: Any) -> Any:
        """The method's result; NO_SUCH_OBJECT for a declared exception of a type in `absent`. Raises TooLong."""
        try:
            value = self._connection.call(method, **arguments)
        except Declared as declared:
            return self._refused(declared, absent)
        except LongReply as error:
            raise TooLong(str(error)) from error
        except (UpstreamError, WireError) as error:
            raise StoreError(str(error)) from error
        self._answered()
        return value

    def reply(
        self, method: str, *, absent: Collection[str] = NOTHING, **arguments: Any
    ) -> tuple[bytes, int] | NoSuchObject:
        """The same, not decoded: the reply message, and the offset of the result in it."""
        try:
            reply = self._connection.reply(method, **arguments)
        except Declared as declared:
            return self._refused(declared, absent)
        except (UpstreamError, WireError) as error:
            raise StoreError(str(error)) from error
        self._answered()
        return reply

    def optional(self, method: str, **arguments: Any) -> Any:
        """The result of a method that not every metastore has; None if it does not have it."""
        try:
            return self._connection.call(method, **arguments)
        except UnknownMethod:
            return None
        except (UpstreamError, WireError) as error:
            raise StoreError(str(error)) from error

    def setting(self, name: str) -> str | None:
        """A setting of its configuration; None if it does not return it."""
        value = self.call(
            "get_config_value", name=name.encode(), defaultValue=b"", absent={"ConfigValSecurityException"}
        )
        return None if value is NO_SUCH_OBJECT else bytes(value).decode("utf-8", "replace")

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    @staticmethod
    def _refused(declared: Declared, absent: Collection[str]) -> NoSuchObject:
        if type(declared.struct).__name__ in absent:
            return NO_SUCH_OBJECT
        raise StoreError(str(declared)) from declared
