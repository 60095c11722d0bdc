"""The exceptions that packages raise for each other, by whose fault they are.

    ProxyError
    +-- WireError        the peer sent bytes that the protocol does not allow
    |   +-- LimitError   ... or more of them than a named limit allows
    |   +-- WriteIdsError  ... or a malformed list of write ids or transactions, which proves nothing
    +-- UpstreamError    a metastore cannot be reached, has died, or must not be used
    +-- StoreError       the backing database cannot be read, or its schema is not a known metastore schema
    |   +-- LogClosed    ... or (over Thrift) the metastore does not allow its notification log to be read
    |   +-- Unfit        ... or an object has a form that the cache cannot hold without loss
    +-- CacheError       the shared cache cannot be used (it belongs to another upstream, is damaged or locked)
    |   +-- CacheFull    ... or has no room left
    +-- SnapshotError    a snapshot of a catalog cannot be made or used (it is missing, damaged, of another database)
    +-- AdviceError      access logs cannot be read, or contain nothing of use
    +-- AuditError       a cache cannot be compared with its database
    +-- ConfigError      a setting is wrong; the message names its key

Other modules define special cases of these, such as upstream.link.NoAnswer, and exceptions that their callers always
catch, such as Decline of a reader. Exceptions that Hive declares are reply values, not exceptions here. A bug is an
AssertionError. Exceptions of other libraries are translated once, in the module that calls the library, with
`raise ... from cause`.
This module imports nothing of the package.
"""

from __future__ import annotations

INTERRUPTED = 130
"""Exit code after Ctrl-C, as in shells."""


def one_line(error: Exception | str) -> str:
    """An error as the command line prints it."""
    return f"hms-cache-proxy: {' '.join(str(error).split())}"


class ProxyError(Exception):
    """Root of all errors that this package raises on purpose. All of them may be passed on to another process."""

    def __reduce__(self) -> tuple[object, ...]:
        """Exception's own way would call the class with its message alone."""
        return _restored, (type(self), self.args), self.__dict__


def _restored(kind: type[ProxyError], args: tuple[object, ...]) -> ProxyError:
    return kind.__new__(kind, *args)


class WireError(ProxyError):
    """The peer's bytes violate the protocol."""


class LimitError(WireError):
    """A length, size or depth from the peer exceeds the limit that is called `limit`."""

    def __init__(self, message: str, *, limit: str) -> None:
        super().__init__(message)
        self.limit = limit


class WriteIdsError(WireError):
    """A text is not a list of write ids or transactions as Hive writes it, or a list cannot be changed as requested."""


class UpstreamError(ProxyError):
    """A metastore did not do what was requested; `sent` tells whether it may have received the request."""

    def __init__(self, message: str, *, sent: bool = False) -> None:
        super().__init__(message)
        self.sent = sent


class StoreError(ProxyError):
    """The backing database cannot be read, or its schema is not a known metastore schema."""


class LogClosed(StoreError):
    """A metastore answers, but does not allow its notification log to be read, so it cannot be followed."""


class Unfit(StoreError):
    """An object has a form that the cache cannot hold without loss. It is left out; all else continues. `partition`:
    the name of one that has it, if it is known."""

    def __init__(self, message: str, *, partition: bytes | None = None) -> None:
        super().__init__(message)
        self.partition = partition


class CacheError(ProxyError):
    """The shared cache cannot be used; the calls that it would have answered go upstream."""


class CacheFull(CacheError):
    """The cache has reached its limit and admits nothing more."""


class SnapshotError(ProxyError):
    """A snapshot of a catalog cannot be made, or must not be used."""


class AdviceError(ProxyError):
    """Access logs, or the list of tables that is given with them, cannot be read or are empty."""


class AuditError(ProxyError):
    """A cache could not be compared with its database, so nothing is known about its contents."""


class ConfigError(ProxyError):
    """A setting is wrong. The message has its dotted name as in the TOML file, unless several are at fault."""


def exit_code(error: ProxyError) -> int:
    """The exit code of a command that ends with this error."""
    return 2 if isinstance(error, ConfigError) else 1
