"""Which metastore a new connection goes to."""

from __future__ import annotations

import pytest

from hms_cache_proxy.upstream.endpoints import Endpoint, Endpoints, Unopened

ADDRESSES = [("one", 1), ("two", 2), ("three", 3)]


def hosts(found: list[Endpoint]) -> list[str]:
    return [endpoint.host for endpoint in found]


def test_the_first_that_works() -> None:
    endpoints = Endpoints(ADDRESSES)
    for _ in range(2):
        assert hosts(endpoints.candidates()) == ["one", "two", "three"]
    endpoints.refused(endpoints.all[0], "down")
    assert hosts(endpoints.candidates()) == ["two", "three", "one"]
    assert hosts(endpoints.candidates(last=endpoints.all[1])) == ["three", "two", "one"]


def test_each_that_works_in_turn() -> None:
    endpoints = Endpoints(ADDRESSES, in_turn=True)
    firsts = [hosts(endpoints.candidates())[0] for _ in range(6)]
    assert firsts == ["one", "two", "three"] * 2
    endpoints.refused(endpoints.all[1], "down")
    found = [hosts(endpoints.candidates()) for _ in range(4)]
    assert sorted(one[0] for one in found) == ["one", "one", "three", "three"]
    assert all(one[-1] == "two" for one in found)
    assert hosts(endpoints.candidates(last=endpoints.all[0]))[0] == "three"
    for endpoint in endpoints.all:
        endpoints.refused(endpoint, "down")
    assert set(hosts(endpoints.candidates())) == {"one", "two", "three"}


@pytest.mark.parametrize(
    ("why", "sick", "suspected"),
    [("refused", True, True), ("silent", True, True), ("late", False, True), ("user", False, False)],
)
def test_a_connection_that_is_not_opened(why: Unopened, sick: bool, suspected: bool) -> None:
    """A metastore that accepts connections is sick only if a probe says so."""
    endpoints, probed = Endpoints(ADDRESSES[:2]), list[str]()
    endpoints.suspect = lambda endpoint: probed.append(endpoint.host)
    endpoints.unopened(endpoints.all[0], "down", why)
    assert (endpoints.all[0].sick, bool(probed)) == (sick, suspected)
    order = {"refused": ["two", "one"], "silent": ["two"]}
    assert hosts(endpoints.candidates()) == order.get(why, ["one", "two"])
