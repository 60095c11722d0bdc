"""Finds out from /proc which process listens on a port, for the error message about a port in use.

Must not know: why it is asked. An account sees only its own processes there, root sees all. Owner: the supervisor.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

TABLES: Final = ("/proc/net/tcp", "/proc/net/tcp6")
_LISTEN: Final = "0A"  # the state column (include/net/tcp_states.h)
COMMAND_CHARACTERS: Final = 100


def holder_of(port: int) -> str:
    """`process 123 (its command line)`; empty if /proc does not say."""
    sockets = {f"socket:[{inode}]" for inode in _listening(port)}
    if not sockets:
        return ""
    for process in sorted(Path("/proc").glob("[0-9]*"), key=lambda path: int(path.name)):
        try:
            if any(os.readlink(descriptor) in sockets for descriptor in (process / "fd").iterdir()):
                return f"process {process.name} ({_command(process)})"
        except OSError:  # it has ended, or belongs to another account
            continue
    return ""


def _listening(port: int) -> Iterator[str]:
    """The inodes of the sockets that listen on the port."""
    for table in TABLES:
        try:
            lines = Path(table).read_text("ascii").splitlines()[1:]
        except OSError:  # not Linux, or no IPv6
            continue
        for line in lines:
            columns = line.split()
            if columns[3] == _LISTEN and int(columns[1].rpartition(":")[2], 16) == port:
                yield columns[9]


def _command(process: Path) -> str:
    words = (process / "cmdline").read_bytes().rstrip(b"\0").replace(b"\0", b" ").decode("utf-8", "replace")
    return words if len(words) <= COMMAND_CHARACTERS else words[:COMMAND_CHARACTERS] + " ..."
