"""Invalid dates and timestamps in filters: the messages of Java's parser.

Job: `complaint(kind, text)` returns the message. Must not know: filters. Source: java.time's DateTimeFormatter with the
patterns of MetaStoreUtils (yyyy-MM-dd, yyyy-MM-dd HH:mm:ss, strict), tested with Hive 4.2.0. Owner: any thread; no
state.
"""

from __future__ import annotations

import calendar
import re

_DATE = ("[0-9]{4}", "-", "[0-9]{2}", "-", "[0-9]{2}")
_TIME = (" ", "[0-9]{2}", ":", "[0-9]{2}", ":", "[0-9]{2}")
_FIELDS = (
    (5, "MonthOfYear", "1 - 12", 1, 12),
    (8, "DayOfMonth", "1 - 28/31", 1, 31),
    (11, "HourOfDay", "0 - 23", 0, 23),
    (14, "MinuteOfHour", "0 - 59", 0, 59),
    (17, "SecondOfMinute", "0 - 59", 0, 59),
)
"""For each field of two digits: its offset, Java's name, its values."""

_MONTHS = "JANUARY FEBRUARY MARCH APRIL MAY JUNE JULY AUGUST SEPTEMBER OCTOBER NOVEMBER DECEMBER".split()


def complaint(kind: str, text: str) -> str:
    """What is wrong with a DATE or a TIMESTAMP: how Java's message continues after "could not be parsed"; empty if
    valid."""
    at = 0
    for piece in _DATE if kind == "DATE" else _DATE + _TIME:
        match = re.compile(piece).match(text, at)
        if match is None:
            return f" at index {at}"
        at = match.end()
    if at < len(text):
        return f", unparsed text found at index {at}"
    for begin, name, told, least, most in _FIELDS:
        if begin < at and not least <= int(text[begin : begin + 2]) <= most:
            return f": Invalid value for {name} (valid values {told}): {int(text[begin : begin + 2])}"
    year, month, day = int(text[:4]), int(text[5:7]), int(text[8:10])
    if day > 29 or (day == 29 and month == 2):
        days = 29 if month == 2 and calendar.isleap(year) else _days(month)
        if day == 29 and days < 29:
            return f": Invalid date 'February 29' as '{text[:4]}' is not a leap year"
        if day > days:
            return f": Invalid date '{_MONTHS[month - 1]} {day}'"
    return ""


def _days(month: int) -> int:
    return 28 if month == 2 else 30 if month in (4, 6, 9, 11) else 31
