"""Filters of partitions, generated from a table's keys and values: a part of `Reads`.

Most are such that a metastore understands them. `hostile` ones have literals of other types, keys written oddly,
several keys at once, hundreds of terms, or are no filters at all.
"""

from __future__ import annotations

import random

from tests.differential.contents import LATIN1_ENDS, STRING_VALUES, TableNote, World

NO_FILTERS = [
    "", " ", "nokey = 'x'", "1 = 1", "dt", "dt = ", "(", ")", "()", "dt = 'a' and", "= 'a'", "dt = 'a", "dt == 'a'",
    "dt = 'a' dt = 'b'", "not dt = 'a'", "dt is null", "dt in ()", "dt between 'a'", "dt = dt", "true", "'a' = 'a'",
    "dt = 'a' ; drop", "dt = ''", "dt = \"\"", "-- x", "dt = 'a' or 1 = 1", "dt like 'a%'", "dt not like 'a_'",
    "dt = null", "date = '2024-01-01'", "hr = 1e3", "hr = 1.5", "hr = 0x1", "hr = +1", "hr = 1L", "hr = - 1",
]  # fmt: skip
PLAIN_NO_FILTERS = ["", "nokey = 'x'", "1 = 1", "dt", "dt = ", "(", "dt like 'a%'"]
ODD_LITERALS = [
    "0", "-0", "-1", "007", "1.5", "99999999999999999999", "-9223372036854775808", "9223372036854775807", '"1"', "'x'",
    "2024-01-01", "date '2024-01-01'", "DATE\"2024-01-01\"", "date '2024-02-30'", '"2024-1-1"',
    "timestamp '2024-01-01 00:00:00'", "2024-01-01 00:00:00", "true", "'__HIVE_DEFAULT_PARTITION__'", "''", "' '",
    "'%'", "'a''b'", "'a\\'b'",
]  # fmt: skip
_NUMBERS = ("int", "bigint", "smallint", "tinyint")


class Filters:
    """Makes filters; a part of `Reads`."""

    rng: random.Random
    world: World
    hostile = False

    def _odd(self, share: float) -> bool:
        return self.hostile and self.rng.random() < share

    def filter(self, note: TableNote, depth: int = 0) -> str:
        """One filter of this table's partitions."""
        rng = self.rng
        if depth < 3 and rng.random() < 0.3:
            joint = rng.choice([" and ", " or ", " AND ", " oR ", "\n and\t"])
            left, right = self.filter(note, depth + 1), self.filter(note, depth + 1)
            return f"({left}){joint}({right})" if rng.random() < 0.5 else f"{left}{joint}{right}"
        if not depth and self._odd(0.02):
            return self._long(note)
        if not note.keys or rng.random() < 0.04:
            return rng.choice(NO_FILTERS if self.hostile else PLAIN_NO_FILTERS)
        if len(note.keys) > 1 and self._odd(0.04):
            return self._of_several_keys(note)
        key, kind = rng.choice(note.keys)
        literal = self._literal(note, key, kind)
        name = self._key(key)
        if rng.random() < 0.12:
            literals = ", ".join([literal, *(self._literal(note, key, kind) for _ in range(rng.choice([0, 1, 5])))])
            return f"{name} {rng.choice(['in', 'IN', 'not in']) if self._odd(0.5) else 'in'} ({literals})"
        if rng.random() < 0.12:
            other = self._literal(note, key, kind)
            word = rng.choice(["between", "not between", "BETWEEN"]) if self._odd(0.5) else "between"
            return f"{name} {word} {literal} and {other}"
        operator = rng.choice(["=", "=", "=", "!=", "<>", "<", "<=", ">", ">="])
        blank = rng.choice(["", "\n"]) if self._odd(0.4) else " "
        if rng.random() < 0.1:
            return f"{literal}{blank}{operator}{blank}{name}"
        return f"{name}{blank}{operator}{blank}{literal}"

    def _key(self, key: str) -> str:
        if not self._odd(0.1):
            return key
        return self.rng.choice([key.upper(), key.title(), f"`{key}`", f" {key} "])

    def _literal(self, note: TableNote, key: str, kind: str) -> str:
        rng = self.rng
        if self._odd(0.05):
            return rng.choice(ODD_LITERALS)
        value = rng.choice(note.partitions)[[name for name, _ in note.keys].index(key)] if note.partitions else "0"
        if rng.random() < 0.2:
            value = rng.choice(STRING_VALUES)
        if self.world.latin1:  # of what is beyond it a metastore on MySQL asks for 20 s before it refuses
            value = "ÿ" if max(value, default="") > "ÿ" else value
            value += rng.choice(LATIN1_ENDS) if rng.random() < 0.1 else ""
        if kind in _NUMBERS and rng.random() < 0.8:
            return value
        quoted = f'"{value}"'
        if rng.random() < 0.3:
            quoted = quoted.replace('"', "'")
        if kind == "date" and self._odd(0.3):
            return rng.choice([f"date {quoted}", value, f"DATE {quoted}"])
        return quoted

    def _long(self, note: TableNote) -> str:
        terms = []
        for _ in range(self.rng.choice([20, 150])):
            key, kind = self.rng.choice(note.keys or [("dt", "string")])
            terms.append(f"{key} = {self._literal(note, key, kind)}")
        return " or ".join(terms)

    def _of_several_keys(self, note: TableNote) -> str:
        keys = self.rng.sample(note.keys, 2)
        rows = [f"({', '.join(self._literal(note, *key) for key in keys)})" for _ in range(self.rng.choice([1, 2, 4]))]
        names = ", ".join(key for key, _ in keys)
        form = self.rng.choice(["({}) in ({})", "struct({}) in (const struct{})"])
        return form.format(names, ", ".join(rows) if form[0] == "(" else ", const struct".join(rows))
