"""A Kerberos realm of its own on a loopback port: Debian's krb5-kdc and krb5-admin-server, without a service.

Job: make the realm's database, keytabs and configuration in a directory, run the KDC, and hold its clients' side of
GSSAPI. The package gssapi is the extra kerberos: without it there is no KDC here either. Must not know:
hms_cache_proxy.
"""

from __future__ import annotations

import functools
import os
import shutil
import socket
import subprocess
from collections.abc import Mapping
from pathlib import Path

from tests.testbed import ledger
from tests.testbed.closing import Closing
from tests.testbed.packages import provided, required
from tests.testbed.processes import Process, free_port

REALM = "LAB.TEST"
START_S = 240.0
PROGRAMS = f"{os.environ.get('PATH', '')}:/usr/sbin"
_CLIENTS = """\
[libdefaults]
  default_realm = {realm}
  dns_lookup_kdc = false
  dns_lookup_realm = false
  dns_canonicalize_hostname = false
  rdns = false
  udp_preference_limit = 1
[realms]
  {realm} = {{
    kdc = 127.0.0.1:{port}
  }}
[domain_realm]
  localhost = {realm}
"""
_SERVER = """\
[kdcdefaults]
  kdc_listen = 127.0.0.1:{port}
  kdc_tcp_listen = 127.0.0.1:{port}
[realms]
  {realm} = {{
    database_name = {directory}/principal
    key_stash_file = {directory}/stash
    acl_file = {directory}/kadm5.acl
    supported_enctypes = aes256-cts-hmac-sha1-96:normal aes128-cts-hmac-sha1-96:normal
  }}
"""


class Kdc(Closing):
    """A running KDC; `environment` is what its clients need. localhost is in its realm."""

    def __init__(self, directory: Path, realm: str = REALM) -> None:
        required("gssapi")
        for package, program in (("krb5-kdc", "krb5kdc"), ("krb5-admin-server", "kadmin.local")):
            provided(package, functools.partial(_installed, program))
        directory.mkdir(parents=True)
        self._directory, self._realm, port = directory, realm, free_port()
        facts = {"realm": realm, "port": port, "directory": directory}
        clients, server = directory / "krb5.conf", directory / "kdc.conf"
        clients.write_text(_CLIENTS.format(**facts))
        server.write_text(_SERVER.format(**facts))
        self.environment = {
            "KRB5_CONFIG": str(clients),
            "KRB5_KDC_PROFILE": str(server),
            "KRB5RCACHEDIR": str(directory),
        }
        self._run("kdb5_util", "create", "-s", "-r", realm, "-P", "throwaway")
        self._process = Process(
            "KDC", ["/usr/sbin/krb5kdc", "-n"], directory / "kdc.log", env=self.environment, cwd=directory
        )
        with ledger.starting(ledger.KDC):
            self._process.start()
            self._process.wait_ready(lambda: _accepts(port), START_S)

    def keytab(self, *principals: str, options: str = "") -> Path:
        """New principals (without realm), and their keys in a file. `options`: of kadmin's addprinc."""
        file = self._directory / f"{principals[0].replace('/', '-')}.keytab"
        for principal in principals:
            self._run("kadmin.local", "-q", f"addprinc -randkey {options} {principal}")
            self._run("kadmin.local", "-q", f"ktadd -k {file} {principal}")
        return file

    def trusts(self, other: Kdc) -> None:
        """Users of the other realm get tickets for services of this one. The other's clients learn where this KDC
        is."""
        for one in (self, other):
            one._run("kadmin.local", "-q", f"addprinc -pw trusted krbtgt/{self._realm}@{other._realm}")
        clients = Path(other.environment["KRB5_CONFIG"])
        realms = Path(self.environment["KRB5_CONFIG"]).read_text().partition("[realms]")[2].partition("[domain")[0]
        clients.write_text(f"{clients.read_text()}[realms]{realms}")

    def log_in(self, principal: str, keytab: Path, environment: Mapping[str, str]) -> None:
        """Get a ticket, into the cache that the environment names."""
        command = ["kinit", "-k", "-t", str(keytab), principal]
        provided("krb5-user", functools.partial(_installed, "kinit"))
        subprocess.run(command, env={**os.environ, **environment}, check=True, capture_output=True, timeout=60)

    def stop(self) -> None:
        """The KDC does not answer any more."""
        self._process.stop()

    def close(self) -> None:
        """End it."""
        self._process.stop()

    def _run(self, *command: str) -> None:
        environment = {**os.environ, **self.environment, "PATH": PROGRAMS}
        subprocess.run(command, env=environment, check=True, capture_output=True, timeout=60)


def _installed(program: str) -> Path | None:
    found = shutil.which(program, path=PROGRAMS)
    return Path(found) if found else None


def _accepts(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True
