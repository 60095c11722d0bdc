"""The databases that can be read. Each class has the same public methods; sql_postgres.Postgres says what they do."""

from __future__ import annotations

from hms_cache_proxy.store.sql.mysql import MySQL
from hms_cache_proxy.store.sql.postgres import Postgres
from hms_cache_proxy.store.sql.sqlite import SQLite

Dialect = Postgres | MySQL | SQLite
