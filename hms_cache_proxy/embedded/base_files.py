"""Base directories without data: they make the older data of a transactional table or partition invalid.

Job: write `base_N/_metadata_acid` next to the data of older writes. Must not know: rows, calls.
Source: HMSHandler.addTruncateBaseFile, AcidMetaDataFile and AcidConstants of 4.2. Owner: the thread of a call.
"""

from __future__ import annotations

from functools import partial

from hms_cache_proxy.embedded.call import Call

TRUNCATED, DROPPED = "truncated", "dropped"
"""Values of dataFormat."""
_FILE = "_metadata_acid"


def write(call: Call, location: str | None, write_id: int, data_format: str) -> None:
    """Write the base directory of a write after the call is committed. Does nothing without a location."""
    if location:
        directory = f"{location}/base_{write_id:07d}"
        text = f'{{"thisFileVersion":"0","dataFormat":"{data_format}"}}'
        call.after_commit(partial(call.warehouse.write, directory, _FILE, text))
