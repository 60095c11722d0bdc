"""`python -m tests.expressions.capture`: what Hive 4.2.0's planner writes of conditions, and a metastore's answers.

Job: the conditions of conditions.txt, written by that release's own classes; what they make of each as a filter; and
what a Hive 4.2 metastore over PostgreSQL selects by it, in the tables of captured.py. Those that captured.json.xz does
not have are added to its vectors. Must not know: how expressions are read.
"""

from __future__ import annotations

import base64
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

from hive_metastore.ttypes import PartitionsByExprRequest  # type: ignore[import-untyped]  # generated
from thrift.Thrift import TException

from hms_cache_proxy.methods.readers.filter_match import begins_of, values_in
from hms_cache_proxy.methods.readers.part_names import DEFAULT_PARTITION, make_name
from tests.clients.hive_classes import HiveClasses
from tests.differential.conditions import Planner
from tests.expressions.captured import CapturedTable, add_vectors, tables
from tests.expressions.mutations import SOURCE
from tests.testbed.bed import Bed
from tests.testbed.client import MetastoreClient
from tests.testbed.metastore import Metastore
from tests.testbed.objects import add_partitions, create_database, create_table, table

HIVE: Final = "4.2.0"
DATABASE: Final = "captured"
CONDITIONS: Final = Path(__file__).with_name("conditions.txt")

Written = dict[tuple[str, bytes], None]
"""A table's name and an expression, in order."""


def conditions() -> list[tuple[str, str]]:
    """A table's name, and a condition of its keys."""
    lines = CONDITIONS.read_text("utf-8").splitlines()
    pairs = [line.partition(": ") for line in lines if not line.startswith("#")]
    return [(name, text) for name, _, text in pairs]


def keys_of(captured: CapturedTable) -> list[list[str]]:
    """As Java's programs are given them."""
    return [[key.decode(), kind.decode()] for key, kind in captured.keys]


def written(directory: Path) -> Written:
    """What the planner makes of the conditions; of some it makes no expression of keys."""
    found: Written = {}
    with Planner(directory, HIVE) as planner:
        for name, text in conditions():
            answer = planner.ask(keys=keys_of(tables()[name]), sql=text)
            if answer.rows:
                found[name, base64.b64decode(answer.rows[0])] = None
    return found


def filters(directory: Path, found: Written) -> list[str]:
    """As the same release writes them; empty if it does not read the expression."""
    with HiveClasses(SOURCE, directory, HIVE) as java:
        rows = [java.ask(keys=[], names=[], expr=base64.b64encode(each).decode()).rows for _, each in found]
    return [base64.b64decode(each[0]).decode() if each else "" for each in rows]


def create(metastore: Metastore) -> None:
    """External tables with one column, and their partitions."""
    with MetastoreClient(*metastore.address) as client:
        create_database(client, DATABASE)
        for name, captured in tables().items():
            keys = [(key, kind) for key, kind in keys_of(captured)]
            made = create_table(client, table(DATABASE, name, (("id", "int"),), keys))
            begins = begins_of(captured.keys)
            add_partitions(
                client, made, [[value.decode() for value in values_in(each, begins)] for each in captured.names]
            )


def answered(client: MetastoreClient, name: str, expression: bytes) -> tuple[list[int] | str, bool]:
    """The numbers of the partitions that the metastore selects, or its words; and whether one of them is unknown."""
    request = PartitionsByExprRequest(DATABASE, name, expression, DEFAULT_PARTITION.decode(), -1)
    try:
        result = client.get_partitions_by_expr(request)
    except TException as refused:
        return f"{type(refused).__name__}: {getattr(refused, 'message', refused)}", False
    of = tables()[name]
    names = [make_name(of.keys, [value.encode() for value in each.values]) for each in result.partitions]
    return [of.names.index(each) for each in names], bool(result.hasUnknownPartitions)


def vectors(directory: Path, metastore: Metastore) -> list[list[Any]]:
    """As captured.json.xz has them."""
    found = written(directory / "planner")
    as_filters = filters(directory / "filters", found)
    create(metastore)
    with MetastoreClient(*metastore.address) as client:
        return [
            [HIVE, name, base64.b64encode(expression).decode(), as_filter, *answered(client, name, expression)]
            for (name, expression), as_filter in zip(found, as_filters, strict=True)
        ]


def main() -> int:
    with ExitStack() as stack:
        bed = Bed()
        stack.callback(bed.close)
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="hms-capture-")))
        found = vectors(directory, bed.private_metastore("hive42"))
    print(f"{add_vectors(found)} of {len(found)} expressions added")
    return 0


if __name__ == "__main__":
    sys.exit(main())
