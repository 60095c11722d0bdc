"""What a metastore answers, decoded without any knowledge of types: the oracle of the store's bytes.

Job: call any method of the 4.2 interface by name and give its reply as `untyped` decodes it; all decoders agree on it.
Must not know: hms_cache_proxy, but that tests/codecs.py has its codec read every reply, too.
"""

from __future__ import annotations

import struct
from typing import Any

from thriftpy2.utils import serialize

from tests.codecs import NEWEST, agree
from tests.testbed.interface import Structs, interface
from tests.testbed.raw import RawConnection

hms = Structs("4.2.0")

_STRICT_CALL = 0x80010001
_EXCEPTION = 3
_SEQID = 7


class Refused(Exception):
    """The metastore answered with an exception: its struct's name and fields, or an application error's text."""


class Oracle(RawConnection):
    """A connection to a metastore. `oracle.get_database(name="x")` returns the decoded success field or None.

    `version` says which methods there are; arguments may be structs of another version.
    """

    def __init__(self, host: str, port: int, version: str = NEWEST) -> None:
        self._version = version
        self._service = interface(version).ThriftHiveMetastore
        super().__init__(host, port)

    def __getattr__(self, method: str) -> Any:
        return lambda *args, **kwargs: self.ask(method, *args, **kwargs)

    def ask(self, method: str, *args: Any, **kwargs: Any) -> Any:
        """Call a method; the decoded result. Raises Refused."""
        arguments = getattr(self._service, method + "_args")(*args, **kwargs)
        name = method.encode()
        head = struct.pack(">Ii", _STRICT_CALL, len(name)) + name + struct.pack(">i", _SEQID)
        message = head + bytes(serialize(arguments))
        agree(message, self._version)
        reply = agree(self.call(message), self._version)
        if (reply.method, reply.seqid) != (method, _SEQID):
            raise AssertionError(f"a reply to {reply.method} {reply.seqid}")
        if reply.type == _EXCEPTION:
            raise Refused(reply.fields.get(1, (0, b""))[1].decode())
        for number, (_, value) in reply.fields.items():
            if number != 0:
                raise Refused(self._exception_name(method, number), value)
        return reply.fields[0][1] if reply.fields else None

    def _exception_name(self, method: str, number: int) -> str:
        result = getattr(self._service, method + "_result")
        return str(result.thrift_spec[number][2].__name__)
