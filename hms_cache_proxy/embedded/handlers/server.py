"""Calls about the server and the session: user, settings, versions.

Job: carry out the calls. Source: HMSHandler of 4.2. Owner: the thread of a call.
"""

from __future__ import annotations

import re
import time

from sqlalchemy import select

from hms_cache_proxy.embedded.call import Call, neither, reads
from hms_cache_proxy.embedded.failures import Failure, internal, meta, no_such_object
from hms_cache_proxy.embedded.schema import UUID_KEY, VERSION, T
from hms_cache_proxy.embedded.values import new
from hms_cache_proxy.wire.facts import enum
from hms_cache_proxy.wire.spec import Struct

_ALIVE = int(enum("fb_status").ALIVE)  # type: ignore[attr-defined]  # made at run time
_STARTED = int(time.time())
_TOLD = re.compile(r"(hive|hdfs|mapred|metastore).*")
MAX_OPTIONS = 1000
_OPTIONS: dict[str, str] = {}
_PER_SESSION = {  # MetastoreConf.metaConfVars and their defaults
    "metastore.try.direct.sql": "true",
    "metastore.try.direct.sql.ddl": "true",
    "metastore.client.socket.timeout": "600s",
    "metastore.partition.name.whitelist.pattern": "",
    "metastore.capability.check": "true",
    "metastore.disallow.incompatible.col.type.changes": "true",
}


def set_ugi(call: Call, args: Struct) -> list[str]:
    """Set the user of the session; returns the groups in the request."""
    call.session.user = args.user_name
    call.session.groups = list(args.group_names or ())
    return call.session.groups


def get_config_value(call: Call, args: Struct) -> str:
    """A setting of the metastore, else the default in the request."""
    if args.name is None:
        return str(args.defaultValue)
    if _TOLD.fullmatch(args.name) is None:
        message = f"For security reasons, the config key {args.name} cannot be accessed"
        raise Failure("ConfigValSecurityException", message)
    value = call.settings.get(args.name, call.settings.get(args.name.removeprefix("hive.")))
    return value if value is not None else args.defaultValue


def getMetaConf(call: Call, args: Struct) -> str:
    """One of the settings that a session may change."""
    key = _session_key(args.key)
    return call.session.settings.get(key, _PER_SESSION[key])


def setMetaConf(call: Call, args: Struct) -> None:
    """Change one of them for this session."""
    call.session.settings[_session_key(args.key)] = args.value


def _session_key(key: str) -> str:
    name = (key or "").removeprefix("hive.")
    if name not in _PER_SESSION:
        raise meta(f"Invalid configuration key {key}")
    return name


def get_metastore_db_uuid(call: Call, _args: Struct) -> str:
    """The id of the database, created with it."""
    columns = T.METASTORE_DB_PROPERTIES.c
    return str(call.execute(select(columns.PROPERTY_VALUE).where(columns.PROPERTY_KEY == UUID_KEY)).scalar_one())


def getVersion(_call: Call, _args: Struct) -> str:
    """The version of Hive that this metastore implements."""
    return VERSION


def getStatus(_call: Call, _args: Struct) -> int:
    """Alive."""
    return _ALIVE


def getName(_call: Call, _args: Struct) -> str:
    """The name of the server."""
    return "hms-cache-proxy embedded metastore"


def getStatusDetails(_call: Call, _args: Struct) -> str:
    """Empty."""
    return ""


def aliveSince(_call: Call, _args: Struct) -> int:
    """The start time of this process."""
    return _STARTED


def nothing(_call: Call, _args: Struct) -> None:
    """For calls that need no answer: the client closes after `shutdown`."""


def flushCache(_call: Call, _args: Struct) -> None:
    """Does nothing: there is no cache."""


def getCounters(_call: Call, _args: Struct) -> dict[str, int]:
    """Empty, as in Hive, which has its metrics elsewhere."""
    return {}


def getCounter(_call: Call, _args: Struct) -> int:
    """The value of a counter that does not exist."""
    return 0


def getOptions(_call: Call, _args: Struct) -> dict[str, str]:
    """The options that setOption has set."""
    return dict(_OPTIONS)


def getOption(_call: Call, args: Struct) -> str:
    """One of these options; empty if it is not set."""
    return _OPTIONS.get(args.key, "")


def setOption(_call: Call, args: Struct) -> None:
    """Set an option until the process ends; nothing uses it."""
    if len(_OPTIONS) < MAX_OPTIONS or args.key in _OPTIONS:
        _OPTIONS[args.key] = args.value


def getCpuProfile(_call: Call, _args: Struct) -> str:
    """Empty, as in Hive."""
    return ""


def get_file_metadata(_call: Call, _args: Struct) -> Struct:
    """Footers of files are not stored; the reply says so, as Hive's does on a SQL database."""
    return new("GetFileMetadataResult", metadata={}, isSupported=False)


def get_file_metadata_by_expr(_call: Call, _args: Struct) -> Struct:
    """The same."""
    return new("GetFileMetadataByExprResult", metadata={}, isSupported=False)


def put_file_metadata(_call: Call, _args: Struct) -> Struct:
    """Stores nothing."""
    return new("PutFileMetadataResult")


def cache_file_metadata(_call: Call, _args: Struct) -> Struct:
    """Stores nothing."""
    return new("CacheFileMetadataResult", isSupported=False)


def clear_file_metadata(_call: Call, _args: Struct) -> Struct:
    """Nothing is stored, so it cannot be cleared, as in Hive."""
    raise internal("metadata of files are not kept")


def properties(_call: Call, args: Struct) -> Struct:
    """Fails: no namespace of properties is declared, as in a Hive metastore without a listener for it."""
    raise no_such_object(f"no PropertyManager namespace is declared, namespace {args.req.nameSpace}")


METHODS = {
    **neither(
        getCounter=getCounter,
        getCounters=getCounters,
        getOption=getOption,
        getOptions=getOptions,
        setOption=setOption,
        getCpuProfile=getCpuProfile,
        reinitialize=nothing,
        get_file_metadata=get_file_metadata,
        get_file_metadata_by_expr=get_file_metadata_by_expr,
        put_file_metadata=put_file_metadata,
        cache_file_metadata=cache_file_metadata,
        clear_file_metadata=clear_file_metadata,
        get_properties=properties,
        set_properties=properties,
        set_ugi=set_ugi,
        get_config_value=get_config_value,
        getMetaConf=getMetaConf,
        setMetaConf=setMetaConf,
        getVersion=getVersion,
        getName=getName,
        getStatus=getStatus,
        getStatusDetails=getStatusDetails,
        aliveSince=aliveSince,
        shutdown=nothing,
        flushCache=flushCache,
    ),
    **reads(get_metastore_db_uuid=get_metastore_db_uuid),
}
