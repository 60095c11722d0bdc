"""The metastore that a store over Thrift reads: one connection, what it is, and its refusals as values or StoreError.

Job: put a service connection's failures into StoreError, once; tell which line of Hive answers; spell names for it.
Must not know: records, snapshots, the cache.

Invariants:
- Nothing is asked in anybody's name (no set_ugi): the metastore answers as for its own user.
- One connection to one metastore for the life of the store. When it fails the store is closed by its owner and opened
  again, and only then may it be another metastore: a snapshot is never read from two.
- A metastore whose answers nobody has compared is refused.

Owner: one thread of the follower's process.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Collection
from typing import Any

from hms_cache_proxy.errors import LogClosed, StoreError, UpstreamError, WireError
from hms_cache_proxy.store.protocol import HiveLine, unwatched
from hms_cache_proxy.upstream.service import Declared, ServiceConnection, UnknownMethod

_LINES: dict[str, HiveLine] = {"3.0": "3.1", "3.1": "3.1", "4.0": "4.0", "4.1": "4.1", "4.2": "4.2"}
_PROTOCOL_VERSION = "3.0"  # what 2.3 and 3.1 say, whichever they are
DEFAULT_CATALOG = b"hive"
NOTHING: frozenset[str] = frozenset()


class NoSuchObject(enum.Enum):
    """The metastore says that what was asked for does not exist."""

    NO_SUCH_OBJECT = 0


NO_SUCH_OBJECT = NoSuchObject.NO_SUCH_OBJECT


def askable(*names: bytes) -> bool:
    """Can there be anything of these names? A metastore reads what is not UTF-8 as something else, and refuses NUL."""
    try:
        return not any("\0" in name.decode("utf-8") for name in names)
    except UnicodeDecodeError:
        return False


class Metastore:
    """One metastore, as the store asks it."""

    def __init__(self, host: str, port: int, timeout_s: float, answered: Callable[[], None] = unwatched) -> None:
        self._answered = answered
        self._connection = ServiceConnection(host, port, timeout_s=timeout_s)
        self.uri = self._connection.uri
        self.version = ""
        self.database_uuid = ""
        self.line: HiveLine = "4.2"

    def examine(self) -> None:
        """Find out what it is; StoreError if it cannot be reached or is of a line that is not read, LogClosed."""
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
        """The database argument of methods that have no field for the catalog."""
        return b"@%b#%b" % (catalog, name) if self.has_catalogs else name

    def call(self, method: str, *, absent: Collection[str] = NOTHING, **arguments: Any) -> Any:
        """What the method returns; NO_SUCH_OBJECT for a declared exception of one of these types."""
        try:
            value = self._connection.call(method, **arguments)
        except Declared as declared:
            return self._refused(declared, absent)
        except (UpstreamError, WireError) as error:
            raise StoreError(str(error)) from error
        self._answered()
        return value

    def reply(
        self, method: str, *, absent: Collection[str] = NOTHING, **arguments: Any
    ) -> tuple[bytes, int] | NoSuchObject:
        """The same undecoded: the reply message and the offset of the returned value in it."""
        try:
            reply = self._connection.reply(method, **arguments)
        except Declared as declared:
            return self._refused(declared, absent)
        except (UpstreamError, WireError) as error:
            raise StoreError(str(error)) from error
        self._answered()
        return reply

    def optional(self, method: str, **arguments: Any) -> Any:
        """What a method returns that not every metastore has; None without it."""
        try:
            return self._connection.call(method, **arguments)
        except UnknownMethod:
            return None
        except (UpstreamError, WireError) as error:
            raise StoreError(str(error)) from error

    def setting(self, name: str) -> str | None:
        """A setting of its configuration; None if it does not tell."""
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
