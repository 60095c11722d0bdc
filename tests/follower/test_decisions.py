"""Pure decisions: what a metastore's settings mean, pauses, serve or relay."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from hms_cache_proxy.cache.mode import ModeReason
from hms_cache_proxy.cache.state import Slot, StatePage
from hms_cache_proxy.errors import UpstreamError
from hms_cache_proxy.follower.checks import Examination, Verdict, duration_s, judge
from hms_cache_proxy.follower.cycle import LogPeek
from hms_cache_proxy.follower.mode import ServingMode
from hms_cache_proxy.follower.pace import BUSY_S, SMALL_CHUNK, Chunks, Pace
from hms_cache_proxy.follower.step import ResetReason
from hms_cache_proxy.follower.step_states import StepOutcome
from hms_cache_proxy.upstream import checks
from hms_cache_proxy.upstream.answer_differences import AnswerDifferences
from hms_cache_proxy.upstream.checks import UpstreamFacts
from hms_cache_proxy.upstream.serdes import BEFORE_4, SINCE_4

LISTENER = "org.apache.hive.hcatalog.listener.DbNotificationListener"
AUTHORIZATION = "org.apache.hadoop.hive.ql.security.authorization"
DEFAULTS: dict[str, str | None] = {
    checks.FILTER_HOOK: "org.apache.hadoop.hive.metastore.DefaultMetaStoreFilterHookImpl",
    checks.PRE_LISTENERS: "",
    checks.AUTHORIZERS: f"{AUTHORIZATION}.DefaultHiveMetastoreAuthorizationProvider",
    checks.SERVER_FILTER: "false",
    checks.RAW_STORE: "org.apache.hadoop.hive.metastore.ObjectStore",
    checks.TRANSACTIONAL_LISTENERS: LISTENER,
    checks.LISTENERS: "",
    checks.LOG_RETENTION: "1d",
    checks.PARTITION_LIMIT: "-1",
    checks.DIRECT_SQL: "true",
    checks.DIRECT_SQL_IN_TRANSACTIONS: "true",
    checks.PARTITION_ORDER: '"PART_NAME" asc',
    checks.BIT_VECTORS: "false",
    checks.HISTOGRAMS: "false",
    checks.TRANSACTIONAL_STATISTICS: "true",
    checks.DENSITIES: "false",
    checks.TUNER: "0.0",
    checks.AGGREGATES_CACHE: "false",
    checks.BATCHES: "0",
    checks.EXPRESSIONS: "org.apache.hadoop.hive.ql.optimizer.ppr.PartitionExpressionForMetastore",
    checks.DEFAULT_PARTITION: "__HIVE_DEFAULT_PARTITION__",
    checks.SCHEMA_SERDES: b",".join(sorted(SINCE_4)).decode(),
    checks.CATALOG: "hive",
    checks.TRANSFORMER: "org.apache.hadoop.hive.metastore.MetastoreDefaultTransformer",
}


def facts(uuid: str | None = "u", **settings: str | None) -> UpstreamFacts:
    known = {getattr(checks, name): value for name, value in settings.items()}
    return UpstreamFacts("thrift://h:1", "4.2.0", uuid, 1, None, {**DEFAULTS, **known})


JUDGED = [
    (facts(), []),
    (facts(uuid=None), []),
    (facts(uuid="other"), [ModeReason.OTHER_DATABASE]),
    (facts(RAW_STORE="a.b.CachedStore"), [ModeReason.CACHED_STORE]),
    (facts(CATALOG="spark"), [ModeReason.OTHER_CATALOG]),
    (facts(CATALOG=" Hive"), []),
    (facts(CATALOG=""), []),
    (facts(CATALOG=None), []),
    (facts(TRANSACTIONAL_LISTENERS=""), [ModeReason.NO_LOG]),
    (facts(TRANSACTIONAL_LISTENERS="", LISTENERS=LISTENER), []),
    (facts(TRANSACTIONAL_LISTENERS="my.Listener"), []),
    (facts(FILTER_HOOK="my.Hook"), [ModeReason.AUTHORIZATION]),
    (facts(PRE_LISTENERS="my.Listener"), [ModeReason.AUTHORIZATION]),
    (facts(PRE_LISTENERS=None), [ModeReason.AUTHORIZATION]),
    (facts(LOG_RETENTION="60s"), []),
]


@pytest.mark.parametrize(("told", "refusals"), JUDGED)
def test_judge(told: UpstreamFacts, refusals: list[ModeReason]) -> None:
    found = judge(told, "u", "auto")
    assert [one.reason for one in found if one.level == "refusal"] == refusals


def test_an_operator_decides_about_authorization() -> None:
    hooked = facts(FILTER_HOOK="my.Hook")
    assert judge(hooked, "u", "none") == []
    for kept_apart in ("learned", "per_user"):
        assert judge(hooked, "u", kept_apart) == [], "the workers keep the answers of each user apart"
    assert [one.reason for one in judge(facts(), "u", "relay")] == [ModeReason.AUTHORIZATION]


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("1d", 86400), ("86400s", 86400), ("12 hours", 43200), ("500ms", 0.5), ("5", 5), ("", None), (None, None)],
)
def test_durations(text: str | None, seconds: float | None) -> None:
    assert duration_s(text) == seconds


@dataclass
class Answers:
    """A metastore whose answers are given."""

    uri: str
    told: UpstreamFacts | None

    def facts(self) -> UpstreamFacts:
        if self.told is None:
            raise UpstreamError("away")
        return self.told


def test_examination_remembers_who_is_away() -> None:
    examination = Examination("auto")
    metastore = Answers("a", None)
    assert examination.examine([metastore], "u").reason is ModeReason.UNCHECKED
    metastore.told = facts()
    assert examination.examine([metastore], "u").reason is ModeReason.SERVING
    metastore.told = None
    verdict = examination.examine([metastore], "u")
    assert (verdict.reason, verdict.unreachable) == (ModeReason.SERVING, (("a", "away"),))
    other = Answers("b", facts(TRANSACTIONAL_LISTENERS=""))
    assert examination.examine([metastore, other], "u").reason is ModeReason.NO_LOG


def test_examination_has_the_store_look_again_for_a_new_uuid() -> None:
    examination = Examination("auto")
    first = examination.examine([Answers("a", facts())], "")
    assert first.identified and first.reason is ModeReason.STARTING
    assert examination.examine([Answers("a", facts())], "u").reason is ModeReason.SERVING
    assert examination.examine([Answers("a", facts())], "").reason is ModeReason.OTHER_DATABASE


def test_who_waits_for_a_step_shortens_the_next_ones_and_never_stops_the_loading() -> None:
    chunks = Chunks(10_000)
    assert [chunks.next(now) for now in (0.0, 0.1)] == [10_000, 10_000]
    chunks.woken(1.0)
    assert [chunks.next(now) for now in (1.0, 1.1, 0.99 + BUSY_S, 1.0 + BUSY_S)] == [
        0,
        SMALL_CHUNK,
        SMALL_CHUNK,
        10_000,
    ]
    loaded = []
    for number in range(6):
        chunks.woken(5 + number / 100)
        loaded.append(chunks.next(5 + number / 100))
    assert loaded == [0, SMALL_CHUNK] * 3
    few = Chunks(100)
    few.woken(0.0)
    assert [few.next(0.0), few.next(0.1)] == [0, 100]


def test_pace() -> None:
    pace = Pace.of(20, 1000, freshness_ms=10_000)
    assert pace.after(changed=True, more=False) == 0.02
    assert pace.after(changed=False, more=True) == 0
    pauses = [pace.after(changed=False, more=False) for _ in range(8)]
    assert pauses == sorted(pauses) and pauses[-1] == 1.0
    assert Pace.of(20, 600_000, freshness_ms=3000).longest_s == 1.0


@pytest.fixture
def page(tmp_path: Path) -> StatePage:
    return StatePage(tmp_path / "state", create=True)


def verdict(reason: ModeReason) -> Verdict:
    return Verdict(reason, (), ())


def test_after_a_refusal_everything_is_loaded_anew(page: StatePage, tmp_path: Path) -> None:
    mode = ServingMode(page, tmp_path / "not_followed", tmp_path / "answers", stored=True)
    assert mode.decide(None) is ModeReason.STARTING
    assert mode.idle(None) and not mode.must_reset
    assert not mode.idle(verdict(ModeReason.SERVING))
    page[Slot.BEGAN_NS] = 1
    assert mode.decide(verdict(ModeReason.SERVING)) is ModeReason.SERVING
    assert mode.idle(verdict(ModeReason.NO_LOG)) and mode.must_reset
    mode = ServingMode(page, tmp_path / "not_followed", tmp_path / "answers", stored=True)  # a restart
    assert mode.must_reset and not mode.idle(verdict(ModeReason.SERVING))
    assert mode.decide(verdict(ModeReason.SERVING)) is ModeReason.STARTING
    mode.stepped(StepOutcome(1, True, False, reset=ResetReason.NOT_FOLLOWED))
    assert not mode.must_reset
    assert mode.decide(verdict(ModeReason.SERVING)) is ModeReason.SERVING
    assert not ServingMode(page, tmp_path / "not_followed", tmp_path / "answers", stored=True).must_reset


def test_canary_and_replica(page: StatePage, tmp_path: Path) -> None:
    mode = ServingMode(page, tmp_path / "not_followed", tmp_path / "answers", stored=True)
    good = verdict(ModeReason.SERVING)
    page[Slot.BEGAN_NS] = 1
    mode.stepped(StepOutcome(1, True, False, unlogged=True))
    assert mode.decide(good) is ModeReason.NO_LOG and mode.idle(good)
    mode.saw(LogPeek(1, None))
    assert mode.idle(good)
    mode.saw(LogPeek(2, False))
    assert not mode.idle(good) and mode.must_reset
    mode.stepped(StepOutcome(2, False, False, replica=True))
    assert mode.decide(good) is ModeReason.REPLICA and mode.idle(good)
    mode.saw(LogPeek(2, None, replica=True))
    assert mode.idle(good)
    mode.saw(LogPeek(2, None))
    assert mode.decide(good) is ModeReason.STARTING and not mode.idle(good) and mode.must_reset
    mode.stepped(StepOutcome(2, True, False, reset=ResetReason.NOT_FOLLOWED))
    assert mode.decide(good) is ModeReason.SERVING
    assert ServingMode(page, tmp_path / "x", tmp_path / "answers", stored=False).decide(good) is ModeReason.NO_STORE


def test_metastores_that_answer_otherwise_than_when_the_cache_was_filled(page: StatePage, tmp_path: Path) -> None:
    files = tmp_path / "not_followed", tmp_path / "answers"
    mode = ServingMode(page, *files, stored=True)
    mode.answer(AnswerDifferences.COLUMNS)
    assert page[Slot.DIFFERS] == AnswerDifferences.COLUMNS and not mode.must_reset, "the first time"
    page = StatePage(tmp_path / "another", create=True)
    mode = ServingMode(page, *files, stored=True)
    mode.answer(AnswerDifferences.COLUMNS)
    assert page[Slot.DIFFERS] == AnswerDifferences.COLUMNS and not mode.must_reset, "a restart"
    mode.answer(AnswerDifferences.COLUMNS | AnswerDifferences.LISTS)
    assert page[Slot.DIFFERS] == AnswerDifferences.COLUMNS | AnswerDifferences.LISTS and mode.must_reset
    mode.stepped(StepOutcome(1, True, False, reset=ResetReason.NOT_FOLLOWED))
    mode = ServingMode(StatePage(tmp_path / "third", create=True), *files, stored=True)
    mode.answer(AnswerDifferences(0))
    assert mode.must_reset and ServingMode(page, *files, stored=True).must_reset, "while nobody looked"


def test_what_cannot_be_kept_for_the_next_start_counts_now(page: StatePage, tmp_path: Path) -> None:
    """The data directory may be read-only. A refusal ends the hits all the same, and is kept as soon as it can be."""
    directory = tmp_path / "lost"
    files = directory / "not_followed", directory / "answers"
    mode = ServingMode(page, *files, stored=True)
    page[Slot.BEGAN_NS] = 1
    good, refusal = verdict(ModeReason.SERVING), verdict(ModeReason.AUTHORIZATION)
    mode.answer(AnswerDifferences.COLUMNS)
    assert not mode.must_reset
    mode.answer(AnswerDifferences.LISTS)
    assert mode.must_reset and mode.decide(good) is ModeReason.STARTING
    mode.stepped(StepOutcome(1, True, False, reset=ResetReason.NOT_FOLLOWED))
    mode.answer(AnswerDifferences.LISTS)
    assert not mode.must_reset, "they answer as before"
    mode.closed(True)
    assert mode.must_reset and mode.idle(refusal) and mode.decide(refusal) is ModeReason.NO_LOG
    mode.closed(False)
    assert mode.decide(refusal) is ModeReason.AUTHORIZATION
    directory.mkdir()
    assert mode.idle(refusal)
    mode.answer(AnswerDifferences.LISTS)
    later = ServingMode(page, *files, stored=True)
    assert later.must_reset
    later.stepped(StepOutcome(1, True, False, reset=ResetReason.NOT_FOLLOWED))
    later.answer(AnswerDifferences.LISTS)
    assert not later.must_reset


@pytest.mark.parametrize(
    "settings",
    [
        {"PARTITION_LIMIT": "100"},
        {"PARTITION_LIMIT": None},
        {"PARTITION_ORDER": '"PARTITIONS"."CREATE_TIME" desc'},
        {"DIRECT_SQL": "false"},
        {"DIRECT_SQL_IN_TRANSACTIONS": "false"},
    ],
)
def test_settings_that_change_lists(settings: dict[str, str | None]) -> None:
    assert not facts().lists_differ
    assert facts(**settings).lists_differ


@pytest.mark.parametrize("size", ["1000", None])
def test_batches_change_lists_by_names(size: str | None) -> None:
    assert not facts(BATCHES="-1").names_differ
    assert facts(BATCHES=size).differs & AnswerDifferences.NAMES


def test_another_transformer_shapes_answers() -> None:
    assert not facts().shapes_differ
    assert facts(TRANSFORMER=" ").shapes_differ


@pytest.mark.parametrize(
    "settings",
    [
        {"DENSITIES": "true"},
        {"TUNER": "0.5"},
        {"AGGREGATES_CACHE": "true"},
        {"BATCHES": "1000"},
        {"BATCHES": None},
        {"BIT_VECTORS": "true"},
        {"TRANSACTIONAL_STATISTICS": "false"},
    ],
)
def test_settings_that_change_aggregates(settings: dict[str, str | None]) -> None:
    assert not facts().aggregates_differ
    assert not facts(BATCHES="-1").aggregates_differ
    assert facts(**settings).aggregates_differ


@pytest.mark.parametrize(
    "settings",
    [
        {"EXPRESSIONS": "org.apache.hadoop.hive.metastore.DefaultPartitionExpressionProxy"},
        {"EXPRESSIONS": None},
        {"DEFAULT_PARTITION": "null"},
    ],
)
def test_settings_that_change_expressions(settings: dict[str, str | None]) -> None:
    assert not facts().differs
    assert facts(**settings).differs == AnswerDifferences.EXPRESSIONS


@pytest.mark.parametrize("serdes", ["", None, b",".join(sorted(BEFORE_4)).decode()])
def test_another_list_of_serdes_changes_columns(serdes: str | None) -> None:
    assert not facts().columns_differ
    assert facts(SCHEMA_SERDES=serdes).columns_differ
    assert not facts(SCHEMA_SERDES=f"{DEFAULTS[checks.SCHEMA_SERDES]},my.Serde").columns_differ


@pytest.mark.parametrize(
    ("settings", "differs"),
    [
        ({}, False),
        ({"PRE_LISTENERS": "org.apache.hadoop.hive.ql.security.authorization.AuthorizationPreEventListener"}, False),
        ({"FILTER_HOOK": "my.Hook"}, True),
        ({"FILTER_HOOK": None}, True),
        ({"PRE_LISTENERS": "my.Listener"}, True),
    ],
)
def test_hooks_that_may_tell_parts_of_a_table_apart(settings: dict[str, str | None], differs: bool) -> None:
    assert bool(facts(**settings).differs & AnswerDifferences.PARTS) is differs


@pytest.mark.parametrize(
    ("settings", "differs"),
    [
        ({}, False),
        ({"PRE_LISTENERS": f"{AUTHORIZATION}.AuthorizationPreEventListener"}, False),
        ({"AUTHORIZERS": f"{AUTHORIZATION}.StorageBasedAuthorizationProvider"}, False),
        ({"AUTHORIZERS": f"{AUTHORIZATION}.StorageBasedAuthorizationProvider,my.Authorizer"}, True),
        ({"AUTHORIZERS": None}, True),
        ({"FILTER_HOOK": f"{AUTHORIZATION}.plugin.AuthorizationMetaStoreFilterHook"}, True),
        ({"PRE_LISTENERS": f"{AUTHORIZATION}.plugin.metastore.HiveMetaStoreAuthorizer"}, True),
        ({"PRE_LISTENERS": None}, True),
    ],
)
def test_rules_by_which_a_privilege_may_matter_elsewhere(settings: dict[str, str | None], differs: bool) -> None:
    assert bool(facts(**settings).differs & AnswerDifferences.RIGHTS) is differs
