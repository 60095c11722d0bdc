"""The embedded metastore as a process: alone (`hms-cache-proxy metastore`) or as the supervisor's child.

Job: make database, warehouse and listening socket from the settings; serve until a signal. Must not know: methods.

On SIGTERM or SIGINT it accepts nothing new, and running calls may take up to `drain_timeout_s`. A second signal ends it
at once; the database stays consistent. Owner: the metastore's process.
"""

from __future__ import annotations

import os
import resource
import signal
import socket
import threading
from types import FrameType

import structlog

from hms_cache_proxy.config import Config, paths
from hms_cache_proxy.embedded.call import PARTITION_LIMIT, TRANSFORMER_CLASS
from hms_cache_proxy.embedded.database import Database
from hms_cache_proxy.embedded.handlers import METHODS
from hms_cache_proxy.embedded.housekeeping import EVENTS_S, keep_house
from hms_cache_proxy.embedded.server import ThriftServer
from hms_cache_proxy.embedded.service import Service
from hms_cache_proxy.embedded.warehouse import Warehouse
from hms_cache_proxy.errors import ConfigError
from hms_cache_proxy.upstream.serdes import SINCE_4

log = structlog.get_logger()

LISTENER = "org.apache.hive.hcatalog.listener.DbNotificationListener"
RAW_STORE = "org.apache.hadoop.hive.metastore.ObjectStore"
MESSAGES = "org.apache.hadoop.hive.metastore.messaging.json.gzip.GzipJSONMessageEncoder"
FILTER_HOOK = "org.apache.hadoop.hive.metastore.DefaultMetaStoreFilterHookImpl"
TRANSFORMER = "org.apache.hadoop.hive.metastore.MetastoreDefaultTransformer"


def run(config: Config) -> int:
    """Serve on `listen` until a signal; 0 if all calls ended in time. Raises ConfigError, StoreError."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    try:
        listener = socket.create_server(config.listen, backlog=1024)
    except OSError as error:
        problem = f"listen: cannot listen on {config.listen}: {error.strerror}"
        raise ConfigError(problem) from error
    return 0 if _serve(config, listener) else 1


def run_child(config: Config, descriptor: int) -> None:
    """Serve on the supervisor's socket until a signal."""
    _serve(config, socket.socket(fileno=descriptor))


def _serve(config: Config, listener: socket.socket) -> bool:
    database = Database(paths.embedded_database(config))
    warehouse = Warehouse(
        config.metastore.warehouse_dir or paths.embedded_warehouse(config, "managed").as_uri(),
        config.metastore.external_dir or paths.embedded_warehouse(config, "external").as_uri(),
        config.metastore.trash,
        delete_shared=config.metastore.delete_shared_directories,
    )
    made = database.prepare(
        warehouse=warehouse.managed, external=warehouse.external, foreign=config.metastore.foreign_database
    )
    for root in (warehouse.managed, warehouse.external):
        warehouse.make(root)
    service = Service(database, warehouse, told(config, warehouse))
    server = ThriftServer(service, listener)
    in_time = True

    def stop() -> None:
        nonlocal in_time
        in_time = server.stop(config.drain_timeout_s)

    stopper = threading.Thread(target=stop, name="stop")

    def signalled(number: int, _frame: FrameType | None) -> None:
        if stopper.ident is not None:
            os._exit(1)
        log.info("draining", signal=signal.Signals(number).name)
        stopper.start()

    signal.signal(signal.SIGTERM, signalled)
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:  # a child ignores Ctrl-C, which the supervisor handles
        signal.signal(signal.SIGINT, signalled)
    log.info(
        "metastore started",
        listen="{}:{}".format(*listener.getsockname()[:2]),
        database=database.url.render_as_string(),  # without its password
        new_database=made,
        methods=len(METHODS),
        warehouse=warehouse.managed,
        external=warehouse.external,
    )
    stopped = threading.Event()
    keeper = threading.Thread(
        target=keep_house, args=(database, service.expire, stopped), name="housekeeping", daemon=True
    )
    keeper.start()
    server.serve()
    stopper.join()
    stopped.set()
    keeper.join()
    database.close()
    log.info("metastore stopped", in_time=in_time)
    return in_time


def told(config: Config, warehouse: Warehouse) -> dict[str, str]:
    """The settings that get_config_value returns; for any other it returns the default in the request."""
    values = {
        "metastore.warehouse.dir": warehouse.managed,
        "metastore.warehouse.external.dir": warehouse.external,
        "metastore.transactional.event.listeners": LISTENER,
        "metastore.event.listeners": "",
        "metastore.pre.event.listeners": "",
        "metastore.filter.hook": FILTER_HOOK,
        "metastore.server.filter.enabled": "false",
        "metastore.rawstore.impl": RAW_STORE,
        PARTITION_LIMIT: str(config.metastore.partition_limit),
        "metastore.try.direct.sql": "true",
        TRANSFORMER_CLASS: TRANSFORMER if config.metastore.transformer else " ",
        "metastore.event.db.listener.timetolive": f"{EVENTS_S}s",
        "metastore.event.message.factory": MESSAGES,
        "metastore.thrift.uris": config.listen.uri,
        "metastore.dml.events": "true",
    }
    serdes = ",".join(sorted(serde.decode() for serde in SINCE_4))
    values["metastore.serdes.using.metastore.for.schema"] = values["serdes.using.metastore.for.schema"] = serdes
    old_names = {f"hive.{name}": value for name, value in values.items()}
    return {**values, **old_names, "hive.exec.default.partition.name": "__HIVE_DEFAULT_PARTITION__"}
