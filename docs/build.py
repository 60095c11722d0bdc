"""`make docs`: rewrites the reference tables of docs/*.md from the code that they describe, and figures from
docs/figures/ (pages.py).

Job: what stands between `<!-- begin NAME -->` and `<!-- end NAME -->` in a page is generated; the rest is written by
hand. `tests/test_docs.py` fails when a page is not what this would write.
"""

from __future__ import annotations

import ast
import json
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # docs/ and tests/ are not installed

from docs import pages, structure
from hms_cache_proxy.config import Address, Setting, settings
from hms_cache_proxy.doctor.database import MYSQL, grant_script
from hms_cache_proxy.embedded.handlers import FAMILIES
from hms_cache_proxy.embedded.handlers import METHODS as SERVED
from hms_cache_proxy.embedded.schema import VERSION as EMBEDDED_VERSION
from hms_cache_proxy.methods.table import METHODS, Method, MethodKind
from hms_cache_proxy.metric_table import TABLE
from hms_cache_proxy.recording.allowed import ALLOWED
from hms_cache_proxy.status.other_reasons import OTHERS
from hms_cache_proxy.status.reasons import MISSES
from hms_cache_proxy.wire import facts

DIRECTORY = Path(__file__).resolve().parent
ROOT = DIRECTORY.parent


def settings_table() -> str:
    """One row per key."""
    rows = ["| Key | Default | Environment | |", "|---|---|---|---|"]
    rows += [f"| `{s.key}` | {_default(s)} | `{s.env}` | {s.description} |" for s in settings()]
    return "\n".join(rows)


def _default(setting: Setting) -> str:
    """As it is written in the file of settings."""
    value = setting.default
    if value in ("", (), None, {}):
        return ""
    if value == float("inf"):
        return "`never`"
    if isinstance(value, int) and value >= 1 << 20 and value % (1 << 20) == 0:
        mebi = value >> 20
        return f"`{mebi >> 10}GiB`" if mebi % 1024 == 0 else f"`{mebi}MiB`"
    if isinstance(value, float) and value >= 60:
        unit, seconds = next((unit, s) for unit, s in (("d", 86_400), ("h", 3600), ("m", 60)) if value % s == 0)
        return f"`{value / seconds:g}{unit}`"
    return f"`{json.dumps(value)}`" if not isinstance(value, str | Address) else f"`{value}`"


def metrics_table() -> str:
    """One row per metric."""
    rows = ["| Metric | Kind | Labels | Counted by | |", "|---|---|---|---|---|"]
    for metric in TABLE:
        labels = ", ".join(f"`{label}`" for label in metric.labels)
        rows.append(f"| `{metric.name}` | {metric.kind} | {labels} | {metric.owner} | {metric.help} |")
    return "\n".join(rows)


def reasons_tables() -> str:
    """One row per reason; the status page links to each."""
    rows = ["| Reason of a miss | What it means | What can be done |", "|---|---|---|"]
    rows += [f"| {_linked(one.label)} | {one.means} | {one.remedy} |" for one in MISSES]
    rows += ["", "| Reason of another outcome | |", "|---|---|", "| (empty) | a hit, or a write |"]
    rows += [f"| {_linked(one.label)} | {one.means} |" for one in OTHERS]
    return "\n".join(rows)


def _linked(reason: str) -> str:
    return f'<a id="reason-{reason}"></a>`{reason}`'


def methods_table() -> str:
    """Methods by what they are to the cache."""
    sections: list[tuple[str, Callable[[Method], bool]]] = [
        ("Answered from the cache", lambda m: m.reads),
        (
            "The metastore's own reply may be kept and given again",
            lambda m: not m.reads and m.learn,
        ),
        ("Reads that are always relayed", lambda m: m.kind is MethodKind.READ and not m.reads and not m.learn),
        ("Writes", lambda m: m.kind is MethodKind.WRITE),
        ("Locks", lambda m: m.kind is MethodKind.LOCK),
        ("Transactions", lambda m: m.kind is MethodKind.TRANSACTION),
        ("Calls about the session", lambda m: m.kind is MethodKind.SESSION),
        ("The notification log", lambda m: m.kind is MethodKind.EVENTS),
        ("Calls that concern no object", lambda m: m.kind is MethodKind.NEUTRAL),
    ]
    text = []
    for title, belongs in sections:
        names = sorted(m.name for m in METHODS.values() if belongs(m))
        text.append(f"### {title}\n\n" + ", ".join(f"`{name}`" for name in names) + "\n")
    return "\n".join(text).rstrip()


