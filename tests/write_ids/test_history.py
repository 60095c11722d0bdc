"""Histories of transactional tables over a metastore and two proxies: no violation, and each planted bug is caught."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest

from tests.lengths import MOST, by_tier
from tests.proxy import Proxy
from tests.testbed.metastore import Metastore
from tests.write_ids.history_run import run_history

SECONDS = float(os.environ.get("HISTORY_SECONDS", by_tier(test=4, all=30, every=120)))
CAUGHT_WITHIN_S = 180.0
SETTINGS = {"WORKERS": "2", "MAX_UNCONFIRMED_MS": "2000"}
PASSTHROUGH = {"TRANSACTIONAL_READS": "passthrough"}
BOUND_S = 3.0
UNHURRIED = {"WORKERS": "2", "MAX_UNCONFIRMED_MS": "10000"}
UNHURRIED_BOUND_S = 11.0
"""For planted bugs: a proxy that answers from its cache on a busy machine, too, as what is relayed is right. What lists
prove, by which the bugs are seen, is as strict as ever."""

PLANTED = [
    "write_ids_newer",
    "tag_before_objects",
    "table_id_ignored",
    "own_writes_hidden",
    "commit_not_reloaded",
    "look_not_waited_for",
]


@pytest.mark.real
@pytest.mark.slow
@pytest.mark.timeout(MOST * SECONDS + 400)
@pytest.mark.covers("A history of transactional tables, read with ValidWriteIdLists", "hive42", cache="SQL")
def test_no_violation(new_metastore: Callable[..., Metastore], new_proxy: Callable[..., Proxy]) -> None:
    metastore = new_metastore("hive42")
    proxies = [new_proxy(metastore, settings={**SETTINGS, **PASSTHROUGH}) for _ in range(2)]

    def proved(counted: list[dict[tuple[str, str, str], float]]) -> float:
        """The smaller number of hits."""
        return min(
            sum(count for (_, how, why), count in requests.items() if (how, why) == ("hit", "write_id"))
            for requests in counted
        )

    def enough(reads: int) -> bool:
        return reads > 40 * SECONDS and proved([proxy.told_requests() for proxy in proxies]) > 3 * SECONDS

    outcome = run_history(metastore.address, proxies, prefix="history", seconds=SECONDS, bound_s=BOUND_S, enough=enough)
    assert not outcome.violations and not outcome.errors, outcome.summary()
    assert outcome.reads > 40 * SECONDS and outcome.chaos, outcome.summary()
    assert proved(Proxy.requests_of(proxies)) > 3 * SECONDS, (
        "the history says nothing when nothing is served from the cache"
    )


@pytest.mark.real
@pytest.mark.slow
@pytest.mark.timeout(MOST * SECONDS + 400)
@pytest.mark.covers("A history of transactional tables, read without a proof by looks", "hive42", cache="SQL")
@pytest.mark.covers("A history of transactional tables, read without a proof by looks", "hive42", cache="Thrift")
@pytest.mark.parametrize("store", [True, False], ids=["sql", "thrift"])
def test_reads_without_proof(
    new_metastore: Callable[..., Metastore], new_proxy: Callable[..., Proxy], store: bool
) -> None:
    """transactional_reads = "strict", the default: they see what was written anywhere before they began."""
    metastore = new_metastore("hive42")
    proxies = [new_proxy(metastore, settings=SETTINGS, store=store) for _ in range(2)]

    def looked_at(counted: list[dict[tuple[str, str, str], float]]) -> float:
        """Hits by a look."""
        return sum(count for requests in counted for (_, *how), count in requests.items() if how == ["hit", "strict"])

    def enough(reads: int) -> bool:
        return reads > 40 * SECONDS and looked_at([proxy.told_requests() for proxy in proxies]) > SECONDS / 2

    outcome = run_history(
        metastore.address, proxies, prefix="looks", seconds=SECONDS, bound_s=BOUND_S, strict=True, enough=enough
    )
    assert not outcome.violations and not outcome.errors, outcome.summary()
    assert looked_at(Proxy.requests_of(proxies)) > SECONDS / 4, outcome.summary()  # a killed worker's are forgotten


@pytest.mark.real
@pytest.mark.slow
@pytest.mark.parametrize("planted", PLANTED)
def test_planted_bug_is_caught(
    new_metastore: Callable[..., Metastore], new_proxy: Callable[..., Proxy], planted: str
) -> None:
    metastore = new_metastore("hive42")
    strict = planted == "look_not_waited_for"
    proxies = [new_proxy(metastore, settings={**UNHURRIED, **({} if strict else PASSTHROUGH)}, planted=planted)]
    outcome = run_history(
        metastore.address,
        proxies,
        prefix="planted",
        seconds=CAUGHT_WITHIN_S,
        bound_s=UNHURRIED_BOUND_S,
        kill=False,
        settle_s=5.0,
        until_violation=True,
        strict=strict,
    )
    caught = [one for one in outcome.violations if not one.startswith("not ")]
    assert caught, f"{planted} was not caught: {outcome.summary()}"
