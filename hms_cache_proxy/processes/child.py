"""The first lines of every child process: `python -m hms_cache_proxy.processes.child ROLE INDEX PARENT [SOCKET]`.

ROLE is `worker`, `follower`, `peers` or `metastore`; PARENT is the supervisor's process id; SOCKET is the descriptor of
the listening socket, which all but the follower have.

Job: tie the process to its supervisor, set up logging and metrics, and call the child's own `run`. The configuration
comes as JSON on standard input, so that secrets are neither in the arguments nor in the environment.

There are no orphans: the kernel kills the child when the supervisor ends in any way (PR_SET_PDEATHSIG, Linux). The
signal is SIGKILL, because a restarted supervisor takes the data directory at once, and there must not be two followers.
SIGINT and SIGHUP are ignored: Ctrl-C, and the end of a terminal, reach the whole process group, but only the supervisor
decides what they mean.
"""

from __future__ import annotations

import ctypes
import gc
import os
import signal
import sys
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hms_cache_proxy.config import Config

PR_SET_PDEATHSIG = 1  # linux/prctl.h


def end_with_parent(parent: int) -> None:
    """Ask the kernel to kill this process when `parent` ends; exit at once if it has ended already."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG)")
    if os.getppid() != parent:
        os._exit(1)


def main(arguments: list[str]) -> None:
    """Become the child that `arguments` name: role, index, parent's process id, listening socket."""
    role, index, parent = arguments[0], int(arguments[1]), int(arguments[2])
    end_with_parent(parent)
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    gc.disable()  # modules make many objects and hardly any garbage: looking for it takes a fifth of the start
    # Imported only now, because until here the child could become an orphan.
    from hms_cache_proxy.config import from_json, paths
    from hms_cache_proxy.errors import ProxyError
    from hms_cache_proxy.processes import log

    config = from_json(sys.stdin.buffer.read())
    name = f"{role}-{index}" if role == "worker" else role
    log.setup(config, name)
    try:
        if role != "metastore":  # which has no metrics
            from hms_cache_proxy import metrics

            metrics.start_process(paths.metrics(config), name)
        run = _imported(role, config, index, [int(one) for one in arguments[3:]])
        gc.freeze()  # what modules have made stays
        gc.enable()
        run()
    except ProxyError as error:  # a traceback would not help
        import structlog

        structlog.get_logger().error("cannot run", error=str(error))
        sys.exit(1)


def _imported(role: str, config: Config, index: int, listener: list[int]) -> Callable[[], None]:
    """What the child does, with its modules imported."""
    if role == "worker":
        from hms_cache_proxy.server import worker

        return partial(worker.run, config, index, *listener)
    if role == "metastore":
        from hms_cache_proxy.embedded import runner as metastore

        return partial(metastore.run_child, config, *listener)
    if role == "peers":
        from hms_cache_proxy.peers import driver

        return partial(driver.run, config, *listener)
    from hms_cache_proxy.follower import runner

    return partial(runner.run, config)


if __name__ == "__main__":
    main(sys.argv[1:])
