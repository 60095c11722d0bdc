"""The doctor's check of the metastores: whether they answer, their versions and databases, the notification log and its
listener, and whether all users get the same answers.

It asks with the proxy's own code (upstream/checks.py) and judges by the follower's rules, so it reports what `serve`
will do. It changes nothing in a metastore.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

from hms_cache_proxy.cache.mode import ModeReason
from hms_cache_proxy.config import Address, Config
from hms_cache_proxy.doctor.finding import Finding, Severity
from hms_cache_proxy.errors import UpstreamError
from hms_cache_proxy.follower.checks import judge
from hms_cache_proxy.security.metastore_security import MetastoreSecurity, towards_metastores
from hms_cache_proxy.upstream import checks
from hms_cache_proxy.upstream.checks import UpstreamFacts, examine
from hms_cache_proxy.upstream.service import ServiceConnection

_ADVICE = {
    ModeReason.OTHER_DATABASE: "point `upstream` and `store_url` at the same metastore",
    ModeReason.CACHED_STORE: "set metastore.rawstore.impl back to ...metastore.ObjectStore: the metastore's own cache "
    "may be stale, and the proxy replaces it",
    ModeReason.OTHER_CATALOG: "set metastore.catalog.default back to hive; until then everything is relayed",
    ModeReason.NO_LOG: "without it everything is relayed: versions are bridged, nothing is cached",
    ModeReason.AUTHORIZATION: "until then everything is relayed",
}

_WITH_HOOKS = {
    "none": "declares it harmless",
    "learned": "answers a user what the metastore has given the same user",
    "per_user": "keeps the metastore's answers for each user",
}


Answer: TypeAlias = UpstreamFacts | UpstreamError


def ask_metastores(config: Config) -> list[tuple[Address, Answer]]:
    """The answer of each metastore. Call this before the database is read: a metastore creates the database's id when
    it is first asked for it."""
    secured = towards_metastores(config)
    return [(address, _ask(config, address, secured)) for address in config.upstream]


def judge_metastores(config: Config, answers: list[tuple[Address, Answer]], database_uuid: str | None) -> list[Finding]:
    """`database_uuid`: the id of store_url's database; empty if it has none, None if it is not known."""
    found: list[Finding] = []
    answered = [facts for _, facts in answers if isinstance(facts, UpstreamFacts)]
    for address, answer in answers:
        if isinstance(answer, UpstreamFacts):
            found += _judge(config, answer, database_uuid)
        else:
            found.append(_unreachable(address, answer, alone=not answered))
    uuids = {facts.database_uuid for facts in answered} - {None}
    if len(uuids) > 1:
        text = f"these metastores use {len(uuids)} different databases"
        found.append(Finding("upstream", Severity.ERROR, text, _ADVICE[ModeReason.OTHER_DATABASE]))
    return found


def _ask(config: Config, address: Address, secured: MetastoreSecurity) -> Answer:
    timeout_s = config.upstream_options.connect_timeout_s
    with ServiceConnection(address.host, address.port, timeout_s=timeout_s, secured=secured) as connection:
        try:
            return examine(connection)
        except UpstreamError as error:
            return error


def _unreachable(address: Address, error: UpstreamError, *, alone: bool) -> Finding:
    text = f"cannot be queried: {error}"
    if not alone:
        return Finding(address.uri, Severity.WARNING, text, "calls go to the other metastores meanwhile")
    advice = "start it, or correct `upstream`; a refused connection means a closed port, a time-out often a firewall"
    return Finding(address.uri, Severity.ERROR, text, advice)


def _judge(config: Config, facts: UpstreamFacts, database_uuid: str | None) -> Iterator[Finding]:
    version = "2.3 (it says 3.0)" if facts.version == "3.0" else facts.version
    yield Finding(facts.uri, Severity.OK, f"answers; Hive {version}, database {facts.database_uuid or 'without an id'}")
    if facts.event_id is not None:
        retention = facts.settings[checks.LOG_RETENTION]
        yield Finding(facts.uri, Severity.OK, f"newest event {facts.event_id}; the log is kept for {retention or '?'}")
    else:
        yield _closed_log(config, facts)
    told = "(a database without an id)" if database_uuid == "" else database_uuid or ""
    for one in judge(facts, told, config.authorization):
        level = Severity.ERROR if one.level == "refusal" else Severity.WARNING
        yield Finding(facts.uri, level, one.text, _ADVICE.get(one.reason, ""))
    if facts.logs_in_transaction:
        yield Finding(facts.uri, Severity.OK, "writes its notification log in the transaction of each change")
    if not facts.restrictions:
        yield Finding(
            facts.uri, Severity.OK, "gives all users the same answers (no filter hook, no pre-event listener)"
        )
    elif config.authorization in _WITH_HOOKS:
        named = ", ".join(facts.restrictions)
        yield Finding(
            facts.uri,
            Severity.NOTE,
            f"{named}: not Hive's default; the setting authorization = {config.authorization}"
            f" {_WITH_HOOKS[config.authorization]}",
        )


def _closed_log(config: Config, facts: UpstreamFacts) -> Finding:
    text = f"does not let this proxy read its notification log ({facts.event_id_problem})"
    if config.source != "thrift":
        return Finding(facts.uri, Severity.NOTE, text, "this is not needed: the log is read from the database")
    advice = (
        "set store_url, or hive.metastore.event.db.notification.api.auth = false at the metastore; until then "
        "everything is relayed"
    )
    return Finding(facts.uri, Severity.ERROR, text, advice)
