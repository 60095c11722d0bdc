"""Questions about partitions by filter."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tests.methods.questions.question import DB, HIT, HIVE_4, Question
from tests.methods.world import struct

FILTERS: dict[bytes, dict[str, list[bytes]]] = {
    b"keyed": {
        HIT: [
            *(b'dt %b "a"' % op for op in (b"=", b"==", b"!=", b"<>", b"<", b"<=", b">", b">=")),
            *(b'dt %b "__HIVE_DEFAULT_PARTITION__"' % op for op in (b"=", b"!=", b"<", b"<=", b">", b">=")),
            b"dt = 'a'",
            b'"a" <= dt',
            b'DT="a" OR `dt` = "9" oR dt=\'10\'',
            b'((dt = "a") or (dt="9")) and dt < "a"',
            b'dt = "a" or dt = "9" and dt = "x"',
            b'dt between "1" and "9"',
            b'dt not between "1" and "9"',
            b'dt = "1_0"',
            b'dt = "1.0"',
            b'dt = "a_b"',
            b'dt = "a%b"',
            b'dt = "x/y=z:%"',
            'dt = "ü" or dt >= "日"'.encode(),
            b'dt = " lead"',
            b'dt = "no"',
            b'\tdt\n=\r"a"',
            b"",
        ],
        "filter_like": [b'dt like "a%"', b'dt = "a" and dt like "1"'],
        "filter_unsupported": [
            b" ",
            b"dt = 10",
            b"dt = 2024-01-01",
            b'dt = date "2024-01-01"',
            b'x = "a"',
            b'dt = "a" dt',
            b'dt = "a";',
            b'dt in ("a")',
            b"dt =",
            b'dt = ""',
            b'dt = "it\'s"',
            b'not dt = "a"',
            b'dt = "a\\"b"',
        ],
    },
    b"two_keys": {
        HIT: [
            *(b"hr %b 3" % op for op in (b"=", b"!=", b"<", b"<=", b">", b">=")),
            *(b"hr %b -3" % op for op in (b"=", b"!=", b"<", b"<=", b">", b">=")),
            b"hr = 7",
            b"hr != 7",
            b"7 >= hr",
            b"hr between 1 and 3",
            b"hr not between 1 and 3",
            b"hr between 3 and 1",
            b'hr = "__HIVE_DEFAULT_PARTITION__"',
            b'hr != "__HIVE_DEFAULT_PARTITION__"',
            b'dt = "2024-01-01"',
            b'dt = "2024-01-0/4"',
            b'dt != "2024-01-01" and hr > 1',
            b'dt = "2024-01-01" and (hr = 1 or hr >= 7)',
            b'dt = "2024-01-01" or hr = 1',
            b'hr = 1 or hr = 2 and dt = "2024-01-01"',
            b'dt >= "2024-01-01" and dt < "2024-01-02"',
            b'dt = "__HIVE_DEFAULT_PARTITION__" and hr = 1',
            b"hr >= 2147483648",
        ],
        "filter_unsupported": [
            b'hr = "1"',
            b"hr = 01",
            b"hr = 1.5",
            b"hr = 99999999999999999999",
            b'hr > "__HIVE_DEFAULT_PARTITION__"',
            b'dt != "2024-01-0/4"',
            b'dt != "2024_01_01" or hr = 1',
        ],
    },
    b"dated": {
        HIT: [
            *(b'd %b "2024-01-01"' % op for op in (b"=", b"!=", b"<", b"<=", b">", b">=")),
            *(b"d %b 2024-01-15" % op for op in (b"=", b"!=", b"<", b"<=", b">", b">=")),
            b"d between 2024-01-01 and 2024-01-31",
            b"d not between '2024-01-01' and '2024-01-31'",
            b'd = "__HIVE_DEFAULT_PARTITION__"',
            b'd != "__HIVE_DEFAULT_PARTITION__"',
        ],
        "filter_unsupported": [b'd = "2024-1-1"', b'd = "x"', b"d = 20240101", b"d = date '2024-01-01'"],
    },
    b"numbered": {
        HIT: [
            b"b = 22",
            b"b >= 9223372036854775807",
            b"b < -9223372036854775808",
            b"b > 0",
            b"b != 22",
            b"b < 0 and s = 'x'",
            b'b = 1 or s = "z"',
            b's = "__HIVE_DEFAULT_PARTITION__"',
            b's != "x"',
        ],
        "filter_unsupported": [b"b >= 9223372036854775808", b'b = "22"'],
    },
    b"small": {HIT: [b"n = 1", b"n != 1 and m > -300", b"m = 300 or n = 127", b"n > 200"]},
    b"of_varchar": {
        HIT: [b'v = "one"', b'v != "one"', b'v > "one"', b'c = "a"', b'c != "a"', b'c >= "b"', b'v = "no"']
    },
    b"of_other_types": {
        HIT: [b't = "__HIVE_DEFAULT_PARTITION__"', b't != "__HIVE_DEFAULT_PARTITION__"'],
        "filter_unsupported": [
            *(b'%b %b "__HIVE_DEFAULT_PARTITION__"' % (key, op) for key in (b"o", b"e") for op in (b"=", b"!=")),
            b'o = "true"',
            b"e = 2",
            b't = "1970-01-01 12:34:56"',
            b't > "__HIVE_DEFAULT_PARTITION__"',
        ],
    },
    b"plain": {HIT: [b""], "filter_unsupported": [b"x = 1"]},
    b"Absent ": {
        HIT: [b"", b"x = 1", b"dated = 1 or x not between 1 and 2"],
        "filter_unsupported": [b"x =", b"x = 1 or date > '00'", b"TRUE = 1", b"1 < in", b"timestamp between 1 and 2"],
    },
    b"insert_only": {"no_write_id": [b"", b'dt = "a"']},
    b"no_partitions_yet": {HIT: [b"", b'dt = "a"', b'dt > "a"']},
}


OTHER_THAN_STRINGS = {
    **{b"two_keys": rb"\bhr\b", b"numbered": rb"\bb\b"},
    **dict.fromkeys((b"small", b"dated", b"of_varchar", b"of_other_types"), b""),
}


IN_SPECS = (b"dated", b"plain", b"Absent ", b"insert_only", b"no_partitions_yet")
"""Asked for as a PartitionSpec, too."""


def _asked_of_31(table: bytes, text: bytes) -> bool:
    """Hive 3.1 knows no `==` and no back-quotes; of keys that are no strings its database decides what it says."""
    key = OTHER_THAN_STRINGS.get(table)
    return (key is not None and re.search(key, text) is not None) or b"==" in text or b"`" in text


def by_filter() -> Iterator[Question]:
    """Partitions by filter."""
    for table, by_reason in FILTERS.items():
        for reason, filters in by_reason.items():
            for text in filters:
                for limit in (-1, 0, 2) if table == b"two_keys" else (-1,):
                    arguments = {"db_name": DB, "tbl_name": table, "filter": text, "max_parts": limit}
                    reason_31 = "filter_unsupported" if _asked_of_31(table, text) else reason
                    yield Question("get_partitions_by_filter", arguments, reason, reason_31=reason_31)
                number = {"db_name": DB, "tbl_name": table, "filter": text}
                yield Question("get_num_partitions_by_filter", number, reason, HIVE_4)
                fields = {"catName": b"hive", "dbName": DB, "tblName": table}
                request = struct("GetPartitionsByFilterRequest", filter=text, **fields)
                yield Question("get_partitions_by_filter_req", {"req": request}, reason)
                if table in IN_SPECS:
                    arguments = {"db_name": DB, "tbl_name": table, "filter": text, "max_parts": -1}
                    known, known_31 = (HIT, HIT) if table == b"Absent " else (reason, reason_31)
                    yield Question("get_part_specs_by_filter", arguments, known, reason_31=known_31)
    no_filter = {"db_name": DB, "tbl_name": b"keyed", "filter": None, "max_parts": 3}
    yield Question("get_partitions_by_filter", no_filter)
    no_catalog = struct("GetPartitionsByFilterRequest", dbName=DB, tblName=b"keyed", filter=b'dt = "a"')
    yield Question("get_partitions_by_filter_req", {"req": no_catalog}, "arguments")


def as_specs() -> Iterator[Question]:
    """The same as a PartitionSpec, whose names are spelled as here; the limit is cut to 16 bits."""
    for database, table in ((b"@hive#{db}", b" KEYED "), (b"@HIVE#{DB}", b"Keyed"), (b" {DB}\t", b"No")):
        arguments = {"db_name": database, "tbl_name": table, "filter": b'dt > "a"', "max_parts": -1}
        yield Question("get_part_specs_by_filter", arguments)
    for limit in (-2, 0, 1, 32767, 32768, 65536, 65538, -65535, 2**31 - 1, None):
        for text in (b'dt > "10"', b"", None):
            arguments = {"db_name": DB, "tbl_name": b"keyed", "filter": text, "max_parts": limit}
            yield Question("get_part_specs_by_filter", arguments)
    for table, reason in ((b"a_view", HIT), (b"plain", HIT), (b"grouped", "arguments")):
        arguments = {"db_name": DB, "tbl_name": table, "filter": None, "max_parts": -1}
        yield Question("get_part_specs_by_filter", arguments, reason)
