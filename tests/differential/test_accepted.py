"""Every call of the generated writes is one that the metastore accepts: one that it always refuses tests nothing."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.differential.all_reads import ONE_TRY
from tests.differential.changes import AllChanges
from tests.differential.contents import KINDS, fill
from tests.testbed.client import MetastoreClient
from tests.testbed.metastore import Metastore

SEED, ROUNDS = 20261125, 15
"""Some calls are refused by chance, as what they need is gone: with this seed, none is in all rounds."""


def make_each(changes: AllChanges) -> None:
    """Make all changes, in the same order, until each of their calls was accepted."""
    for _ in range(ROUNDS):
        for name in [each for each in dir(changes) if each.startswith("change_")]:
            changes.one(name)
        if not changes.writer.never_accepted():
            return


@pytest.mark.real
@pytest.mark.timeout(600)
def test_each_call_is_accepted(new_metastore: Callable[..., Metastore]) -> None:
    metastore = new_metastore("hive42", settings=ONE_TRY)
    kinds = tuple(dict.fromkeys(KINDS))
    with MetastoreClient(*metastore.address) as client:
        world = fill(client, "accepted", SEED, databases=1, tables=len(kinds), partitions=4, kinds=kinds)
        changes = AllChanges(world, client, client)
        make_each(changes)
    assert not changes.writer.never_accepted(), changes.writer.summary()
