"""InfluxDB line protocol: points that are read, extended by fields and written without loss."""

from __future__ import annotations

import math
import re
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import IO

from .tables.cells import BadCells, TableError

MAX_LINE = 65_536
"""Largest length of a line in bytes; InfluxDB's limit of one string field is 64 KB too."""
SUFFIXES = (".lp", ".line", ".influx")
"""File names of line protocol."""

# Possessive: the backslash of an escape is never taken for a character of its own when the rest does not match.
_MEASUREMENT = re.compile(r"(?:\\[, ]|[^, \n])++")
_KEY = re.compile(r"(?:\\[,= ]|[^,= \n])++")
_STRING = re.compile(r'"((?:\\.|[^"\\])*+)"', re.DOTALL)
_PLAIN = re.compile(r'[^,\s"]++')
_INTEGER = re.compile(r"([+-]?[0-9]+)i")
_UNSIGNED = re.compile(r"\+?([0-9]+)u")
_FLOAT = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_TIME = re.compile(r"-?[0-9]{1,19}")
_BOOLS = dict.fromkeys(("t", "T", "true", "True", "TRUE"), True) | dict.fromkeys(
    ("f", "F", "false", "False", "FALSE"), False
)
_INT_RANGE = range(-(2**63), 2**63)


class Unsigned(int):
    """An unsigned integer field, which line protocol writes as ``17u``."""


Value = float | int | Unsigned | str | bool
"""The value of a field; its type is kept."""


class LineError(ValueError):
    """A line that is not line protocol."""


class _OpenStringError(LineError):
    """A string that does not end on its line; it may contain a newline and continue on the next one."""


@dataclass(frozen=True)
class Point:
    r"""One line of line protocol.

    Attributes
    ----------
    measurement : str
        The measurement.
    tags : mapping of str to str
        The tags, in the order of the line.
    fields : mapping of str to float, int, Unsigned, str or bool
        The fields, in the order of the line.
    time : int or None
        The timestamp, usually in nanoseconds since 1970; None if the line has none.
    source : str
        The line that was read; empty if the point was not read.
    fields_end : int
        Where the fields end in `source`.

    Examples
    --------
    >>> point = Point.parse(r'weather,room=living\ room temp=21.5,ok=t 1465839830100400200')
    >>> point.tags, point.fields, point.time
    ({'room': 'living room'}, {'temp': 21.5, 'ok': True}, 1465839830100400200)
    >>> print(point.extended({"temp_alarm": False}))
    weather,room=living\ room temp=21.5,ok=t,temp_alarm=false 1465839830100400200
    """

    measurement: str
    tags: Mapping[str, str]
    fields: Mapping[str, Value]
    time: int | None = None
    source: str = field(default="", compare=False)
    fields_end: int = field(default=0, compare=False)

    @classmethod
    def parse(cls, text: str) -> Point:
        """Read one line, without its newline.

        Parameters
        ----------
        text : str
            The line.

        Returns
        -------
        Point
            The point.

        Raises
        ------
        LineError
            If the line is not line protocol.
        """
        at, measurement = _token(_MEASUREMENT, text, 0, "a measurement")
        tags: dict[str, str] = {}
        while text.startswith(",", at):
            at, key = _token(_KEY, text, at + 1, "the name of a tag")
            at = _expect("=", text, at, f"after tag {key!r}")
            at, value = _token(_KEY, text, at, f"the value of tag {key!r}")
            tags[_unescaped(key, _KEY)] = _unescaped(value, _KEY)
        at = _expect(" ", text, at, "before the fields")
        at = _spaces(text, at) - 1
        fields: dict[str, Value] = {}
        separator = " "
        while text.startswith(separator, at):
            separator = ","
            at, key = _token(_KEY, text, at + 1, "the name of a field")
            at = _expect("=", text, at, f"after field {key!r}")
            at, fields[_unescaped(key, _KEY)] = _value(text, at, key)
        end = at
        at = _spaces(text, at)
        time = None
        if at < len(text):
            found = _TIME.fullmatch(text[at:].rstrip(" "))
            if found is None or at == end or int(found[0]) not in _INT_RANGE:
                raise LineError(f"expected a timestamp, not {_short(text[at:])}")
            time = int(found[0])
        return cls(_unescaped(measurement, _MEASUREMENT), tags, fields, time, text, end)

    @property
    def series(self) -> str:
        """The measurement and the tags in line protocol; the order of the tags does not matter."""
        return _escaped(self.measurement, ", ") + "".join(
            f",{_escaped(key, ',= ')}={_escaped(value, ',= ')}" for key, value in sorted(self.tags.items())
        )

    def line(self) -> str:
        """Return the point in line protocol.

        Returns
        -------
        str
            The line, without a newline.

        Raises
        ------
        ValueError
            If line protocol cannot express it: no fields, an empty name, a name with a newline or a backslash at its
            end, a measurement that begins like a comment, or a number out of range.
        """
        if not self.fields:
            raise ValueError("a point must have a field")
        if self.measurement.startswith("#"):
            raise ValueError("a measurement cannot begin with #, which begins a comment")
        for name in (self.measurement, *self.tags, *self.tags.values(), *self.fields):
            if not name or "\n" in name or name.endswith("\\"):
                raise ValueError(f"line protocol cannot express the name {name!r}")
        tags = "".join(f",{_escaped(key, ',= ')}={_escaped(value, ',= ')}" for key, value in self.tags.items())
        time = "" if self.time is None else f" {self.time}"
        return f"{_escaped(self.measurement, ', ')}{tags} {_fields(self.fields)}{time}"

    def extended(self, fields: Mapping[str, Value]) -> str:
        """Return the line that was read with more fields; everything else stays as it was written.

        Parameters
        ----------
        fields : mapping
            The additional fields.

        Returns
        -------
        str
            The line, without a newline.
        """
        if not fields:
            return self.source
        return f"{self.source[: self.fields_end]},{_fields(fields)}{self.source[self.fields_end :]}"


