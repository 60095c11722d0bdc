"""The bytes of a recording: a header, then records, each with its length and its checksum.

    header   64 bytes: 8s magic "HMSREC\\r\\n" | u16 version | u16 state | u32 0 | u64 created_ms | u64 until_ms |
             u64 end | u64 records | zeros
    record   u32 length of the payload | u32 CRC32 of the payload | payload
    payload  u64 recorded_ms | u8 type of the reply message | u8 length, method | u32 length, arguments | result

All numbers are big-endian; times are Unix time in ms. `arguments` and `result` are the structs of the request and of
the reply as on the wire: without sequence id, and without the user. `until_ms` 0: no end is set.

`end` is the end of the last complete record. Writers append there under a lock, and move it afterwards. So an
incomplete record of a killed process is beyond it, and the next record overwrites it.

Why not a database: a file of records is read once, from its beginning to its end; it can be inspected without a
library; and it shows where it is damaged, while a truncated memory-mapped file kills its reader with a bus error.

Job: turn values into bytes and back. Must not know files, locks, methods. Owner: any process; no state.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import IntEnum
from hashlib import blake2b
from struct import Struct
from typing import Final, NamedTuple
from zlib import crc32

MAGIC: Final = b"HMSREC\r\n"  # a transfer that changes line ends damages it here, which is noticed
VERSION: Final = 1
HEADER_BYTES: Final = 64
MAX_PAYLOAD_BYTES: Final = 256 << 20
"""No record is longer: a larger length is damage."""

_HEADER: Final = Struct(">8sHHIQQQQ")
_REPLIES: Final = (2, 3)  # MessageType.REPLY, EXCEPTION
_RECORD: Final = Struct(">II")
_BEGINNING: Final = Struct(">QBB")
_LENGTH: Final = Struct(">I")
PREFIX_BYTES: Final = _RECORD.size


class RecordingState(IntEnum):
    """The state of a recording."""

    OPEN = 0
    FULL = 1  # it has reached its largest size


@dataclass(frozen=True, slots=True)
class FileHeader:
    """The first bytes of a recording."""

    created_ms: int
    until_ms: int
    end: int = HEADER_BYTES
    records: int = 0
    state: RecordingState = RecordingState.OPEN
    version: int = VERSION

    def encoded(self) -> bytes:
        """The header as HEADER_BYTES bytes."""
        fields = (MAGIC, VERSION, self.state, 0, self.created_ms, self.until_ms, self.end, self.records)
        return _HEADER.pack(*fields).ljust(HEADER_BYTES, b"\0")

    def grown(self, size: int, records: int) -> FileHeader:
        """The header after so many bytes and records were added."""
        return replace(self, end=self.end + size, records=self.records + records)


class Record(NamedTuple):
    """One result with its request. `type`: the MessageType of the reply, as a number."""

    recorded_ms: int
    type: int
    method: bytes
    arguments: bytes
    result: bytes


def parse_header(data: bytes) -> FileHeader | None:
    """The header at the beginning of these bytes; None if this is not a recording. Check `version` first."""
    if len(data) < HEADER_BYTES or not data.startswith(MAGIC):
        return None
    _, version, state, _, created_ms, until_ms, end, records = _HEADER.unpack_from(data)
    known = RecordingState(state) if state in RecordingState._value2member_map_ else RecordingState.OPEN
    return FileHeader(created_ms, until_ms, end, records, known, version)


def encode(record: Record) -> bytes:
    """A record with its length and checksum."""
    payload = b"".join(
        (
            _BEGINNING.pack(record.recorded_ms, record.type, len(record.method)),
            record.method,
            _LENGTH.pack(len(record.arguments)),
            record.arguments,
            record.result,
        )
    )
    return _RECORD.pack(len(payload), crc32(payload)) + payload


def payload_bytes(prefix: bytes) -> int | None:
    """The length in a record's first PREFIX_BYTES; None if they are not the beginning of a record."""
    length: int = _RECORD.unpack(prefix)[0]
    return length if _BEGINNING.size + _LENGTH.size <= length <= MAX_PAYLOAD_BYTES else None


def decode(prefix: bytes, payload: bytes) -> Record | None:
    """The record; None if its bytes are damaged."""
    length, checksum = _RECORD.unpack(prefix)
    if length != len(payload) or crc32(payload) != checksum:
        return None
    recorded_ms, kind, name_length = _BEGINNING.unpack_from(payload)
    at = _BEGINNING.size + name_length
    arguments_at = at + _LENGTH.size
    if arguments_at > length or kind not in _REPLIES:
        return None
    result_at = arguments_at + _LENGTH.unpack_from(payload, at)[0]
    if result_at > length:
        return None
    method, arguments = payload[_BEGINNING.size : at], payload[arguments_at:result_at]
    return Record(recorded_ms, kind, method, arguments, payload[result_at:])


def digest(method: bytes, arguments: bytes) -> bytes:
    """A 16-byte hash of a request: its method, and its arguments as they were sent."""
    return blake2b(b"%b\0%b" % (method, arguments), digest_size=16).digest()
