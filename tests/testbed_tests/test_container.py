"""Where a server runs. That the containers themselves work is not tested: it takes a Docker engine."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.testbed.artifacts import MissingPrerequisite
from tests.testbed.container import Place, place

PROGRAM = Path("/usr/sbin/mariadbd")


@pytest.mark.parametrize(
    ("installed", "engine", "may_install", "expected"),
    [
        (True, True, True, Place.LOCAL),
        (True, True, False, Place.LOCAL),
        (True, False, True, Place.LOCAL),
        (True, False, False, Place.LOCAL),
        (False, True, True, Place.CONTAINER),
        (False, True, False, Place.CONTAINER),
        (False, False, True, Place.LOCAL),
        (False, False, False, None),
    ],
)
def test_place(installed: bool, engine: bool, may_install: bool, expected: Place | None) -> None:
    def answers() -> bool:
        assert not installed, "a Docker engine is not asked where the program is there"
        return engine

    def choose() -> Place:
        return place("mariadb-server-core", lambda: PROGRAM if installed else None, answers, may_install)

    if expected is not None:
        assert choose() is expected
    else:
        with pytest.raises(MissingPrerequisite, match="no Docker engine answers: apt-get install mariadb-server-core"):
            choose()
