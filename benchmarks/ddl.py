"""`python -m benchmarks.ddl --port P --rate R`: steady DDL at a metastore until standard input ends.

Eight connections, each with tables of its own in the benchmark's database. One round of ten: create a table, alter it
four times, add two partitions, alter one, drop one, drop the table. Prints how many calls were made, in what time. A
process of its own, so that it does not disturb the clock of whoever measures.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator

from benchmarks.contents import DATABASE
from tests.testbed import objects
from tests.testbed.client import MetastoreClient

CONNECTIONS = 8
KEYS = (("day", "string"),)


def calls(client: MetastoreClient, connection: int) -> Iterator[Callable[[], object]]:
    """DDL without end, each to be called once."""
    columns = objects.wide_columns(3)
    number = 0
    while True:
        number += 1
        name = f"churn_{os.getpid()}_{connection}_{number}"
        table = objects.table(DATABASE, name, columns, KEYS)
        yield lambda table=table: client.create_table(table)  # type: ignore[misc]
        table = objects.read_table(client, DATABASE, name)
        parts = [objects.partition(table, [f"d{day}"]) for day in range(2)]
        for version in range(4):
            table.parameters["version"] = str(version)
            yield lambda table=table, name=name: client.alter_table(DATABASE, name, table)  # type: ignore[misc]
        for part in parts:
            yield lambda part=part: client.add_partition(part)  # type: ignore[misc]
        parts[0].parameters["version"] = "1"
        yield lambda name=name, part=parts[0]: client.alter_partition(DATABASE, name, part)  # type: ignore[misc]
        yield lambda name=name: client.drop_partition(DATABASE, name, ["d1"], False)  # type: ignore[misc]
        yield lambda name=name: client.drop_table(DATABASE, name, False)  # type: ignore[misc]


class Load:
    """`rate` calls a second over all connections, 0: as fast as they go."""

    def __init__(self, port: int, rate: float) -> None:
        self.made = [0] * CONNECTIONS
        self._failed: list[Exception] = []
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._run, args=(port, rate, one)) for one in range(CONNECTIONS)]

    def run(self) -> None:
        """Until standard input ends."""
        began = time.monotonic()
        for thread in self._threads:
            thread.start()
        sys.stdin.read()
        self._stop.set()
        for thread in self._threads:
            thread.join()
        if self._failed:
            raise self._failed[0]
        print(json.dumps({"made": sum(self.made), "seconds": time.monotonic() - began}))

    def _run(self, port: int, rate: float, connection: int) -> None:
        try:
            with MetastoreClient("127.0.0.1", port) as client:
                self._call(client, CONNECTIONS / rate if rate else 0.0, connection)
        except Exception as error:  # told at the end: a load that is no load must not look like one
            self._failed.append(error)

    def _call(self, client: MetastoreClient, pause_s: float, connection: int) -> None:
        due = time.monotonic() + pause_s * connection / CONNECTIONS
        for call in calls(client, connection):
            if self._stop.is_set():
                return
            time.sleep(max(0.0, due - time.monotonic()))
            call()
            self.made[connection] += 1
            due = max(due + pause_s, time.monotonic() - 0.5)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.ddl", description=__doc__.splitlines()[0])
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--rate", type=float, required=True)
    options = parser.parse_args()
    Load(options.port, options.rate).run()


if __name__ == "__main__":
    main()
