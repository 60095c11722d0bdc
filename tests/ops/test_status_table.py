"""The table of `hms-cache-proxy status`, without a proxy."""

from __future__ import annotations

import pytest

from hms_cache_proxy.cli import remote
from hms_cache_proxy.status.calls import CallTotals
from tests.ops.test_banner import WELL

ANSWER = {
    **WELL,
    "version": "1.2",
    "ready": True,
    "banner": {"text": "All is well.", "advice": "", "level": "good"},
    "cursor_event_id": 7,
    "upstream_event_id": 7,
    "confirmed_ms_ago": 5,
    "objects": {"databases": 1, "tables": 2, "partitions": 3, "transactional_tables": 0, "tables_being_written": 0},
    "recording": None,
    "ttl": None,
    "calls": {"per_second": None, **CallTotals().facts()},
}


@pytest.mark.parametrize(
    ("uri", "version"),
    [("thrift://[fd00::1]:9083", "4.2.0"), ("thrift://a:1", "3.1 [/vendor]"), ("thrift://a:1", "[b]")],
)
def test_addresses_and_versions_are_shown_as_they_are(
    capsys: pytest.CaptureFixture[str], uri: str, version: str
) -> None:
    answer = {**ANSWER, "upstream": {"uri": uri, "version": version, "reachable": True, "since_s": 1.0, "all": []}}
    remote.print_status("http://[fd00::2]:9084", answer)
    shown = " ".join(capsys.readouterr().out.split())
    assert f"{uri} version {version}, reachable" in shown and "1.2 at http://[fd00::2]:9084" in shown
