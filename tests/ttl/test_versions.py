"""Why no partition is kept past its time for having an unchanged version: Hive's own is none (docs/ttl.md)."""

from __future__ import annotations

import time
from typing import Any

import pytest
from hive_metastore import ttypes  # type: ignore[import-untyped]  # generated

from tests.testbed.bed import Bed
from tests.testbed.client import MetastoreClient
from tests.ttl.conftest import add_partitions, create_table

CHANGED = "transient_lastDdlTime"


@pytest.mark.parametrize("flavour", ["hive23-silent", "hive40"])
def test_a_changed_partition_keeps_its_version(bed: Bed, unique_name: str, flavour: str) -> None:
    """Who sends the parameters back that he was given, as most clients do, leaves transient_lastDdlTime as it was; so
    do statistics. There is no other: write ids are those of transactional tables."""
    metastore: Any = bed.shared(flavour)
    name = "dt=d1/region=r"
    with MetastoreClient(*metastore.address) as client:
        create_table(client, unique_name)
        add_partitions(client, unique_name, [["d1", "r"]])
        before = client.get_partition_by_name(unique_name, "t", name)
        time.sleep(1.1)
        changed = client.get_partition_by_name(unique_name, "t", name)
        changed.sd.location += "/elsewhere"
        client.alter_partition(unique_name, "t", changed)
        after = client.get_partition_by_name(unique_name, "t", name)
        assert after.sd.location == before.sd.location + "/elsewhere"
        assert after.parameters[CHANGED] == before.parameters[CHANGED]
        assert after.writeId in (None, -1, 0)

        data = ttypes.ColumnStatisticsData(longStats=ttypes.LongColumnStatsData(numNulls=0, numDVs=1))
        column = ttypes.ColumnStatisticsObj(colName="c", colType="bigint", statsData=data)
        described = ttypes.ColumnStatisticsDesc(isTblLevel=False, dbName=unique_name, tableName="t", partName=name)
        client.update_partition_column_statistics(ttypes.ColumnStatistics(statsDesc=described, statsObj=[column]))
        with_statistics = client.get_partition_by_name(unique_name, "t", name)
        assert with_statistics.parameters[CHANGED] == before.parameters[CHANGED]
        assert with_statistics.parameters != after.parameters, "COLUMN_STATS_ACCURATE"
