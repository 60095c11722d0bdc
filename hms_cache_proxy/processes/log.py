"""Log lines by structlog, as text or as JSON, on standard error, without passwords.

Every process calls `setup` once. `text` gives coloured lines on a terminal and plain lines elsewhere; `json` gives one
object for each line. Passwords in URLs are masked in every line, because exceptions of database drivers quote URLs. In
text, line ends and other control characters are escaped: what a client has sent must not look like another line. A line
that cannot be written (a full disk, a closed pipe) is lost, without an error. Imports config only. It must be imported
before any module that logs: otherwise structlog imports rich if it is installed, for tracebacks that are not used here,
which is a fifth of a child's imports.
"""

from __future__ import annotations

import contextlib
import logging
import sys
from collections.abc import MutableMapping
from typing import Any, Final, TextIO

from hms_cache_proxy.config import Config, mask_url

_given = sys.modules.setdefault("rich", None)  # type: ignore[arg-type]  # None: cannot be imported
import structlog  # noqa: E402

if _given is None:
    del sys.modules["rich"]

Event = MutableMapping[str, Any]


_UNWRITABLE = (OSError, ValueError)  # ValueError: the stream is closed


class _Lossy:
    """A text stream that drops what cannot be written."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        with contextlib.suppress(*_UNWRITABLE):
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        with contextlib.suppress(*_UNWRITABLE):
            self._stream.flush()


QUOTED: Final = frozenset(" \t=\r\n\"'")
"""A value with one of these is written by structlog in quotes, with everything escaped."""


class _OfLibraries(logging.Handler):
    """What libraries (SQLAlchemy, asyncio, aiohttp) say with the standard module becomes lines like all others."""

    def emit(self, record: logging.LogRecord) -> None:
        log = structlog.get_logger()
        say = log.error if record.levelno >= logging.ERROR else log.warning
        say(record.getMessage(), logger=record.name, exc_info=record.exc_info)


def setup(config: Config, process: str) -> None:
    """Configure structlog for this process; `process` (supervisor, worker-0, ...) is part of every line."""
    stream: Any = _Lossy(sys.stderr)
    level = logging.getLevelNamesMapping()[config.log.level.upper()]
    renderers: list[Any]
    if config.log.format == "json":
        renderers = [structlog.processors.format_exc_info, _mask, structlog.processors.JSONRenderer()]
    else:
        renderers = [
            structlog.processors.format_exc_info,
            _mask,
            _one_line,
            structlog.dev.ConsoleRenderer(
                colors=sys.stderr.isatty(),
                pad_event_to=0,
                sort_keys=False,
                exception_formatter=structlog.dev.plain_traceback,  # for any other structlog warns
            ),
        ]
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            lambda _logger, _method, event: {**event, "process": process},
            *renderers,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.PrintLoggerFactory(stream),
        cache_logger_on_first_use=True,
    )
    logging.basicConfig(handlers=[_OfLibraries()], level=logging.WARNING)


def _mask(_logger: object, _method: str, event: Event) -> Event:
    for key, value in event.items():
        if isinstance(value, str) and ("://" in value or "assw" in value):
            event[key] = mask_url(value)
    return event


def _one_line(_logger: object, _method: str, event: Event) -> Event:
    for key, value in event.items():
        if not isinstance(value, str) or value.isprintable() or key == "exception":
            continue
        if key == "event" or not QUOTED & set(value):
            event[key] = "".join(
                char if char.isprintable() else char.encode("unicode_escape").decode("ascii") for char in value
            )
    return event
