"""Data connectors: where databases of other systems are. They are only stored; REMOTE databases have no content here.

Job: carry out the calls, with their rows: DATACONNECTORS, DATACONNECTOR_PARAMS. Source: HMSHandler and ObjectStore of
4.0. Owner: the thread of a call.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import delete, insert, select, update

from hms_cache_proxy.embedded import names
from hms_cache_proxy.embedded.call import Call, reads, writes
from hms_cache_proxy.embedded.failures import already_exists, invalid_object, meta, no_such_object
from hms_cache_proxy.embedded.rows.common import write
from hms_cache_proxy.embedded.rows.databases import OWNER_TYPES, owner_type_name
from hms_cache_proxy.embedded.schema import T
from hms_cache_proxy.embedded.values import new
from hms_cache_proxy.wire.spec import Struct


def _row(call: Call, name: str) -> Any:
    return call.execute(select(T.DATACONNECTORS).where(T.DATACONNECTORS.c.NAME == names.fold(name))).first()


def _found(call: Call, name: str) -> Any:
    row = _row(call, name)
    if row is None:
        raise no_such_object(f"Dataconnector named {name} does not exist:null")
    return row


def create_dataconnector_req(call: Call, args: Struct) -> None:
    """Create a connector."""
    connector = args.connectorReq.connector
    if connector.name is None:
        raise meta("Data connector name cannot be null.")
    if _row(call, connector.name) is not None:
        raise already_exists(f"DataConnector {connector.name} already exists")
    if not names.valid_table(connector.name):
        raise invalid_object(f"{connector.name} is not a valid dataconnector name")
    row = {
        "NAME": names.fold(connector.name),
        "TYPE": connector.type,
        "URL": connector.url,
        "COMMENT": connector.description,
        "OWNER_NAME": connector.ownerName if connector.ownerName is not None else call.user,
        "OWNER_TYPE": owner_type_name(connector.ownerType) or "USER",
        "CREATE_TIME": call.now,
    }
    call.execute(insert(T.DATACONNECTORS), row)
    _put_parameters(call, row["NAME"], connector.parameters)


def _put_parameters(call: Call, name: str, parameters: dict[str, str] | None) -> None:
    call.execute(delete(T.DATACONNECTOR_PARAMS).where(T.DATACONNECTOR_PARAMS.c.NAME == name))
    rows = [{"NAME": name, "PARAM_KEY": key, "PARAM_VALUE": value} for key, value in (parameters or {}).items()]
    write(call, T.DATACONNECTOR_PARAMS, rows)


def get_dataconnector_req(call: Call, args: Struct) -> Struct:
    """A connector by name."""
    row = _found(call, args.request.connectorName)
    columns = T.DATACONNECTOR_PARAMS.c
    query = select(columns.PARAM_KEY, columns.PARAM_VALUE).where(columns.NAME == row.NAME)
    return new(
        "DataConnector",
        name=row.NAME,
        type=row.TYPE,
        url=row.URL,
        description=row.COMMENT,
        parameters={key: value for key, value in call.execute(query) if value is not None},
        ownerName=row.OWNER_NAME,
        ownerType=OWNER_TYPES.get(row.OWNER_TYPE or ""),
        createTime=row.CREATE_TIME,
    )


def get_dataconnectors(call: Call, _args: Struct) -> list[str]:
    """The names of all connectors."""
    return [row[0] for row in call.execute(select(T.DATACONNECTORS.c.NAME).order_by(T.DATACONNECTORS.c.NAME))]


def alter_dataconnector_req(call: Call, args: Struct) -> None:
    """Change URL, parameters, owner, description."""
    row, connector = _found(call, args.alterReq.connectorName), args.alterReq.newConnector
    values = {"URL": connector.url, "OWNER_NAME": connector.ownerName}
    if connector.ownerType is not None:
        values["OWNER_TYPE"] = owner_type_name(connector.ownerType)
    if connector.description:
        values["COMMENT"] = connector.description
    call.execute(update(T.DATACONNECTORS).where(T.DATACONNECTORS.c.NAME == row.NAME).values(**values))
    _put_parameters(call, row.NAME, connector.parameters)


def drop_dataconnector_req(call: Call, args: Struct) -> None:
    """Drop a connector, even if databases refer to it: Hive's checkReferences checks nothing."""
    request = args.dropDcReq
    row = _row(call, request.connectorName)
    if row is None:
        if request.ifNotExists:
            return
        raise no_such_object(f"DataConnector {request.connectorName} doesn't exist")
    _put_parameters(call, row.NAME, None)
    call.execute(delete(T.DC_PRIVS).where(T.DC_PRIVS.c.NAME == row.NAME))
    call.execute(delete(T.DATACONNECTORS).where(T.DATACONNECTORS.c.NAME == row.NAME))


METHODS = {
    **reads(get_dataconnector_req=get_dataconnector_req, get_dataconnectors=get_dataconnectors),
    **writes(
        create_dataconnector_req=create_dataconnector_req,
        alter_dataconnector_req=alter_dataconnector_req,
        drop_dataconnector_req=drop_dataconnector_req,
    ),
}
