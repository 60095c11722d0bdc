"""Database URLs: which are supported, what is wrong with one, and how to show one without its password.

Job: check and mask text. Must not know: settings, databases.
"""

from __future__ import annotations

import re
import urllib.parse
from importlib.util import find_spec

POSTGRES_URLS = ("postgresql", "postgresql+psycopg2")
MYSQL_URLS = ("mysql", "mysql+pymysql", "mariadb", "mariadb+pymysql")
SQLITE_URLS = ("sqlite", "sqlite+pysqlite")
STORE_URLS = POSTGRES_URLS + MYSQL_URLS + SQLITE_URLS


def store_url_problem(url: str) -> str:
    """What is wrong with this store_url, without the secrets in it; empty if it can be used."""
    scheme, found, rest = url.partition("://")
    if not found:
        return "is not a database URL such as postgresql+psycopg2://USER:PASSWORD@HOST:5432/DATABASE"
    if scheme not in STORE_URLS:
        return f"has the scheme {scheme!r}; supported are {', '.join(STORE_URLS)}"
    if scheme in SQLITE_URLS and (rest in ("", "/", "/:memory:") or not rest.startswith("/") or "?" in rest):
        return "must give the path of an SQLite file, without options: sqlite:////DIRECTORY/metastore.db"
    return "" if scheme in SQLITE_URLS else _port_problem(rest)


def metastore_url_problem(url: str) -> str:
    """The same of a metastore.url."""
    scheme, found, rest = url.partition("://")
    backend = scheme.partition("+")[0]
    if not found or backend not in ("sqlite", "postgresql"):
        return "must be the URL of an SQLite file, sqlite:///PATH, or postgresql://USER:PASSWORD@HOST:5432/DATABASE"
    return "" if backend == "sqlite" else _port_problem(rest)


def _port_problem(rest: str) -> str:
    """Of what follows the scheme, as SQLAlchemy takes it apart: a password may have any letter but @."""
    found = re.match(r"(?:[^:/]*(?::[^@]*)?@)?(?:\[[^/?]+\]|[^/:?]+)?(?::([^/?]*))?", rest)
    port = found[1] if found is not None else None
    return "has a port that is not a number" if port and not port.isdecimal() else ""


def driver_problem(url: str) -> str:
    """What to install if the driver for a store_url is missing (MySQL's comes with an extra); empty if it is there."""
    if url.partition("://")[0] not in MYSQL_URLS or find_spec("pymysql") is not None:
        return ""
    return "needs the driver for MySQL: pip install 'hms-cache-proxy[mysql]'"


def database_of(url: str) -> str:
    """The database that a store_url names, if it names one; else the usual name of a metastore's database."""
    return urllib.parse.unquote(_parts(url).path.strip("/")) or "metastore"


def account_of(url: str) -> str:
    """The account that a store_url names; empty if it names none."""
    return urllib.parse.unquote(_parts(url).username or "")


def _parts(url: str) -> urllib.parse.SplitResult:
    """Without the password, which may have brackets, as no address has. It ends at the first @, as for SQLAlchemy."""
    return urllib.parse.urlsplit(re.sub(r"(://[^:/@?]*):[^@]*@", r"\1@", url, count=1))


def masked(url: str) -> str:
    """The URL, with nothing else, without its password, which may have blanks."""
    return mask_url(re.sub(r"\s", "%20", url))


def mask_url(text: str) -> str:
    """The text, with the passwords of URLs in it replaced by `***`, in the authority and in the query."""
    shown = re.sub(r"(://[^:/@?\s]*):\S*@", r"\1:***@", text)
    return re.sub(r"(?i)\b(password|passwd|pwd|sslpassword)=[^&\s]*", r"\1=***", shown)
