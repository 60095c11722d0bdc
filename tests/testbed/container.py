"""PostgreSQL and MariaDB in containers, where their programs are not installed and a Docker engine answers.

Job: `place()` says where a server runs; the same Postgres and MariaDB objects over testcontainers.
Must not know: who uses them.
Invariants: a program that is installed is always preferred; testcontainers' own reaper ends a container with its owner.
"""

from __future__ import annotations

import enum
import functools
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

from tests.testbed.artifacts import BedError, MissingPrerequisite
from tests.testbed.mariadb import ACCOUNTS, ROOT, MariaDB
from tests.testbed.packages import required
from tests.testbed.postgres import START_TIMEOUT_S, SUPERUSER, Postgres
from tests.testbed.processes import wait_until

POSTGRES_IMAGE = "postgres:15"  # Debian-based: has glibc's en_US.UTF-8
MARIADB_IMAGE = "mariadb:10.11"


class Place(enum.Enum):
    """Where a server runs."""

    LOCAL = "a process of its own; the program is installed, or may be"
    CONTAINER = "a container"


def place(package: str, installed: Callable[[], Path | None], engine: Callable[[], bool], may_install: bool) -> Place:
    """Where a server runs whose program `installed` finds. Raises MissingPrerequisite where it can run nowhere."""
    if installed() is not None:
        return Place.LOCAL
    if engine():
        return Place.CONTAINER
    if may_install:
        return Place.LOCAL
    raise MissingPrerequisite(f"not installed, and no Docker engine answers: apt-get install {package}")


def place_here(package: str, installed: Callable[[], Path | None]) -> Place:
    """On this machine: root may install what the distribution has."""
    return place(package, installed, engine_answers, os.geteuid() == 0 and shutil.which("apt-get") is not None)


@functools.cache
def engine_answers() -> bool:
    """Is there a Docker engine?"""
    if shutil.which("docker") is None:
        return False
    return subprocess.run(["docker", "info"], capture_output=True, timeout=30).returncode == 0


class ContainerPostgres(Postgres):
    """A shared server in a container."""

    def __init__(self) -> None:
        required("testcontainers")
        from testcontainers.postgres import PostgresContainer

        self._container = PostgresContainer(POSTGRES_IMAGE, username=SUPERUSER, password=SUPERUSER)
        self._container.with_command("postgres -c fsync=off -c max_connections=400 -c timezone=UTC").start()
        host = self._container.get_container_host_ip()
        super().__init__(host, int(self._container.get_exposed_port(5432)))
        self._create_roles()

    def stop(self) -> None:
        """Remove the container."""
        self._container.stop()


class ContainerMariaDB(MariaDB):
    """A shared server in a container."""

    def __init__(self) -> None:
        required("testcontainers")
        from testcontainers.core.container import DockerContainer

        self._container = DockerContainer(MARIADB_IMAGE).with_env("MARIADB_ROOT_PASSWORD", ROOT)
        self._container.with_exposed_ports(3306).with_command("--max-connections=400 --skip-name-resolve").start()
        host = self._container.get_container_host_ip()
        super().__init__(host, int(self._container.get_exposed_port(3306)))
        if not wait_until(self.is_ready, START_TIMEOUT_S):
            raise BedError("MariaDB does not answer in its container")
        self.execute(ACCOUNTS)

    def stop(self) -> None:
        """Remove the container."""
        self._container.stop()
