"""The shipped fact table against the .thrift files: by our own merge, and by thriftpy2's reading of them."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from typing import Any

import pytest

from hms_cache_proxy.wire import facts, spec
from hms_cache_proxy.wire.spec import TType
from tests.testbed.interface import IDL
from tests.wire import oracle, versioned

sys.path.insert(0, str(IDL))
import merge  # type: ignore[import-not-found]  # noqa: E402  # the script's folder is not a package
import thrift_text  # type: ignore[import-not-found]  # noqa: E402

# methods without fb303's 13, structs, exceptions, unions, enumerations with fb303's, constants, fields of structs
COUNTS = {
    "2.3.9": (154, 121, 16, 3, 16, 24, 443),
    "2.3.10": (154, 121, 16, 3, 16, 26, 455),
    "3.1.3": (207, 211, 15, 3, 23, 25, 687),
    "4.0.0": (276, 302, 17, 3, 30, 44, 1206),
    "4.0.1": (280, 308, 17, 3, 30, 44, 1234),
    "4.1.0": (283, 313, 17, 3, 30, 44, 1252),
    "4.2.0": (284, 314, 17, 3, 30, 44, 1241),
}
FB303 = 13
CONFLICTS = {
    "AddDynamicPartitions": {2, 4, 5},
    "CreateDatabaseRequest": {11},
    "GetOpenTxnsResponse": {2},
    "InsertEventRequestData": {1},
    "Table": {16},
}


@pytest.mark.parametrize("version", COUNTS)
def test_counts_of_a_version(version: str) -> None:
    idl = thrift_text.read(IDL / f"hive_metastore-{version}.thrift")
    kinds = Counter(struct.kind for struct in idl.structs.values())
    fields = sum(len(struct.fields) for struct in idl.structs.values())
    counted = (len(idl.methods), kinds["struct"], kinds["exception"], kinds["union"])
    assert (*counted, len(idl.enums) + 1, len(idl.constants), fields) == COUNTS[version]


def test_counts_of_the_union() -> None:
    assert tuple(COUNTS) == facts.VERSIONS
    assert len(facts.METHODS) == 295 + FB303
    assert len(facts.STRUCTS) == 336
    assert len(facts.ENUMS) == 30
    assert sum(1 for method in facts.METHODS.values() if method.versions == facts.VERSIONS) == 146 + FB303
    assert {name for name, method in facts.METHODS.items() if method.oneway} == {"shutdown", "reinitialize"}


def shape_of(type_name: str) -> str:
    shape: str = merge.wire_shape(type_name, facts.ENUMS)
    return shape


def clashes(rows: tuple[facts.FieldFact, ...]) -> set[int]:
    shapes: dict[int, set[str]] = {}
    for row in rows:
        shapes.setdefault(row.id, set()).add(shape_of(row.type))
    return {field_id for field_id, found in shapes.items() if len(found) > 1}


def test_conflicts_between_versions() -> None:
    found = {name: clashes(facts.fields(name)) for name in facts.STRUCTS}
    assert {name: ids for name, ids in found.items() if ids} == CONFLICTS
    results = {name: clashes(method.result) for name, method in facts.METHODS.items()}
    assert {name: ids for name, ids in results.items() if ids} == {"get_partition_names": {1}}
    assert not any(clashes(method.args) for method in facts.METHODS.values())
    assert [row.id for row in facts.METHODS["create_ischema"].result if row.id < 0] == [-1]


def test_no_enumeration_was_renumbered() -> None:
    idls = merge.versions()
    for name, members in facts.ENUMS.items():
        for idl in idls.values():
            assert idl.enums.get(name, {}).items() <= members.items()


def test_a_class_has_no_two_fields_of_one_name() -> None:
    for name in facts.STRUCTS:
        names = spec.struct(name)._names
        assert len(set(names)) == len(names), name


def test_the_shipped_table_is_what_the_files_say() -> None:
    command = [sys.executable, str(IDL / "merge.py"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr


def our_shape(ttype: int, inner: Any) -> object:
    if ttype == TType.STRUCT:
        return (ttype, inner[0].__name__.partition("@")[0])
    if ttype in (TType.LIST, TType.SET):
        return (ttype, our_shape(inner[0], inner[1]))
    if ttype == TType.MAP:
        return (ttype, our_shape(inner[0], inner[1]), our_shape(inner[2], inner[3]))
    return ttype


def assert_same_spec(ours: type[spec.Struct], theirs: Any) -> None:
    mine = {row[0]: (row[2], our_shape(row[1], row[3])) for row in ours.thrift_spec if row}
    other = {
        field_id: (row[1], oracle.wire_shape(row[0], row[2] if len(row) == 4 else None))
        for field_id, row in theirs.thrift_spec.items()
        if field_id >= 0
    }
    assert mine == other, theirs


@pytest.mark.parametrize("version", COUNTS)
def test_thriftpy2_reads_the_same_from_the_files(version: str) -> None:
    """Every struct, arguments and result, as that version has them."""
    for name in versioned.structs(version):
        assert_same_spec(versioned.struct(name, version), oracle.payload(version, name))
    methods = [method for method in facts.METHODS.values() if version in method.versions]
    assert len(methods) == COUNTS[version][0] + FB303
    for method in methods:
        assert_same_spec(versioned.args(method.name, version), oracle.payload(version, f"{method.name}_args"))
        if not method.oneway:
            result = oracle.payload(version, f"{method.name}_result")
            assert_same_spec(versioned.result(method.name, version), result)
