"""The group of all commands, the entry point of the console script, and its exit codes.

Exit codes: 0 success; 1 a problem was found, or the proxy could not be reached; 2 wrong usage or configuration (one
line says what); 130 interrupted by Ctrl-C. Each command has a module of the same name. Modules that only one command
needs are imported when that command runs, so that `--help` does not wait for the codec.
"""

from __future__ import annotations

import errno
import os
import sys

import click

from hms_cache_proxy import __version__
from hms_cache_proxy.cli.advise import advise
from hms_cache_proxy.cli.audit import audit
from hms_cache_proxy.cli.check_config import check_config
from hms_cache_proxy.cli.doctor import doctor
from hms_cache_proxy.cli.flush import flush
from hms_cache_proxy.cli.metastore import metastore
from hms_cache_proxy.cli.serve import serve
from hms_cache_proxy.cli.snapshot import snapshot
from hms_cache_proxy.cli.spark_package import spark_package
from hms_cache_proxy.cli.status import status
from hms_cache_proxy.errors import INTERRUPTED, ProxyError, exit_code, one_line

FULL = (errno.ENOSPC, errno.EDQUOT)


def main() -> None:
    """Entry point of the console script: a ProxyError becomes one line, never a traceback, and so does a full disk."""
    try:
        sys.exit(commands(standalone_mode=False) or 0)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except click.Abort:
        _fail("interrupted", INTERRUPTED)
    except ProxyError as error:
        _fail(error, exit_code(error))
    except OSError as error:
        if error.errno not in FULL:
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # for what is left in the buffer of standard output
        _fail(f"cannot write: {error.strerror}", 1)


def _fail(error: Exception | str, code: int) -> None:
    click.echo(one_line(error), err=True)
    sys.exit(code)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, message="%(version)s")
def commands() -> None:
    """A caching, version-bridging proxy for the Apache Hive Metastore.

    Every option of `serve` is also a key of the TOML file (see conf/hms-cache-proxy.toml) and an environment variable
    HMS_CACHE_PROXY_<KEY>. Secrets belong in the environment or in a file.
    """


for command in (serve, check_config, status, flush, doctor, metastore, advise, snapshot, audit, spark_package):
    commands.add_command(command)
