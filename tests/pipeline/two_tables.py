"""Contents of a small metastore: two tables that are odd in ways which questions to a snapshot find."""

from __future__ import annotations

from typing import Final

from tests.testbed import objects
from tests.testbed.client import MetastoreClient

COLUMNS: Final = (("id", "bigint"), ("name", "string"))
DATABASE: Final = "questions"
KEPT: Final = {"DO_NOT_UPDATE_STATS": "true"}
"""Else a metastore counts the files itself."""


def fill(client: MetastoreClient) -> None:
    """`drifted`: four partitions, one with fewer columns; `plain`: four small files, in one of its directories."""
    objects.create_database(client, DATABASE)
    drifted = objects.create_table(client, objects.table(DATABASE, "drifted", COLUMNS, (("ds", "string"),)))
    sized = {"numFiles": "2", "totalSize": str(1 << 30), **KEPT}
    parts = [objects.partition(drifted, [str(day)], sized) for day in range(4)]
    parts[2].sd.cols = parts[2].sd.cols[:1]
    client.add_partitions(parts)
    plain = objects.table(DATABASE, "plain", COLUMNS, parameters={"numFiles": "4", "totalSize": "1000", **KEPT})
    plain.sd.location = parts[0].sd.location
    client.create_table(plain)
