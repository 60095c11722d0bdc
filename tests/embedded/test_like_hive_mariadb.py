"""Where Hive's answer is its database's: the embedded metastore answers as Hive 4.2.0 on MariaDB.

On PostgreSQL the same calls are answered with a MetaException that carries the database's text.
"""

from __future__ import annotations

import pytest

from tests.embedded.differential import Asked, Step, differences, struct
from tests.embedded.plan_scripts import Plans
from tests.embedded.registry_scripts import columns
from tests.testbed.metastore import Metastore


def names_of_plans(db: str) -> list[Step]:
    """Names that are there, and a pool that is mapped to."""
    plans = Plans(db)
    return [
        plans.make("day"),
        plans.make("day"),
        plans.pool("day", "etl"),
        plans.pool("day", "etl"),
        plans.trigger("day", "slow"),
        plans.trigger("day", "slow"),
        plans.goes("day", "USER", "ann", "etl"),
        plans.drop_pool("day", "etl"),
        plans.drop_pool("day", "defau"),
        plans.get("day"),
    ]


@pytest.mark.real
def test_replies(hms42_mariadb: Metastore, embedded: Metastore, unique_name: str) -> None:
    hive, ours = Asked(hms42_mariadb.address, unique_name, {}), Asked(embedded.address, unique_name, {})
    made: Step = ("create_database", {"database": struct("Database", name=unique_name)})
    found = list(differences(hive, ours, [made, *names_of_plans(unique_name), *columns(unique_name)]))
    hive.close()
    ours.close()
    assert not found, "\n".join(found)
