"""The proxy's own calls to a metastore."""

from __future__ import annotations

from hms_cache_proxy.upstream.service import ServiceConnection
from hms_cache_proxy.wire import spec
from hms_cache_proxy.wire.message import DEFAULT_LIMITS
from tests.server.scripted import ScriptedMetastore

SOON_S = 60.0


def test_an_event_with_a_message_that_no_client_could_send() -> None:
    """Hive 3.1 logs the partitions that one call adds as plain text. A follower over Thrift never got past it."""
    event = spec.struct("NotificationEvent")(
        eventId=7, eventTime=0, eventType=b"ADD_PARTITION", message=bytes(DEFAULT_LIMITS.string_bytes + 1)
    )
    success = spec.struct("NotificationEventResponse")(events=[event])
    result = spec.encode(spec.result("get_next_notification")(success=success))
    request = spec.struct("NotificationEventRequest")(lastEvent=6, maxEvents=1)
    with ScriptedMetastore() as scripted:
        scripted.answers["get_next_notification"] = lambda _, call: iter([call.reply(result)])
        with ServiceConnection(*scripted.address, timeout_s=SOON_S) as connection:
            (found,) = connection.call("get_next_notification", rqst=request).events
    assert (found.eventId, len(found.message)) == (7, len(event.message))
