"""Java options for a metastore that logs clients in.

Job: name the realm's and Hadoop's configuration, and what the test bed's Java and Hive's jars lack. Must not know: the
metastore.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from pathlib import Path
from xml.sax.saxutils import escape

from tests.testbed import gssapi_for_java
from tests.testbed.packages import required


def java_options(krb5: Path) -> tuple[str, ...]:
    """Of a JVM in the realm of this configuration."""
    return (*gssapi_for_java.OPTIONS, f"-Djava.security.krb5.conf={krb5}")


def more_classes(directory: Path, core: Mapping[str, str]) -> tuple[str, ...]:
    """For its class path; `core` goes to core-site.xml."""
    place = directory / "java"
    place.mkdir(parents=True)
    rows = "".join(
        f"<property><name>{escape(name)}</name><value>{escape(value)}</value></property>\n"
        for name, value in core.items()
    )
    (place / "core-site.xml").write_text(f"<configuration>\n{rows}</configuration>\n")
    return str(gssapi_for_java.jar()), str(_logging()), str(place)


def _logging() -> Path:
    """What Hive's own jars lack, so that its audit is written: it is among pyspark's."""
    required("pyspark")
    pyspark = importlib.util.find_spec("pyspark")
    assert pyspark is not None and pyspark.origin is not None
    return next((Path(pyspark.origin).parent / "jars").glob("log4j-slf4j2-impl-*.jar"))