@dataclass
class Lines:
    """The points of a stream of line protocol, and the lines between them.

    Parameters
    ----------
    name : str
        Name of the input in errors.
    file : IO[bytes]
        The input.
    skipped : BadCells or None
        Counts lines that are not line protocol, which are left out; None if they are errors.
    """

    name: str
    file: IO[bytes]
    skipped: BadCells | None = None
    number: int = 0
    """Number of the line at which the last point begins."""
    _ahead: deque[bytes] = field(default_factory=deque)

    def __iter__(self) -> Iterator[tuple[Point | None, str, str]]:
        """Yield each point, its text, and the end of its line; a comment or an empty line has no point."""
        while line := self._next():
            self.number += 1
            parts = [line]
            try:
                yield self._read(parts)
            except LineError as error:
                # Only the first line is bad: what looked like its continuation is read on its own.
                self._ahead.extendleft(reversed(parts[1:]))
                message = f"line {self.number}: {error}"
                if self.skipped is None:
                    raise TableError(message) from None
                self.skipped.add(message)
            else:
                self.number += len(parts) - 1

    def _read(self, parts: list[bytes]) -> tuple[Point | None, str, str]:
        """Return the point that begins with the first of `parts`; it may contain a string of several lines."""
        while True:
            try:
                whole = b"".join(parts).decode("utf-8-sig" if self.number == 1 else "utf-8")
            except UnicodeDecodeError as error:
                raise LineError(f"byte 0x{error.object[error.start]:02x} is not UTF-8 text") from None
            text = whole.rstrip("\r\n")
            end = whole[len(text) :] or "\n"
            if not text.strip() or text.startswith("#"):
                return None, text, end
            if sum(map(len, parts)) > MAX_LINE:
                raise LineError(f"longer than {MAX_LINE} bytes")
            try:
                # Spaces before the measurement are allowed, and are not part of it.
                return Point.parse(text.lstrip(" ")), text, end
            except _OpenStringError:
                if not (more := self._next()):
                    raise
                parts.append(more)

    def _next(self) -> bytes:
        """Return the next line; the end of one that is too long is dropped."""
        if self._ahead:
            return self._ahead.popleft()
        line = self.file.readline(MAX_LINE + 1)
        if len(line) > MAX_LINE and not line.endswith(b"\n"):
            while (rest := self.file.readline(MAX_LINE)) and not rest.endswith(b"\n"):
                pass
        return line


def _token(pattern: re.Pattern[str], text: str, at: int, what: str) -> tuple[int, str]:
    found = pattern.match(text, at)
    if found is None:
        raise LineError(f"expected {what}, not {_short(text[at:])}")
    return found.end(), found[0]


def _expect(character: str, text: str, at: int, where: str) -> int:
    if not text.startswith(character, at):
        shown = "a space" if character == " " else character
        raise LineError(f"expected {shown} {where}, not {_short(text[at:])}")
    return at + 1


def _spaces(text: str, at: int) -> int:
    while text.startswith(" ", at):
        at += 1
    return at


def _value(text: str, at: int, key: str) -> tuple[int, Value]:
    """Return where a field's value ends, and the value."""
    if text.startswith('"', at):
        quoted = _STRING.match(text, at)
        if quoted is None:
            raise _OpenStringError(f"the string of field {key!r} does not end")
        return quoted.end(), re.sub(r'\\(["\\])', r"\1", quoted[1])
    end, plain = _token(_PLAIN, text, at, f"the value of field {key!r}")
    if plain in _BOOLS:
        return end, _BOOLS[plain]
    if found := _INTEGER.fullmatch(plain):
        if len(plain) <= 21 and int(found[1]) in _INT_RANGE:
            return end, int(found[1])
    elif found := _UNSIGNED.fullmatch(plain):
        if len(plain) <= 22 and int(found[1]) < 2**64:
            return end, Unsigned(found[1])
    elif _FLOAT.fullmatch(plain) and math.isfinite(value := float(plain)):
        return end, value
    raise LineError(f"field {key!r}: {_short(plain)} is no number, boolean or string of line protocol")


def _fields(fields: Mapping[str, Value]) -> str:
    return ",".join(f"{_escaped(key, ',= ')}={_written(key, value)}" for key, value in fields.items())


def _written(key: str, value: Value) -> str:
    """Return a value in line protocol. The shortest decimal that identifies a float is written."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return '"' + re.sub(r'(["\\])', r"\\\1", value) + '"'
    if isinstance(value, float):
        if not math.isfinite(value):
            raise ValueError(f"field {key!r}: line protocol has no {value}")
        return float.__repr__(value)
    unsigned = isinstance(value, Unsigned)
    if int(value) not in (range(2**64) if unsigned else _INT_RANGE):  # without int() it takes long
        raise ValueError(f"field {key!r}: {value} is out of range")
    return f"{int(value)}{'u' if unsigned else 'i'}"


def _escaped(name: str, special: str) -> str:
    return re.sub(f"([{special}])", r"\\\1", name)


def _unescaped(name: str, pattern: re.Pattern[str]) -> str:
    """Remove the backslashes before special characters; any other backslash is a character."""
    return re.sub(r"\\([, ])" if pattern is _MEASUREMENT else r"\\([,= ])", r"\1", name) if "\\" in name else name


def _short(text: str) -> str:
    return repr(text if len(text) <= 40 else text[:37] + "...") if text else "the end of the line"
