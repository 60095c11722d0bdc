"""Check the models: `python -m tests.model [MODEL ...]`, `python -m tests.model MODEL --rule RULE [--setting SETTING]`.

Without a rule: every setting of the models, which must hold, then every rule left out, which must not. With one: its
counterexample, an event a line.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from tests.model.checking import MODELS, Model


def main() -> int:
    """The command line; 1 if a setting does not hold, or does with a rule left out."""
    parser = argparse.ArgumentParser(prog="python -m tests.model", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("model", nargs="*", default=MODELS, help=", ".join(MODELS))
    parser.add_argument("--rule", help="leave this rule out, and show what goes wrong")
    parser.add_argument("--setting", help="where; a rule knows its own")
    options = parser.parse_args()
    if unknown := set(options.model) - set(MODELS):
        parser.error(f"there is no model {', '.join(sorted(unknown))}; there are {', '.join(MODELS)}")
    if options.rule and len(options.model) != 1:
        parser.error("--rule is of one model")
    with tempfile.TemporaryDirectory(prefix="hms-model-") as scratch:
        if options.rule:
            model = Model(options.model[0])
            if options.rule not in model.rules:
                parser.error(f"{model.name} has the rules {', '.join(model.rules)}")
            return show(model, options.rule, options.setting or model.rules[options.rule].settings[0], Path(scratch))
        return max(check(Model(name), Path(scratch) / name) for name in options.model)


def check(model: Model, directory: Path) -> int:
    """Every setting, every rule."""
    checker = model.build(directory)
    wrong = 0
    for setting in model.settings.values():
        outcome = checker.search(setting.name)
        expected = {one.name for one in model.moments.values() if setting.name in one.settings}
        missing = sorted(expected - outcome.reached.keys())
        verdict = outcome.violated or (f"never reached: {', '.join(missing)}" if missing else "holds")
        wrong += verdict != "holds"
        print(
            f"{model.name:10} {setting.name:26} {outcome.states:9,} states {outcome.seconds:5.1f} s  {verdict}",
            flush=True,
        )
    for rule in model.rules.values():
        for where in rule.settings:
            outcome = checker.search(where, rule.name)
            wrong += outcome.violated is None
            verdict = "fails, as it must" if outcome.violated else "HOLDS"
            said = f"{model.name:10} {rule.name:26} {outcome.states:9,} states {outcome.seconds:5.1f} s"
            print(f"{said}  {verdict} ({where}): {rule.text}", flush=True)
    return int(wrong > 0)


def show(model: Model, rule: str, setting: str, directory: Path) -> int:
    """A shortest counterexample."""
    checker = model.build(directory, shortest=True)
    outcome = checker.search(setting, rule)
    if outcome.violated is None:
        print(f"{model.name} {setting} holds without {rule}")
        return 1
    print("\n".join(checker.counterexample(setting, rule)))
    print(f"=> {outcome.violated}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
