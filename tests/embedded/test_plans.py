"""What Hive answers about resource plans with its database's own exception: as Hive 4.2.0 on MariaDB does.

On PostgreSQL the same calls are answered with a MetaException that carries the database's text.
"""

from __future__ import annotations

import pytest

from tests.embedded.differential import Asked, differences
from tests.embedded.plan_scripts import Plans
from tests.testbed.metastore import Metastore


@pytest.mark.real
def test_names_that_are_there(hms42_mariadb: Metastore, embedded: Metastore, unique_name: str) -> None:
    plans = Plans(unique_name)
    steps = [
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
    hive, ours = Asked(hms42_mariadb.address, unique_name, {}), Asked(embedded.address, unique_name, {})
    found = list(differences(hive, ours, steps))
    hive.close()
    ours.close()
    assert not found, "\n".join(found)
