"""The next time of a schedule: cron expressions as Quartz writes them.

Job: answer `next_time("0 15 10 ? * MON-FRI *", now)`. Must not know: what is scheduled.

Fields: second, minute, hour, day of the month, month, day of the week (1 is Sunday), and optionally year. One of the
two day fields is `?`. Lists, ranges, steps and names as in any cron; for days of the month also `L`, `L-3`, `LW`,
`15W`, for days of the week `L`, `6L`, `6#3`. Source: cron-utils with CronType.QUARTZ, which Hive uses. Times are local.
"""

from __future__ import annotations

import calendar
import re
from collections.abc import Iterator, Mapping
from datetime import date, datetime, timedelta
from itertools import product

LAST_YEAR = 2099
_NONE: Mapping[str, int] = {}
_MONTHS = {name.upper(): number for number, name in enumerate(calendar.month_abbr) if name}
_DAYS = {name: number for number, name in enumerate(("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"), 1)}


def next_time(schedule: str, after: datetime) -> datetime | None:
    """The first time later than `after`; None if there is none. ValueError if this is not a schedule."""
    fields = schedule.upper().split()
    if len(fields) not in (6, 7):
        raise ValueError("a schedule has six or seven fields")
    if (fields[3] == "?") == (fields[5] == "?"):
        raise ValueError("one kind of days is ?")
    seconds, minutes, hours = (_numbers(field, 0, top) for field, top in zip(fields, (59, 59, 23), strict=False))
    months = _numbers(fields[4], 1, 12, _MONTHS)
    years = _numbers(fields[6], 1970, LAST_YEAR) if len(fields) == 7 else range(after.year, LAST_YEAR + 1)
    of_month = None if fields[3] == "?" else fields[3].split(",")
    of_week = [] if of_month else fields[5].split(",")
    for item in of_month or of_week:  # even if no month matches
        _check(item, weekly=of_month is None)
    for year, month in product(years, months):
        if (year, month) < (after.year, after.month):
            continue
        for day in sorted(_days(year, month, of_month, of_week)):
            if day < after.date():
                continue
            for hour, minute, second in product(hours, minutes, seconds):
                found = datetime(day.year, day.month, day.day, hour, minute, second)
                if found > after:
                    return found
    return None


def _numbers(field: str, low: int, high: int, names: Mapping[str, int] = _NONE) -> list[int]:
    """The numbers of a field with lists, ranges and steps, in order.

    A range to a lower number ends at the last one; a range of days of the week (`FRI-MON`) wraps around. Years have no
    such ranges.
    """
    found: set[int] = set()
    for item in field.split(","):
        span, slash, step = item.partition("/")
        first, dash, last = span.partition("-")
        if span == "*" or slash and not span:
            start, end = low, high
        else:
            start = names.get(first) or _integer(first)
            end = names.get(last) or _integer(last) if dash else high if slash else start
        every = _integer(step) if slash else 1
        if not (low <= start <= high and low <= end <= high and 1 <= every <= high):
            raise ValueError(f"{item} is not in {low}-{high}")
        if start <= end:
            found.update(range(start, end + 1, every))
        elif high == LAST_YEAR:
            raise ValueError(f"{item} ends before it begins")
        else:
            found.update(range(start, high + 1, every), range(low, end + 1, every) if names is _DAYS else ())
    return sorted(found)


def _integer(text: str) -> int:
    if "_" in text:
        raise ValueError(f"{text} is no number")
    return int(text)


def _check(item: str, *, weekly: bool) -> None:
    day = rf"(?:[1-7]|{'|'.join(_DAYS)})"
    special = rf"L|{day}L|{day}#[1-9]" if weekly else r"L|LW|L-(?:[1-9]|[12]\d|3[01])|\d+W"
    if re.fullmatch(special, item) is None:
        _numbers(item, 1, 7 if weekly else 31, _DAYS if weekly else _NONE)


def _days(year: int, month: int, of_month: list[str] | None, of_week: list[str]) -> Iterator[date]:
    """The matching days of a month; a day may come more than once."""
    last = calendar.monthrange(year, month)[1]
    if of_month is not None:
        for item in of_month:
            yield from _days_of_month(date(year, month, last), item)
        return
    for item in of_week:
        yield from _days_of_week(date(year, month, last), item)


def _days_of_month(last: date, item: str) -> Iterator[date]:
    if item == "LW":
        yield _weekday(last, last)
    elif item.startswith("L"):
        back = int(item[2:] or 0)
        if back < last.day:
            yield last - timedelta(days=back)
    elif item.endswith("W"):
        if int(item[:-1]) <= last.day:
            yield _weekday(last.replace(day=int(item[:-1])), last)
    else:
        yield from (last.replace(day=day) for day in _numbers(item, 1, 31) if day <= last.day)


def _weekday(day: date, last: date) -> date:
    """The nearest day from Monday to Friday in the same month."""
    if day.weekday() == 5:
        return day - timedelta(days=1) if day.day > 1 else day + timedelta(days=2)
    if day.weekday() == 6:
        return day + timedelta(days=1) if day < last else day - timedelta(days=2)
    return day


def _days_of_week(last: date, item: str) -> Iterator[date]:
    every = [last.replace(day=day) for day in range(1, last.day + 1)]
    if item == "L":
        yield from (day for day in every if _number(day) == 7)
    elif item.endswith("L"):
        wanted = _DAYS.get(item[:-1]) or int(item[:-1])
        yield [day for day in every if _number(day) == wanted][-1]
    elif "#" in item:
        name, _, which = item.partition("#")
        wanted = _DAYS.get(name) or int(name)
        yield from [day for day in every if _number(day) == wanted][int(which) - 1 : int(which)]
    else:
        numbers = _numbers(item, 1, 7, _DAYS)
        yield from (day for day in every if _number(day) in numbers)


def _number(day: date) -> int:
    """The number of a day in its week; Sunday is 1."""
    return day.isoweekday() % 7 + 1
