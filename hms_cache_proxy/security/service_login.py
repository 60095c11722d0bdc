"""Logs the proxy in to metastores with its own principal: the client's side of GSSAPI (RFC 4752), without I/O.

Job: `ServiceLogins` makes a `KerberosLogin` for each connection. The library gets a ticket from the KDC with the key in
the keytab, keeps it in memory, and gets another one when half of its time is over. Everything here may wait for the
KDC: call it in a thread. Must not know: connections. Errors are LoginFailed.
"""

from __future__ import annotations

import itertools
import os
from typing import Any

from hms_cache_proxy.errors import ConfigError
from hms_cache_proxy.security import gss
from hms_cache_proxy.security.kerberos import GssProtection
from hms_cache_proxy.security.mechanism import LoginFailed, Step
from hms_cache_proxy.wire.sasl import MESSAGE_BYTES, Layers, choice, named_layers, parse_offer

_numbers = itertools.count(1)


class ServiceLogins:
    """`principal` is the proxy's, `service` the metastores'; in both `_HOST` is a host's name, the proxy's own or the
    metastore's. `layers`: the protections that may be agreed on; the strongest that the metastore offers is chosen."""

    def __init__(self, *, keytab: str, principal: str, service: str, layers: Layers) -> None:
        self._gssapi = gss.library("kerberos.upstream")
        self._keytab = keytab
        self._own = self._name(_with_host(principal, os.uname().nodename))
        self._service = service
        self.layers = layers
        # One for each object: a cache holds the tickets of one principal.
        self._store = {"client_keytab": keytab, "ccache": f"MEMORY:hms-cache-proxy-{os.getpid()}-{next(_numbers)}"}

    @property
    def principal(self) -> str:
        """The proxy's."""
        return str(self._own)

    def check(self) -> None:
        """ConfigError if the keytab has no key of the principal. The KDC is not asked."""
        try:
            self._gssapi.Credentials(usage="accept", name=self._own, store={"keytab": self._keytab})
        except self._gssapi.exceptions.GSSError as error:
            key = "kerberos.principal"
            raise ConfigError(f"{key}: no key of {self._own} in {self._keytab}: {gss.why(error)}") from error

    def login(self, host: str) -> KerberosLogin:
        """For one connection to the metastore at this host. LoginFailed if there is no ticket to be had."""
        gssapi = self._gssapi
        flag = gssapi.RequirementFlag
        flags = flag.mutual_authentication | flag.replay_detection | flag.out_of_sequence_detection
        if self.layers & (Layers.AUTH_INT | Layers.AUTH_CONF):
            flags |= flag.integrity | flag.confidentiality
        try:
            context = gssapi.SecurityContext(
                name=self._name(_with_host(self._service, host)),
                creds=gssapi.Credentials(usage="initiate", name=self._own, store=self._store),
                flags=flags,
                usage="initiate",
                mech=gssapi.MechType.kerberos,
            )
        except gssapi.exceptions.GSSError as error:
            raise LoginFailed(f"Kerberos: no ticket for {self._own}: {gss.why(error)}") from error
        return KerberosLogin(context, gssapi.exceptions.GSSError, self.layers)

    def _name(self, principal: str) -> Any:
        return self._gssapi.Name(principal, self._gssapi.NameType.kerberos_principal)


class KerberosLogin:
    """One connection. `protection` is known when a Step is done."""

    __slots__ = ("_allowed", "_context", "_errors", "_protection")

    mechanism = "GSSAPI"

    def __init__(self, context: Any, errors: Any, allowed: Layers) -> None:
        self._context = context
        self._context.__DEFER_STEP_ERRORS__ = False
        self._errors = errors
        self._allowed = allowed
        self._protection: GssProtection | None = None

    @property
    def protection(self) -> GssProtection:
        """What protects the connection from now on."""
        assert self._protection is not None, "the login is not done"
        return self._protection

    def step(self, challenge: bytes) -> Step:
        """The answer to the metastore's challenge; to nothing at first."""
        try:
            if not self._context.complete:
                return Step(self._context.step(challenge or None) or b"", False)
            return self._choose(self._context.unwrap(challenge).message)
        except self._errors as error:
            raise LoginFailed(f"Kerberos: {gss.why(error)}") from error

    def finish(self, payload: bytes) -> None:
        """GSSAPI ends with the choice: nothing is left to say."""
        if payload:
            raise LoginFailed("Kerberos: the metastore says more than the end of the login")

    def _choose(self, payload: bytes) -> Step:
        offered = parse_offer(payload)
        common = offered.layers & self._allowed
        layer = next((one for one in (Layers.AUTH_CONF, Layers.AUTH_INT, Layers.AUTH) if common & one), None)
        if layer is None:
            raise LoginFailed(
                f"Kerberos: no common protection: hadoop.rpc.protection there is {named_layers(offered.layers)},"
                f" kerberos.protection allows {named_layers(self._allowed)}"
            )
        # The size that a metastore states is not its limit (Hive sends and takes more), but keeping to it is harmless.
        self._protection = GssProtection(self._context, self._errors, layer, offered.size or MESSAGE_BYTES)
        return Step(self._context.wrap(choice(layer), False).message, True)


def _with_host(principal: str, host: str) -> str:
    return principal.replace("/_HOST@", f"/{host.lower()}@")
