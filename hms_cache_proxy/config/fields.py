"""How one setting is declared: a field of a frozen dataclass with its bounds and a line about it.

Job: the words that settings.py and ttl_settings.py are written in. They are pydantic's own way of reading dataclasses
(bounds and description in a field's metadata, `__get_pydantic_core_schema__`), so that config.py validates with it,
and the processes that are only given settings need not import it: 9 MB and a fifth of a second each.
Must not know: which settings there are.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar


class Section:
    """Base of Config and its sections; the subclasses are frozen dataclasses. A key that is no field is an error."""

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}


def setting(default: Any, *, description: str = "", secret: bool = False, **bounds: float) -> Any:
    """A field. `bounds`: ge, gt, le; a secret stays out of `repr`."""
    metadata = {"description": description, **bounds}
    if isinstance(default, dict):
        return field(default_factory=default.copy, repr=not secret, metadata=metadata)
    return field(default=default, repr=not secret, metadata=metadata)


@dataclass(frozen=True, slots=True)
class Parsed:
    """In an Annotated type: `parse` is given what was written, and what it gives is validated."""

    parse: Callable[[object], object]

    def __get_pydantic_core_schema__(self, source: Any, handler: Callable[[Any], Any]) -> Any:
        from pydantic_core import core_schema

        return core_schema.no_info_before_validator_function(self.parse, handler(source))
