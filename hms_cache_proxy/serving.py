"""The supervisor's process once its settings are known: `python -m hms_cache_proxy.serving DESCRIPTOR ...`.

Job: `become` replaces the process that has read and validated the settings by one that only has them; `main` is that
one. What reads options and validates settings (click, pydantic) stays behind: 8 MB for as long as the proxy runs.
Process id, open files, environment and limits are the same ones. Must not know: where settings come from.

The settings are handed over in an anonymous file in memory, so that secrets are neither in the arguments nor in the
environment; the command line follows, for those who look at a list of processes.
"""

from __future__ import annotations

import os
import sys
from typing import NoReturn

from hms_cache_proxy.config import Config, from_json, to_json
from hms_cache_proxy.errors import INTERRUPTED, ProxyError, exit_code, one_line
from hms_cache_proxy.lean import import_structlog


def become(config: Config) -> NoReturn:
    """Go on as the supervisor's process. Raises OSError if there is no memory for it."""
    descriptor = os.memfd_create("settings", 0)  # without MFD_CLOEXEC
    os.write(descriptor, to_json(config))
    os.lseek(descriptor, 0, os.SEEK_SET)
    sys.stdout.flush()
    sys.stderr.flush()
    os.execv(sys.executable, [sys.executable, "-m", __name__, str(descriptor), *sys.argv[1:]])


def main(descriptor: int) -> None:
    """Run the supervisor until a signal; one line for an error of ours, never a traceback."""
    import_structlog()  # before all that imports it
    from hms_cache_proxy import log, supervisor

    with open(descriptor, "rb") as settings:
        config = from_json(settings.read())
    log.setup(config, "supervisor")
    try:
        sys.exit(supervisor.run(config))
    except ProxyError as error:
        print(one_line(error), file=sys.stderr)
        sys.exit(exit_code(error))
    except KeyboardInterrupt:
        print(one_line("interrupted"), file=sys.stderr)
        sys.exit(INTERRUPTED)


if __name__ == "__main__":
    main(int(sys.argv[1]))
