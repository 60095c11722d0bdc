"""PyIceberg's own catalog integration tests with a ticket, at Hive with Kerberos and through a proxy that acts for the
user there."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.clients.test_pyiceberg import SUITE_S, pyiceberg_sources, run_suite  # noqa: F401  # a fixture
from tests.testbed.bed import Bed
from tests.testbed.packages import required
from tests.upstream.secured_hive import Place, place_in

CATALOG = "PYICEBERG_CATALOG__METASTORE__"
SOMEBODY_ELSE = "eve:staff"
TESTS, SKIPPED = 40, 8
LACKED = re.compile(r"Invalid method name: '(get_table|get_table_objects_by_name)'")
"""What Hive 4.2 answers to PyIceberg, whose tests cannot pass there without the proxy."""
COMMANDS = {
    "alter_database": "alter_database",
    "alter_table_with_environment_context": "alter_table",
    "create_database": "create_database",
    "create_table": "create_table",
    "drop_database": "drop_database",
    "drop_table": "drop_table",
    "get_table": "get_table",
}
"""Calls of the suite, and what Hive's audit calls them: once for each call, on 4.2 with or without `_req`."""
WRITES = COMMANDS.keys() - {"get_table"}


@pytest.fixture(params=["hive42", "hive31"])
def place(bed: Bed, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Place]:
    """The proxy may act for alice alone. `authorization` is left at `auto`: neither Hive has a hook or a listener that
    shows users different things, so the cache may answer everybody who has logged in."""
    with place_in(tmp_path / "place", bed, request.param, "alice", {}) as place:
        place.proxy.wait_prewarmed()
        yield place


def environment_of(place: Place, directory: Path) -> dict[str, str]:
    """PyIceberg's, with alice's ticket. She says with set_ugi that she is somebody else."""
    tickets = {"KRB5CCNAME": f"FILE:{directory / 'tickets'}"}
    place.realm.kdc.log_in("alice", place.realm.users["alice"], tickets)
    kerberos = {"HIVE__KERBEROS_AUTHENTICATION": "true", "HIVE__KERBEROS_SERVICE_NAME": "hive", "UGI": SOMEBODY_ELSE}
    return tickets | {f"{CATALOG}{name}": value for name, value in kerberos.items()}


def outcomes(report: Path) -> dict[str, list[str]]:
    """What became of each test: nothing more if it passed; else how and why, in its call and in its set-up and
    teardown."""
    found: dict[str, list[str]] = {}
    for case in ElementTree.parse(report).iter("testcase"):
        said = [f"{one.tag}: {one.get('message')}" for one in case if one.tag in ("failure", "error", "skipped")]
        found.setdefault(str(case.get("name")), []).extend(said)
    return found


def audited(place: Place, since_bytes: int) -> Counter[tuple[str, str]]:
    """How often Hive's audit names which user with which command, since its log was so long. Without the ends of its
    connections, whose user is Hive."""
    text = place.hive.log.read_bytes()[since_bytes:].decode()
    lines = re.findall(r"ugi=(\S+)\t.*?\tcmd=(\w+)(.*)", text)
    return Counter((user, command) for user, command, rest in lines if "up thread local" not in rest)


def calls_of(audit: Mapping[tuple[str, str], int], user: str, command: str) -> int:
    return audit.get((user, f"{command}_req"), 0) or audit.get((user, command), 0)


@pytest.mark.real
@pytest.mark.timeout(4 * SUITE_S)
@pytest.mark.covers("PyIceberg's own catalog tests, with Kerberos", "hive42", "hive31", cache="SQL")
@pytest.mark.secures(
    client="PyIceberg: its own catalog tests",
    login="Kerberos",
    metastore="Hive 4.2 and 3.1.3 with Kerberos",
    who="the user, as Hive's audit says",
)
def test_own_catalog_tests(place: Place, pyiceberg_sources: Path, tmp_path: Path) -> None:  # noqa: F811
    """Each test passes, fails or is skipped as it does directly, but for those that need methods which Hive 4.2 lacks.
    Reads are hits, and Hive's audit has all other calls as alice's."""
    required("puresasl", "kerberos")
    environment = environment_of(place, tmp_path)
    found, audits = {}, {}
    for where, port in (("through", place.proxy.port), ("directly", place.hive.port)):
        report, size = tmp_path / f"{where}.xml", place.hive.log.stat().st_size
        uri, warehouse = f"thrift://localhost:{port}", tmp_path / "warehouse"
        _, _, output = run_suite(pyiceberg_sources, uri, warehouse, environment, report)
        assert report.exists(), output
        found[where], audits[where] = outcomes(report), audited(place, size)
    through, directly = found["through"], found["directly"]
    skipped = {name: said for name, said in through.items() if said}
    assert (len(through), len(skipped)) == (TESTS, SKIPPED), skipped
    assert all(text.startswith("skipped: ") for said in skipped.values() for text in said), skipped
    lacking = {name for name, said in directly.items() if any(LACKED.search(text) for text in said)}
    assert bool(lacking) == (place.hive.flavour.version == "4.2.0"), directly
    others = {
        name: [text for text in said if name not in lacking or not LACKED.search(text)]
        for name, said in directly.items()
    }
    assert others == through
    check_calls(place, audits["through"])
    assert all(user.startswith("alice") for user, command in audits["directly"] if command in COMMANDS.values())


def check_calls(place: Place, audit: Counter[tuple[str, str]]) -> None:
    """Of the run through the proxy: what its counters and Hive's audit say of it."""
    requests, own = place.proxy.requests(), {"getVersion", "get_config_value", "get_delegation_token"}
    hits = sum(count for (_, outcome, _), count in requests.items() if outcome == "hit")
    misses = sum(count for (_, outcome, _), count in requests.items() if outcome == "miss")
    assert hits > 100 and hits > misses, requests
    assert requests["set_ugi", "relay", "login"] == place.proxy.metric(
        "hms_proxy_handshakes_total", transport="sasl", result="done"
    )
    assert {user for user, command in audit if command not in own} == {"alice"}, audit
    for method, command in COMMANDS.items():
        sent = sum(count for (name, outcome, _), count in requests.items() if name == method and outcome != "hit")
        assert sent == calls_of(audit, "alice", command) and (sent > 0 or method not in WRITES), (method, sent, audit)
    assert "ugi=eve" not in place.hive.log.read_text()
    assert place.proxy.metric("hms_proxy_internal_errors_total") == 0
