"""Names the tables that change without an event, and where a SQLite database keeps their marks.

Job: share these names between the metastore that writes the marks (embedded/marks.py) and the store that reads them
(change_marks.py, sqlite_pieces.py). Must not know: SQL.
"""

from __future__ import annotations

from typing import Final

MARKS: Final = "PROXY_MARKS"
"""The table of marks. Columns: MARKED, the name of a table; MARK, bytes that differ after any write to that table."""

MOST: Final = 5_000
"""The most rows of one table that are read if the database keeps no marks: 2.5 ms for so many functions."""

MOST_ROWS: Final = {"FUNCS": MOST, "FUNC_RU": 2 * MOST, "CTLGS": MOST, "DBS": MOST, "DATABASE_PARAMS": 2 * MOST}
"""Functions, their resources, catalogs (none in 2.3), databases, their parameters."""
