"""An LDAP directory of its own on loopback ports: Debian's slapd, without a service.

Job: run it with a few users, with TLS and without. Must not know: hms_cache_proxy.
"""

from __future__ import annotations

import functools
import os
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.testbed import ledger
from tests.testbed.certificates import Authority
from tests.testbed.closing import Closing
from tests.testbed.kdc import PROGRAMS
from tests.testbed.packages import provided, required
from tests.testbed.processes import Process, free_port

START_S = 240.0
BASE = "ou=people,dc=lab,dc=test"
MANAGER, MANAGER_PASSWORD = "cn=admin,dc=lab,dc=test", "admin's"
_CONFIGURATION = """\
include /etc/ldap/schema/core.schema
include /etc/ldap/schema/cosine.schema
include /etc/ldap/schema/inetorgperson.schema
modulepath /usr/lib/ldap
moduleload back_mdb
TLSCACertificateFile {authority}
TLSCertificateFile {certificate}
TLSCertificateKeyFile {key}
disallow bind_anon
database mdb
suffix "dc=lab,dc=test"
rootdn "{manager}"
rootpw "{password}"
directory {directory}/db
"""
_BEGINNING = """\
dn: dc=lab,dc=test
objectClass: dcObject
objectClass: organization
o: lab
dc: lab

dn: ou=people,dc=lab,dc=test
objectClass: organizationalUnit
ou: people
"""
_USER = """
dn: uid={dn},ou=people,dc=lab,dc=test
objectClass: inetOrgPerson
uid: {user}
cn: {user}
sn: {user}
"""


class Slapd(Closing):
    """A running directory. `users`: their passwords; an empty one: the entry has none."""

    def __init__(self, directory: Path, users: dict[str, str]) -> None:
        required("ldap")
        program = provided("slapd", functools.partial(_installed, "slapd"))
        authority = Authority(directory / "tls", "directory")
        files = authority.signed("slapd")
        self.authority = authority.file
        (directory / "db").mkdir(parents=True)
        configuration = directory / "slapd.conf"
        configuration.write_text(
            _CONFIGURATION.format(
                directory=directory,
                authority=authority.file,
                certificate=files.certificate,
                key=files.key,
                manager=MANAGER,
                password=MANAGER_PASSWORD,
            )
        )
        entries = directory / "entries.ldif"
        entries.write_text(_BEGINNING + "".join(_entry(user, password) for user, password in users.items()))
        self._run(str(program), "-T", "add", "-f", str(configuration), "-l", str(entries))
        self.port, secure = free_port(), free_port()
        self.url, self.secure_url = f"ldap://127.0.0.1:{self.port}", f"ldaps://127.0.0.1:{secure}"
        self._log = directory / "slapd.log"
        self._process = Process(
            "slapd",
            [str(program), "-d", "stats", "-f", str(configuration), "-h", f"{self.url}/ {self.secure_url}/"],
            self._log,
            cwd=directory,
        )
        self.start()

    def start(self) -> None:
        """After `stop`, at the same ports."""
        with ledger.starting(ledger.SLAPD):
            self._process.start()
            self._process.wait_ready(self._accepts, START_S)

    def stop(self) -> None:
        """The directory does not answer any more."""
        self._process.stop()

    @contextmanager
    def hanging(self) -> Iterator[None]:
        """It accepts connections, and does not answer."""
        os.kill(self._process.id.pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(self._process.id.pid, signal.SIGCONT)

    def close(self) -> None:
        """End it."""
        self._process.stop()

    def binds(self, user: str) -> int:
        """How often somebody has tried to bind as this user."""
        return self._log.read_text().count(f'BIND dn="uid={user},{BASE}" method=128')

    def _accepts(self) -> bool:
        try:
            socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
        except OSError:
            return False
        return True

    def _run(self, *command: str) -> None:
        environment = {**os.environ, "PATH": PROGRAMS}
        subprocess.run(command, env=environment, check=True, capture_output=True, timeout=60)


def _entry(user: str, password: str) -> str:
    escaped = "".join(f"\\{letter}" if letter in ',+"\\<>;=#' else letter for letter in user)
    return _USER.format(user=user, dn=escaped) + (f"userPassword: {password}\n" if password else "")


def _installed(program: str) -> Path | None:
    found = shutil.which(program, path=PROGRAMS)
    return Path(found) if found else None
