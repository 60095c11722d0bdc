"""Settings that change without a restart: what the supervisor reads again, and what a worker makes of it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from hms_cache_proxy.cache.state import Slot, StatePage
from hms_cache_proxy.config import Config
from hms_cache_proxy.config.protection import ProtectionSection
from hms_cache_proxy.config.security import KerberosSection
from hms_cache_proxy.config.tokens import TokensSection
from hms_cache_proxy.metrics import WorkerMetrics
from hms_cache_proxy.processes.settings_reload import SettingsReload
from hms_cache_proxy.security import token_keys
from hms_cache_proxy.security.cancelled_tokens import CancelledTokens
from hms_cache_proxy.security.principals import ShortNames, parse_principal
from hms_cache_proxy.security.token_issuer import Caller, NotAllowed, TokenIssuer
from hms_cache_proxy.server.reloading import FollowedSettings, Reloading

RENAMING = r"RULE:[1:$1](alice)s/alice/carol/"


def test_what_may_change_reaches_the_workers(tmp_path: Path) -> None:
    config = Config(data_dir=str(tmp_path), tokens=TokensSection(key_file="secret"))
    read = [config]
    supervisor = SettingsReload(config, lambda: read[-1])
    seen: list[Config] = []
    worker = FollowedSettings(config, seen.append)
    assert not worker.read()
    tokens = TokensSection(proxy_users=("hive=bob",), administrators=("root",), key_file="other", lifetime=60)
    kerberos = KerberosSection(auth_to_local=(RENAMING,), keytab="other")
    read.append(replace(config, tokens=tokens, kerberos=kerberos, protection=ProtectionSection(read_only=True)))
    supervisor.again()
    assert worker.read() and not worker.read()
    (now,) = seen
    assert now.tokens == TokensSection(proxy_users=("hive=bob",), administrators=("root",)), "the rest needs a restart"
    assert now.kerberos == KerberosSection(auth_to_local=(RENAMING,)) and now.protection.read_only
    read.append(replace(read[-1], kerberos=KerberosSection(auth_to_local=("RULE:[1:$1",))))
    assert not supervisor.again()
    assert not worker.read(), "a rule that is wrong changes nothing"
    later: list[Config] = []
    FollowedSettings(config, later.append)
    assert later == seen, "a worker that starts later has them, too"
    read.append(config)
    supervisor.again()
    assert worker.read() and seen[-1].tokens.proxy_users == () and not seen[-1].protection.read_only


def test_a_full_disk_changes_nothing_and_the_next_signal_tries_again(tmp_path: Path) -> None:
    config = Config(data_dir=str(tmp_path))
    supervisor = SettingsReload(config, lambda: replace(config, protection=ProtectionSection(read_only=True)))
    worker = FollowedSettings(config)
    full = tmp_path / "settings.json.new"
    full.mkdir()  # for root, too, nothing can be written there
    assert not supervisor.again()
    assert not worker.read()
    full.rmdir()
    assert supervisor.again()
    assert worker.read()


def test_a_signal_while_a_worker_starts(tmp_path: Path) -> None:
    """Between its first look at the settings and that at the number of signals, it loads much."""
    config = Config(data_dir=str(tmp_path))
    supervisor = SettingsReload(config, lambda: replace(config, protection=ProtectionSection(read_only=True)))
    seen: list[Config] = []
    with StatePage(tmp_path / "state", create=True) as page:
        settings = FollowedSettings(config, seen.append)
        supervisor.again()
        page[Slot.RELOADS] += 1
        Reloading(page, WorkerMetrics(), None, None, settings).check()
    assert [one.protection.read_only for one in seen] == [True]


def test_settings_that_cannot_be_read_are_counted(tmp_path: Path) -> None:
    """Once for each signal, by a worker that was there."""
    config = Config(data_dir=str(tmp_path))

    def refused(metrics: WorkerMetrics) -> float | None:
        return metrics.registry.get_sample_value("hms_proxy_reloads_total", {"what": "settings", "result": "failed"})

    with StatePage(tmp_path / "state", create=True) as page:
        first, second = WorkerMetrics(), WorkerMetrics()
        worker = Reloading(page, first, None, None, FollowedSettings(config))
        page[Slot.SETTINGS_REFUSED] += 1
        page[Slot.RELOADS] += 1
        later = Reloading(page, second, None, None, FollowedSettings(config))
        for _ in range(2):
            worker.check()
            later.check()
        assert (refused(first), refused(second)) == (1, 0)
        page[Slot.RELOADS] += 1
        worker.check()
        assert refused(first) == 1, "they could be read"


def test_rules_of_tokens_change(tmp_path: Path) -> None:
    names = ShortNames(["DEFAULT"], "R", key="rules")
    keys = token_keys.followed_keys("", tmp_path / "key")
    issuer = TokenIssuer(TokensSection(), keys, CancelledTokens(tmp_path / "cancelled"), names)
    hive = Caller("hive", "127.0.0.1", False)
    assert _refused(issuer, hive, "bob") == "User: hive is not allowed to impersonate bob"
    issuer.use(TokensSection(proxy_users=("hive=bob",)), [RENAMING])
    assert issuer.issue(hive, "bob", "yarn")[1].owner == "bob"
    assert names.of(parse_principal("alice@R")) == "carol" and names.of(parse_principal("bob@R")) is None
    issuer.use(TokensSection(), ["DEFAULT"])
    assert _refused(issuer, hive, "bob") == "User: hive is not allowed to impersonate bob"
    assert names.of(parse_principal("alice@R")) == "alice"
    assert "not a line of text" in _refused(issuer, hive, "hive\n"), "it would be logged, and be a header"


def _refused(issuer: TokenIssuer, caller: Caller, owner: str) -> str:
    try:
        issuer.issue(caller, owner, "yarn")
    except NotAllowed as refused:
        return str(refused)
    raise AssertionError("there is a token")
