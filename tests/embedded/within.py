"""An embedded metastore in the test's own process, over SQLite: for what one call leaves for the next.

Job: calls as bytes through the service, without a socket. Must not know: what the calls mean.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hms_cache_proxy.embedded.call import MetastoreSession
from hms_cache_proxy.embedded.database import Database
from hms_cache_proxy.embedded.service import Service
from hms_cache_proxy.embedded.warehouse import Warehouse
from hms_cache_proxy.wire import spec
from tests.methods.oracle import Reply, parsed


@contextmanager
def service_in(directory: Path) -> Iterator[Service]:
    """A service over a new database in this directory."""
    database = Database(f"sqlite:///{directory}/metastore.db")
    warehouse = Warehouse((directory / "managed").as_uri(), (directory / "external").as_uri())
    database.prepare(warehouse=warehouse.managed, external=warehouse.external)
    try:
        yield Service(database, warehouse, {})
    finally:
        database.close()


@contextmanager
def metastore_in(directory: Path) -> Iterator[Within]:
    """A metastore over a new database in this directory."""
    with service_in(directory) as service:
        yield Within(service)


class Within:
    """One client of a service."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._session = MetastoreSession("test")

    def ask(self, method: str, **arguments: Any) -> Reply:
        """Call a method."""
        served = self._service.find(method.encode())
        assert served is not None, method
        given = spec.args(method)
        decoded = spec.decode(given, spec.encode(given(**arguments)))[0]
        return parsed(method, self._service.call(self._session, method.encode(), served, 1, decoded))

    def do(self, method: str, **arguments: Any) -> Any:
        """Call a method that must succeed; its return value."""
        value = self.ask(method, **arguments).value
        assert not any(getattr(value, name) for name in value._names if name != "success"), (method, value)
        return getattr(value, "success", None)
