"""Expressions select from the cache what a Hive 4.2.0 metastore selected, or are declined."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hms_cache_proxy.cache.changes import Changes, PartitionChange
from hms_cache_proxy.cache.entries import TableEntry
from hms_cache_proxy.consistency.gate import Reason
from hms_cache_proxy.methods import expression_routes
from hms_cache_proxy.methods.decision import ClientCall, ClientSession, Decision, Forward, Serve
from hms_cache_proxy.methods.expression_routes import ROUTES, ExpressionRoutes
from hms_cache_proxy.methods.proof import Proof
from hms_cache_proxy.methods.readers import expressions, partitions
from hms_cache_proxy.methods.readers.base import Context, Decline, Unfinished
from hms_cache_proxy.methods.readers.filter_match import begins_of, values_in
from hms_cache_proxy.methods.readers.filters import SMALL
from hms_cache_proxy.methods.readers.part_names import DEFAULT_PARTITION, make_name
from hms_cache_proxy.upstream.answer_differences import AnswerDifferences
from hms_cache_proxy.wire import spec
from hms_cache_proxy.wire.message import Header, MessageType, message_header, parse_header
from tests.cache.conftest import Shelf
from tests.cache.records import IDENTITY, TABLE, TABLE_ID, Part, table
from tests.expressions.captured import Captured, CapturedTable, tables, vectors
from tests.methods import test_filter_spans
from tests.methods.oracle import request
from tests.methods.test_filter_spans import finished, records, shelf_of
from tests.methods.warm import opened

READERS = {
    "get_partitions_by_expr": expressions.get_partitions_by_expr,
    "get_partitions_spec_by_expr": expressions.get_partitions_spec_by_expr,
    "get_partition_names_req": partitions.get_partition_names_req,
}
EQUAL, MORE = "(ds = '2024-01-01')", "(country IS NOT DISTINCT FROM 'de')"


def open_routes() -> ExpressionRoutes:
    routes = ExpressionRoutes()
    for route in ROUTES:
        routes.went(route, time.monotonic_ns())
    return routes


def shelf_with(table: CapturedTable, more: tuple[tuple[bytes, ...], ...] = ()) -> Any:
    begins = begins_of(table.keys)
    return shelf_of(table.keys, [*(tuple(values_in(name, begins)) for name in table.names), *more])


@pytest.fixture(scope="module")
def shelves() -> Iterator[dict[str, Shelf]]:
    """The captured tables."""
    with ExitStack() as stack:
        yield {name: stack.enter_context(shelf_with(table)) for name, table in tables().items()}


def one(as_filter: str) -> bytes:
    return next(each.expression for each in vectors() if each.filter == as_filter)


def asked(shelf: Shelf, method: str, expression: bytes, differs: int = 0, **more: Any) -> Any:
    """What is answered; why it is declined."""
    routes = more.pop("routes", None) or open_routes()
    fields = {"dbName": b"sales", "tblName": b"orders", "defaultPartitionName": DEFAULT_PARTITION, "maxParts": -1}
    wanted = spec.struct("PartitionsByExprRequest")(**(fields | {"expr": expression} | more))
    with shelf.reader.snapshot() as snapshot:
        proof = Proof("passthrough", exact=False)
        context = Context(snapshot, method, by_name=True, proof=proof, differs=differs, routes=routes)
        try:
            body = READERS[method](context, spec.args(method)(req=wanted))
            body = finished(body.work) if isinstance(body, Unfinished) else body
        except Decline as declined:
            return declined.reason
    whole = body if isinstance(body, bytes) else b"".join(body.pieces)
    return spec.decode(spec.result(method), whole)[0].success


def names_of(shelf: Shelf, method: str, result: Any) -> list[bytes]:
    """The names of the partitions in an answer."""
    if method == "get_partition_names_req":
        names: list[bytes] = result
        return names
    if method == "get_partitions_by_expr":
        found = result.partitions
    else:
        found = [each for group in result.partitionsSpec for each in group.sharedSDPartitionSpec.partitions]
        assert len(result.partitionsSpec) == bool(found)
    with shelf.reader.snapshot() as snapshot:
        entry = snapshot.table(b"hive", b"sales", b"orders")
        assert isinstance(entry, TableEntry)
        return [make_name(entry.partition_keys, each.values) for each in found]


@pytest.mark.parametrize("method", READERS)
def test_answers_are_the_metastores(shelves: dict[str, Shelf], method: str) -> None:
    counts: Counter[str] = Counter()
    for captured in vectors():
        found = asked(shelves[captured.table], method, captured.expression)
        if isinstance(found, Reason):
            assert found is Reason.FILTER
            continue
        if method != "get_partition_names_req":
            assert found.hasUnknownPartitions is captured.unknown, captured.filter
        assert names_of(shelves[captured.table], method, found) == selected(captured), captured.filter
        counts[captured.hive] += 1
    assert counts == {"4.0.1": 461, "4.2.0": 254}, "of 565 and of 320"


def selected(captured: Captured) -> list[bytes]:
    assert isinstance(captured.selected, list), "the metastore has refused it"
    names = tables()[captured.table].names
    return [names[at] for at in captured.selected]


def test_groups_say_what_whole_partitions_say(shelves: dict[str, Shelf]) -> None:
    """The shared descriptor and a partition of the group make the partition; pushed ones look as filters show them."""
    for as_filter in (EQUAL, MORE):
        whole = asked(shelves["s"], "get_partitions_by_expr", one(as_filter)).partitions
        (group,) = asked(shelves["s"], "get_partitions_spec_by_expr", one(as_filter)).partitionsSpec
        assert (group.catName, group.dbName, group.tableName) == (b"hive", b"sales", b"orders")
        shared = group.sharedSDPartitionSpec
        assert shared.sd.location == group.rootPath
        assert len(whole) == len(shared.partitions) > 1
        for partition, part in zip(whole, shared.partitions, strict=True):
            assert partition.sd.location == group.rootPath + part.relativePath
            partition.sd.location = group.rootPath
            assert partition.sd == shared.sd
            for field in ("values", "parameters", "createTime", "lastAccessTime"):
                assert getattr(partition, field) == getattr(part, field)


def test_pushed_partitions_look_as_filters_show_them_and_others_as_lists_do() -> None:
    keys, rows = ((b"ds", b"string"), (b"country", b"string")), [(b"2024-01-01", b"de"), (b"2024-01-01", b"fr")]
    tail = Part(b"").tail(b"as filters show it")
    with shelf_of(keys, rows) as shelf:
        shown = [record._replace(sd_tail_filter=tail) for record in records(keys, rows)]
        shelf.writer.commit(Changes(cursor=12, partitions=[PartitionChange(TABLE_ID, shown, replace_all=True)]))
        for as_filter, name in ((EQUAL, b"as filters show it"), (MORE, b"org.example.Serde")):
            whole = asked(shelf, "get_partitions_by_expr", one(as_filter)).partitions
            (group,) = asked(shelf, "get_partitions_spec_by_expr", one(as_filter)).partitionsSpec
            descriptors = [each.sd for each in whole] + [group.sharedSDPartitionSpec.sd]
            assert {each.serdeInfo.serializationLib or each.serdeInfo.name for each in descriptors} == {name}


@pytest.mark.parametrize("method", READERS)
@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"maxParts": 5}, Reason.ARGUMENTS),
        ({"defaultPartitionName": None}, Reason.ARGUMENTS),
        ({"defaultPartitionName": b"nothing"}, Reason.ARGUMENTS),
        ({"tblName": b"another"}, Reason.ARGUMENTS),
        ({"order": b"0:+"}, Reason.ORDER),
        ({"skipColumnSchemaForPartition": True}, Reason.ARGUMENTS),
        ({"differs": AnswerDifferences.LISTS}, Reason.SETTINGS),
        ({"differs": AnswerDifferences.EXPRESSIONS}, Reason.SETTINGS),
        ({"routes": ExpressionRoutes()}, Reason.EXPRESSION_PUSHED),
    ],
)
def test_declined_is_what_was_not_asked(
    shelves: dict[str, Shelf], method: str, given: dict[str, Any], reason: Reason
) -> None:
    assert asked(shelves["s"], method, one(EQUAL), **given) is reason


@pytest.mark.parametrize("method", READERS)
def test_a_metastore_that_reads_names_in_batches(shelves: dict[str, Shelf], method: str) -> None:
    """Only what it evaluates over names is then read by name."""
    assert asked(shelves["s"], method, one(MORE), differs=AnswerDifferences.NAMES) is Reason.SETTINGS
    assert not isinstance(asked(shelves["s"], method, one(EQUAL), differs=AnswerDifferences.NAMES), Reason)


def test_other_releases_are_not_known(shelves: dict[str, Shelf], monkeypatch: pytest.MonkeyPatch) -> None:
    assert IDENTITY.hive_line == "4.2", "of the shelves"
    monkeypatch.setattr(expressions, "_LINE", "4.3")
    for method in READERS:
        assert asked(shelves["s"], method, one(EQUAL)) is Reason.RELEASE


def test_each_way_has_to_be_seen_and_to_be_seen_again(
    shelves: dict[str, Shelf], monkeypatch: pytest.MonkeyPatch
) -> None:
    def both(routes: ExpressionRoutes) -> list[bool | Reason]:
        found = [asked(shelves["s"], "get_partition_names_req", one(each), routes=routes) for each in (EQUAL, MORE)]
        return [each if isinstance(each, Reason) else True for each in found]

    routes = ExpressionRoutes()
    assert both(routes) == [Reason.EXPRESSION_PUSHED, Reason.EXPRESSION_NAMES]
    routes.went(Reason.EXPRESSION_PUSHED, time.monotonic_ns())
    assert both(routes) == [True, Reason.EXPRESSION_NAMES]
    routes.went(Reason.EXPRESSION_NAMES, time.monotonic_ns())
    assert both(routes) == [True, True]
    monkeypatch.setattr(expression_routes, "HOLDS_NS", 0)
    assert both(routes) == [Reason.EXPRESSION_PUSHED, Reason.EXPRESSION_NAMES]


ODD: dict[str, list[Any]] = {
    "(not (month) IN (1, 2))": [(b"2024", month, b"1") for month in (b"01", b"+1", b"x", b"-0")],
    "(ti = 1Y)": [b"128", b"-129", b"1.0"],
    "(dc = 1.5)": [b"1.50", b"01.5", b"1.234", b"123456789", b"-0"],
    "(bo = true)": [b"TRUE", b"1", b"yes"],
    "(db = 1.5D)": [b"1", b"1e3", b"-0.0", b"1.50", b"NaN", b"12345678.0"],
    "(not (dt) IN (DATE'2024-01-01', DATE'2024-01-02'))": [b"2024-1-1", b"2024-02-30", b"0001-01-01", b"x"],
}


@pytest.mark.parametrize("as_filter", ODD)
def test_values_that_are_not_written_as_hive_writes_them_are_the_metastores(as_filter: str) -> None:
    captured = next(each for each in vectors() if each.filter == as_filter)
    table = tables()[captured.table]
    at = {"ti": 2, "dc": 6, "bo": 7, "db": 10, "dt": 4}
    key = next((key for key in at if f"({key} " in as_filter or f"({key})" in as_filter), None)
    usual = values_in(table.names[1], begins_of(table.keys))
    for odd in ODD[as_filter]:
        row = odd if isinstance(odd, tuple) else (*usual[: at[str(key)]], odd, *usual[at[str(key)] + 1 :])
        with shelf_of(table.keys, [tuple(usual), row]) as shelf:
            assert asked(shelf, "get_partition_names_req", captured.expression) is Reason.FILTER, odd


def test_an_empty_value_is_not_taken_for_null() -> None:
    """It has the default partition's name; pushed, it is compared as it is stored, over names that is not known."""
    with shelf_with(tables()["s"], ((b"2025-01-01", b""),)) as shelf:
        assert asked(shelf, "get_partition_names_req", one(MORE)) is Reason.FILTER
        assert len(asked(shelf, "get_partition_names_req", one(EQUAL))) == 4


