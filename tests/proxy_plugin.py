"""Fixture of the whole product: `new_proxy(metastore, ...)` starts a proxy in front of a metastore of the test bed."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from tests.proxy import Proxy
from tests.testbed.metastore import Metastore

_numbers = itertools.count(1)


@pytest.fixture
def new_proxy(tmp_path: Path) -> Iterator[Callable[..., Proxy]]:
    """A started proxy with a data directory of its own; stopped after the test.

    `store=False` gives it no database; `prewarmed=False` returns as soon as it relays; `upstream` and `store_url`
    override the metastore's own (for a fault proxy between).
    """
    started: list[Proxy] = []

    def make(
        metastore: Metastore,
        *,
        settings: Mapping[str, str] | None = None,
        store: bool = True,
        prewarmed: bool = True,
        upstream: str | None = None,
        store_url: str | None = None,
        planted: str | None = None,
    ) -> Proxy:
        database = metastore.database if store else None
        proxy = Proxy(
            directory=tmp_path / f"proxy{next(_numbers)}",
            upstream=upstream or metastore.uri,
            store_url=store_url or (database.reader_url if database is not None else None),
            settings=dict(settings or {}),
            planted=planted,
        )
        started.append(proxy)
        return proxy.start(prewarmed=prewarmed and database is not None)

    yield make
    for proxy in started:
        proxy.close()
