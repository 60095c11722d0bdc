"""Types that functions.py and the modules of its functions share. Owner: any thread; no state."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Meaning = Callable[..., Any]
"""Computes a value from arguments that are not null. None: null. Raises Odd."""
Typing = Callable[[tuple[str, ...], str], Meaning | None]
"""What a function computes, for these types of arguments and of the result; None: unknown."""
