"""Decides whether the cache may be served at all, from what the metastores say about themselves.

Job: turn the facts about each metastore (upstream/checks.py) into findings and one verdict. Must not know sockets, the
cache or the log's contents.

Invariants:
- What cannot be proved is not served: if a metastore has a setting that is not safe, or no metastore answers,
  everything is relayed, with the reason. A metastore that passed the checks and cannot be reached later keeps its
  result until it answers again.
- All metastores must use one database, the one that the store reads.

Owner: the follower's process, the examiner's thread.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import Literal, Protocol, TypeAlias

from hms_cache_proxy.cache.mode import ModeReason
from hms_cache_proxy.errors import UpstreamError
from hms_cache_proxy.upstream import checks as upstream
from hms_cache_proxy.upstream.answer_differences import AnswerDifferences
from hms_cache_proxy.upstream.checks import UpstreamFacts

AuthorizationSetting: TypeAlias = Literal["auto", "none", "learned", "per_user", "relay"]
CheckLevel: TypeAlias = Literal["warning", "refusal"]

SHORT_RETENTION_S = 6 * 3600
"""A log that is kept for less time gets a warning: a proxy that is stopped for longer loads everything again."""

_SECONDS = {"ms": 0.001, "s": 1, "sec": 1, "m": 60, "min": 60, "h": 3600, "hour": 3600, "d": 86_400, "day": 86_400}


class Asks(Protocol):
    """Gets the facts about one metastore; raises UpstreamError if it does not answer."""

    @property
    def uri(self) -> str: ...

    def facts(self) -> UpstreamFacts: ...


@dataclass(frozen=True, slots=True)
class CheckFinding:
    """Something about one metastore that its operator should know."""

    uri: str
    level: CheckLevel
    reason: ModeReason
    text: str


def judge(facts: UpstreamFacts, database_uuid: str, authorization: AuthorizationSetting) -> list[CheckFinding]:
    """What is wrong with one metastore. `database_uuid`: of the store's database; empty if it has none."""
    found = [*_database(facts, database_uuid), *_log(facts), *_authorization(facts, authorization)]
    return [CheckFinding(facts.uri, *one) for one in found]


_Judged: TypeAlias = tuple[CheckLevel, ModeReason, str]


def _database(facts: UpstreamFacts, database_uuid: str) -> Iterable[_Judged]:
    uuid = facts.database_uuid
    if uuid is not None and database_uuid and uuid != database_uuid:
        yield "refusal", ModeReason.OTHER_DATABASE, f"is of database {uuid}, the cache is read from {database_uuid}"
    if facts.caches:
        name = facts.settings[upstream.RAW_STORE]
        yield "refusal", ModeReason.CACHED_STORE, f"answers from a cache of its own ({name})"
    if facts.other_catalog:
        text = f"looks names without a catalog up in {facts.other_catalog} ({upstream.CATALOG}), the cache in hive"
        yield "refusal", ModeReason.OTHER_CATALOG, text


def _log(facts: UpstreamFacts) -> Iterable[_Judged]:
    retention = facts.settings[upstream.LOG_RETENTION]
    seconds = duration_s(retention)
    if seconds is not None and seconds < SHORT_RETENTION_S:
        yield "warning", ModeReason.SERVING, f"keeps its log for {retention} only"
    if facts.logs_in_transaction:
        return
    listeners = facts.settings[upstream.TRANSACTIONAL_LISTENERS]
    if facts.logs_after_commit:
        text = (
            "logs events after the change was committed, so a crash between the two loses one: set "
            "metastore.transactional.event.listeners instead of metastore.event.listeners"
        )
        yield "warning", ModeReason.SERVING, text
    elif listeners is None or listeners.strip():
        text = (
            f"has the listener {listeners or '(it does not tell)'}: whether that writes the notification log "
            "is seen at the first change through this proxy"
        )
        yield "warning", ModeReason.SERVING, text
    else:
        text = (
            "writes no notification log: set metastore.transactional.event.listeners to "
            "org.apache.hive.hcatalog.listener.DbNotificationListener and restart it"
        )
        yield "refusal", ModeReason.NO_LOG, text


def _authorization(facts: UpstreamFacts, authorization: AuthorizationSetting) -> Iterable[_Judged]:
    if authorization == "relay":
        yield "refusal", ModeReason.AUTHORIZATION, "authorization = relay: nothing is answered from cache"
    elif authorization == "auto" and facts.restrictions:
        named = ", ".join(f"{name} = {value or '?'}" for name, value in facts.restrictions.items())
        text = f"may answer differently by user ({named}); if it does not, set authorization = none"
        yield "refusal", ModeReason.AUTHORIZATION, text


def duration_s(text: str | None) -> float | None:
    """Seconds of a Hive duration (`86400s`, `1d`, `12 hours`); None if it is not one."""
    match = re.fullmatch(r"(\d+)\s*([a-z]*)", (text or "").strip().lower())
    if match is None:
        return None
    unit = _SECONDS.get(match[2] or "s", _SECONDS.get(match[2].removesuffix("s")))
    return None if unit is None else int(match[1]) * unit


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether the cache may be served and why not, all findings, and which metastores could not be asked.

    `identified`: a metastore has just created the uuid of its database, and the store has not seen it yet. `differs`:
    which answers of any metastore differ from what the store alone would give; None if no metastore has been asked yet.
    """

    reason: ModeReason
    findings: tuple[CheckFinding, ...]
    unreachable: tuple[tuple[str, str], ...]
    identified: bool = False
    differs: AnswerDifferences | None = None


class Examination:
    """The findings about every metastore. They are kept while it cannot be asked."""

    __slots__ = ("_authorization", "_differs", "_known", "_looked_again")

    def __init__(self, authorization: AuthorizationSetting) -> None:
        self._authorization: AuthorizationSetting = authorization
        self._known: dict[str, list[CheckFinding]] = {}
        self._differs: dict[str, AnswerDifferences] = {}
        self._looked_again = False

    def examine(self, metastores: Sequence[Asks], database_uuid: str) -> Verdict:
        """Asks all of them. For those that do not answer, the earlier findings stay."""
        unreachable: list[tuple[str, str]] = []
        uuids: set[str] = set()
        store = database_uuid or ("another one, which has no id" if self._looked_again else "")
        for metastore in metastores:
            try:
                facts = metastore.facts()
            except UpstreamError as error:
                unreachable.append((metastore.uri, str(error)))
            else:
                self._known[metastore.uri] = judge(facts, store, self._authorization)
                self._differs[metastore.uri] = facts.differs
                uuids.add(facts.database_uuid or "")
        if not database_uuid and uuids - {""} and not self._looked_again:
            self._looked_again = True
            return Verdict(ModeReason.STARTING, (), tuple(unreachable), identified=True)
        findings = tuple(finding for known in self._known.values() for finding in known)
        refusals = [finding.reason for finding in findings if finding.level == "refusal"]
        good = ModeReason.SERVING if self._known else ModeReason.UNCHECKED
        reason = refusals[0] if refusals else good
        differs = reduce(or_, self._differs.values()) if self._differs else None
        return Verdict(reason, findings, tuple(unreachable), differs=differs)
