"""Sends writes: each by one of the calls that can make it, chosen by the seed among those that the metastore has.

Job: choose, encode, send, and say what the metastore said; count calls by method.
Must not know: hms_cache_proxy, what a write means.
"""

from __future__ import annotations

import random
from collections import Counter

from thrift.Thrift import TException

from tests.differential.variants import Arguments, Variants
from tests.differential.wire import encode, hms
from tests.testbed.client import MetastoreClient
from tests.testbed.interface import interface
from tests.testbed.untyped import decode_message

_EXCEPTION = 3


class Refused(TException):  # type: ignore[misc]  # thrift has no types
    """What a metastore has refused, by an exception of this name."""

    def __init__(self, kind: str, said: str) -> None:
        super().__init__(f"{kind}: {said}")
        self.kind = kind


class Writer:
    """`version`: of the metastore's interface. `made`: accepted calls by name; `refused`: the others; `said`: why, the
    last time; `offered`: all names that could have been chosen; `log`: all that were, in order."""

    def __init__(self, rng: random.Random, version: str) -> None:
        self.rng = rng
        self.methods = frozenset(interface(version).ThriftHiveMetastore.thrift_services)
        self.made: Counter[str] = Counter()
        self.refused: Counter[str] = Counter()
        self.said: dict[str, str] = {}
        self.offered: set[str] = set()
        self.log: list[str] = []

    def write(self, client: MetastoreClient, variants: Variants) -> str:
        """Makes one of the calls, of those that were made least so far; returns its method. Refused if the metastore
        does not do it, TTransportException if it closes the connection instead."""
        able = [name for name in variants if method_of(name) in self.methods]
        self.offered.update(able)
        tried = {name: self.made[name] + self.refused[name] for name in able}
        name = self.rng.choice([name for name in able if tried[name] == min(tried.values())])
        self.log.append(name)
        try:
            call(client, method_of(name), variants[name])
        except TException as refusal:
            self.refused[name] += 1
            self.said[name] = str(refusal)
            raise
        self.made[name] += 1
        return method_of(name)

    def summary(self) -> str:
        """What was written, by which methods, and which calls were never accepted."""
        calls: Counter[str] = Counter()
        for name, count in sorted(self.made.items()):
            calls[method_of(name)] += count
        return (
            f"{self.made.total()} writes by {len(calls)} methods {dict(calls)}, never accepted {self.never_accepted()}"
        )

    def never_accepted(self) -> dict[str, str]:
        """The names that were offered and not accepted yet, and what was said the last time, if they were made."""
        return {name: self.said.get(name, "never made") for name in sorted(self.offered) if not self.made[name]}


def method_of(name: str) -> str:
    """METHOD of METHOD__x."""
    return name.partition("__")[0]


def call(client: MetastoreClient, method: str, arguments: Arguments) -> None:
    """Any method of Hive 4.2, on the connection of a client that may lack it."""
    message = decode_message(client.call(encode(method, arguments, 0)))
    if message.type == _EXCEPTION:
        raise Refused("TApplicationException", repr(message.fields.get(1)))
    for number, (_, value) in message.fields.items():
        if number:
            declared = getattr(hms.ThriftHiveMetastore, f"{method}_result").thrift_spec[number]
            raise Refused(declared[2].__name__, repr(value))
