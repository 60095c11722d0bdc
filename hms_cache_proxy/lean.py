"""Keeping processes small: structlog without what it loads for tracebacks that nothing here renders, counters without
the HTTP servers of their library, asyncio without TLS, nothing kept of what a start has freed.

Imports nothing of the package. Owner: the first lines of each process.
"""

from __future__ import annotations

import ctypes
import sys
from types import ModuleType

_EXPOSITION = "prometheus_client.exposition"


def import_structlog() -> None:
    """Import structlog without rich and pygments (4 MB and a third of a second in each process), and asyncio, which it
    imports, without ssl (0.8 MB): no loop here speaks TLS.

    They are hidden only meanwhile: who wants them, such as the progress bar of prewarm, finds them afterwards.
    """
    if "structlog" in sys.modules:
        return
    hidden = [name for name in ("rich", "ssl") if name not in sys.modules]
    for name in hidden:
        sys.modules[name] = None  # type: ignore[assignment]  # as if it were not installed
    try:
        import structlog  # noqa: F401
    finally:
        for name in hidden:
            del sys.modules[name]


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


def give_back() -> None:
    """Give what the start has freed back to the system: 0.8 MB in each process. Once, when it is over."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # glibc's
    if trim is not None:
        trim(0)


def _unused(name: str) -> object:
    if name.startswith("__"):  # asked for by the import itself
        raise AttributeError(name)

    def unused(*_: object, **__: object) -> None:
        raise AssertionError(f"{_EXPOSITION}.{name} in a process that only counts")

    return unused
