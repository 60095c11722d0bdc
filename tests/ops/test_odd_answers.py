"""What the supervisor reads from others may be damaged or senseless: it goes on."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from hms_cache_proxy.config import load
from hms_cache_proxy.metrics import SupervisorMetrics
from hms_cache_proxy.status.calls import read_totals
from hms_cache_proxy.status.most_asked import added_up
from hms_cache_proxy.status.probe import UpstreamProbe
from hms_cache_proxy.status.view import peers_told
from tests.server.scripted import STOP, ScriptedMetastore, string_field


@pytest.fixture
def scripted() -> Iterator[ScriptedMetastore]:
    with ScriptedMetastore() as server:
        yield server


async def looked_at(probe: UpstreamProbe) -> None:
    """Once, or until the task of the supervisor ends."""
    watching = asyncio.ensure_future(probe.watch())
    while not watching.done() and probe.facts()["reachable"] is None:
        await asyncio.sleep(0.01)
    watching.cancel()
    with suppress(asyncio.CancelledError):
        await watching
    for seen in probe._all:
        seen._connection.close()


@pytest.mark.parametrize(
    ("result", "version"),
    [(string_field(0, b"4.2.0") + STOP, "4.2.0"), (STOP, ""), (string_field(1, b"no") + STOP, "")],
    ids=["a version", "no result", "a field that is not known"],
)
def test_a_metastore_that_does_not_tell_its_version(scripted: ScriptedMetastore, result: bytes, version: str) -> None:
    scripted.answers["getVersion"] = lambda _, call: iter([call.reply(result)])
    host, port = scripted.address
    probe = UpstreamProbe(load(cli={"upstream": f"thrift://{host}:{port}"}))
    asyncio.run(looked_at(probe))
    facts = probe.facts()
    assert (facts["reachable"], facts["version"]) == (True, version)


DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "cut off": lambda whole: whole[:100],
    "almost nothing": lambda whole: whole[:2],
    "zeros": lambda whole: whole[:100] + bytes(len(whole) - 100),
    "a wrong length": lambda whole: whole[:8] + b"\xff\xff\xff\x7f" + whole[12:],
    "no text": lambda whole: whole[:12] + b"\xff" + whole[13:],
    "no list": lambda whole: whole[:12] + b"{" + whole[13:],
}
COUNT = """
import sys
from pathlib import Path
from hms_cache_proxy import metrics
metrics.start_process(Path(sys.argv[1]), "worker-0")
counts = metrics.WorkerMetrics()
for method in ("get_table", "get_database"):
    counts.slot(method, "hit").observe(0.001)
counts.flush()
"""


def count(directory: Path) -> None:
    """As a worker does: in a process of its own."""
    subprocess.run([sys.executable, "-c", COUNT, str(directory)], check=True)


@pytest.fixture(scope="module")
def counted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files of a worker that has counted two hits."""
    directory = tmp_path_factory.mktemp("metrics")
    count(directory)
    return directory


@pytest.mark.parametrize("damage", DAMAGE)
@pytest.mark.parametrize("name", ["counter_worker-0.db", "histogram_worker-0.db"])
def test_counters_that_are_damaged_are_left_out(counted: Path, tmp_path: Path, name: str, damage: str) -> None:
    for file in counted.iterdir():
        whole = file.read_bytes()
        (tmp_path / file.name).write_bytes(DAMAGE[damage](whole) if file.name == name else whole)
    assert read_totals(tmp_path).by_outcome()["hit"] == (0 if name.startswith("counter") else 2)


@pytest.mark.parametrize("damage", DAMAGE)
@pytest.mark.parametrize("name", ["counter_worker-0.db", "gauge_mostrecent_worker-0.db", "histogram_worker-0.db"])
def test_metrics_are_shown_without_what_is_damaged(counted: Path, tmp_path: Path, name: str, damage: str) -> None:
    supervisor = SupervisorMetrics(tmp_path, "1")
    for file in counted.iterdir():
        whole = file.read_bytes()
        (tmp_path / file.name).write_bytes(DAMAGE[damage](whole) if file.name == name else whole)
    shown = supervisor.render().decode()
    assert ("hms_proxy_requests_total{" in shown) is not name.startswith("counter")
    assert ("hms_proxy_request_seconds_bucket{" in shown) is not name.startswith("histogram")
    assert "hms_proxy_damaged_metric_files 1.0" in shown
    (tmp_path / name).write_bytes((counted / name).read_bytes())
    shown = supervisor.render().decode()
    assert "hms_proxy_requests_total{" in shown and "hms_proxy_damaged_metric_files 0.0" in shown


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_worker_replaces_files_that_are_damaged(counted: Path, tmp_path: Path, damage: str) -> None:
    for file in counted.iterdir():
        (tmp_path / file.name).write_bytes(DAMAGE[damage](file.read_bytes()))
    count(tmp_path)
    assert read_totals(tmp_path).by_outcome()["hit"] == 2
    count(tmp_path)
    assert read_totals(tmp_path).by_outcome()["hit"] == 4, "what is well is continued"


@pytest.mark.parametrize("half", ["", '{"tables": {"ca', '[{"state": "le', "\0\0\0"])
def test_reports_that_are_not_whole(tmp_path: Path, half: str) -> None:
    """As after a crash of the machine, until the process that writes them has begun."""
    report, whole = tmp_path / "half.json", tmp_path / "whole.json"
    report.write_text(half)
    whole.write_text('{"tables": {"calls": {"hive.sales.orders": 2}}}')
    assert peers_told(report) == [] == peers_told(tmp_path / "none.json")
    assert added_up([report, whole])["tables"]["calls"] == [{"name": "hive.sales.orders", "number": 2}]
