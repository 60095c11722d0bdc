"""The command line: `main` has the group and the exit codes, each command is the module of its name."""

from hms_cache_proxy.cli.main import main

__all__ = ["main"]
