"""thriftpy2 as the independent second codec: it reads idl/*.thrift itself and shares no code with ours.

Its pure-Python protocol is used: the compiled one returns foreign memory for truncated strings (thriftpy2 0.7.1).
"""

from __future__ import annotations

from typing import Any

from thriftpy2.protocol.binary import TBinaryProtocol
from thriftpy2.thrift import TType
from thriftpy2.transport import TMemoryBuffer

from hms_cache_proxy.wire.spec import Struct
from tests.testbed.interface import interface

MISSING = object()
# thriftpy2 has types for some of it, none for these
PROTOCOL: Any = TBinaryProtocol
MEMORY: Any = TMemoryBuffer


def payload(version: str, name: str) -> Any:
    """The class of a struct, or of "method_args" or "method_result"."""
    loaded = interface(version)
    found = getattr(loaded, name, None)
    service = loaded.ThriftHiveMetastore
    while found is None and service is not object:
        found = getattr(service, name, None)
        service = service.__mro__[1]
    assert found is not None, name
    return found


def decode(cls: Any, data: bytes) -> Any:
    """Decode with thriftpy2; strings stay bytes."""
    value = cls()
    PROTOCOL(MEMORY(data), decode_response=False).read_struct(value)
    return value


def encode(value: Any) -> bytes:
    """Encode with thriftpy2."""
    buffer = MEMORY()
    PROTOCOL(buffer).write_struct(value)
    encoded: bytes = buffer.getvalue()
    return encoded


def assert_same(ours: Any, theirs: Any, path: str = "") -> None:
    """Equal, allowing for what is known: theirs fills in the IDL's defaults, and reads sets as lists."""
    if isinstance(ours, Struct):
        defaults = dict(type(theirs).default_spec)
        for _, name, *_rest in type(theirs).thrift_spec.values():
            left, right = getattr(ours, name, MISSING), getattr(theirs, name)
            if left is None and right == defaults.get(name):
                continue
            assert left is not MISSING, f"{path}.{name} is not known to the fact table"
            assert_same(left, right, f"{path}.{name}")
    elif isinstance(ours, list):
        assert len(ours) == len(theirs), path
        for at, (left, right) in enumerate(zip(ours, theirs, strict=True)):
            assert_same(left, right, f"{path}[{at}]")
    elif isinstance(ours, dict):
        assert set(ours) == set(theirs), path
        for key, left in ours.items():
            assert_same(left, theirs[key], f"{path}[{key!r}]")
    elif isinstance(ours, set):
        assert ours == set(theirs), path
    else:
        assert ours == theirs, f"{path}: {ours!r} is not {theirs!r}"


def wire_shape(ttype: int, inner: Any) -> object:
    """A thriftpy2 type as comparable data: codes, and names of structs."""
    if ttype == TType.STRUCT:
        return (ttype, inner.__name__)
    if ttype in (TType.LIST, TType.SET):
        return (ttype, _element(inner))
    if ttype == TType.MAP:
        key, value = inner
        return (ttype, _element(key), _element(value))
    return TType.STRING if ttype == TType.BINARY else ttype  # its own code for a string of bytes


def _element(inner: Any) -> object:
    return wire_shape(*inner) if isinstance(inner, tuple) else wire_shape(inner, None)
