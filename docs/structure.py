"""The structure of the package as a drawing: which packages import which.

Job: `mermaid(root)` draws it as a Mermaid graph, top to bottom; edges that follow from others are left out.
`python docs/structure.py [ROOT]` prints it with the lines of each package, also for another checkout, so that two
states can be compared. Must not know: what a package does.
"""

from __future__ import annotations

import ast
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

NAME = "hms_cache_proxy"


def mermaid(root: Path, *, with_lines: bool = False) -> str:
    """A fenced Mermaid block."""
    lines, edges = measured(root / NAME)
    labels = {name: f"{name}<br/>{number:,} lines" if with_lines else name for name, number in lines.items()}
    nodes = [f'  {name}["{label}"]' for name, label in sorted(labels.items())]
    arrows = [f"  {upper} --> {lower}" for upper in sorted(edges) for lower in sorted(_reduced(edges, upper))]
    return "\n".join(["```mermaid", "flowchart TD", *nodes, *arrows, "```"])


def measured(package: Path) -> tuple[Counter[str], dict[str, set[str]]]:
    """Lines of each top-level package or module, and what it imports."""
    lines: Counter[str] = Counter()
    edges: dict[str, set[str]] = {}
    for path in sorted(package.rglob("*.py")):
        name = _top(path.relative_to(package).parts)
        if name in ("__init__", "__main__"):
            continue
        text = path.read_text("utf-8")
        lines[name] += len(text.splitlines())
        edges.setdefault(name, set()).update(other for other in _imported(text, package) if other != name)
    return lines, edges


def _top(parts: tuple[str, ...]) -> str:
    return parts[0].removesuffix(".py")


def _imported(text: str, package: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(text)):
        names: list[str] = []
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        for name in names:
            head, _, rest = name.partition(".")
            top = rest.partition(".")[0]
            if head == NAME and top and ((package / top).is_dir() or (package / f"{top}.py").exists()):
                yield top


def _reduced(edges: dict[str, set[str]], upper: str) -> set[str]:
    """What `upper` imports, without what the others that it imports reach anyway."""
    direct = edges[upper]
    beyond = set[str]().union(*(_reached(edges, lower) for lower in direct)) if direct else set()
    return direct - beyond


def _reached(edges: dict[str, set[str]], start: str) -> set[str]:
    found: set[str] = set()
    waiting = list(edges.get(start, ()))
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += edges.get(name, ())
    return found


if __name__ == "__main__":
    print(mermaid(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parents[1], with_lines=True))
