"""Values of structs as tests build them: construction in C checks no names, and encoding drops what is no field."""

from __future__ import annotations

from hms_cache_proxy.wire.spec import Struct


def check(value: object) -> None:
    """AssertionError if a struct in the value has an attribute that is no field."""
    if isinstance(value, Struct):
        unknown = value.__dict__.keys() - set(value._names)
        assert not unknown, f"{type(value).__name__} has no {', '.join(sorted(unknown))}"
        value = list(value.__dict__.values())
    if isinstance(value, dict):
        value = [*value.keys(), *value.values()]
    if isinstance(value, list | tuple | set):
        for item in value:
            check(item)
