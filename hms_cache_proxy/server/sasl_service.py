"""What a worker needs to let clients in with SASL: the mechanisms, the proxy's own delegation tokens, logins.

Job: make these from the settings, and follow their files. With `security.upstream_identity = "pass_through"`, have the
metastores decide about logins instead. Must not know: a negotiation, calls. Owner: the worker's loop.
"""

from __future__ import annotations

from functools import partial

from hms_cache_proxy.config import Config
from hms_cache_proxy.config.security import passes_logins
from hms_cache_proxy.security.mechanism import Admitted
from hms_cache_proxy.server.connection import ClientConnection
from hms_cache_proxy.server.driver import Client
from hms_cache_proxy.server.hub import Hub
from hms_cache_proxy.server.login import Logins
from hms_cache_proxy.server.mechanisms import TokenMechanism, offered
from hms_cache_proxy.server.passed_logins import PassedLogins
from hms_cache_proxy.server.reloading import Reloading
from hms_cache_proxy.server.set_ugi_check import SetUgiCheck


class SaslService:
    """One per worker. `tokens`: the proxy's own; None: it issues none."""

    def __init__(self, config: Config) -> None:
        self._passes = passes_logins(config.security, config.kerberos)
        self._mechanisms = [] if self._passes else offered(config)
        self.tokens = next((one.issuer for one in self._mechanisms if isinstance(one, TokenMechanism)), None)
        self._limit_bytes = config.limits.max_message_bytes

    def use(self, config: Config) -> None:
        """The rules that a changed configuration has. ConfigError."""
        if self.tokens is not None:
            self.tokens.use(config.tokens, config.kerberos.auth_to_local)

    def start(self, hub: Hub, reloading: Reloading, heeding: SetUgiCheck) -> Logins | PassedLogins:
        """Let clients in from now on."""
        return PassedLogins(hub) if self._passes else self._own_logins(hub, reloading, heeding)

    def _own_logins(self, hub: Hub, reloading: Reloading, heeding: SetUgiCheck) -> Logins:
        for mechanism in self._mechanisms:
            for what, kept in mechanism.files.items():
                reloading.follow(what, kept)
        memory = hub.settings.room.budgets.memory
        told = heeding if heeding.asks else None
        logins = Logins(self._mechanisms, partial(_client_of, hub), hub, self._limit_bytes, memory, told)
        hub.keep(logins.watch, "watch tokens")
        return logins


def _client_of(hub: Hub, login: Admitted) -> Client:
    """Of one who has logged in."""
    return Client(hub, partial(ClientConnection, login=login))
