"""The interface of a version of Hive as thriftpy2 reads it from idl/: a codec that shares no code with the product's.

Job: one place that knows where the files lie and what their modules are called. Must not know: hms_cache_proxy.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import thriftpy2

IDL = Path(__file__).resolve().parents[2] / "idl"


@cache
def interface(version: str) -> ModuleType:
    """The structs and methods of a version, e.g. "4.2.0"."""
    path = IDL / f"hive_metastore-{version}.thrift"
    loaded: ModuleType = thriftpy2.load(str(path), module_name=f"hive_{version.replace('.', '_')}_thrift")
    return loaded


class Structs:
    """The structs of a version as attributes. The file is read at first use, because that takes a second."""

    def __init__(self, version: str) -> None:
        self._version = version

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # no struct: what pytest looks for in every object
            raise AttributeError(name)
        return getattr(interface(self._version), name)
