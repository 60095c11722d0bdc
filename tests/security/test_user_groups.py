"""Groups of users, from a file in the format of /etc/group."""

from __future__ import annotations

from pathlib import Path

import pytest

from hms_cache_proxy.errors import ConfigError
from hms_cache_proxy.security.user_groups import read_groups


def test_who_is_in_which_group(tmp_path: Path) -> None:
    file = tmp_path / "groups"
    file.write_text("# groups\nanalysts:x:1000:alice, bob\n\nempty:x:1001:\nanalysts:x:1002:carol\n")
    groups = read_groups(str(file))
    assert [user for user in ("alice", "bob", "carol", "dave", "") if groups.has(["analysts"], user)] == [
        "alice",
        "bob",
        "carol",
    ]
    assert not groups.has(["empty"], "alice") and not groups.has(["none"], "alice") and not groups.has([], "alice")
    assert groups.has(["empty", "analysts"], "alice")


def test_the_machines_own_file() -> None:
    assert not read_groups("/etc/group").has(["nogroup"], "alice")


@pytest.mark.parametrize("line", ["analysts", "analysts:alice", ":x:1:alice", "a:x:1:alice:bob"])
def test_lines_that_are_not_of_this_format(tmp_path: Path, line: str) -> None:
    file = tmp_path / "groups"
    file.write_text(f"good:x:1:\n{line}\n")
    with pytest.raises(ConfigError, match="line 2: must be GROUP"):
        read_groups(str(file))


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"tokens\.groups_file"):
        read_groups(str(tmp_path / "none"))
    (tmp_path / "letters").write_bytes(b"\xff:x:1:\n")
    with pytest.raises(ConfigError, match=r"tokens\.groups_file"):
        read_groups(str(tmp_path / "letters"))
