"""Names of partitions: splitting them, and the values of keys of all partitions.

Job: carry out the calls. Source: HMSHandler of 4.2. Owner: the thread of a call.
"""

from __future__ import annotations

from hms_cache_proxy.embedded import names
from hms_cache_proxy.embedded.call import Call, neither, reads
from hms_cache_proxy.embedded.failures import Failure, internal, meta
from hms_cache_proxy.embedded.handlers.partitions import chosen_names, found, limit_of
from hms_cache_proxy.embedded.values import new
from hms_cache_proxy.wire.spec import Struct


def get_partition_values(call: Call, args: Struct) -> Struct:
    """The values of some keys, of all partitions."""
    request = args.request
    try:
        row = found(call, request.dbName, request.tblName, request.catName)
    except Failure as failure:
        if failure.message in ("dbName is not valid", "tblName is not valid"):
            raise meta(failure.message) from failure
        raise meta(f"Error retrieving partition values: java.lang.NullPointerException: {failure.message}") from failure
    if not request.partitionKeys:
        raise internal("no partition keys are asked for")
    order = {key.name: at for at, key in enumerate(row.table.partitionKeys)}
    wanted = [order[key.name.lower()] for key in request.partitionKeys if key.name.lower() in order]
    chosen = chosen_names(call, row, request.filter)
    found_ones = [[names.partition_values(name)[at] for at in wanted] for name in chosen]
    if request.applyDistinct:
        found_ones = [list(each) for each in dict.fromkeys(map(tuple, found_ones))]
    if request.ascending is False:
        found_ones.reverse()
    number = limit_of(request.maxParts)
    found_ones = found_ones if number is None else found_ones[:number]
    return new("PartitionValuesResponse", partitionValues=[new("PartitionValuesRow", row=each) for each in found_ones])


def partition_name_to_vals(_call: Call, args: Struct) -> list[str]:
    """The values in a name."""
    return names.partition_values(args.part_name) if args.part_name else []


def partition_name_to_spec(_call: Call, args: Struct) -> dict[str, str]:
    """Key to value of a name."""
    return names.partition_spec(args.part_name)


def partition_name_has_valid_characters(_call: Call, args: Struct) -> bool:
    """Does no value have a forbidden character? By default, none is forbidden."""
    if args.throw_exception and args.part_vals is None:
        raise meta("no partition values")
    return True


METHODS = {
    **reads(get_partition_values=get_partition_values),
    **neither(
        partition_name_to_vals=partition_name_to_vals,
        partition_name_to_spec=partition_name_to_spec,
        partition_name_has_valid_characters=partition_name_has_valid_characters,
    ),
}
