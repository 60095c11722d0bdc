"""Hive's own tests of its metastore client on the embedded metastore."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.embedded.client_tests import NAMED, ClientTests, embedded_target, proxied_target
from tests.testbed.bed import Bed

PASSES = {
    "TestDatabases": 35,
    "TestTablesCreateDropAlterTruncate": 72,
    "TestTablesGetExists": 35,
    "TestTablesList": 13,
    "TestAddPartitions": 86,
    "TestGetPartitions": 50,
    "TestDropPartitions": 40,
    "TestAlterPartitions": 75,
    "TestFunctions": 51,
    "TestPrimaryKey": 14,
    "TestUniqueConstraint": 9,
}
KNOWN = {
    "TestTablesCreateDropAlterTruncate.testDropManagedTableWithoutStoragePermission",
    "TestTablesList.testListTableNamesByFilterCheckNoSuchDatabase",
    "TestAddPartitions.testAddPartitionInvalidColTypeInSd",
    "TestAddPartitions.testAddPartitionsInvalidColTypeInSd",
}
"""Tests that fail: docs/metastore.md says why."""


@pytest.fixture(scope="module")
def client_tests(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClientTests]:
    with ClientTests(tmp_path_factory.mktemp("hive") / "jvm") as tests:
        yield tests


@pytest.mark.real
@pytest.mark.parametrize("name", NAMED)
def test_class(client_tests: ClientTests, bed: Bed, name: str) -> None:
    with embedded_target(bed, name, client_tests.trash) as target:
        told = client_tests.run(name, target)
    known = {test for test in told if f"{name}.{test}" in KNOWN}
    assert len(known) == sum(test.startswith(f"{name}.") for test in KNOWN), "a test of a KNOWN name is no more there"
    assert not [test for test in known if not told[test]], "no longer needed in KNOWN"
    failed = {test: trace for test, trace in told.items() if trace and test not in known}
    assert not failed, "\n".join(f"{test}: {trace}" for test, trace in failed.items())
    assert len([trace for trace in told.values() if not trace]) == PASSES[name]


@pytest.mark.real
def test_class_through_the_proxy(client_tests: ClientTests, tmp_path: Path) -> None:
    """`serve --embedded`: what the proxy answers from its cache is what these tests want."""
    name = "TestPrimaryKey"
    with proxied_target(tmp_path, name, client_tests.trash) as (target, proxy):
        told = client_tests.run(name, target)
        assert proxy.hits() > 0
    failed = {test: trace for test, trace in told.items() if trace}
    assert not failed, "\n".join(f"{test}: {trace}" for test, trace in failed.items())
    assert len(told) == PASSES[name]
