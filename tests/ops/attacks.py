"""Bytes that no client sends: mutated messages of real ones."""

from __future__ import annotations

import random
import struct

from tests.wire.golden import RECORDED

CALLS = [message.data for message in RECORDED if message.kind == "call"]
REPLIES = [message.data for message in RECORDED if message.kind == "reply"]
TELLING = bytes([0, 1, 2, 3, 8, 10, 11, 12, 13, 14, 15, 16, 0x7F, 0x80, 0xFF])


def attack(rng: random.Random) -> bytes:
    """Random bytes, a reply, or calls of which bytes were changed, cut out, put in or left off; framed or not."""
    roll = rng.random()
    if roll < 0.15:
        return rng.randbytes(rng.randint(1, 300))
    if roll < 0.2:
        return rng.choice(REPLIES)
    data = bytearray(b"".join(rng.choices(CALLS, k=rng.choice([1, 1, 1, 2, 5]))))
    if rng.random() < 0.4:
        data[:0] = struct.pack(">i", len(data) + rng.choice([0, 0, 0, 1, -1, 2**20]))
    for _ in range(rng.randint(1, 5)):
        at = rng.randrange(len(data))
        how = rng.randrange(4)
        if how == 0:
            data[at] = rng.choice(TELLING)
        elif how == 1:
            del data[at : at + rng.randint(1, 40)]
        elif how == 2:
            data[at:at] = rng.randbytes(rng.randint(1, 20))
        else:
            data[at : at + 4] = rng.randint(-(2**31), 2**31 - 1).to_bytes(4, "big", signed=True)
        if not data:
            return b"\0"
    return bytes(data)
