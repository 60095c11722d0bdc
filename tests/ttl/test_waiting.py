"""How long a reader waits for what others load."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from time import monotonic_ns

from hms_cache_proxy.methods.decision import ClientCall, ClientSession, Forward, Serve, Wait
from hms_cache_proxy.methods.ttl.dispatcher import SHARED_NS
from tests.proxy import Proxy
from tests.testbed.client import MetastoreClient
from tests.testbed.metastore import Metastore
from tests.testbed.recording_proxy import RecordingProxy
from tests.ttl.bench import call, opened, reply
from tests.ttl.conftest import ALWAYS, create_table


def test_nobody_waits_for_a_refresh_at_a_metastore_that_hangs(
    silent_hms: Metastore, new_proxy: Callable[..., Proxy], unique_name: str
) -> None:
    """Another one answers. The refresh itself waits for as long as an answer may take."""
    with ExitStack() as stack:
        hangs = stack.enter_context(RecordingProxy(*silent_hms.address))
        settings = {**ALWAYS, "TTL_TTL": "4s", "TTL_REFRESH_INTERVAL": "1s"}
        both = f"{hangs.uri},{silent_hms.uri}"
        proxy = new_proxy(silent_hms, settings=settings, store=False, upstream=both)
        client = stack.enter_context(MetastoreClient(*proxy.address, timeout_s=120))
        direct = stack.enter_context(MetastoreClient(*silent_hms.address))
        create_table(direct, unique_name)
        client.get_table(unique_name, "t")
        assert hangs.take("get_table")
        time.sleep(1.2)
        hangs.hold()
        client.get_table(unique_name, "t")  # from the cache, if this machine is not too slow; and it is due
        time.sleep(5)
        client.get_table(unique_name, "t")
        assert client.get_table(unique_name, "t").owner == "o"
        hangs.let_go()


def test_readers_of_what_cannot_be_kept_do_not_wait_for_one_another(tmp_path: Path) -> None:
    """Each waits for the load that was under way when it came, not for all who came before it."""
    header, message = call("get_all_tables", db_name=b"none")
    with opened(tmp_path) as bench:

        def decide(arrived_ns: int) -> object:
            return bench.dispatcher.decide(ClientCall.of(ClientSession(), header, message, arrived_ns, patient=True))

        first = decide(monotonic_ns())
        waiting = [monotonic_ns() for _ in range(3)]
        assert isinstance(first, Forward) and all(isinstance(decide(one), Wait) for one in waiting)
        time.sleep(2 * SHARED_NS / 1e9)
        first.pending.failed(True)
        loads = [decide(one) for one in waiting]
        assert all(isinstance(one, Forward) for one in loads)
        late = monotonic_ns()
        assert isinstance(decide(late), Wait), "who comes later waits for one of them"
        for load in loads:
            assert isinstance(load, Forward)
            load.pending.reply_done(bench.session, reply("get_all_tables", [b"t"]), monotonic_ns())
        assert isinstance(decide(late), Serve)
