"""When a certificate expires, read from its bytes (DER, RFC 5280).

Job: find the one field that the ssl module does not tell of one's own certificate. Must not know: files, trust. It
reads a certificate only as far as this field, and verifies nothing.
"""

from __future__ import annotations

from datetime import UTC, datetime

_SEQUENCE, _VERSION, _UTC_TIME, _GENERALIZED_TIME = 0x30, 0xA0, 0x17, 0x18
_LONG = 0x80  # a length that takes more than one byte
_LENGTH_BYTES = 4


def expiry(der: bytes) -> datetime:
    """The last moment of the certificate's validity. ValueError if the bytes are not a certificate."""
    at, end = _value(der, 0, len(der), _SEQUENCE)
    at, end = _value(der, at, end, _SEQUENCE)  # TBSCertificate
    if der[at:end][:1] == bytes([_VERSION]):
        _, at = _value(der, at, end, _VERSION)
    for _ in range(3):  # serial number, algorithm, issuer
        _, at = _value(der, at, end)
    at, end = _value(der, at, end, _SEQUENCE)  # Validity: from, to
    _, at = _value(der, at, end)
    start, stop = _value(der, at, end)
    return _moment(der[at], der[start:stop])


def _value(der: bytes, at: int, end: int, tag: int | None = None) -> tuple[int, int]:
    """Where the contents of the element at `at` begin and end."""
    if end - at < 2 or tag is not None and der[at] != tag:
        raise ValueError("not a certificate")
    length, start = der[at + 1], at + 2
    if length >= _LONG:
        size = length - _LONG
        if not 0 < size <= _LENGTH_BYTES or end - start < size:
            raise ValueError("not a certificate")
        length, start = int.from_bytes(der[start : start + size], "big"), start + size
    if end - start < length:
        raise ValueError("not a certificate")
    return start, start + length


def _moment(tag: int, text: bytes) -> datetime:
    try:
        digits = text.decode("ascii")
        if tag == _UTC_TIME:  # two digits of the year: 1950 to 2049
            digits = ("19" if digits[:2] >= "50" else "20") + digits
        elif tag != _GENERALIZED_TIME:
            raise ValueError("not a time")
        return datetime.strptime(digits, "%Y%m%d%H%M%SZ").replace(tzinfo=UTC)
    except ValueError as error:
        raise ValueError(f"not a certificate: {error}") from error
