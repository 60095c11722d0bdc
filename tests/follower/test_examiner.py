"""What the examination of the metastores finds counts from one moment on, for everything that is decided by it."""

from __future__ import annotations

import socket
import time

from hms_cache_proxy.config import load
from hms_cache_proxy.follower.examiner import Examiner

ROUND_S = 0.5
"""A round with a metastore that refuses the connection is through by then."""


def test_a_verdict_counts_once_it_is_taken() -> None:
    """Else the follower could serve by a verdict whose word on the metastores' settings it has not passed on yet."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]  # nobody listens there
        examiner = Examiner(load(cli={"upstream": f"thrift://127.0.0.1:{port}"}))
        examiner.database_uuid("of some database")
        examiner.ensure()
        time.sleep(ROUND_S)
        assert examiner.verdict is None
        deadline = time.monotonic() + 30
        while (taken := examiner.take()) is None:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        assert examiner.verdict is taken and taken.unreachable
        assert examiner.take() is None
        examiner.stop()
