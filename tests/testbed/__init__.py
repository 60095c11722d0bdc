"""Real metastores, databases and clients as ordinary processes on loopback.

Job: install what a Hive metastore needs (artifacts), run PostgreSQL (postgres), MariaDB (mariadb) and
metastores of several versions (hive), speak Thrift to them (client), stand between two parties and
misbehave (fault_proxy).
Must not know: anything of hms_cache_proxy; the test bed is the oracle, so it shares no code with what it
judges.
Invariants: free ports on 127.0.0.1 (2.3.10 apart, see hive); every started process is stopped by its
process id and is gone at the end, also after an interrupt or a crash of its owner (see processes); logs are
kept in files.
"""
