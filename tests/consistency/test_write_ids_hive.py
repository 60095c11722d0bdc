"""The same questions to Hive's own classes: what they print, read, and find equivalent."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from hms_cache_proxy.consistency.write_ids import equivalent
from hms_cache_proxy.errors import WriteIdsError
from hms_cache_proxy.store.txn_list import NONE_OPEN, ValidTxnList
from hms_cache_proxy.store.write_ids import ValidWriteIdList, lists_by_table
from tests.chance import chance as drawn
from tests.consistency.hive_lists import HiveLists, compiled
from tests.consistency.test_write_ids import MALFORMED, SHORT_FORMS, TEXTS, TXN_TEXTS

PAIRS = 4000
TEXTS_OF_ANY_KIND = 3000


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The compiled program."""
    return compiled(tmp_path_factory.mktemp("classes"))


@pytest.fixture(params=["hive42", "hive40"])
def hive(request: pytest.FixtureRequest, program: Path) -> HiveLists:
    """Hive's classes of each version whose clients send lists."""
    return HiveLists(request.param, program)


def some_list(chance: random.Random) -> ValidWriteIdList:
    """Small ones, so that many are equivalent or nearly so; some with runs of invalid ids up to the high watermark."""
    high = chance.randint(0, 14)
    invalid = {id_ for id_ in range(1, high + 1) if chance.random() < 0.3}
    if chance.random() < 0.5:
        invalid |= set(range(chance.randint(1, 15), high + 1))
    if chance.random() < 0.05:
        invalid.add(high + chance.randint(1, 3))
    aborted = {id_ for id_ in invalid if chance.random() < 0.4}
    table = chance.choice([b"db.t"] * 8 + [b"DB.T", b"db.table", b"da.t"])
    return ValidWriteIdList.of(table, high, invalid, aborted, min(invalid - aborted, default=None))


def later(one: ValidWriteIdList, chance: random.Random) -> ValidWriteIdList:
    """The list after a little that happened: writes began, and some of them ended."""
    high, invalid, aborted = one.high_watermark, set(one.invalid), set(one.aborted)
    if max(invalid, default=0) > high:
        return one
    for _ in range(chance.randint(0, 3)):
        id_ = high + chance.randint(0, 2) or 1
        invalid |= set(range(high + 1, id_ + 1))
        high = max(high, id_)
        match chance.choice(("began", "began", "aborted", "committed")):
            case "aborted":
                invalid.add(id_)
                aborted.add(id_)
            case "committed":
                invalid.discard(id_)
                aborted.discard(id_)
    return ValidWriteIdList.of(one.table or b"", high, invalid, aborted, min(invalid - aborted, default=None))


def described(one: ValidWriteIdList | ValidTxnList, invalid: tuple[int, ...]) -> str:
    """As HiveLists.java does it."""
    low = "null" if one.min_open == NONE_OPEN else one.min_open
    return f"{one.text().decode()} {one.high_watermark} {low} [{','.join(map(str, invalid))}]"


def test_which_are_equivalent(hive: HiveLists) -> None:
    """An id over its high watermark, which no metastore makes, proves nothing here; Hive takes it for one below."""
    chance = drawn(7)
    pairs = [(one := some_list(chance), later(one, chance)) for _ in range(PAIRS)]
    pairs += [(some_list(chance), some_list(chance)) for _ in range(PAIRS)]
    pairs = [pair for pair in pairs if all(max(one.invalid, default=0) <= one.high_watermark for one in pair)]
    answers = hive.ask([("compare", a.text().decode(), b.text().decode()) for a, b in pairs])
    same = [int(answer) == 0 for answer in answers]
    assert same == [equivalent(a.text(), b.text()) for a, b in pairs]
    assert PAIRS / 20 < sum(same) < len(pairs) - PAIRS / 20


def test_what_is_valid(hive: HiveLists) -> None:
    chance = drawn(8)
    asked = [(some_list(chance), chance.randint(1, 16)) for _ in range(PAIRS)]
    answers = hive.ask([("valid", one.text().decode(), str(id_)) for one, id_ in asked])
    assert answers == [str(one.is_valid(id_)).lower() for one, id_ in asked]


