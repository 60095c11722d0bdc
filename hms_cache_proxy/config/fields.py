"""How a setting is declared: as a field of a frozen dataclass, with bounds and a one-line description.

Job: the base class and the field function of all sections. Bounds and descriptions are stored
where pydantic looks for them in a dataclass (a field's metadata, `__get_pydantic_core_schema__`). load.py validates
with pydantic. Child processes get validated settings; they do not import pydantic, which saves 9 MB and a fifth of a
second each.
Must not know: which settings there are.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar


class Section:
    """Base of Config and its sections; the subclasses are frozen dataclasses. A key without a field is an error."""

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}


def setting(default: Any, *, description: str = "", secret: bool = False, **bounds: float) -> Any:
    """A field. `bounds`: ge, gt, le. `secret` leaves the value out of `repr`."""
    metadata = {"description": description, **bounds}
    if isinstance(default, dict):
        return field(default_factory=default.copy, repr=not secret, metadata=metadata)
    return field(default=default, repr=not secret, metadata=metadata)


@dataclass(frozen=True, slots=True)
class Parsed:
    """For an Annotated type: `parse` gets the value as written, and pydantic validates what it returns."""

    parse: Callable[[object], object]

    def __get_pydantic_core_schema__(self, source: Any, handler: Callable[[Any], Any]) -> Any:
        from pydantic_core import core_schema

        return core_schema.no_info_before_validator_function(self.parse, handler(source))


def parse_list(value: object) -> object:
    """In the environment, a list is written with commas."""
    return tuple(part.strip() for part in value.split(",") if part.strip()) if isinstance(value, str) else value
