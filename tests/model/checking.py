"""Spin, run on one model: build its checker, search a setting, tell what was found.

Job: what a model says of itself (settings, rules, moments), its checker, the outcome of a search, a counterexample in
words. Must not know: what a model is about.

Invariants: a search that did not come to its end, for whatever reason, raises; a part of the states says nothing.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

HERE: Final = Path(__file__).parent
MODELS: Final = tuple(sorted(path.stem for path in HERE.glob("*.pml") if path.stem != "harness"))
MEMORY_MB: Final = 1500
DEPTH: Final = 1_000_000
_DEFINED: Final = re.compile(r"^#define ([A-Z_]+) +(\d+) +/\* (SETTING|RULE|MOMENT)([A-Z ]*): (.*?) \*/$", re.MULTILINE)
_VIOLATED: Final = re.compile(r"^pan:1: (.*?) \(at depth \d+\)$", re.MULTILINE)
_STATES: Final = re.compile(r"(\d+) states, stored")
_MEMORY: Final = re.compile(r"([\d.]+)\ttotal actual memory usage")
_REACHED: Final = re.compile(r"^REACHED (\d+) (\d+)$", re.MULTILINE)


class CheckFailed(RuntimeError):
    """Spin, the compiler or the checker did not do its work."""


@dataclass(frozen=True, slots=True)
class Name:
    """A setting, a rule that can be left out, or a moment that must be reached; `settings`: where that shows."""

    name: str
    number: int
    settings: tuple[str, ...]
    text: str


@dataclass(frozen=True, slots=True)
class Outcome:
    """Of a whole search, or of one that ended at the first violation. `reached`: how often each moment was."""

    violated: str | None
    states: int
    seconds: float
    memory_mb: float
    reached: dict[str, int]


class Model:
    """One model."""

    def __init__(self, name: str) -> None:
        self.name = name
        found: dict[str, list[Name]] = {"SETTING": [], "RULE": [], "MOMENT": []}
        for word, number, kind, where, text in _DEFINED.findall((HERE / f"{name}.pml").read_text()):
            found[kind].append(Name(word, int(number), tuple(where.split()), text))
        self.settings, self.rules, self.moments = (
            {one.name: one for one in found[kind]} for kind in ("SETTING", "RULE", "MOMENT")
        )

    def build(self, directory: Path, *, shortest: bool = False) -> Checker:
        """The checker, compiled in `directory`; `shortest`: it searches by length: a counterexample is short."""
        directory.mkdir(parents=True, exist_ok=True)
        for path in HERE.glob("*.pml"):
            shutil.copy(path, directory)
        _run(["spin", "-a", f"{self.name}.pml"], directory)
        options = ["-DSAFETY", "-DNOFAIR", "-DCOLLAPSE", f"-DMEMLIM={MEMORY_MB}", *(["-DBFS"] if shortest else [])]
        _run(["gcc", "-O2", "-w", *options, "-o", "pan", "pan.c"], directory)
        return Checker(self, directory)


class Checker:
    """A model's compiled checker."""

    def __init__(self, model: Model, directory: Path) -> None:
        self.model = model
        self._directory = directory

    def search(self, setting: str, rule: str | None = None) -> Outcome:
        """All states of a setting, up to the first violation; `rule` is left out."""
        began_s = time.monotonic()
        told = self._pan(setting, rule, f"-m{DEPTH}", "-w22")
        violated = _VIOLATED.search(told)
        states, memory = _STATES.search(told), _MEMORY.search(told)
        whole = violated is not None or ("errors: 0" in told and "search depth too small" not in told)
        if states is None or memory is None or not whole or "Search not completed" in told and violated is None:
            raise CheckFailed(
                f"{self.model.name} {setting} {rule}: the search did not come to its end:\n{told[-3000:]}"
            )
        numbers = {one.number: one.name for one in self.model.moments.values()}
        reached = {numbers[int(number)]: int(count) for number, count in _REACHED.findall(told)}
        seconds = time.monotonic() - began_s
        return Outcome(violated and violated[1], int(states[1]), seconds, float(memory[1]), reached)

    def counterexample(self, setting: str, rule: str | None) -> list[str]:
        """After a search that found a violation: what happened, a line for each event."""
        told = self._pan(setting, rule, "-r", "-n")
        lines = [line.strip() for line in told.splitlines()]
        return [line for line in lines if re.match(r"(client|proxy|metastore|worker|follower|the clock)\b", line)]

    def _pan(self, setting: str, rule: str | None, *arguments: str) -> str:
        planted = 0 if rule is None else self.model.rules[rule].number
        chosen = {"SETTING": str(self.model.settings[setting].number), "PLANTED": str(planted)}
        return _run(["./pan", *arguments], self._directory, {**os.environ, **chosen})


def _run(command: list[str], directory: Path, environment: dict[str, str] | None = None) -> str:
    try:
        done = subprocess.run(command, cwd=directory, env=environment, capture_output=True, text=True, timeout=300)
    except OSError as error:
        raise CheckFailed(f"{command[0]}: {error.strerror} (`make servers-all` installs spin)") from error
    told = done.stdout + done.stderr
    if done.returncode != 0 and command[0] != "./pan":
        raise CheckFailed(f"{' '.join(command)} ended with {done.returncode}:\n{told[:2000]}")
    return told
