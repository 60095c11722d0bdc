"""Functions.

Job: carry out the calls; rows/functions.py has the rows. Source: HMSHandler of 4.2. Owner: the thread of a call.
"""

from __future__ import annotations

from hms_cache_proxy.embedded import events, names
from hms_cache_proxy.embedded.call import Call, reads, writes
from hms_cache_proxy.embedded.failures import Failure, already_exists, invalid_object, meta, no_such_object
from hms_cache_proxy.embedded.patterns import matcher
from hms_cache_proxy.embedded.rows import databases as database_rows
from hms_cache_proxy.embedded.rows import functions as rows
from hms_cache_proxy.embedded.values import as_json, new
from hms_cache_proxy.wire.spec import Struct


def create_function(call: Call, args: Struct) -> None:
    """Create a function, with an event."""
    function = args.func
    asked = None if function is None else function.functionName
    catalog, database, database_id = _check(call, function)
    if rows.find_functions(call, catalog, database, function.functionName):
        raise already_exists(f"Function {asked} already exists")
    if function.ownerName is None:
        function.ownerName = call.user
    function.createTime = call.now
    rows.insert_function(call, database_id, function)
    fields = {"db": database, "functionObjJson": as_json(function)}
    events.log(call, "CREATE_FUNCTION", fields, catalog=catalog, database=database, table=None)


def _check(call: Call, function: Struct) -> tuple[str, str, int]:
    """(catalog, database, its id) of a function that is to be stored; changes its names to lower case."""
    if function is None:
        raise meta("Function cannot be null.")
    if function.functionName is None:
        raise meta("Function name cannot be null.")
    if function.dbName is None:
        raise meta("Database name in Function cannot be null.")
    if not names.valid(function.functionName):
        raise invalid_object(f"{function.functionName} is not a valid object name")
    if function.className is None:
        raise invalid_object("Function class name cannot be null")
    if function.ownerType is None:
        raise meta("Function owner type cannot be null.")
    if function.functionType is None:
        raise meta("Function type cannot be null.")
    catalog, database = names.both(function.dbName, function.catName)
    found = database_rows.find_database(call, catalog, database)
    if found is None:
        raise no_such_object(f"database {names.qualified(catalog, database)}")
    function.functionName = names.fold(function.functionName)
    function.dbName = database
    return catalog, database, found[0]


def alter_function(call: Call, args: Struct) -> None:
    """Change a function, without an event, as in Hive."""
    catalog, database = names.both(args.dbName)
    id_ = _id(call, catalog, database, args.funcName)
    function = args.newFunc
    try:
        new_catalog, new_database, database_id = _check(call, function)
    except Failure as failure:
        if failure.kind == "InvalidObjectException":
            raise meta(f"InvalidObjectException(message:{failure.message})") from failure
        if failure.kind == "NoSuchObjectException":
            raise meta(f"InvalidObjectException(message:Database {function.dbName} doesn't exist.)") from failure
        raise
    there = rows.find_functions(call, new_catalog, new_database, function.functionName)
    if any(other != id_ for other, _ in there):
        raise meta(f"Function {function.functionName} already exists")
    rows.update_function(call, id_, database_id, function)


def _id(call: Call, catalog: str, database: str, name: str) -> int:
    found = rows.find_functions(call, catalog, database, names.fold(name))
    if not found:
        raise meta(f"function {names.fold(name)} doesn't exist")
    return found[0][0]


def drop_function(call: Call, args: Struct) -> None:
    """Drop a function, with an event."""
    catalog, database = names.both(args.dbName)
    name = names.fold(args.funcName)
    if not rows.find_functions(call, catalog, database, name):
        raise no_such_object(f"Function {args.funcName} does not exist")
    found = database_rows.find_database(call, catalog, database)
    assert found is not None, "a function has a database"
    rows.delete_function(call, found[0], name)
    events.drop_function(call, catalog, database, name)


def get_function(call: Call, args: Struct) -> Struct:
    """A function by name."""
    if args.dbName is None or args.funcName is None:
        raise meta("Database and function name cannot be null.")
    catalog, database = names.both(args.dbName)
    found = rows.find_functions(call, catalog, database, names.fold(args.funcName))
    if not found:
        raise no_such_object(f"Function {args.dbName}.{args.funcName} does not exist")
    return found[0][1]


def get_functions(call: Call, args: Struct) -> list[str]:
    """Names of a database's functions that match a pattern."""
    catalog, database = names.both(args.dbName)
    matches = matcher(args.pattern)
    found = [function.functionName for _, function in rows.find_functions(call, catalog, database)]
    return [name for name in found if matches(name)]


def get_functions_req(call: Call, args: Struct) -> Struct:
    """Functions of a database that match a pattern, or only their names."""
    request = args.request
    catalog, database = names.both(request.dbName, request.catalogName)
    matches = matcher(request.pattern)
    found = [function for _, function in rows.find_functions(call, catalog, database) if matches(function.functionName)]
    if request.returnNames is False:
        return new("GetFunctionsResponse", functions=found)
    return new("GetFunctionsResponse", function_names=[function.functionName for function in found])


def get_all_functions(call: Call, _args: Struct) -> Struct:
    """All functions in the default catalog."""
    found = [function for _, function in rows.find_functions(call, names.DEFAULT_CATALOG)]
    return new("GetAllFunctionsResponse", functions=found)


METHODS = {
    **reads(
        get_function=get_function,
        get_functions=get_functions,
        get_functions_req=get_functions_req,
        get_all_functions=get_all_functions,
    ),
    **writes(create_function=create_function, alter_function=alter_function, drop_function=drop_function),
}
