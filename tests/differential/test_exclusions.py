"""What the comparison of replies passes over (tests/comparison.py), each shown to be still needed on real servers.

A failure here says that something is no longer needed there: take it out.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import pytest

from hms_cache_proxy.wire import facts
from tests.chance import run_seed, told
from tests.comparison import UNORDERED, UNORDERED_BEFORE, UNORDERED_IF_ALL, is_unordered, settled
from tests.differential.all_reads import ONE_TRY, AllReads, AllReads31, AllReads40
from tests.differential.compare import answer
from tests.differential.contents import fill
from tests.differential.wire import encode
from tests.embedded import differential as embedded
from tests.embedded.more_scripts import privileges
from tests.embedded.plan_scripts import plans, pools
from tests.embedded.registry_scripts import columns
from tests.methods import test_readers
from tests.store.statements import StatementProxy
from tests.testbed import objects
from tests.testbed.bed import Bed
from tests.testbed.client import MetastoreClient
from tests.testbed.mariadb import LocalMariaDB
from tests.testbed.metastore import Metastore
from tests.testbed.raw import RawConnection, encode_call
from tests.testbed.untyped import decode_message

ORDER = re.compile(r"\border by\b(.*)", re.IGNORECASE | re.DOTALL)
OF_ONE_TABLE = re.compile(r'"(TBL_NAME|TBL_ID)" ?= ?\$|"TBL_NAME" = \'', re.IGNORECASE)
APPLICATION_EXCEPTION = 3
GONE = {"get_table_objects_by_name": "get_table_objects_by_name_req"}
"""Methods that Hive 4.2 has under another name only."""


def test_the_list_of_the_readers_tests_is_a_part_of_it() -> None:
    assert set(test_readers.UNORDERED) <= UNORDERED.keys() | UNORDERED_BEFORE


def without_order(table: str, statements: list[str], *, of_one: bool = False) -> list[str]:
    """Those by which the metastore lists what is in the table, in no order, or in the order of partitions only.
    `of_one`: statements that name one table of a database list something, too."""
    listing = [one for one in statements if re.search(f'(from|join) "{table}"', one, re.IGNORECASE)]
    if table == "TBLS" and not of_one:
        listing = [one for one in listing if not OF_ONE_TABLE.search(one)]
    found = [(one, ORDER.search(one)) for one in listing]
    return [one for one, order in found if order is None or "COL_STATS" in table and "COLUMN_NAME" not in order[1]]


@dataclass(frozen=True, slots=True)
class Heard:
    """A metastore, and the statements that it sends to PostgreSQL."""

    metastore: Metastore
    between: StatementProxy

    def ordered(self, methods: dict[str, str], reads: Iterable[tuple[str, dict[str, Any]]]) -> list[str]:
        """Of these methods and the tables that they list, those which are listed in an order in all of the reads."""
        asked: dict[str, list[bytes]] = {}
        for method, arguments in itertools.islice(reads, MOST_READS):
            if method in methods and len(asked.setdefault(method, [])) < MOST_ASKED:
                asked[method].append(encode(method, arguments, 1))
        with RawConnection(*self.metastore.address) as direct:
            return [method for method in methods if not self._unordered(direct, method, methods[method], asked)]

    def _unordered(self, direct: RawConnection, method: str, table: str, asked: dict[str, list[bytes]]) -> bool:
        for message in asked[GONE.get(method, method)]:
            self.between.statements.clear()
            answer(direct, message)
            if without_order(table, self.between.statements, of_one="objects" in method):
                return True
        return False


def heard(bed: Bed, flavour: str) -> Iterator[Heard]:
    postgres = bed.postgres
    with StatementProxy(postgres.host, postgres.port) as between:
        metastore = bed.private_metastore(flavour, via=("127.0.0.1", between.port), settings=ONE_TRY)
        yield Heard(metastore, between)
        bed.release(metastore)


@pytest.fixture(scope="module")
def heard42(bed: Bed) -> Iterator[Heard]:
    """Hive 4.2."""
    yield from heard(bed, "hive42")


MOST_READS = 4000
MOST_ASKED = 40
"""Calls of one method, until one has sent a statement without an order; many name what is not there."""


@pytest.mark.real
def test_lists_without_an_order(heard42: Heard) -> None:
    """The metastore's own statements, on their way to PostgreSQL."""
    with MetastoreClient(*heard42.metastore.address) as client:
        world = fill(client, "un", run_seed(), databases=1, tables=6, partitions=2, wide=True)
    ordered = heard42.ordered(UNORDERED, AllReads(world, run_seed()))
    assert not ordered, told(f"no longer needed in UNORDERED: {ordered}")


