"""The list of cancelled tokens that workers share."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from hms_cache_proxy.config.tokens import TokensSection
from hms_cache_proxy.errors import ConfigError, WireError
from hms_cache_proxy.security.cancelled_tokens import CancelledTokens, packed, unpacked
from hms_cache_proxy.security.principals import ShortNames
from hms_cache_proxy.security.token_issuer import Caller, NotAllowed, TokenIssuer
from hms_cache_proxy.security.token_keys import followed_keys, make, read_keys
from hms_cache_proxy.security.tokens import Identifier, Token, encode_number, parse_identifier, parse_token
from tests.server import digest


def mark(number: int) -> bytes:
    return number.to_bytes(16, "big")


def test_every_worker_knows(tmp_path: Path) -> None:
    one, other = (CancelledTokens(tmp_path / "list") for _ in range(2))
    assert mark(1) not in one
    assert one.add(mark(1), 100, 0) and mark(1) in one and mark(1) in other
    assert other.add(mark(2), 100, 0) and other.add(mark(2), 100, 0)
    assert mark(2) in one and (tmp_path / "list").stat().st_size == 48
    assert (tmp_path / "list").stat().st_mode & 0o077 == 0


def test_a_full_disk_is_an_answer(tmp_path: Path) -> None:
    """And the token is still good."""
    cancelled = CancelledTokens(tmp_path / "list")
    names = ShortNames(["DEFAULT"], "R", key="rules")
    issuer = TokenIssuer(TokensSection(), followed_keys("", tmp_path / "key"), cancelled, names)
    alice = Caller("alice", "127.0.0.1", by_token=False)
    text, token = issuer.issue(alice, "alice", "yarn")
    lock = tmp_path / "list.lock"
    lock.mkdir()  # so that nobody can write, not even root
    with pytest.raises(NotAllowed, match="the cancellation cannot be recorded: Is a directory"):
        issuer.cancel(alice, text)
    lock.rmdir()
    assert issuer.cancel(alice, text) == token
    with pytest.raises(NotAllowed, match="has been cancelled"):
        issuer.cancel(alice, text)


def test_it_is_bounded(tmp_path: Path) -> None:
    """Expired ones make room."""
    one, other = (CancelledTokens(tmp_path / "list", 3) for _ in range(2))
    assert all(one.add(mark(number), 10 * number, 0) for number in (1, 2, 3))
    assert mark(3) in other
    assert not one.add(mark(4), 100, 5)
    assert one.add(mark(4), 100, 15)
    assert [number for number in range(6) if mark(number) in other] == [2, 3, 4]


def test_many_are_added_as_far_as_there_is_room(tmp_path: Path) -> None:
    one, other = (CancelledTokens(tmp_path / "list", 3) for _ in range(2))
    assert one.add_all({mark(1): 10, mark(2): 20}, 0)
    assert other.add_all({mark(1): 10, mark(2): 20}, 0) and (tmp_path / "list").stat().st_size == 48
    assert not other.add_all({mark(2): 20, mark(3): 30, mark(4): 40}, 5)
    assert dict(one.all()) == {mark(1): 10, mark(2): 20, mark(3): 30}
    assert one.all() is one.all()
    assert other.add_all({mark(4): 40}, 15)
    assert dict(one.all()) == {mark(2): 20, mark(3): 30, mark(4): 40}
    assert unpacked(packed(one.all().items())) == dict(one.all())


def test_a_crash_in_the_middle(tmp_path: Path) -> None:
    one = CancelledTokens(tmp_path / "list")
    one.add(mark(1), 100, 0)
    with (tmp_path / "list").open("ab") as file:
        file.write(b"half a record")
    late = CancelledTokens(tmp_path / "list")
    assert mark(1) in late and late.add(mark(2), 100, 0)
    assert mark(2) in one and mark(1) in one and (tmp_path / "list").stat().st_size == 48


def test_many_at_once(tmp_path: Path) -> None:
    def add(worker: int) -> None:
        mine = CancelledTokens(tmp_path / "list")
        assert all(mine.add(mark(worker * 100 + number), 100, 0) for number in range(50))

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(add, range(4)))
    found = CancelledTokens(tmp_path / "list")
    assert all(mark(worker * 100 + number) in found for worker in range(4) for number in range(50))


def test_keys(tmp_path: Path) -> None:
    file = tmp_path / "token-key"
    make(file)
    made = file.read_text()
    make(file)
    assert file.read_text() == made and file.stat().st_mode & 0o077 == 0
    keys = read_keys(file)
    assert keys.signing in keys and keys.password(b"x", keys.signing) != keys.password(b"y", keys.signing)
    for wrong in ("", "# nothing\n", "short\n", "x\n" * 200):
        file.write_text(wrong)
        with pytest.raises(ConfigError, match=r"tokens\.key_file: "):
            read_keys(file)
    with pytest.raises(ConfigError, match="No such file"):
        read_keys(tmp_path / "absent")


def test_forms() -> None:
    for value in (0, 1, 127, 128, 255, 256, -1, -112, -113, 2**31 - 1, -(2**31), 1_795_000_000_000):
        made = Identifier("o" * 200, "", "é", value, -value, 1, 2**31 - 1)
        assert parse_identifier(made.encoded()) == made
    assert [encode_number(value).hex() for value in (127, 128, -113, 256)] == ["7f", "8f80", "8770", "8e0100"]
    made = Identifier("alice", "hive", "", 1_795_000_000_000, 1_795_000_000_001, 5, 2**31 - 1)
    token = Token(made.encoded(), b"secret" * 5)
    assert parse_token(token.text()) == token and digest.said(token.text()) == tuple(made)
    for wrong in ("", "é", "A" * 20_000, token.text()[:-4], "____"):
        with pytest.raises(WireError):
            parse_token(wrong)
