"""Questions to a metastore: (method, arguments) with odd names, limits, values and fields, and who must answer them.

Job: the tables that compare readers with metastores, one module a topic. Must not know: readers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tests.methods.questions import aggregates
from tests.methods.questions.columns import columns
from tests.methods.questions.constraints import constraints, foreign_keys
from tests.methods.questions.databases import databases, listings
from tests.methods.questions.filters import as_specs, by_filter
from tests.methods.questions.functions import catalogs, functions
from tests.methods.questions.partition import one_partition, partition_by_name
from tests.methods.questions.partitions import all_partitions, by_names, names_by_expression, some_values
from tests.methods.questions.question import Question
from tests.methods.questions.statistics import of_partitions, of_tables
from tests.methods.questions.tables import many_tables, tables

__all__ = ["Question", "everything"]


def everything() -> list[Question]:
    """All questions."""
    makers = (databases, listings, tables, many_tables, one_partition, partition_by_name)
    more: tuple[Callable[[], Iterator[Question]], ...]
    more = (all_partitions, by_names, some_values, by_filter, functions, catalogs, constraints, foreign_keys)
    more += (of_tables, of_partitions, columns, names_by_expression, aggregates.of_partitions, as_specs)
    return [question for make in (*makers, *more) for question in make()]
