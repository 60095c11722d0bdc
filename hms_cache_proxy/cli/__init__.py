"""The command line: `main` has the group and the exit codes; each command has a module of the same name."""

from hms_cache_proxy.cli.main import main

__all__ = ["main"]
