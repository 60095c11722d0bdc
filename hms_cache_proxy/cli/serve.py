"""`hms-cache-proxy serve`."""

from __future__ import annotations

import signal
import sys

import click

from hms_cache_proxy.cli.options import SETTINGS, load_config, options, require_source


@click.command()
@options(SETTINGS)
def serve(file: str | None, **given: object) -> None:
    """Run the proxy until SIGTERM or Ctrl-C, which let calls in progress finish; a second one ends it at once."""
    if file:
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGHUP})  # it waits until the supervisor can heed it
    config = load_config(file, given)
    require_source(config)
    from hms_cache_proxy.processes import log, supervisor

    log.setup(config, "supervisor")
    sys.exit(supervisor.run(config, (lambda: load_config(file, given)) if file else None))
