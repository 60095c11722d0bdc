"""Changed bytes of captured expressions: what is read of them is what Hive's own classes read.

Job: `judge(java, rng, count)` changes expressions; Evaluation.java judges each that is read: the same filter,
and, where the metastore makes no filter of it, the same partitions selected. `python -m tests.expressions.mutations`
judges 100,000. Must not know: how expressions are read.
"""

from __future__ import annotations

import argparse
import base64
import random
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from hms_cache_proxy.expressions.decode import decode
from hms_cache_proxy.expressions.pushed import filter_of
from hms_cache_proxy.expressions.selection import NameSelection
from hms_cache_proxy.expressions.tree import Expression, NotUnderstood
from hms_cache_proxy.expressions.values import Odd
from hms_cache_proxy.methods.readers.filter_match import begins_of, values_in
from tests import figures
from tests.clients.hive_classes import HiveClasses
from tests.expressions.captured import Captured, CapturedTable, tables, vectors, written

SOURCE: Final = Path(__file__).with_name("Evaluation.java")
MANY: Final = 100_000
CHUNK: Final = 10_000
"""Changed expressions between two lines of figures."""
SLOW_S: Final = 1.0
"""To read a few thousand bytes takes less, however they are changed; in CPU time."""

Selected = tuple[bool, list[int]]
"""Is the result unknown for one of the partitions that are selected, and which are these?"""


@dataclass
class Judged:
    """`read`: changed expressions that were not refused; `evaluated`: of these, over names. `same`: of those read, with
    the tree of an expression that was captured."""

    changed: int = 0
    read: int = 0
    same: int = 0
    evaluated: int = 0
    wrong: list[str] = field(default_factory=list)
    slowest_s: float = 0.0


def _bit(rng: random.Random, data: bytearray, _: bytes) -> None:
    data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)


def _byte(rng: random.Random, data: bytearray, _: bytes) -> None:
    data[rng.randrange(len(data))] = rng.randrange(256)


def _cut(rng: random.Random, data: bytearray, _: bytes) -> None:
    at = rng.randrange(len(data))
    del data[at : at + rng.randint(1, 4)]


def _double(rng: random.Random, data: bytearray, _: bytes) -> None:
    at = rng.randrange(len(data))
    data[at:at] = data[at : at + rng.randint(1, 8)]


def _swap(rng: random.Random, data: bytearray, _: bytes) -> None:
    one, other = rng.randrange(len(data)), rng.randrange(len(data))
    data[one], data[other] = data[other], data[one]


def _piece(rng: random.Random, data: bytearray, other: bytes) -> None:
    at, begin, size = rng.randrange(len(data)), rng.randrange(len(other)), rng.randint(1, 8)
    data[at : at + size] = other[begin : begin + size]


def _word(rng: random.Random, data: bytearray, other: bytes) -> None:
    """The end of a word of another expression for the end of one: the names of classes, types, keys and functions."""
    ends = [at for at in range(1, len(data)) if data[at] >= 0x80]
    others = [at for at in range(1, len(other)) if other[at] >= 0x80]
    if ends and others:
        end, from_end = rng.choice(ends), rng.choice(others)
        size, taken = rng.randint(1, 12), rng.randint(1, 12)
        data[max(0, end - size) : end + 1] = other[max(0, from_end - taken) : from_end + 1]


def _number(rng: random.Random, data: bytearray, _: bytes) -> None:
    """A small number for another: references, lengths, flags, registered classes."""
    small = [at for at in range(len(data)) if data[at] < 0x20]
    if small:
        data[rng.choice(small)] = rng.randrange(0x20)


CHANGES: Final[tuple[Callable[[random.Random, bytearray, bytes], None], ...]] = (
    *(_bit, _byte, _cut, _double, _swap, _piece, _word, _number),
)


def changed(rng: random.Random, data: bytes, other: bytes) -> bytes:
    """The bytes of an expression after one to three changes; `other` are those of another."""
    found = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 2, 3))):
        rng.choice(CHANGES)(rng, found, other)
        found = found or bytearray(b"\0")
    return bytes(found)


