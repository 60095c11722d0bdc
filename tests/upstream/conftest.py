"""Fixtures: a realm, and what starts proxies in it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.server.logged_in import Realm, realm_in
from tests.upstream.delegating import Place, place_in


@pytest.fixture(scope="module")
def realm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Realm]:
    """One for all tests."""
    with realm_in(tmp_path_factory.mktemp("delegation")) as realm:
        yield realm


@pytest.fixture
def place(realm: Realm, tmp_path: Path) -> Iterator[Place]:
    """What is started ends with the test."""
    with place_in(realm, tmp_path) as place:
        yield place