@pytest.mark.real
def test_lists_without_an_order_if_all_are_asked_for(heard42: Heard, unique_name: str) -> None:
    """Names of tables; by a pattern, they are in order."""
    with MetastoreClient(*heard42.metastore.address) as client, RawConnection(*heard42.metastore.address) as direct:
        fill(client, unique_name, run_seed(), databases=1, tables=2, partitions=1)
        for method, table in UNORDERED_IF_ALL.items():
            for pattern, unordered in ((None, True), (".*", True), ("t*", False)):
                arguments = {"db_name": f"{unique_name}_db0", "pattern": pattern, "tableType": "EXTERNAL_TABLE"}
                if method == "get_tables":
                    del arguments["tableType"]
                heard42.between.statements.clear()
                answer(direct, encode(method, arguments, 1))
                listing = [one for one in without_order(table, heard42.between.statements) if "TBL_NAME" in one]
                assert bool(listing) == unordered == is_unordered(method, arguments), (method, pattern, listing)


@pytest.mark.real
def test_lists_without_an_order_before_4_2(bed: Bed) -> None:
    """Likewise what has no order in Hive 3.1 or 4.0, and has one in 4.2."""
    ordered = set(UNORDERED_BEFORE)
    for flavour, version, reads in (("hive31", "3.1.3", AllReads31), ("hive40", "4.0.0", AllReads40)):
        methods = {method: UNORDERED_BEFORE[method] for method in ordered if version in facts.METHODS[method].versions}
        for each in heard(bed, flavour):
            with MetastoreClient(*each.metastore.address) as client:
                world = fill(client, "un", run_seed(), databases=1, tables=6, partitions=2)
            ordered -= methods.keys() - set(each.ordered(methods, reads(world, run_seed())))
    assert not ordered, told(f"no longer needed in UNORDERED_BEFORE: {sorted(ordered)}")


LISTED_BY: Final = {
    "PrivilegeGrantInfo": ("TBL_PRIVS", "PRINCIPAL_NAME PRINCIPAL_TYPE TBL_NAME NAME CTLG_NAME"),
    "HiveObjectPrivilege": ("TBL_PRIVS", "PRINCIPAL_NAME PRINCIPAL_TYPE TBL_NAME NAME CTLG_NAME"),
    "pools": ("WM_POOL", "RP_ID"),
    "mappings": ("WM_MAPPING", "RP_ID"),
    "triggers": ("WM_TRIGGER", "RP_ID"),
    "poolTriggers": ("WM_POOL_TO_TRIGGER", "POOL_ID"),
    "resourcePlans": ("WM_RESOURCEPLAN", "NS"),
    "errors": ("WM_POOL", "RP_ID"),  # one after another, pool by pool
}
"""What embedded.GRANTS and embedded.SETS name: the table, and the columns by which Hive asks for it."""


def lists_in(value: Any) -> Iterator[tuple[str, list[Any]]]:
    """What embedded.SETS and embedded.GRANTS name, with the lists of it in a reply."""
    if isinstance(value, list):
        if value and isinstance(value[0], tuple) and value[0][0] in embedded.GRANTS:
            yield value[0][0], value
        for one in value:
            yield from lists_in(one)
    elif isinstance(value, dict):
        for key, one in value.items():
            if key in embedded.SETS and isinstance(one, list):
                yield key, one
            yield from lists_in(one)
    elif isinstance(value, tuple):
        for one in value:
            yield from lists_in(one)


