"""The notification log is purged before it was followed, has a gap, and goes back with a database that was restored."""

from __future__ import annotations

import random
import signal
import time
from contextlib import suppress

from thrift.Thrift import TException

from tests.testbed.client import MetastoreClient
from tests.testbed.emptying import Kept
from tests.torture.faults.kinds import kind
from tests.torture.faults.processes import send
from tests.torture.world import World


@kind(5)
def purge_log(world: World, chance: random.Random) -> None:
    """While a follower stands still, and all of it."""
    side = chance.choice(world.sides)
    pids = send(side, "follower", signal.SIGSTOP)
    time.sleep(chance.uniform(0.3, 1.5))
    world.sql('DELETE FROM "NOTIFICATION_LOG"')
    send(side, "follower", signal.SIGCONT)
    assert pids


@kind(5)
def gap_in_log(world: World, chance: random.Random) -> None:
    """Ids that nobody will ever write."""
    ids = chance.choice([1, 3, 1000])
    world.sql('UPDATE "NOTIFICATION_SEQUENCE" SET "NEXT_EVENT_ID" = "NEXT_EVENT_ID" + %s', ids)


@kind(15)
def restore_database(world: World, chance: random.Random) -> None:
    """To what it was some seconds, or a thousand ids, ago: clients stand still, the metastore is down."""
    assert world.metastore.database is not None
    lost_ids = chance.choice([0, 1000])
    database = world.metastore.database.behind(world.server.host, world.server.port)
    with world.still():
        kept = Kept(database)
    world.sql('UPDATE "NOTIFICATION_SEQUENCE" SET "NEXT_EVENT_ID" = "NEXT_EVENT_ID" + %s', lost_ids)
    for side in world.sides:
        with suppress(TException, OSError), MetastoreClient("127.0.0.1", side.front.port, timeout_s=5) as client:
            client.get_current_notificationEventId()  # an id that will soon be of another history
    time.sleep(chance.uniform(1, 4))
    with world.still():
        world.metastore.kill()  # one that is told to stop waits for idle connections, up to a minute
        for side in world.sides:
            side.database.refuse()
        assert kept.put_back(), "the database has another shape, or is in use"
        for side in world.sides:
            side.database.restore()
        world.metastore.start()
        world.restored()
