"""Parts of the benchmark that are measured apart have their place on the page, and keep to it."""

from __future__ import annotations

import pytest

from benchmarks import parts


@pytest.mark.parametrize("part", parts.PARTS)
def test_a_part_has_a_place_on_the_page(part: str) -> None:
    page = parts.DOCS.read_text()
    once = parts.page_with(page, part, ["| one |"])
    assert once.count("| one |") == 1
    twice = parts.page_with(once, part, ["| two |"])
    assert "| one |" not in twice and twice.count("| two |") == 1
    begin, end = parts.BEGIN.format(part), parts.END.format(part)
    assert twice.partition(begin)[0] == page.partition(begin)[0]
    assert twice.partition(end)[2] == page.partition(end)[2]


def test_a_page_without_the_place() -> None:
    with pytest.raises(ValueError, match="no marks for listing"):
        parts.page_with("text", "listing", [])
