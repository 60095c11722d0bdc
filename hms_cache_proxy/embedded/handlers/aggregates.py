"""Combined statistics of several partitions: get_aggr_stats_for.

Job: give the stored statistics to methods/readers/aggregation.py, and make the reply from the result. Where Hive 4.2
fails because its query lacks a column (some partitions without statistics, no bit vectors), this one answers. Must not
know: how numbers are combined. Owner: the thread of a call.
"""

from __future__ import annotations

from collections import defaultdict

from hms_cache_proxy.cache.statistics import Gathered
from hms_cache_proxy.embedded import acid
from hms_cache_proxy.embedded.call import Call, reads
from hms_cache_proxy.embedded.failures import meta
from hms_cache_proxy.embedded.handlers.statistics import asked_for, requested
from hms_cache_proxy.embedded.rows import partitions as partition_rows
from hms_cache_proxy.embedded.rows import statistics as rows
from hms_cache_proxy.embedded.values import new
from hms_cache_proxy.methods.readers.aggregation import Total
from hms_cache_proxy.methods.readers.extremes import Unsettled
from hms_cache_proxy.store.protocol import StatisticsHead
from hms_cache_proxy.wire import spec
from hms_cache_proxy.wire.spec import Struct


def get_aggr_stats_for(call: Call, args: Struct) -> Struct | None:
    """Combined statistics of some columns over some partitions, ordered by column name. None, as in Hive, if those of a
    partition are not valid for one who sees these write ids, or a request with write ids names no partition."""
    request = args.request
    row = requested(call, request)
    columns, engine = asked_for(request)
    places = {name: place for place, name in enumerate(request.partNames)}
    seen = request.validWriteIdList
    if seen is not None and not places:
        return None
    parts = partition_rows.find(call, row, names=places) if places else []
    if seen is not None and not all(acid.are_valid(part.partition, seen) for part in parts):
        return None
    if not columns or not places:
        return new("AggrStats", colStats=[], partsFound=0)
    ids = {part.partition_id: part.name for part in parts}
    stored = rows.read(call, ids, columns, engine, partition=True)
    total = Total(decimals=True, complete_fails=False)
    try:
        total.add(_gathered(stored, {id_: places[name] for id_, name in ids.items()}, engine))
        complete = sum(len(some) == len(columns) for some in stored.values())
        body = total.result(len(request.partNames), len(places), complete)
    except Unsettled as unsettled:
        raise meta(f"statistics cannot be added up: {unsettled}") from unsettled
    return spec.decode(spec.struct("AggrStats"), body)[0]


def _gathered(stored: dict[int, list[tuple[int, Struct]]], places: dict[int, int], engine: str) -> Gathered:
    gathered: Gathered = defaultdict(lambda: ([], []))
    for id_ in sorted(stored, key=lambda id_: places[id_]):
        for _, one in stored[id_]:
            written = spec.encode(one)
            name, kind = one.colName.encode(), one.colType.encode()
            end = 7 + len(name) + 7 + len(kind) + 3 + 3  # two strings, the headers of the union and of its member
            at, data = gathered[StatisticsHead(engine.encode(), name, written[:end])]
            at.append(places[id_])
            data.append(written[end:])
    return gathered


METHODS = reads(get_aggr_stats_for=get_aggr_stats_for)
