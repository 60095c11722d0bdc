"""The classes that an expression may contain, and their fields in the order of the wire.

Job: hold these in a table. A class that is not in it is refused, because its meaning or its encoding is unknown.
Fields, including those of superclasses, are in the order of their names, which is the same in Hive 4.0.1, 4.1.0 and
4.2.0. Owner: any thread; constants.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final
from typing import Literal as OneOf

Kind = OneOf[
    "any",
    "null",
    "string",
    "int",
    "long",
    "short",
    "byte",
    "float",
    "double",
    "flag",
    "list",
    "words",
    "date",
    "moment",
    "truth",
    "way",
    "calendar",
    "decimal",
]
"""How a field is written.

`any`: a class, then an object of it. `null`: the same, but only null is accepted. `string`: a String or null. `int`,
`long`, `short`, `byte`, `float`, `double`, `flag`: primitive numbers and booleans. `list`, `words`: an ArrayList, of
anything or of strings. `date`, `moment`: a LocalDate, a LocalDateTime. `truth`: a BooleanWritable, which holds what was
computed last, or null. `way`: one of WAYS ways to compare, which Hive determines itself, or null. `calendar`: a
GregorianCalendar of UTC with the usual change of calendars or none, or null. `decimal`: a HiveDecimalWritable, or null.
"""

_OLD_FUNCTIONS: Final = "org.apache.hadoop.hive.ql.udf."
_SCRATCH: Final = "org.apache.hadoop.io."
_HIVE_SCRATCH: Final = "org.apache.hadoop.hive.serde2.io."

_PLAN: Final = "org.apache.hadoop.hive.ql.plan."
_TYPES: Final = "org.apache.hadoop.hive.serde2.typeinfo."
_VALUES: Final = "org.apache.hadoop.hive.common.type."
_FUNCTIONS: Final = "org.apache.hadoop.hive.ql.udf.generic."

LIST: Final = "java.util.ArrayList"
TRUTH: Final = "org.apache.hadoop.io.BooleanWritable"
LOCAL_DATE: Final = "java.time.LocalDate"
LOCAL_MOMENT: Final = "java.time.LocalDateTime"
FUNCTION: Final = _PLAN + "ExprNodeGenericFuncDesc"
COLUMN: Final = _PLAN + "ExprNodeColumnDesc"
CONSTANT: Final = _PLAN + "ExprNodeConstantDesc"
PRIMITIVE_TYPE: Final = _TYPES + "PrimitiveTypeInfo"
CHAR_TYPE: Final = _TYPES + "CharTypeInfo"
VARCHAR_TYPE: Final = _TYPES + "VarcharTypeInfo"
DECIMAL_TYPE: Final = _TYPES + "DecimalTypeInfo"
STRUCT_TYPE: Final = _TYPES + "StructTypeInfo"
DATE: Final = _VALUES + "Date"
TIMESTAMP: Final = _VALUES + "Timestamp"
CHAR: Final = _VALUES + "HiveChar"
VARCHAR: Final = _VALUES + "HiveVarchar"
DECIMAL: Final = _VALUES + "HiveDecimal"
AND: Final = _FUNCTIONS + "GenericUDFOPAnd"
OR: Final = _FUNCTIONS + "GenericUDFOPOr"
NOT: Final = _FUNCTIONS + "GenericUDFOPNot"
NULL: Final = _FUNCTIONS + "GenericUDFOPNull"
NOT_NULL: Final = _FUNCTIONS + "GenericUDFOPNotNull"
AMONG: Final = _FUNCTIONS + "GenericUDFIn"
BETWEEN: Final = _FUNCTIONS + "GenericUDFBetween"
ROW: Final = _FUNCTIONS + "GenericUDFStruct"
BRIDGE: Final = _FUNCTIONS + "GenericUDFBridge"
"""Calls a function of the older kind, by the name of its class."""
LIKE: Final = _OLD_FUNCTIONS + "UDFLike"
"""Called by the bridge, as the operator `like`."""
CALENDAR: Final = "java.util.GregorianCalendar"
DECIMAL_RESULT: Final = _HIVE_SCRATCH + "HiveDecimalWritable"

COMPARISONS: Final[Mapping[str, str]] = {
    _FUNCTIONS + name: sign
    for name, sign in {
        "GenericUDFOPEqual": "=",
        "GenericUDFOPNotEqual": "<>",
        "GenericUDFOPLessThan": "<",
        "GenericUDFOPEqualOrLessThan": "<=",
        "GenericUDFOPGreaterThan": ">",
        "GenericUDFOPEqualOrGreaterThan": ">=",
        "GenericUDFOPEqualNS": "IS NOT DISTINCT FROM",
    }.items()
}
"""The name of each when Hive writes it as a filter. Hive takes it from a field of the object."""

WAYS: Final = 8
"""The number of values of GenericUDFBaseCompare$CompareType."""
INSPECTOR: Final = "org.apache.hadoop.hive.serde2.objectinspector.primitive.WritableDoubleObjectInspector"
"""Occurs with numbers that have been compared, in expressions of SHOW PARTITIONS."""

_OF_COMPARISONS: Final[tuple[tuple[str, Kind], ...]] = (
    ("compareOI", "any"),
    ("compareType", "way"),
    ("opDisplayName", "string"),
    ("opName", "string"),
    ("result", "truth"),
)
_RESULT: Final[tuple[tuple[str, Kind], ...]] = (("result", "truth"),)
_OF_CALENDAR: Final[tuple[tuple[str, Kind], ...]] = (("calendar", "calendar"), ("output", "any"))
_OF_DECIMAL: Final[tuple[tuple[str, Kind], ...]] = (
    ("fast0", "long"),
    ("fast1", "long"),
    ("fast2", "long"),
    ("fastIntegerDigitCount", "int"),
    ("fastScale", "int"),
    ("fastSerializationScale", "int"),
    ("fastSignum", "int"),
)
_WITH_CALENDAR: Final = "UDFYear UDFMonth UDFDayOfMonth UDFHour UDFMinute"
_WITHOUT_FIELDS: Final = (
    "GenericUDFToDate GenericUDFDate GenericUDFConcat GenericUDFToString GenericUDFLower GenericUDFUpper"
    " GenericUDFCoalesce"
)
_OF_DAYS: Final[tuple[tuple[str, Kind], ...]] = (("output", "any"), ("signModifier", "int"))
_OF_SUM: Final[tuple[tuple[str, Kind], ...]] = (
    ("ansiSqlArithmetic", "flag"),
    ("arithmeticOperation", "null"),
    ("confLookupNeeded", "flag"),
    ("opDisplayName", "string"),
    ("opName", "string"),
)
_OF_PRODUCT: Final[tuple[tuple[str, Kind], ...]] = (
    ("ansiSqlArithmetic", "flag"),
    ("byteWritable", "any"),
    ("confLookupNeeded", "flag"),
    ("decimalWritable", "decimal"),
    ("doubleWritable", "any"),
    ("floatWritable", "any"),
    ("intWritable", "any"),
    ("longWritable", "any"),
    ("opDisplayName", "string"),
    ("opName", "string"),
    ("predefinedTypeInfo", "null"),
    ("shortWritable", "any"),
)

FIELDS: Final[Mapping[str, tuple[tuple[str, Kind], ...]]] = {
    FUNCTION: (("children", "list"), ("genericUDF", "any"), ("isSortedExpr", "flag"), ("typeInfo", "any")),
    COLUMN: (
        ("column", "string"),
        ("isPartitionColOrVirtualCol", "flag"),
        ("isSkewedCol", "flag"),
        ("tabAlias", "string"),
        ("typeInfo", "any"),
    ),
    CONSTANT: (("typeInfo", "any"), ("value", "any")),
    PRIMITIVE_TYPE: (("typeName", "string"),),
    CHAR_TYPE: (("length", "int"), ("typeName", "string")),
    VARCHAR_TYPE: (("length", "int"), ("typeName", "string")),
    DECIMAL_TYPE: (("precision", "int"), ("scale", "int"), ("typeName", "string")),
    STRUCT_TYPE: (("allStructFieldNames", "words"), ("allStructFieldTypeInfos", "list")),
    DATE: (("localDate", "date"),),
    TIMESTAMP: (("localDateTime", "moment"),),
    CHAR: (("value", "string"),),
    VARCHAR: (("value", "string"),),
    DECIMAL: _OF_DECIMAL,
    AND: _RESULT,
    OR: _RESULT,
    NOT: _RESULT,
    NULL: _RESULT,
    NOT_NULL: _RESULT,
    AMONG: (("bw", "truth"), ("isInSetConstant", "flag")),
    BETWEEN: (("argumentOIs", "null"), ("egt", "any"), ("elt", "any"), ("result", "truth")),
    ROW: (),
    TRUTH: (("value", "flag"),),
    INSPECTOR: (("typeInfo", "any"),),
    BRIDGE: (("isOperator", "flag"), ("udfClassName", "string"), ("udfName", "string")),
    **{_FUNCTIONS + name: () for name in _WITHOUT_FIELDS.split()},
    **{_OLD_FUNCTIONS + name: _OF_CALENDAR for name in _WITH_CALENDAR.split()},
    **{_FUNCTIONS + name: _OF_SUM for name in ("GenericUDFOPPlus", "GenericUDFOPMinus")},
    **{_FUNCTIONS + name: _OF_PRODUCT for name in ("GenericUDFOPMultiply", "GenericUDFOPMod")},
    **{_FUNCTIONS + name: _OF_DAYS for name in ("GenericUDFDateAdd", "GenericUDFDateSub")},
    _FUNCTIONS + "GenericUDFDateDiff": (("output", "any"),),
    _FUNCTIONS + "GenericUDFTimestamp": (("intToTimestampInSeconds", "flag"),),
    CALENDAR: (),
    _HIVE_SCRATCH + "DateWritableV2": (("date", "any"),),
    _HIVE_SCRATCH + "ByteWritable": (("value", "byte"),),
    _HIVE_SCRATCH + "ShortWritable": (("value", "short"),),
    _SCRATCH + "IntWritable": (("value", "int"),),
    _SCRATCH + "LongWritable": (("value", "long"),),
    _SCRATCH + "FloatWritable": (("value", "float"),),
    _HIVE_SCRATCH + "DoubleWritable": (("value", "double"),),
    DECIMAL_RESULT: (
        *_OF_DECIMAL,
        ("internalScratchBuffer", "null"),
        ("internalScratchLongs", "null"),
        ("isSet", "flag"),
    ),
    **dict.fromkeys(COMPARISONS, _OF_COMPARISONS),
}

REGISTERED: Final[Mapping[int, str]] = {
    0: "int",
    1: "string",
    3: "boolean",
    4: "byte",
    6: "short",
    7: "long",
    8: "double",
}
"""The classes of constants that are written as a number."""
