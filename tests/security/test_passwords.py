"""Passwords: what a client may send, what is remembered, a file, and a real directory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import bcrypt
import pytest

from hms_cache_proxy.config.passwords import LdapSection
from hms_cache_proxy.errors import ConfigError, WireError
from hms_cache_proxy.security.mechanism import LoginRefused
from hms_cache_proxy.security.passwords import PlainLogin, Remembered, Unchecked, WrongPassword, parse_plain
from tests.chance import chance
from tests.testbed.fault_proxy import FaultProxy

ALICE = ("alice", b"secret")
COST = 4  # the least of bcrypt


class Counted:
    """alice's password is `secret`; the directory spells her Alice."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, bytes]] = []
        self.away = False

    def check(self, user: str, password: bytes) -> str:
        self.asked.append((user, password))
        if self.away:
            raise Unchecked("it is away")
        if (user, password) != ALICE:
            raise WrongPassword("no")
        return "Alice"


@pytest.mark.parametrize(
    ("response", "text"),
    [
        (b"", "Error validating the login"),
        (b"alice\0secret", "Error validating the login"),
        (b"\0alice\0secret\0", "Error validating the login"),
        (b"\0alice\0", "Error validating the login"),
        (b"\0\0secret", "Error validating the login"),
        (b"\0\xff\0secret", "Error validating the login"),
        (b"\0 alice\0secret", "Error validating the login"),
        (b"\0al\nice\0secret", "Error validating the login"),
        (b"\0" + b"a" * 257 + b"\0secret", "Error validating the login"),
        (b"\0alice\0" + b"s" * 1025, "Error validating the login"),
        (b"bob\0alice\0secret", "Problem with callback handler"),
    ],
)
def test_responses_that_are_refused(response: bytes, text: str) -> None:
    counted = Counted()
    with pytest.raises(LoginRefused, match=text):
        PlainLogin(counted).step(response)
    assert counted.asked == []


def test_any_bytes_are_refused_or_read() -> None:
    random = chance()
    for _ in range(20_000):
        response = bytes(random.choices(b"\0\0\0ab\xc3\xa9 \n", k=random.randrange(12)))
        try:
            user, password = parse_plain(response)
        except WireError:
            continue
        assert response in (
            b"\0%b\0%b" % (user.encode(), password),
            b"%b\0%b\0%b" % (user.encode(), user.encode(), password),
        )


def test_the_user_is_spelled_as_the_directory_does() -> None:
    login = PlainLogin(Counted())
    assert login.step(b"alice\0alice\0secret") == (b"", True)
    assert login.principal == "Alice"
    assert login.protection.wrap(b"message") == login.protection.unwrap(b"message") == b"message"


def test_what_is_remembered() -> None:
    counted, now = Counted(), [100.0]
    remembered = Remembered(counted, 60, lambda: now[0])
    for _ in range(3):
        assert remembered.check(*ALICE) == "Alice"
        with pytest.raises(WrongPassword):
            remembered.check("alice", b"wrong")
        with pytest.raises(WrongPassword):
            remembered.check("bob", b"secret")
    assert len(counted.asked) == 3
    now[0] += 60
    assert remembered.check(*ALICE) == "Alice"
    assert len(counted.asked) == 4
    remembered.forget()
    assert remembered.check(*ALICE) == "Alice"
    assert len(counted.asked) == 5


def test_that_nobody_answers_is_not_remembered() -> None:
    counted = Counted()
    remembered = Remembered(counted, 60)
    counted.away = True
    for _ in range(2):
        with pytest.raises(Unchecked):
            remembered.check(*ALICE)
    counted.away = False
    assert remembered.check(*ALICE) == "Alice"
    counted.away = True
    assert remembered.check(*ALICE) == "Alice"


def test_nothing_is_remembered_where_nothing_is_to_be() -> None:
    counted = Counted()
    for _ in range(2):
        assert Remembered(counted, 0).check(*ALICE) == "Alice"
    assert len(counted.asked) == 2


def hashed(password: bytes) -> str:
    return bcrypt.hashpw(password, bcrypt.gensalt(COST)).decode()


