"""What the connections of a worker share, in the test's own process."""

from __future__ import annotations

from hms_cache_proxy.server.connection_settings import ConnectionSettings
from hms_cache_proxy.server.hub import Allowed, Hub
from hms_cache_proxy.server.reply import REPLY_LIMITS
from hms_cache_proxy.server.spool import SpoolRoom
from hms_cache_proxy.server.worker_basis import WorkerBasis
from hms_cache_proxy.server.worker_states import Member
from hms_cache_proxy.upstream.endpoints import Endpoints
from tests.methods.warm import Bench
from tests.server.scripted import ScriptedMetastore


def hub_of(bench: Bench, scripted: ScriptedMetastore) -> Hub:
    room = SpoolRoom()
    return Hub(
        WorkerBasis(bench.metrics, Endpoints([scripted.address]), room.budgets),
        dispatcher=bench.dispatcher,
        settings=ConnectionSettings(REPLY_LIMITS, idle_timeout_ns=0, request_timeout_ns=10**10, room=room),
        member=Member(bench.page, 0, 1),
        allowed=Allowed(connections=10, connections_per_address=0, upstream_connections=0, connect_s=5.0, queue_s=5.0),
    )