def embedded_table() -> str:
    """What the embedded metastore serves, by family. RuntimeError if that is not all of its Hive."""
    text = []
    for title, methods in FAMILIES.items():
        names = ", ".join(f"`{name}`" for name in sorted(methods))
        text.append(f"### {title}\n\n{names}\n")
    hive = {name for name in facts.METHODS if EMBEDDED_VERSION in facts.METHODS[name].versions}
    missing = sorted(hive - SERVED.keys())
    if missing:
        raise RuntimeError(f"the embedded metastore does not serve {', '.join(missing)}")
    older = sorted(SERVED.keys() - hive)
    text.append(
        f"These are the {len(hive)} methods of Hive {EMBEDDED_VERSION}, and {len(older)} that only older ones have"
        f" ({', '.join(f'`{name}`' for name in older)})."
    )
    return "\n".join(text)


def compatibility_table() -> str:
    """What the tests with the mark `covers` run on what. They start no metastores but those that the mark names."""
    from tests.testbed.hive import HIVES

    rows: set[tuple[str, str, str, str, str]] = set()
    for path, mark in _marks("covers"):
        what, *flavours = (ast.literal_eval(argument) for argument in mark.args)
        (cache,) = (ast.literal_eval(word.value) for word in mark.keywords if word.arg == "cache")
        for flavour in flavours:
            on = HIVES[flavour]
            database = "MariaDB" if on.on_mariadb else "Derby" if on.schema is None else "PostgreSQL"
            rows.add((what, on.version, database, cache, f"{path.relative_to(ROOT)}"))
    table = ["| What | Hive | Its database | Cache | Test |", "|---|---|---|---|---|"]
    table += [f"| {' | '.join(row[:-1])} | `{row[-1]}` |" for row in sorted(rows)]
    return "\n".join(table)


def secured_table() -> str:
    """What the tests with the mark `secures` run: who logs in how, and whom the metastore takes a call to come from."""
    rows: set[tuple[str, ...]] = set()
    for path, mark in _marks("secures"):
        said = {word.arg: ast.literal_eval(word.value) for word in mark.keywords}
        rows.add((*(said[name] for name in ("client", "login", "metastore", "who")), f"{path.relative_to(ROOT)}"))
    table = ["| Client | Logs in by | Metastore | It takes calls to come from | Test |", "|---|---|---|---|---|"]
    table += [f"| {' | '.join(row[:-1])} | `{row[-1]}` |" for row in sorted(rows)]
    return "\n".join(table)


def _marks(name: str) -> Iterator[tuple[Path, ast.Call]]:
    """The marks of this name on tests, and their files."""
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            for mark in node.decorator_list if isinstance(node, ast.FunctionDef) else ():
                if isinstance(mark, ast.Call) and ast.unparse(mark.func) == f"pytest.mark.{name}":
                    yield path, mark


def recorded_table() -> str:
    """Whose results a recording holds."""
    names = sorted(name.decode() for name in ALLOWED)
    return f"## All {len(names)} methods that are recorded\n\n" + ", ".join(f"`{name}`" for name in names)


def grant_block() -> str:
    """The script that the doctor prints, for a database whose name it does not know."""
    return f"```sql\n{grant_script()}```"


def mysql_grant_block() -> str:
    """The same for MySQL and MariaDB."""
    return f"```sql\n{grant_script(product=MYSQL)}```"


TABLES: dict[str, Callable[[], str]] = {
    "settings": settings_table,
    "metrics": metrics_table,
    "reasons": reasons_tables,
    "methods": methods_table,
    "embedded": embedded_table,
    "compatibility": compatibility_table,
    "secured": secured_table,
    "recorded": recorded_table,
    "grant": grant_block,
    "mysql grant": mysql_grant_block,
    "structure": lambda: structure.mermaid(ROOT),
    **pages.PARTS,
}


def built(page: str) -> str:
    """The page with its generated parts as they have to be. Raises ValueError if it has one that nobody makes."""
    if unknown := set(re.findall(r"<!-- begin (.+?) -->", page)) - TABLES.keys():
        raise ValueError(f"no such generated part: {', '.join(sorted(unknown))}")
    for name, make in TABLES.items():
        pattern = re.compile(rf"(<!-- begin {name} -->\n).*?(<!-- end {name} -->)", re.DOTALL)
        page = pattern.sub(lambda m, make=make: f"{m[1]}\n{make()}\n\n{m[2]}", page)  # type: ignore[misc]
    return page


def main() -> None:
    """Rewrite what changed."""
    for path in [ROOT / "README.md", *sorted(DIRECTORY.rglob("*.md"))]:
        page = path.read_text("utf-8")
        new = built(page)
        if new != page:
            path.write_text(new, "utf-8")
            print(f"written: {path.relative_to(DIRECTORY.parent)}")


if __name__ == "__main__":
    main()