def test_another_type_or_another_key_is_the_metastores() -> None:
    """The table may have changed since the expression was made."""
    names = [(b"2024-01-01", b"de"), (b"2024-01-02", b"de")]
    for keys in (((b"ds", b"varchar(10)"), (b"country", b"string")), ((b"day", b"string"), (b"country", b"string"))):
        with shelf_of(keys, names) as shelf:
            assert asked(shelf, "get_partition_names_req", one(EQUAL)) is Reason.FILTER
            assert asked(shelf, "get_partition_names_req", one(MORE)) == [
                make_name(keys, values) for values in names if values[1] == b"de"
            ]


def test_a_relayed_expression_shows_the_way(tmp_path: Path) -> None:
    """The next one, of other bytes, is answered here; a refusal shows nothing."""
    keys, rows = ((b"ds", b"string"), (b"country", b"string")), [(b"2024-01-01", b"de"), (b"2024-01-02", b"fr")]
    whole = b"\x0c\x00\x00\x0f\x00\x01\x0c\x00\x00\x00\x00" + expressions.ALL_KNOWN + b"\x00"
    with opened(tmp_path) as bench:
        partitions_of = PartitionChange(TABLE_ID, records(keys, rows), replace_all=True)
        bench.step(
            Changes(cursor=11, tables={TABLE: replace(table(), partition_keys=keys)}, partitions=[partitions_of])
        )

        def decided(as_filter: str) -> Decision:
            place = {"dbName": b"sales", "tblName": b"orders", "defaultPartitionName": DEFAULT_PARTITION}
            wanted = spec.struct("PartitionsByExprRequest")(**place, expr=one(as_filter))
            message = request("get_partitions_by_expr", {"req": wanted}, 5)
            header = parse_header(message)
            assert isinstance(header, Header)
            return bench.dispatcher.decide(ClientCall.of(bench.session, header, message, time.monotonic_ns()))

        def relayed(as_filter: str, answer: bytes) -> str:
            forward = decided(as_filter)
            assert isinstance(forward, Forward)
            forward.pending.sending()
            reply = message_header(b"get_partitions_by_expr", MessageType.REPLY, 5) + answer
            forward.pending.reply_done(ClientSession(), reply, time.monotonic_ns())
            return forward.reason

        said = spec.struct("MetaException")(message=b"java.lang.UnsupportedOperationException")
        refused = spec.encode(spec.result("get_partitions_by_expr")(o1=said))
        for answer in (refused, whole):
            assert relayed(EQUAL, answer) == Reason.EXPRESSION_PUSHED
        assert isinstance(decided("(ds = '2024-01-02')"), Serve)
        assert relayed(MORE, refused) == Reason.EXPRESSION_NAMES
        assert relayed(MORE, whole) == Reason.EXPRESSION_NAMES
        assert isinstance(decided("(not (ds) IN ('2024-01-01', '2024-01-03'))"), Serve)


