"""A machine that slept: an entry is as old as it is, by the clock that goes on meanwhile."""

from __future__ import annotations

from pathlib import Path

import pytest

from hms_cache_proxy.wire import facts, spec
from tests.testbed.slept import after_sleep
from tests.ttl.bench import call
from tests.ttl.local import answering

_, GET = call("get_table", dbname=b"d", tbl_name=b"t")
AGAIN = """
import sys
from pathlib import Path
from tests.ttl.local import answering
from tests.ttl.test_sleep import GET, lock
with answering(Path(sys.argv[1])) as bench:
    print(*(bench.ask(one).by for one in (GET, GET, lock(), GET, GET)))
"""


def lock() -> bytes:
    """A shared one, for which the cache stays as it is: only its holder is shown what was loaded later."""
    kinds, levels = facts.enum("LockType"), facts.enum("LockLevel")
    part = spec.struct("LockComponent")(type=kinds["SHARED_READ"], level=levels["TABLE"], dbname=b"d", tablename=b"t")
    _, message = call("lock", rqst=spec.struct("LockRequest")(component=[part], user=b"u", hostname=b"h"))
    return message


@pytest.mark.parametrize(("slept_s", "first"), [(0, "hit"), (600, "hit"), (7200, "miss")])
def test_entries_of_an_hour_age_while_the_machine_sleeps(tmp_path: Path, slept_s: int, first: str) -> None:
    with answering(tmp_path) as bench:
        bench.catalog.table(b"t")
        assert [bench.ask(GET).by for _ in range(2)] == ["miss", "hit"]
    assert after_sleep(slept_s, AGAIN, str(tmp_path)).split() == [first, "hit", "relay", "miss", "hit"]
