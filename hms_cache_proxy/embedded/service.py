"""Carries out one call: takes its arguments, and makes the reply message.

Job: find the method, give it a transaction, turn what it returns or raises into the reply of a Hive metastore. Must not
know: sockets, what methods do.

A declared exception goes into the field of the result that has its type; any other is an INTERNAL_ERROR, as in Hive. A
method that is not served is answered as one that does not exist (server.py). The changes of a failed call are rolled
back, in the database and on disk; those of a call that returns its exception stay.

Owner: the metastore's process; any number of threads may use `call`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, cast

import structlog
from sqlalchemy import Connection
from sqlalchemy.exc import DataError, DBAPIError

from hms_cache_proxy.embedded import directories
from hms_cache_proxy.embedded.call import Access, Call, MetastoreSession, ServedMethod
from hms_cache_proxy.embedded.database import Database
from hms_cache_proxy.embedded.failures import Failure, meta
from hms_cache_proxy.embedded.handlers import METHODS
from hms_cache_proxy.embedded.handlers.locks import expire
from hms_cache_proxy.embedded.values import arguments
from hms_cache_proxy.embedded.warehouse import Warehouse
from hms_cache_proxy.wire import facts, spec
from hms_cache_proxy.wire.message import ApplicationError, MessageType, exception_message, message_header
from hms_cache_proxy.wire.spec import Struct

log = structlog.get_logger()

TRIES = 5  # of a write that has a deadlock with a Java metastore on the same database


class Service:
    """The methods over one database."""

    def __init__(self, database: Database, warehouse: Warehouse, settings: dict[str, str]) -> None:
        self._database = database
        self._warehouse = warehouse
        self._settings = settings

    def find(self, name: bytes) -> ServedMethod | None:
        """The method of this name, if it is served."""
        return METHODS.get(name.decode("utf-8", "replace"))

    def call(self, session: MetastoreSession, name: bytes, method: ServedMethod, seqid: int, decoded: Struct) -> bytes:
        """Run a method and return the whole reply message. Raises nothing."""
        text = name.decode()
        began = time.perf_counter()
        try:
            args = arguments(text, decoded)
            value = self._run(session, method.access, lambda call: method.run(call, args))
            result = spec.result(text)(success=value)
        except Failure as failure:
            log.debug("refused", method=text, failure=str(failure))
            field = _declared(text, failure.kind)
            if field is not None:
                declared = spec.struct(failure.kind)(message=failure.message)
                result = spec.result(text)(**{field: declared})
            else:
                return exception_message(
                    name, seqid, ApplicationError.INTERNAL_ERROR, f"Internal error processing {text}"
                )
        except Exception:  # a bug, or the database: the connection stays open, as in Hive
            log.exception("call failed", method=text)
            return exception_message(name, seqid, ApplicationError.INTERNAL_ERROR, f"Internal error processing {text}")
        body = spec.encode(result)
        log.debug("call", method=text, ms=round((time.perf_counter() - began) * 1e3, 2))
        return message_header(name, MessageType.REPLY, seqid) + body

    def expire(self) -> None:
        """End transactions and locks whose owners are silent."""
        self._run(MetastoreSession("housekeeping"), Access.WRITE, expire)

    def _run(self, session: MetastoreSession, access: Access, work: Callable[[Call], Any]) -> Any:
        """Do the work in a transaction of its own, again if that has a deadlock; what it returns."""
        for attempt in range(TRIES):
            call = Call(session, self._warehouse, self._settings, cast(Connection, None))
            try:
                with self._transaction(call, access):
                    value = work(call)
                    directories.settle(call)
            except BaseException as error:
                for action in reversed(call.on_rollback):
                    action()
                if isinstance(error, DBAPIError) and _deadlock(error) and attempt + 1 < TRIES:
                    continue
                if isinstance(error, DataError):  # a value is too long for a column of PostgreSQL
                    raise meta(f"JDOFatalUserException: Attempt to store too long a value: {error.orig}") from error
                raise
            for action in call.on_commit:
                action()
            if isinstance(value, Failure):
                raise value
            return value
        raise AssertionError("the last try returns or raises")

    @contextmanager
    def _transaction(self, call: Call, access: Access) -> Iterator[None]:
        if access is Access.NONE:
            yield
        elif access is Access.READ:
            with self._database.read() as call.connection:
                yield
        else:
            with self._database.write() as call.connection:
                yield


def _deadlock(error: DBAPIError) -> bool:
    return getattr(error.orig, "pgcode", None) in ("40P01", "40001")


def _declared(method: str, kind: str) -> str | None:
    """The field of the result that carries an exception of this type, if the method declares it."""
    return next((row.name for row in facts.METHODS[method].result if row.id > 0 and row.type == kind), None)
