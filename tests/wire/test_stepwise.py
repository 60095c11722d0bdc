"""Decoding in steps gives what decoding in one go gives, and stops where a list is too long."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest

from hms_cache_proxy.errors import LimitError, WireError
from hms_cache_proxy.wire import spec, stepwise
from tests.chance import chance


def ended(steps: Generator[None, None, spec.Struct]) -> tuple[spec.Struct, int]:
    """What it came to, and in how many steps."""
    number = 0
    while True:
        number += 1
        try:
            next(steps)
        except StopIteration as done:
            return done.value, number


def partitions(sizes: list[int]) -> bytes:
    """Arguments of add_partitions."""
    make: Any = spec.struct("Partition")
    made = [make(values=[b"v" * size, b""], dbName=b"sales", tableName=b"t" * (size % 7)) for size in sizes]
    return spec.encode(spec.args("add_partitions")(new_parts=made))


def test_as_in_one_go() -> None:
    rng = chance("stepwise")
    sizes = [rng.randrange(3000) for _ in range(200)] + [100_000, 0, 0, 0]
    body = partitions(sizes)
    cls = spec.args("add_partitions")
    value, steps = ended(stepwise.decode(cls, b"head" + body + b"tail", 4, 1000))
    assert spec.encode(value) == body == spec.encode(spec.decode(cls, body)[0])
    assert steps > 50


def test_each_step_is_a_piece() -> None:
    count = 20 * stepwise.PIECE_BYTES
    body = b"\x0f\0\1\x0c" + count.to_bytes(4, "big") + b"\0" * (count + 1)
    value, steps = ended(stepwise.decode(spec.args("add_partitions"), body, 0, count))
    assert len(value.new_parts) == count and steps >= 20  # type: ignore[attr-defined]


def test_a_list_that_is_too_long_is_not_begun() -> None:
    body = partitions([1] * 1000)
    with pytest.raises(LimitError) as raised:
        next(stepwise.decode(spec.args("add_partitions"), body, 0, 999))
    assert raised.value.limit == "elements"


@pytest.mark.parametrize("cut", [0, 1, 5, 9, 2047, 2048, 2049, 5000, -1])
def test_cut_bytes(cut: int) -> None:
    body = partitions([500] * 20)[:cut]
    with pytest.raises(WireError):
        ended(stepwise.decode(spec.args("add_partitions"), body, 0, 1000))


def test_one_that_is_given_up_is_freed() -> None:
    steps = stepwise.decode(spec.args("add_partitions"), partitions([500] * 20), 0, 1000)
    next(steps)
    steps.close()
    with pytest.raises(StopIteration):
        next(steps)
