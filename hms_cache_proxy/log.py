"""Log lines: structlog, for people or as JSON, on standard error; passwords never.

Every process calls `setup` once. `text` gives coloured lines on a terminal and plain ones elsewhere;
`json` one object a line. Whatever is logged, a password inside a URL is masked on its way out: exceptions
of database drivers quote URLs. Imports config only.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import MutableMapping
from typing import Any

import structlog

from hms_cache_proxy.config import Config, mask_url

Event = MutableMapping[str, Any]


def setup(config: Config, process: str) -> None:
    """Configure structlog for this process; `process` (supervisor, worker-0, ...) is part of every line."""
    level = logging.getLevelNamesMapping()[config.log.level.upper()]
    renderers: list[Any]
    if config.log.format == "json":
        renderers = [structlog.processors.format_exc_info, _mask, structlog.processors.JSONRenderer()]
    else:
        renderers = [
            structlog.processors.format_exc_info,
            _mask,
            structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty(), pad_event_to=0, sort_keys=False),
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
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
    # Libraries (SQLAlchemy, asyncio, aiohttp) log by the standard module: same stream, warnings and worse.
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="%(levelname)s %(name)s %(message)s")


def _mask(_logger: object, _method: str, event: Event) -> Event:
    for key, value in event.items():
        if isinstance(value, str) and ("://" in value or "assw" in value):
            event[key] = mask_url(value)
    return event