def test_a_large_table_is_searched_as_by_a_filter() -> None:
    """More partitions than are looked at whole, and more in an answer than are joined at once."""
    keys = ((b"ds", b"string"), (b"country", b"string"))
    rows = [(b"2024-01-%02d" % day, b"c%d" % number) for day in range(1, 4) for number in range(700)]
    with shelf_of(keys, rows) as shelf:
        for method in READERS:
            found = names_of(shelf, method, asked(shelf, method, one(EQUAL)))
            assert found == sorted(make_name(keys, row) for row in rows if row[0] == b"2024-01-01")
        more = one("(ds <> '2024-01-01')")
        for method in READERS:
            assert len(names_of(shelf, method, asked(shelf, method, more))) == 1400


def like(pattern: bytes) -> bytes:
    """`ds LIKE` this pattern, of ASCII."""
    whole = one("(ds like '2024-01%')")
    assert b"2024-01\xa5" in whole
    return whole.replace(b"2024-01\xa5", pattern[:-1] + bytes((pattern[-1] | 0x80,)))


@pytest.mark.parametrize(
    ("pattern", "regular"),
    [
        (b"2024-01%", "2024-01.*"),
        (b"2024-_1%", "2024-.1.*"),
        (b"%-02", ".*-02"),
        (b"2024-01-02", "2024-01-02"),
        (b"a:%", "a:.*"),
        (b"a%b", "a.*b"),
        (b"__HIVE%", "..HIVE.*"),
        (b"%%", ".*"),
    ],
)
def test_patterns_are_searched_by_their_beginnings(pattern: bytes, regular: str) -> None:
    """Pushed down, the default partition is a value like any other; `_` is one character."""
    keys = ((b"ds", b"string"), (b"n", b"int"))
    days = [f"{year}-{month:02}-{day:02}".encode() for year in (2023, 2024) for month in (1, 2, 11) for day in (1, 2)]
    odd = [b"a:b", b"a:", b"a", b"ab", b"a/b", "aüb".encode(), "ü".encode(), DEFAULT_PARTITION, b"2024-01", b"2024-0"]
    rows = [(day, b"%d" % number) for day in (*days, *odd) for number in range(60)]
    assert len(rows) > SMALL, "such a table is not looked at whole"
    with shelf_of(keys, rows) as shelf:
        found = asked(shelf, "get_partition_names_req", like(pattern))
        matches = re.compile(regular, re.DOTALL).fullmatch
        assert found == sorted(make_name(keys, row) for row in rows if matches(row[0].decode()))


def test_other_databases_may_have_another_like(monkeypatch: pytest.MonkeyPatch) -> None:
    keys, rows = ((b"ds", b"string"),), [(b"2024-01-01",), (b"2024-02-01",)]
    for other in (replace(IDENTITY, exact_text=False), replace(IDENTITY, exact=False)):
        monkeypatch.setattr(test_filter_spans, "IDENTITY", other)
        with shelf_of(keys, rows) as shelf:
            assert asked(shelf, "get_partition_names_req", like(b"2024-01%")) is Reason.FILTER_LIKE
            assert isinstance(asked(shelf, "get_partition_names_req", one(EQUAL)), list)


def test_times_are_evaluated_only_where_no_time_zone_matters(shelves: dict[str, Shelf]) -> None:
    """A metastore passes whole seconds to its database in its own zone, and never parts of them."""
    whole, part = one("(ts = TIMESTAMP'2024-01-02 10:00:00')"), one("(ts < TIMESTAMP'2024-01-02 10:00:00.5')")
    assert asked(shelves["p"], "get_partition_names_req", whole) is Reason.FILTER
    assert len(asked(shelves["p"], "get_partition_names_req", part)) == 12
