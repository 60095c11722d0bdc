"""Keeping processes small: structlog without what it loads for tracebacks that nothing here renders.

Imports nothing of the package. Owner: the first lines of each process.
"""

from __future__ import annotations

import sys


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