def is_without_order(statements: Iterable[str], table: str, columns: str) -> bool:
    """Is the table asked for by these columns alone, and never in an order?"""
    asked = [one for one in statements if re.search(f'from "{table}" .*where', one, re.IGNORECASE | re.DOTALL)]
    those = [one for one in asked if " ".join(re.findall(r'"(\w+)" = \$\d', one)) == columns]
    return bool(those) and not any(map(ORDER.search, those))


@pytest.mark.real
def test_lists_of_the_embedded_metastore_s_tests(heard42: Heard, unique_name: str) -> None:
    """What tests/embedded/differential.py sorts: privileges, resource plans and what is in them."""
    assert {*LISTED_BY, "schemaVersions"} == {*embedded.GRANTS, *embedded.SETS}
    asked = embedded.Asked(heard42.metastore.address, unique_name, {})
    made: embedded.Step = ("create_database", {"database": embedded.struct("Database", name=unique_name)})
    heard42.between.statements.clear()  # and never again: what is prepared is not sent a second time
    seen = set[str]()
    for step in [made, *privileges(unique_name), *pools(unique_name), *plans(unique_name)]:
        seen |= {name for name, listed in lists_in(asked.ask(*step)) if len(listed) > 1}
    asked.close()
    assert seen == LISTED_BY.keys()
    ordered = [name for name, by in LISTED_BY.items() if not is_without_order(heard42.between.statements, *by)]
    assert not ordered, f"no longer needed in GRANTS or SETS: {ordered}"


BY_COLUMNS: Final = re.compile(r"from schema_version, columns_v2 where", re.IGNORECASE)


@pytest.mark.real
def test_versions_of_schemas(hms42_mariadb: Metastore, mariadb: LocalMariaDB, unique_name: str) -> None:
    """Likewise: Hive finds versions by their columns on MariaDB only, whose own log has the statements."""
    asked = embedded.Asked(hms42_mariadb.address, unique_name, {})
    asked.ask("create_database", {"database": embedded.struct("Database", name=unique_name)})
    with mariadb.logged() as statements:
        replies = [asked.ask(*step) for step in columns(unique_name)]
    asked.close()
    assert [name for name, listed in lists_in(replies) if len(listed) > 1]
    listing = [one for one in statements if BY_COLUMNS.search(one)]
    assert listing and not any(map(ORDER.search, listing)), f"no longer needed in SETS: {listing}"


def raised(reply: bytes) -> bytes:
    """The text of a reply's exception."""
    message = decode_message(reply)
    if message.type == APPLICATION_EXCEPTION:
        return bytes(message.fields[1][1])
    (declared,) = (value for number, (_, value) in message.fields.items() if number)
    return bytes(declared[1][1])


@pytest.mark.real
def test_numbers_of_connections(hms42_mariadb: Metastore, unique_name: str) -> None:
    """MariaDB's driver tells the number of the one of the metastore's connections that a call happened to take."""
    with MetastoreClient(*hms42_mariadb.address) as client:
        objects.create_database(client, unique_name)
        objects.create_table(client, objects.table(unique_name, "t", partition_keys=[("p", "string")]))
    with RawConnection(*hms42_mariadb.address) as direct:  # the column is of latin1
        text = raised(direct.call(encode_call("append_partition", unique_name, "t", ["\N{SNOWMAN}"])))
    assert settled(text) != text, f"no longer needed: {text!r}"
    assert b"(conn=)" in settled(text)


@pytest.mark.real
def test_details_of_null_pointers(hms42: Metastore) -> None:
    """A JVM tells what was null, until it has compiled the method: then the detail is gone."""
    request = encode_call("get_functions", None, None)
    with RawConnection(*hms42.address) as direct:
        reply = direct.call(request)
    text = raised(reply)
    assert settled(text) != text, f"no longer needed: {text!r}"
