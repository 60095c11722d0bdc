"""URLs of databases: which can be read, why one cannot be, and how one is shown without its password.

Job: texts about texts. Must not know: settings, databases.
"""

from __future__ import annotations

import re
from importlib.util import find_spec

POSTGRES_URLS = ("postgresql", "postgresql+psycopg2")
MYSQL_URLS = ("mysql", "mysql+pymysql", "mariadb", "mariadb+pymysql")
SQLITE_URLS = ("sqlite", "sqlite+pysqlite")
STORE_URLS = POSTGRES_URLS + MYSQL_URLS + SQLITE_URLS


def store_url_problem(url: str) -> str:
    """Why a store_url cannot be one, without what may be secret in it; empty if it can."""
    scheme, found, rest = url.partition("://")
    if not found:
        return "is no database URL; postgresql+psycopg2://USER:PASSWORD@HOST:5432/DATABASE is one"
    if scheme not in STORE_URLS:
        return f"names {scheme!r}; databases that can be read: {', '.join(STORE_URLS)}"
    if scheme in SQLITE_URLS and (rest in ("", "/", "/:memory:") or not rest.startswith("/") or "?" in rest):
        return "names no SQLite file, without options, such as sqlite:////DIRECTORY/metastore.db"
    return ""


def driver_problem(url: str) -> str:
    """That the driver of a store_url's database is not installed; empty if it is. MySQL's comes with an extra."""
    if url.partition("://")[0] not in MYSQL_URLS or find_spec("pymysql") is not None:
        return ""
    return "names MySQL, whose driver is missing: pip install 'hms-cache-proxy[mysql]'"


def mask_url(url: str) -> str:
    """The URL with its password replaced by `***`, in the authority and in the query."""
    masked = re.sub(r"(://[^:/@?\s]*):\S*@", r"\1:***@", url)
    return re.sub(r"(?i)\b(password|passwd|pwd|sslpassword)=[^&\s]*", r"\1=***", masked)