def judge(java: HiveClasses, rng: random.Random, count: int) -> Judged:
    """So many changed expressions, each over the table of the one that was captured."""
    known, found = vectors(), Judged()
    trees = {repr(tree) for each in known if (tree := _tree(each.expression)) is not None}
    of = tables()
    for _ in range(count):
        captured = rng.choice(known)
        data = changed(rng, captured.expression, rng.choice(known).expression)
        found.changed += 1
        began_s = time.thread_time()
        tree = _tree(data)
        found.slowest_s = max(found.slowest_s, time.thread_time() - began_s)
        if tree is None:
            continue
        found.read += 1
        found.same += repr(tree) in trees
        _judge_one(java, captured, of[captured.table], data, tree, found)
    return found


def _tree(data: bytes) -> Expression | None:
    try:
        return decode(data)
    except NotUnderstood:
        return None


def _judge_one(
    java: HiveClasses, captured: Captured, table: CapturedTable, data: bytes, tree: Expression, found: Judged
) -> None:
    text = base64.b64encode(data).decode()
    keys = [[name.decode(), kind.decode()] for name, kind in table.keys]
    names = [name.decode() for name in table.names]
    answer = java.ask(keys=keys, names=names, expr=text)
    told = f"{text} (changed from {captured.filter})"
    if not answer.rows:
        found.wrong.append(f"{told}: read as {written(tree)}, Hive says {answer.error}")
        return
    own = base64.b64decode(answer.rows[0]).decode()
    if written(tree) != as_written(own):
        found.wrong.append(f"{told}: read as {written(tree)}, by Hive as {own}")
    selected = over_names(tree, table)
    if selected is None:
        return
    found.evaluated += 1
    if answer.error is not None or selected != (answer.rows[1] == "true", list(map(int, answer.rows[2:]))):
        found.wrong.append(f"{told}: selects {selected}, Hive {answer.error or answer.rows[1:]}")


def as_written(as_filter: str) -> str:
    """A filter of Hive's, in the words of captured.written."""
    return as_filter.replace("const struct", "struct").replace("substring(", "substr(")


def over_names(tree: Expression, table: CapturedTable) -> Selected | None:
    """What is selected; None where the metastore makes a filter, or where that is left to it."""
    types = {name.decode(): kind.decode() for name, kind in table.keys}
    begins = begins_of(table.keys)
    try:
        if filter_of(tree, types) is not None:
            return None
        selection = NameSelection(tree, types)
        truths = [selection.selects(values_in(name, begins)) for name in table.names]
    except (NotUnderstood, Odd):
        return None
    return None in truths, [at for at, truth in enumerate(truths) if truth is not False]


def main() -> int:
    """Exit code 1 if any is read otherwise than by Hive."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--count", type=int, default=MANY)
    arguments.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    arguments.add_argument("--figures", action="store_true", help="keep the figures in docs/figures/mutations.json")
    given = arguments.parse_args()
    print(f"seed {given.seed}", flush=True)
    of = figures.origin("hms_cache_proxy/expressions", "tests/expressions")
    changes = read = same = evaluated = wrong = 0
    slowest_s = 0.0
    with tempfile.TemporaryDirectory() as scratch, HiveClasses(SOURCE, Path(scratch) / "java") as java:
        for begin in range(0, given.count, CHUNK):
            found = judge(java, random.Random(f"{given.seed} {begin}"), min(CHUNK, given.count - begin))
            for line in found.wrong:
                print(line)
            changes, read, same = changes + found.changed, read + found.read, same + found.same
            evaluated, wrong = evaluated + found.evaluated, wrong + len(found.wrong)
            slowest_s = max(slowest_s, found.slowest_s)
            print(f"{changes} changed: {read} read ({same} as before), {evaluated} evaluated over names", end=", ")
            print(f"{wrong} otherwise than by Hive; {slowest_s * 1000:.0f} ms of CPU at most", flush=True)
    if given.figures:
        kept = {"seed": given.seed, "changed": changes, "read": read, "as_before": same, "evaluated": evaluated}
        kept |= {"wrong": wrong, "slowest_ms": round(slowest_s * 1000, 1)}
        figures.write("mutations", kept, command="python -m tests.expressions.mutations --figures", of=of)
    return int(wrong > 0 or slowest_s > SLOW_S)


if __name__ == "__main__":
    sys.exit(main())
