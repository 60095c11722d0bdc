"""Where in a table's names, which are in bytewise order, a filter's partitions can be.

Job: a tree to spans of names, by the first partition key. A span may hold more than the filter selects, never less:
what is in it is matched afterwards. None means: anywhere. Must not know: the cache, what comparisons mean beyond that
strings and dates compare bytewise. Owner: any process; no state.

Names are escaped, so their order is not that of the values: a character that is escaped sorts as `%`. Bounds with such
characters, or with ones below `%`, are not used; for the others, values that differ from the low bound in an escaped
character are looked for apart.
"""

from __future__ import annotations

from collections.abc import Iterable

from .filter_grammar import Between, Both, Compare, Node
from .part_names import DEFAULT_PARTITION, escape

Span = tuple[bytes, bytes]
"""From the first name on, up to the second and without it."""
Interval = tuple[bytes | None, bytes | None]
"""Values from the first to the second, both included; None: no bound."""

MOST_INTERVALS = 100
_LOWEST = ord("%")


def exact(node: Node, first: bytes) -> list[bytes] | None:
    """Every value that the first key can have where the filter holds; None if it does not say."""
    if isinstance(node, Compare):
        return [node.value.text] if node.key == first and node.op == "=" else None
    if isinstance(node, Between):
        return None
    found = [exact(term, first) for term in node.terms]
    if isinstance(node, Both):
        return min((values for values in found if values is not None), key=len, default=None)
    if any(values is None for values in found):
        return None
    return [value for values in found for value in values or ()]


def under(components: Iterable[bytes], *, last: bool) -> list[Span]:
    """The names that begin with one of these components; `last`: there is no other component."""
    return _merged((component if last else component + b"/", _through(component, last)) for component in components)


def between(node: Node, first: bytes, *, last: bool) -> list[Span] | None:
    """The names of a table whose first key is compared bytewise; `last`: it has no other."""
    found = _intervals(node, first)
    if found is None or any(_unusable(bound) for interval in found for bound in interval if bound is not None):
        return None
    begin = escape(first) + b"="
    spans = [_after_prefix(begin + DEFAULT_PARTITION)]  # an empty value has this name
    for low, high in found:
        spans.append((begin + (low or b""), _after_prefix(begin)[1] if high is None else _through(begin + high, last)))
        if high is not None and not last:  # a value's end sorts as the slash
            spans += [(begin + high[:at] + b"/", begin + high[:at] + b"0") for at in range(1, len(high))]
        if low is not None:
            spans += [_after_prefix(begin + low[:at] + b"%") for at in range(len(low))]
    return _merged(spans)


def _intervals(node: Node, first: bytes) -> list[Interval] | None:
    if isinstance(node, Compare):
        text = node.value.text
        bounds: dict[str, Interval] = {"=": (text, text), "<": (None, text), "<=": (None, text)}
        bounds |= {">": (text, None), ">=": (text, None)}
        return [bounds[node.op]] if node.key == first and node.op in bounds else None
    if isinstance(node, Between):
        return None if node.negated or node.key != first else [(node.low.text, node.high.text)]
    found = [_intervals(term, first) for term in node.terms]
    if not isinstance(node, Both):
        if any(some is None for some in found):
            return None
        return [interval for some in found for interval in some or ()]
    result: list[Interval] | None = None
    for some in found:
        if some is not None and (result is None or len(result) * len(some) <= MOST_INTERVALS):
            result = some if result is None else [both for a in result for b in some if (both := _common(a, b))]
    return result


def _common(a: Interval, b: Interval) -> Interval | None:
    lows = [low for low, _ in (a, b) if low is not None]
    highs = [high for _, high in (a, b) if high is not None]
    low, high = max(lows, default=None), min(highs, default=None)
    return None if low is not None and high is not None and low > high else (low, high)


def _unusable(bound: bytes) -> bool:
    return escape(bound) != bound or min(bound, default=_LOWEST) < _LOWEST


def _through(component: bytes, last: bool) -> bytes:
    return component + (b"\0" if last else b"0")


def _after_prefix(prefix: bytes) -> Span:
    return prefix, prefix[:-1] + bytes((prefix[-1] + 1,))


def _merged(spans: Iterable[Span]) -> list[Span]:
    """In order, none within another."""
    found: list[Span] = []
    for low, high in sorted(spans):
        if found and low <= found[-1][1]:
            found[-1] = found[-1][0], max(found[-1][1], high)
        else:
            found.append((low, high))
    return found
