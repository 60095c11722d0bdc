"""PostgreSQL from a container, where HMS_TESTBED_CONTAINERS=1 and a Docker engine answers.

Job: the same Postgres object over testcontainers.
Must not know: who uses it.
"""

from __future__ import annotations

import os
import shutil
import subprocess

from tests.testbed.postgres import SUPERUSER, Postgres

IMAGE = "postgres:15"  # Debian-based: has glibc's en_US.UTF-8


def wanted() -> bool:
    """Is it asked for, and possible?"""
    if os.environ.get("HMS_TESTBED_CONTAINERS") != "1" or shutil.which("docker") is None:
        return False
    return subprocess.run(["docker", "info"], capture_output=True, timeout=30).returncode == 0


class ContainerPostgres(Postgres):
    """A container that testcontainers' own reaper ends with its owner."""

    def __init__(self) -> None:
        from testcontainers.postgres import PostgresContainer

        self._container = PostgresContainer(IMAGE, username=SUPERUSER, password=SUPERUSER)
        self._container.with_command("postgres -c fsync=off -c max_connections=400 -c timezone=UTC").start()
        host = self._container.get_container_host_ip()
        super().__init__(host, int(self._container.get_exposed_port(5432)))
        self._create_roles()

    def stop(self) -> None:
        """Remove the container."""
        self._container.stop()
