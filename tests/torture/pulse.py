"""A well-behaved client of one proxy: reads what nobody writes all the time, writes one table now and then, and reads
it again.

Job: tell how long its calls take, since when reads are answered, counted as hits, and writes acknowledged again; and
when new clients that say who they are had an answer.
Must not know: faults.
Invariants: its reads are a method that no other client calls (steady.py); a wrong answer is noted.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from urllib.error import URLError

from hive_metastore.ttypes import Database

from tests.history.registers import TableParameter, table
from tests.history.threads import LOST
from tests.testbed.client import MetastoreClient
from tests.torture.gate import Gate
from tests.torture.steady import METHOD, QUIET, database_of
from tests.torture.world import World

HIT = "hit"
TIMEOUT_S = 12.0
JOIN_S = 600.0
CALLS = 10
"""On one connection."""
GREET_S = 0.8
OWN, LABEL = f'hms_proxy_requests_total{{method="{METHOD}"', re.compile(r'(\w+)="([^"]*)"')
LOOK_S, TOLD_S = 0.05, 0.4
"""How often calls are looked at, and how often the proxy is asked for its counts, which workers tell as seldom."""
EXPECTED = ["id", "n"]


@dataclass(frozen=True, slots=True)
class Call:
    """One that was answered."""

    began_s: float
    took_s: float


@dataclass(frozen=True, slots=True)
class Signs:
    """Of life after a fault: seconds by sign (None: not in time), and why its reads were no hits until then."""

    seconds: dict[str, float | None]
    misses: dict[str, float]

    @property
    def slowest_s(self) -> float | None:
        """None: not all in time."""
        found = [one for one in self.seconds.values() if one is not None]
        return max(found) if len(found) == len(self.seconds) else None

    def __str__(self) -> str:
        return f"{self.seconds} {self.misses or ''}".strip()


class Pulse:
    """Three threads before the front of a side."""

    def __init__(self, world: World, number: int, gate: Gate) -> None:
        self.gate = gate
        self.world, self.side = world, world.sides[number]
        self.database = database_of(number)
        self.beat = TableParameter(self.database, "beat")
        self.reads: list[Call] = []
        self.writes: list[Call] = []
        self.greetings: list[Call] = []
        self.wrong: list[str] = []
        self._stop = threading.Event()
        jobs = (self._reading, self._writing, self._greeting)
        self._threads = [threading.Thread(target=job, daemon=True) for job in jobs]

    def create(self) -> None:
        """Its objects."""
        with MetastoreClient(*self.world.truth) as client:
            client.create_database(Database(name=self.database))
            client.create_table(table(self.database, QUIET, {}, partitioned=True))
            self.beat.create(client)

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(JOIN_S)
            assert not thread.is_alive()

    def _reading(self) -> None:
        self._again(self._read, pause_s=0.05)

    def _writing(self) -> None:
        self._again(self._write, pause_s=0.7)

    def _greeting(self) -> None:
        """As most clients begin: they say who they are, and read."""
        while not self._stop.wait(GREET_S):
            began_s = time.monotonic()
            try:
                with (
                    self.gate.inside(),
                    MetastoreClient("127.0.0.1", self.side.front.port, timeout_s=TIMEOUT_S) as client,
                ):
                    client.set_ugi("steady", [])
                    client.get_schema(self.database, QUIET)
            except LOST:
                continue
            self.greetings.append(Call(began_s, time.monotonic() - began_s))

    def _again(self, job: Callable[[MetastoreClient], None], *, pause_s: float) -> None:
        """On connections that do not live long: one that was shown something newer by the metastore must wait for the
        cache, one that is new need not."""
        while not self._stop.is_set():
            try:
                with self.gate.inside():
                    client = MetastoreClient("127.0.0.1", self.side.front.port, timeout_s=TIMEOUT_S)
                with client:
                    for _ in range(CALLS):
                        if self._stop.wait(pause_s):
                            break
                        with self.gate.inside():
                            job(client)
            except LOST:
                self._stop.wait(0.05)

    def _read(self, client: MetastoreClient) -> None:
        began_s = time.monotonic()
        found = [field.name for field in client.get_schema(self.database, QUIET)]
        ended_s = time.monotonic()
        if found == EXPECTED:
            self.reads.append(Call(began_s, ended_s - began_s))
        elif not self.world.was_without_database(began_s, ended_s):
            self.wrong.append(f"{found} for the columns {EXPECTED}")

    def _write(self, client: MetastoreClient) -> None:
        began_s, version = time.monotonic(), len(self.writes)
        self.beat.write(client, version)
        self.writes.append(Call(began_s, time.monotonic() - began_s))
        found = self.beat.by_get_table_req(client)
        if found != version and not self.world.was_without_database(began_s, time.monotonic()):
            with MetastoreClient(*self.world.truth, timeout_s=TIMEOUT_S) as truth:
                there = self.beat.by_get_table_req(truth)
            if there == version:  # else an earlier write, whose outcome is not known, was carried out late
                self.wrong.append(f"{found} read after {version} was written on the same connection")

    def told(self) -> dict[str, float]:
        """Its reads by outcome and reason, as far as the workers have told.

        It is asked several times a second: of the metrics, this looks at the lines that it wants and at no others."""
        try:
            _, text = self.side.proxy.get("/metrics")
        except (URLError, OSError, ValueError):
            return {}
        rows = [dict(LABEL.findall(line)) | {"": line.rpartition(" ")[2]} for line in text.splitlines() if OWN in line]
        return {f"{row['outcome']} {row['reason']}".strip(): float(row[""]) for row in rows}

    def misses(self) -> float:
        """How many of its reads were no hits, as far as the workers have told."""
        return sum(count for how, count in self.told().items() if how != HIT)

    def _newest_event(self) -> int:
        try:
            with MetastoreClient(*self.world.truth, timeout_s=TIMEOUT_S) as truth:
                return int(truth.get_current_notificationEventId().eventId)
        except LOST:
            return 0

    def recovered(self, began_s: float, timeout_s: float) -> Signs:
        """Seconds from `began_s` until a read and a write that began later are answered, until a hit is counted, and
        until the cache has followed what was logged before."""
        before, event_id = self.told(), self._newest_event()
        hits, told_s, looked_s = before.get(HIT, 0.0), began_s, began_s

        def hit() -> bool:
            nonlocal told_s
            if time.monotonic() < told_s + TOLD_S:
                return False
            told_s = time.monotonic()
            return self.told().get(HIT, 0.0) not in (hits, 0.0)

        def followed() -> bool:
            nonlocal looked_s
            if time.monotonic() < looked_s + TOLD_S:
                return False
            looked_s = time.monotonic()
            cursor = self.side.cursor()
            return cursor is not None and cursor >= event_id

        signs: dict[str, Callable[[], bool]] = {
            "read": lambda: bool(self.reads) and self.reads[-1].began_s > began_s,
            "write": lambda: bool(self.writes) and self.writes[-1].began_s > began_s,
            HIT: hit,
            "followed": followed,
        }
        found: dict[str, float | None] = dict.fromkeys(signs)
        deadline_s = time.monotonic() + timeout_s
        while signs and time.monotonic() < deadline_s:
            time.sleep(LOOK_S)
            for name in [name for name, seen in signs.items() if seen()]:
                found[name] = round(time.monotonic() - began_s, 2)
                del signs[name]
        more = {why: count - before.get(why, 0.0) for why, count in self.told().items()}
        return Signs(found, {why: count for why, count in more.items() if count > 0 and why != HIT})
