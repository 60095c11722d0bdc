"""Keeping processes small: structlog without what it loads for tracebacks that nothing here renders, counters without
the HTTP servers of their library.

Imports nothing of the package. Owner: the first lines of each process.
"""

from __future__ import annotations

import sys
from types import ModuleType

_EXPOSITION = "prometheus_client.exposition"


def import_structlog() -> None:
    """Import structlog without rich and pygments: 4 MB and a third of a second in each process.

    rich is hidden only meanwhile: who wants it, such as the progress bar of prewarm, finds it afterwards.
    """
    if "structlog" in sys.modules or "rich" in sys.modules:
        return
    sys.modules["rich"] = None  # type: ignore[assignment]  # as if it were not installed
    try:
        import structlog  # noqa: F401
    finally:
        del sys.modules["rich"]


def import_prometheus() -> None:
    """Import prometheus_client where things are only counted: without its exposition, and so without Python's HTTP
    and WSGI servers, urllib.request and the TLS of these: 2 MB in each process.

    What is asked of the exposition's module is `unused`, which says so if it is called.
    """
    if "prometheus_client" in sys.modules:
        return
    exposition = ModuleType(_EXPOSITION)
    exposition.__getattr__ = _unused  # type: ignore[method-assign]  # a module's own (PEP 562)
    sys.modules[_EXPOSITION] = exposition
    try:
        import prometheus_client  # noqa: F401
    finally:
        del sys.modules[_EXPOSITION]


def _unused(name: str) -> object:
    if name.startswith("__"):  # asked for by the import itself
        raise AttributeError(name)

    def unused(*_: object, **__: object) -> None:
        raise AssertionError(f"{_EXPOSITION}.{name} in a process that only counts")

    return unused
