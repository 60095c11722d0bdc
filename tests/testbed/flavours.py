"""Every flavour of metastore that the test bed can start, by name."""

from __future__ import annotations

from tests.testbed.embedded import EMBEDDED
from tests.testbed.hive import HIVES
from tests.testbed.metastore import Flavour

FLAVOURS: dict[str, Flavour] = {**HIVES, **EMBEDDED}
