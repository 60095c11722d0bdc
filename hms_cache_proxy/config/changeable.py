"""The settings that change without a restart, at SIGHUP.

Must not know: who reads them again (processes/settings_reload.py), and who applies them (server/reloading.py).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from hms_cache_proxy.config.sections import Config
from hms_cache_proxy.config.security import KerberosSection
from hms_cache_proxy.config.tokens import TokensSection

CHANGEABLE: Final = ("protection", "tokens.proxy_users", "tokens.administrators", "kerberos.auth_to_local")
"""Sections and keys."""


def may_change(key: str) -> bool:
    """Is this one of them?"""
    return key in CHANGEABLE or key.partition(".")[0] in CHANGEABLE


def changeable(config: Config) -> Config:
    """These settings alone; no secret is among them."""
    return with_changes(Config(tokens=TokensSection(), kerberos=KerberosSection()), config)


def with_changes(config: Config, new: Config) -> Config:
    """The configuration, with these settings of the new one."""
    tokens = replace(config.tokens, proxy_users=new.tokens.proxy_users, administrators=new.tokens.administrators)
    kerberos = replace(config.kerberos, auth_to_local=new.kerberos.auth_to_local)
    return replace(config, protection=new.protection, tokens=tokens, kerberos=kerberos)
