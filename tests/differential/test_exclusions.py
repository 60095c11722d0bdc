"""What the comparison of replies passes over (tests/comparison.py), each shown to be still needed on real servers.

A failure here says that something is no longer needed there: take it out.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable

import pytest

from tests.chance import run_seed, told
from tests.comparison import UNORDERED, UNORDERED_BEFORE, settled
from tests.differential.all_reads import ONE_TRY, AllReads
from tests.differential.compare import answer
from tests.differential.contents import fill
from tests.differential.wire import encode
from tests.embedded import differential as embedded
from tests.methods import test_readers
from tests.store.statements import StatementProxy
from tests.testbed import objects
from tests.testbed.client import MetastoreClient
from tests.testbed.metastore import Metastore
from tests.testbed.postgres import Postgres
from tests.testbed.raw import RawConnection, encode_call
from tests.testbed.untyped import decode_message

ORDER = re.compile(r"\border by\b(.*)", re.IGNORECASE | re.DOTALL)
OF_ONE_TABLE = re.compile(r'"(TBL_NAME|TBL_ID)" ?= ?\$|"TBL_NAME" = \'', re.IGNORECASE)
APPLICATION_EXCEPTION = 3
GONE = {"get_table_objects_by_name": "get_table_objects_by_name_req"}
"""Methods that Hive 4.2 has under another name only."""


def test_every_list_of_methods_is_a_part_of_it() -> None:
    for some in (test_readers.UNORDERED, embedded.UNORDERED):
        assert set(some) <= UNORDERED.keys() | UNORDERED_BEFORE


def without_order(method: str, statements: list[str]) -> list[str]:
    """Those by which the metastore lists what the method asks for, in no order, or in the order of partitions only."""
    table = UNORDERED[method]
    listing = [one for one in statements if re.search(f'(from|join) "{table}"', one, re.IGNORECASE)]
    if table == "TBLS" and "objects" not in method:
        listing = [one for one in listing if not OF_ONE_TABLE.search(one)]
    found = [(one, ORDER.search(one)) for one in listing]
    return [one for one, order in found if order is None or "COL_STATS" in table and "COLUMN_NAME" not in order[1]]


MOST_ASKED = 40
"""Calls of one method, until one has sent a statement without an order; many name what is not there."""


@pytest.mark.real
def test_lists_without_an_order(new_metastore: Callable[..., Metastore], postgres: Postgres) -> None:
    """The metastore's own statements, on their way to PostgreSQL."""
    asked: dict[str, list[bytes]] = {}
    with StatementProxy(postgres.host, postgres.port) as between:
        metastore = new_metastore("hive42", via=("127.0.0.1", between.port), settings=ONE_TRY)
        with MetastoreClient(*metastore.address) as client, RawConnection(*metastore.address) as direct:
            world = fill(client, "un", run_seed(), databases=1, tables=6, partitions=2, wide=True)
            for method, arguments in itertools.islice(AllReads(world, run_seed()), 4000):
                if method in UNORDERED and len(asked.setdefault(method, [])) < MOST_ASKED:
                    asked[method].append(encode(method, arguments, 1))
            ordered = []
            for method in UNORDERED:
                for message in asked[GONE.get(method, method)]:
                    between.statements.clear()
                    answer(direct, message)
                    if without_order(method, between.statements):
                        break
                else:
                    ordered.append(method)
    assert not ordered, told(f"no longer needed in UNORDERED: {ordered}")


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
