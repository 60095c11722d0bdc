"""Pages of the log over Thrift: a metastore counts rows only, so that a reply may be too long to be read."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from hms_cache_proxy.errors import StoreError
from hms_cache_proxy.store.protocol import PAGE_BYTES, EventRow
from hms_cache_proxy.store.thrift.log import MOST_AT_ONCE, LogReader
from hms_cache_proxy.store.thrift.service import Metastore
from hms_cache_proxy.upstream.service import ServiceConnection
from hms_cache_proxy.wire import spec
from hms_cache_proxy.wire.message import MessageLimits
from tests.server.scripted import Call, ScriptedMetastore
from tests.testbed.closing import Closing

LIMIT = 1 << 20
"""Bytes of a reply: a thousandth of what the follower reads."""


class Logged(Closing):
    """A metastore with this log: (id, bytes of the message)."""

    def __init__(self, log: list[tuple[int, int]], *, limit: int = LIMIT, ordered: bool = True) -> None:
        self._log = log
        self._scripted = ScriptedMetastore()
        self._scripted.answers["get_next_notification"] = self._answer
        limits = MessageLimits(message_bytes=limit, string_bytes=limit)
        self._metastore = Metastore(ServiceConnection(*self._scripted.address, timeout_s=60, limits=limits))
        self.reader = LogReader(self._metastore, ordered=ordered)

    def _answer(self, _: bytes, call: Call) -> Iterator[bytes]:
        request = self._request(call)
        rows = [row for row in self._log if row[0] > request.lastEvent][: request.maxEvents]
        event = spec.struct("NotificationEvent")
        events = [event(eventId=one, eventTime=0, eventType=b"X", message=bytes(size)) for one, size in rows]
        success = spec.struct("NotificationEventResponse")(events=events)
        yield call.reply(spec.encode(spec.result("get_next_notification")(success=success)))

    @staticmethod
    def _request(call: Call) -> spec.Struct:
        return spec.decode(spec.args("get_next_notification"), call.arguments, 0)[0].rqst  # type: ignore[attr-defined]

    def asked(self) -> list[int]:
        """How many rows each call asked for."""
        return [self._request(call).maxEvents for call in self._scripted.named("get_next_notification")]  # type: ignore[attr-defined]

    def close(self) -> None:
        self._metastore.close()
        self._scripted.close()


def ids(rows: list[EventRow]) -> list[int]:
    return [row.event_id for row in rows]


def test_a_page_that_is_too_long_is_read_in_shorter_replies() -> None:
    large = LIMIT // 5
    with Logged([(number, large if 20 < number <= 60 else 10) for number in range(1, 2001)]) as logged:
        rows, complete = logged.reader.page(0, 250)
        assert (ids(rows), complete) == (list(range(1, 251)), False)
        assert min(logged.asked()) == 3
        assert logged.reader.page(1990, 250) == (logged.reader.page(1990, 11).rows, True)
        count = len(logged.asked())
        for number in range(20):
            logged.reader.page(100 + number, 1000)
        assert logged.asked()[-1] == 1000 <= MOST_AT_ONCE, "replies are short again"
        assert len(logged.asked()) - count < 40


@pytest.mark.parametrize("ordered", [True, False])
def test_a_single_row_that_is_too_long_is_an_error(ordered: bool) -> None:
    with Logged([(1, 10), (2, LIMIT), (3, 10)], ordered=ordered) as logged:
        for _ in range(2):
            with pytest.raises(StoreError, match="max_message_bytes|a string of|a message of"):
                logged.reader.page(0, 250)
        assert ids(logged.reader.page(2, 250).rows) == [3]


def test_rows_of_one_id_are_not_divided_in_a_log_without_order() -> None:
    """Hive 2.3: what comes after the last row of a reply may have the same id."""
    log = [(number, LIMIT // 7) for number in (1, 1, 1, 2, 3, 3, 4, 4, 4, 4, 5)]
    with Logged(log, ordered=False) as logged:
        rows, complete = logged.reader.page(0, 250)
        assert (ids(rows), complete) == ([one for one, _ in log], True)


@pytest.mark.parametrize("ordered", [True, False])
def test_a_page_of_several_replies_ends_where_it_has_enough_bytes(ordered: bool) -> None:
    size = PAGE_BYTES // 4
    with Logged([(number, size) for number in range(1, 12)], limit=3 * size, ordered=ordered) as logged:
        found = list[int]()
        while True:
            rows, complete = logged.reader.page(found[-1] if found else 0, 250)
            found += ids(rows)
            assert complete or PAGE_BYTES <= sum(len(row.message or "") for row in rows) < 2 * PAGE_BYTES
            if complete:
                break
        assert found == list(range(1, 12))
