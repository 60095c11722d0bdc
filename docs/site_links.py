"""A hook of MkDocs: links from docs/ to other files of the repository lead to where it is published.

Job: `on_page_markdown` rewrites relative links that leave docs/. MkDocs itself checks those that do not. Invariants: a
link to a file that does not exist raises PluginError, so a strict build has no dead link into the repository either.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final

from mkdocs.exceptions import PluginError

ROOT: Final = Path(__file__).resolve().parents[1]
PUBLISHED: Final = "https://github.com/hms-cache-proxy/hms-cache-proxy/blob/main/"
_LINK: Final = re.compile(r"\]\((\.\.?/[^)#\s]+)(#[^)]*)?\)")


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """MkDocs calls it for each page."""
    here = ROOT / "docs" / Path(page.file.src_uri).parent

    def published(link: re.Match[str]) -> str:
        target = (here / link[1]).resolve()
        if target.is_relative_to(ROOT / "docs"):
            return link[0]
        if not target.exists() or not target.is_relative_to(ROOT):
            raise PluginError(f"{page.file.src_uri} links to {link[1]}, which is not in the repository")
        return f"]({PUBLISHED}{target.relative_to(ROOT).as_posix()}{link[2] or ''})"

    return _LINK.sub(published, markdown)
