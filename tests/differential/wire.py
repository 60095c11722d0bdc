"""The message of a generated request: of a generated class, or as the newest interface has it."""

from __future__ import annotations

import struct
from typing import Any

from thrift.protocol.TBinaryProtocol import TBinaryProtocol
from thrift.transport.TTransport import TMemoryBuffer
from thriftpy2.thrift import TPayload
from thriftpy2.utils import deserialize, serialize

from tests.testbed.interface import Structs
from tests.testbed.raw import encode_call
from tests.testbed.untyped import VERSION_1

hms = Structs("4.2.0")
_CALL = 1


def encode(method: str, arguments: dict[str, Any], seqid: int) -> bytes:
    """A call's message. The classes that clients use lack methods and fields; `hms` has them all."""
    if not any(isinstance(value, TPayload) for value in arguments.values()):
        return encode_call(method, seqid=seqid, **arguments)
    struct_class = getattr(hms.ThriftHiveMetastore, f"{method}_args")
    name = method.encode()
    header = struct.pack(">Ii", VERSION_1 | _CALL, len(name)) + name + struct.pack(">i", seqid)
    return header + bytes(serialize(struct_class(**arguments)))


def newest(struct_: Any) -> TPayload:
    """A struct of the classes that clients use, as the newest interface has it."""
    written = TMemoryBuffer()
    struct_.write(TBinaryProtocol(written))
    return deserialize(getattr(hms, type(struct_).__name__)(), written.getvalue())