def test_a_file(tmp_path: Path) -> None:
    from hms_cache_proxy.security.password_file import PasswordFile

    file = tmp_path / "passwords"
    file.write_text(f"# users\n\nalice:{hashed(b'secret')}\nzoë:{hashed(b'x' * 72)}\n")
    passwords = PasswordFile(str(file))
    assert passwords.check(*ALICE) == "alice"
    assert passwords.check("zoë", b"x" * 72) == "zoë"
    for user, password in (("alice", b"Secret"), ("bob", b"secret"), ("Alice", b"secret"), ("zoë", b"x" * 73)):
        with pytest.raises(WrongPassword):
            passwords.check(user, password)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("alice:secret\n", "line 1: must be USER:HASH"),
        ("alice:$apr1$lZL6V/ci$eIMz/iKDkbtys/uU7LEK00\n", "line 1: must be USER:HASH"),
        ("\n:$2b$04$" + "a" * 53, "line 2: must be USER:HASH"),
        ("alice:$2b$03$" + "a" * 53, "line 1: must be USER:HASH"),
        ("alice:$2b$32$" + "a" * 53, "line 1: must be USER:HASH"),
    ],
)
def test_files_that_cannot_be_used(tmp_path: Path, text: str, problem: str) -> None:
    from hms_cache_proxy.security.password_file import PasswordFile

    file = tmp_path / "passwords"
    file.write_text(text)
    with pytest.raises(ConfigError, match=problem):
        PasswordFile(str(file))
    with pytest.raises(ConfigError, match="No such file"):
        PasswordFile(str(tmp_path / "none"))


USERS = {"alice": "secret", "bob": "other", "o,d+d": "odd", "ann": "", "eve(*)": "star"}


@pytest.fixture(scope="module")
def slapd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A directory for this module."""
    from tests.testbed.slapd import Slapd

    with Slapd(tmp_path_factory.mktemp("slapd"), USERS) as slapd:
        yield slapd


def sections(slapd: Any, tmp_path: Path) -> dict[str, LdapSection]:
    """Each way to find a user's entry, over each way to the directory."""
    from tests.testbed import slapd as lab

    secret = tmp_path / "bind-password"
    secret.write_text(lab.MANAGER_PASSWORD + "\n")
    pattern = LdapSection(url=slapd.url, user_dn=f"uid={{user}},{lab.BASE}", timeout_s=20)
    search = LdapSection(
        url=slapd.url, base_dn="dc=lab,dc=test", bind_dn=lab.MANAGER, bind_password_file=str(secret), timeout_s=20
    )
    tls: dict[str, Any] = {"url": slapd.secure_url, "ca": str(slapd.authority)}
    start: dict[str, Any] = {"start_tls": True, "ca": str(slapd.authority)}
    return {
        "pattern": pattern,
        "search": search,
        "pattern tls": replace(pattern, **tls),
        "search tls": replace(search, **tls),
        "pattern starttls": replace(pattern, **start),
        "search starttls": replace(search, **start),
    }


@pytest.mark.parametrize(
    "how", ["pattern", "search", "pattern tls", "search tls", "pattern starttls", "search starttls"]
)
def test_a_directory(slapd: Any, tmp_path: Path, how: str) -> None:
    from hms_cache_proxy.security.directory import LdapDirectory

    directory = LdapDirectory(sections(slapd, tmp_path)[how])
    for user, password in USERS.items():
        if password:
            assert directory.check(user, password.encode()) == user
        for wrong in (b"wrong", b"secret2", b"\xff"):
            with pytest.raises(WrongPassword):
                directory.check(user, wrong)
    for user in ("nobody", "*", "alice,ou=people", "alice)(uid=*", "al*", "\\2a"):
        with pytest.raises(WrongPassword):
            directory.check(user, b"secret")


def test_spelling_is_that_of_the_entry(slapd: Any, tmp_path: Path) -> None:
    from hms_cache_proxy.security.directory import LdapDirectory

    found = sections(slapd, tmp_path)
    assert LdapDirectory(found["search"]).check("ALICE", b"secret") == "alice"
    several = replace(found["search"], user_filter="(&(objectClass=inetOrgPerson)(|(uid={user})(uid=*)))")
    assert "several entries" in refusal(LdapDirectory(several))
    no_such = replace(found["search"], user_attribute="mail")
    assert "0 values of mail" in refusal(LdapDirectory(no_such))


