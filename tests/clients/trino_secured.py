"""`python -m tests.clients.trino_secured`: Trino with TLS, with Kerberos, with both, and with Kerberos for its own
users by their tokens (impersonation). (Trino 476 speaks no HTTP.)

One proxy that serves these transports in front of an embedded metastore, a KDC of its own, and a catalog of Trino for
each: the same statements in all, each with the result that it must have; then who the proxy says has logged in, and
whether reads were hits. Exit status 1 if anything is wrong.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from tests.clients import calls
from tests.clients.trino_acid import Step, right
from tests.clients.trino_server import USER, Trino
from tests.proxy import Proxy
from tests.server.logged_in import realm_in
from tests.testbed import gssapi_for_java
from tests.testbed.bed import Bed
from tests.testbed.certificates import Authority
from tests.testbed.kdc import REALM

PASSWORD: Final = "changeit"
STEPS: Final = (
    Step("create schema {c}.{s}"),
    Step("create table {c}.{s}.t (a integer, p varchar) with (partitioned_by = array['p'])"),
    Step("insert into {c}.{s}.t values (1, 'x'), (2, 'y'), (3, 'y')"),
    Step("select a from {c}.{s}.t where p = 'y' order by a", ((2,), (3,))),
    Step('select p from {c}.{s}."t$partitions" order by p', (("x",), ("y",))),
    Step("show tables from {c}.{s}", (("t",),)),
    Step("select a from {c}.{s}.t where p = 'x'", ((1,),)),
    Step("create view {c}.{s}.v as select count(*) n from {c}.{s}.t"),
    Step("select n from {c}.{s}.v", ((3,),)),
    Step("drop view {c}.{s}.v"),
    Step("drop table {c}.{s}.t"),
    Step("show tables from {c}.{s}", ()),
    Step("drop schema {c}.{s}"),
)
LOGINS: Final = {
    "kerberos": ("alice", "GSSAPI"),
    "kerberos_tls": ("alice", "GSSAPI"),
    "own_users": (USER, "DIGEST-MD5"),
}
"""Who must have logged in, and how."""


def run(stack: ExitStack) -> Iterator[tuple[str, list[str]]]:
    """Start all and do the steps; for each catalog, and at the end: a summary, and what was wrong."""
    directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="hms-trino-")))
    realm = stack.enter_context(realm_in(directory))
    authority = Authority(directory / "tls")
    trust = str(authority.trust_store(PASSWORD))
    files, bed = authority.signed("server"), Bed()
    stack.callback(bed.close)
    metastore = bed.private_metastore("embedded")
    assert metastore.database is not None
    settings = {
        "SECURITY_TRANSPORTS": "sasl,tls,tls+sasl",
        "KERBEROS_KEYTAB": str(realm.proxy),
        "TLS_CERTIFICATE": str(files.certificate),
        "TLS_KEY": str(files.key),
        "TOKENS_PROXY_USERS": f"alice={USER}",
        "LOG_FORMAT": "json",
    }
    proxy = Proxy(directory / "proxy", metastore.uri, metastore.database.reader_url, settings)
    stack.callback(proxy.close)
    proxy.start(prewarmed=True)
    hive = {
        "connector.name": "hive",
        "fs.hadoop.enabled": "true",
        "hive.non-managed-table-writes-enabled": "true",
        "hive.metastore.uri": f"thrift://localhost:{proxy.port}",
    }
    tls = {
        "hive.metastore.thrift.client.ssl.enabled": "true",
        "hive.metastore.thrift.client.ssl.trust-certificate": trust,
        "hive.metastore.thrift.client.ssl.trust-certificate-password": PASSWORD,
    }
    kerberos = {
        "hive.metastore.authentication.type": "KERBEROS",
        "hive.metastore.service.principal": f"hive/localhost@{REALM}",
        "hive.metastore.client.principal": f"alice@{REALM}",
        "hive.metastore.client.keytab": str(realm.users["alice"]),
    }
    catalogs = {
        "tls": hive | tls,
        "kerberos": hive | kerberos,
        "kerberos_tls": hive | tls | kerberos,
        "own_users": hive | kerberos | {"hive.metastore.thrift.impersonation.enabled": "true"},
    }
    options = [
        *gssapi_for_java.OPTIONS,
        f"-Djava.security.krb5.conf={realm.kdc.environment['KRB5_CONFIG']}",
    ]
    log, jar = bed.logs / "trino.log", str(gssapi_for_java.jar())
    trino = stack.enter_context(Trino(directory / "trino", log, catalogs, options, [jar]))
    for catalog in catalogs:
        wrong = []
        for step in STEPS:
            result = trino.ask(step.sql.replace("{c}", catalog).replace("{s}", f"of_{catalog}"))
            if not right(step, result):
                wrong.append(f"{step.sql}\n    {result}")
        yield f"{catalog}: {len(STEPS)} steps, {len(wrong)} wrong", wrong
    logins = {(line.get("user"), line.get("mechanism")) for line in map(json.loads, proxy.log.read_text().splitlines())}
    wrong = [f"{catalog}: {login} has not logged in" for catalog, login in LOGINS.items() if login not in logins]
    requests = proxy.requests()
    print(calls.table(requests), calls.summary(requests), sep="\n")
    if not any(how == "hit" for _, how, _ in requests):
        wrong.append("nothing was a hit")
    yield f"logins and hits: {len(wrong)} wrong", wrong


def main() -> int:
    failed = False
    with ExitStack() as stack:
        for name, wrong in run(stack):
            print(*wrong, name, sep="\n", flush=True)
            failed = failed or bool(wrong)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
