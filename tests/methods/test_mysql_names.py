"""Names that MySQL compares otherwise than by their bytes, asked through a proxy over MariaDB: never from cache."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.proxy import Proxy
from tests.store.content import Content, descriptor
from tests.store.oracle import Oracle, Refused, hms
from tests.testbed.metastore import Metastore

pytestmark = pytest.mark.real


def answer(oracle: Oracle, method: str, *arguments: object) -> object:
    try:
        return oracle.ask(method, *arguments)
    except Refused as refused:
        return refused.args


def test_what_the_metastore_answers(
    hms42_mariadb: Metastore, new_proxy: Callable[..., Proxy], unique_name: str
) -> None:
    with Oracle(*hms42_mariadb.address) as direct:
        content = Content(direct, unique_name, hms42_mariadb.warehouse.as_uri())
        database = content.database
        direct.create_database(hms.Database(name=database))
        keys = [hms.FieldSchema(name="p", type="string"), hms.FieldSchema(name="q", type="string")]
        for table in ("t", "odd"):
            content.table(table, partitionKeys=keys)
            for values in (["a", "x"], ["b", "y"], ["ü", "z"]):
                content.partition(table, values)
        content.partition("odd", ["c ", "x"], descriptor(location=f"file:/nowhere/{database}"))
        proxy = new_proxy(hms42_mariadb)
        with Oracle(*proxy.address) as through:
            for table in ("t", "odd"):
                calls: list[tuple[object, ...]] = [
                    ("get_partition_names", database, table, -1),
                    ("get_partitions", database, table, -1),
                    ("get_partitions_by_filter", database, table, 'p = "c"', -1),
                    ("get_partitions_by_filter", database, table, 'p >= "a "', -1),
                    ("get_partitions_by_filter", database, table, 'p = "ü"', -1),
                    ("get_partitions_by_names", database, table, ["p=a/q=x ", "p=b/q=y"]),
                    ("get_partitions_by_names", database, table, ["p=a/q=X"]),
                    ("get_partition_by_name", database, table, "p=a/q=x "),
                    ("get_partition", database, table, ["c", "x"]),
                    ("get_partition", database, table, ["ü", "z"]),
                    ("get_partition_names_ps", database, table, ["a ", ""], -1),
                    ("get_partitions_ps", database, table, ["c", ""], -1),
                ]
                for method, *arguments in calls:
                    expected = answer(direct, str(method), *arguments)
                    assert answer(through, str(method), *arguments) == expected, (method, arguments)
    counts = proxy.requests()
    names = {key: count for key, count in counts.items() if key[0] == "get_partition_names"}
    assert ("get_partition_names", "hit", "") in names, names
    assert any(reason == "collation" for _, _, reason in counts)
    assert "not hold and compare 'p=c /q=x'" in proxy.log.read_text()
