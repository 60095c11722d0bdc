"""The interface of a version of Hive as thriftpy2 reads it from idl/: a codec that shares no code with the product's.

Job: one place that knows where the files lie and what their modules are called. Must not know: hms_cache_proxy.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from types import ModuleType

import thriftpy2

IDL = Path(__file__).resolve().parents[2] / "idl"


@cache
def interface(version: str) -> ModuleType:
    """The structs and methods of a version, e.g. "4.2.0"."""
    path = IDL / f"hive_metastore-{version}.thrift"
    loaded: ModuleType = thriftpy2.load(str(path), module_name=f"hive_{version.replace('.', '_')}_thrift")
    return loaded
