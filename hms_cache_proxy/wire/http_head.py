"""The heads of requests to metastores over HTTP.

Must not know: users, what follows a head (http_calls.py). No state; needs no package.
"""

from __future__ import annotations

from typing import Final

CONTENT_TYPE: Final = b"application/x-thrift"


def request_head(path: str, host: str, lines: bytes) -> bytes:
    """Of a request, but for what says where its body ends. `lines`: more lines, each with its end."""
    start = f"POST /{path.strip('/')} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: hms-cache-proxy\r\n".encode()
    return b"%bContent-Type: %b\r\nAccept: %b\r\n%b" % (start, CONTENT_TYPE, CONTENT_TYPE, lines)
