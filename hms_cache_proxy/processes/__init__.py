"""The life of the processes: the supervisor, its children, their ports, the data directory, log lines."""

import sys

if "structlog" not in sys.modules and "rich" not in sys.modules:
    # structlog loads rich where it is installed, to print tracebacks, which are printed plainly here (log.py). That
    # would be an eighth of the CPU time of each process's start.
    sys.modules["rich"] = None  # type: ignore[assignment]  # the import system's way to say that there is none
    import structlog as structlog

    del sys.modules["rich"]