def refusal(passwords: Any) -> str:
    """What the log says about alice's right password."""
    with pytest.raises(LoginRefused) as refused:
        passwords.check(*ALICE)
    return refused.value.detail


def test_a_refused_password_is_sent_once(slapd: Any, tmp_path: Path) -> None:
    from hms_cache_proxy.security.directory import LdapDirectory

    passwords = Remembered(LdapDirectory(sections(slapd, tmp_path)["search"]), 60)
    before = slapd.binds("bob")
    for _ in range(5):
        with pytest.raises(WrongPassword):
            passwords.check("bob", b"not bob's")
    assert slapd.binds("bob") == before + 1


def test_the_directory_is_away_and_comes_back(slapd: Any, tmp_path: Path) -> None:
    from hms_cache_proxy.security.directory import LdapDirectory

    found = sections(slapd, tmp_path)
    directories = [LdapDirectory(found[how]) for how in ("pattern", "search", "search tls")]
    for directory in directories:
        assert directory.check(*ALICE) == "alice"
    slapd.stop()
    try:
        for directory in directories:
            assert "Can't contact LDAP server" in refusal(directory)
    finally:
        slapd.start()
    for directory in directories:
        assert directory.check(*ALICE) == "alice"


def test_a_connection_that_a_firewall_has_forgotten_is_given_up(slapd: Any, tmp_path: Path) -> None:
    """Else each login in its thread would wait in vain, until the system gives the connection up."""
    from hms_cache_proxy.security.directory import LdapDirectory

    with FaultProxy("127.0.0.1", slapd.port) as firewall:
        url = f"ldap://127.0.0.1:{firewall.port}"
        directory = LdapDirectory(replace(sections(slapd, tmp_path)["search"], url=url, timeout_s=5))
        assert directory.check(*ALICE) == "alice"
        firewall.half_open()
        with pytest.raises(Unchecked):
            directory.check(*ALICE)
        assert directory.check(*ALICE) == "alice"


def test_the_authorities_are_away_and_come_back(slapd: Any, tmp_path: Path) -> None:
    """As while the file is replaced: each connection reads it."""
    from hms_cache_proxy.security.directory import LdapDirectory

    ca, away = tmp_path / "ca", tmp_path / "away"
    ca.write_bytes(slapd.authority.read_bytes())
    directory = LdapDirectory(replace(sections(slapd, tmp_path)["pattern tls"], ca=str(ca)))
    ca.rename(away)
    with pytest.raises(Unchecked):
        directory.check(*ALICE)
    away.rename(ca)
    assert directory.check(*ALICE) == "alice"


def test_a_directory_that_is_not_trusted(slapd: Any, tmp_path: Path) -> None:
    """Its certificate is signed by somebody else, or it is not TLS at all: no password is sent."""
    from hms_cache_proxy.security.directory import LdapDirectory
    from tests.testbed.certificates import Authority

    foreign = str(Authority(tmp_path / "foreign").file)
    before = slapd.binds("alice")
    for how in ("pattern tls", "pattern starttls"):
        with pytest.raises(Unchecked):
            LdapDirectory(replace(sections(slapd, tmp_path)[how], ca=foreign)).check(*ALICE)
    assert slapd.binds("alice") == before


@pytest.mark.usefixtures("slapd")
def test_settings_that_the_library_refuses(tmp_path: Path) -> None:
    from hms_cache_proxy.security.directory import LdapDirectory

    section = LdapSection(url="ldaps://localhost", user_dn="uid={user}", ca=str(tmp_path / "none"))
    with pytest.raises(ConfigError, match=r"ldaps://localhost"):
        LdapDirectory(section)
    empty = tmp_path / "empty"
    empty.write_text("")
    section = LdapSection(url="ldap://localhost", base_dn="dc=x", bind_dn="cn=x", bind_password_file=str(empty))
    with pytest.raises(ConfigError, match="is empty"):
        LdapDirectory(section)
