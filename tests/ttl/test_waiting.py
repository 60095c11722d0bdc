"""How long a reader waits for what others load."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack

from tests.proxy import Proxy
from tests.testbed.client import MetastoreClient
from tests.testbed.metastore import Metastore
from tests.testbed.recording_proxy import RecordingProxy
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