def damaged(text: bytes, chance: random.Random) -> bytes:
    """The text with a few characters of its kind put in, taken out or repeated."""
    characters = list(text)
    for _ in range(chance.randint(0, 4)):
        at = chance.randrange(len(characters) + 1)
        match chance.randrange(3):
            case 0:
                characters.insert(at, chance.choice(b":,,:0123456789-+ x"))
            case 1:
                del characters[at : at + chance.randint(1, 3)]
            case _:
                characters[at:at] = characters[at : at + 2]
    return bytes(characters)


def texts(chance: random.Random) -> Iterator[bytes]:
    for _ in range(TEXTS_OF_ANY_KIND):
        yield damaged(some_list(chance).text(), chance)


def test_reading(hive: HiveLists) -> None:
    """What we read, Hive reads as the same; what Hive cannot read we do not either."""
    asked = [text for text, _ in (*TEXTS, *SHORT_FORMS)] + [*texts(drawn(9))]
    asked += [text for text in MALFORMED if text.isascii() and b"\n" not in text]
    answers = hive.ask([("list", text.decode()) for text in asked])
    read = stricter = 0
    for text, answer in zip(asked, answers, strict=True):
        try:
            one = ValidWriteIdList.parse(text)
        except WriteIdsError:
            stricter += not answer.startswith("!")
            continue
        read += 1
        assert answer == described(one, one.invalid), text
    assert read > TEXTS_OF_ANY_KIND / 3
    assert stricter < TEXTS_OF_ANY_KIND / 4


def test_reading_transactions(hive: HiveLists) -> None:
    chance = drawn(10)
    asked = [text for text, _ in TXN_TEXTS] + [b"", b"5:9", b"5:3:3", b"5:9:2-:", b"5:9:1,,2:", b"5"]
    for _ in range(TEXTS_OF_ANY_KIND):
        named = sorted(chance.sample(range(1, 40), chance.randint(0, 30)))
        aborted = tuple(id_ for id_ in named if chance.random() < 0.2)
        opened = tuple(id_ for id_ in named if id_ not in aborted)
        one = ValidTxnList(chance.randint(0, 50), min(opened, default=NONE_OPEN), opened, aborted)
        text = one.text(ranges=chance.random() < 0.5)
        asked.append(damaged(text, chance) if chance.random() < 0.5 else text)
    answers = hive.ask([("txns", text.decode()) for text in asked])
    read = 0
    for text, answer in zip(asked, answers, strict=True):
        try:
            one = ValidTxnList.parse(text)
        except WriteIdsError:
            continue
        read += 1
        exceptions = tuple(sorted((*one.open, *one.aborted)))
        if 0 in exceptions:  # no transaction has this id; Hive prints it as -1,0
            assert answer.partition(" ")[2] == described(one, exceptions).partition(" ")[2], text
        else:
            assert answer == described(one, exceptions), text
    assert read > TEXTS_OF_ANY_KIND / 2


def test_several_tables(hive: HiveLists) -> None:
    asked = [b"7$db.t:5:9223372036854775807::$db.u:4:4:4:2", b"7", b"7$", b"7$a.b:5:9::$a.b:6:9::", b"0$a.b:1:2"]
    for text, answer in zip(asked, hive.ask([("all", text.decode()) for text in asked]), strict=True):
        assert sorted(answer.encode().split(b"$")[1:]) == sorted(one.text() for one in lists_by_table(text).values())


def test_of_a_server(hive: HiveLists) -> None:
    """A reader's list from an answer of get_valid_write_ids."""
    chance = drawn(11)
    made = [
        one for one in (some_list(chance) for _ in range(PAIRS)) if max(one.invalid, default=0) <= one.high_watermark
    ]
    words = [
        (
            one.table.decode() if one.table else "",
            str(one.high_watermark),
            ",".join(map(str, one.invalid)),
            ",".join(map(str, sorted(one.aborted))),
            "" if one.min_open == NONE_OPEN else str(one.min_open),
        )
        for one in made
    ]
    assert hive.ask([("reader", *word) for word in words]) == [one.text().decode() for one in made]
