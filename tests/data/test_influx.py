"""Line protocol is read and written without loss."""

from __future__ import annotations

import io
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mfbocd.io.influx import MAX_LINE, LineError, Lines, Point, Unsigned
from mfbocd.io.tables.cells import BadCells, TableError

CHARACTERS = st.one_of(st.sampled_from(list('\\,= "#\t\r')), st.characters(codec="utf-8", exclude_characters="\n"))
NAMES = st.text(CHARACTERS, min_size=1, max_size=8).filter(lambda name: not name.endswith(("\\", "\r")))
VALUES = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False),
    st.integers(-(2**63), 2**63 - 1),
    st.integers(0, 2**64 - 1).map(Unsigned),
    st.text(st.one_of(CHARACTERS, st.just("\n")), max_size=12),
    st.booleans(),
)
POINTS = st.builds(
    Point,
    NAMES.filter(lambda name: not name.startswith(("#", "\ufeff"))),
    st.dictionaries(NAMES, NAMES, max_size=3),
    st.dictionaries(NAMES, VALUES, min_size=1, max_size=4),
    st.none() | st.integers(-(2**63), 2**63 - 1),
)


def kinds(point: Point) -> list[tuple[str, type]]:
    """The type of each field: 1, 1.0, 1u and true are equal in Python."""
    return [(name, type(value)) for name, value in point.fields.items()]


@settings(max_examples=300, deadline=None, derandomize=True)
@given(POINTS)
def test_a_point_is_the_same_after_a_round_trip(point: Point) -> None:
    read = Point.parse(point.line())
    assert read == point
    assert kinds(read) == kinds(point)
    assert list(read.tags) == list(point.tags)
    assert Point.parse(read.line()).line() == read.line()


@settings(max_examples=200, deadline=None, derandomize=True)
@given(st.lists(POINTS, max_size=4), st.sampled_from(["\n", "\r\n"]))
def test_fields_are_added_and_nothing_else_changes(points: list[Point], end: str) -> None:
    """Also with newlines in strings, through which a point has several lines."""
    text = "".join(point.line() + end for point in points)
    found = list(Lines("x", io.BytesIO(text.encode())))
    assert [point for point, _, _ in found] == points
    assert "".join(line + after for _, line, after in found) == text
    for point, (read, _, _) in zip(points, found, strict=True):
        assert read is not None
        assert read.extended({}) == point.line()
        more = Point.parse(read.extended({"\\new =,": 1.5}))
        assert more == Point(point.measurement, point.tags, {**point.fields, "\\new =,": 1.5}, point.time)


@pytest.mark.parametrize(
    ("line", "fields"),
    [
        ("m a=1,b=1i,c=1u,d=t", {"a": 1.0, "b": 1, "c": Unsigned(1), "d": True}),
        ("m a=.5,b=5.,c=-1E-3,d=+2", {"a": 0.5, "b": 5.0, "c": -1e-3, "d": 2.0}),
        (r'm s="a\nb \"c\" \\ , =",t=""', {"s": 'a\\nb "c" \\ , =', "t": ""}),
        (r"m,k\ 1=v\,2 f\=1=FALSE   17  ", {"f=1": False}),
    ],
)
def test_what_other_programs_write(line: str, fields: dict[str, Any]) -> None:
    point = Point.parse(line)
    assert point.fields == fields
    assert [type(value) for value in point.fields.values()] == [type(value) for value in fields.values()]
    assert point.extended({}) == line


@pytest.mark.parametrize(
    "line",
    [
        *("m", "m ", "m a", "m a=", "m a=1,", "m,t a=1", "m,t= a=1", "m a=nan", "m a=inf", "m a=1e999", "m a=1x"),
        *("m a=9223372036854775808i", "m a=18446744073709551616u", "m a=-1u", 'm a="x', 'm a="x"y', "m a=1 b=2"),
        *("m a=1 12345678901234567890", "m a=1 1.5", "m a=1_0", "m a=\u0663", ",t=1 a=1"),
    ],
)
def test_what_is_not_line_protocol_is_an_error(line: str) -> None:
    with pytest.raises(LineError):
        Point.parse(line)


@pytest.mark.parametrize(
    "point",
    [
        Point("m", {}, {}),
        Point("m\\", {}, {"a": 1}),
        Point("", {}, {"a": 1}),
        Point("#m", {}, {"a": 1}),
        Point("m", {"t": ""}, {"a": 1}),
        Point("m", {}, {"a\nb": 1}),
        Point("m", {}, {"a": float("nan")}),
        Point("m", {}, {"a": 2**63}),
    ],
)
def test_what_line_protocol_cannot_express_is_refused(point: Point) -> None:
    with pytest.raises(ValueError, match=r"line protocol|must have|cannot begin|out of range"):
        point.line()


def test_a_bad_line_costs_no_other_line() -> None:
    """An open quote could take the following lines as its continuation."""
    lines = [b"m a=1", b'm s="open', b"# comment", b"", b"m a=2", b"\xff a=1", b"x" * (2 * MAX_LINE), b'm s="ok"']
    skipped = BadCells()
    found = list(Lines("x", io.BytesIO(b"\n".join(lines)), skipped))
    assert [text for _, text, _ in found] == ["m a=1", "# comment", "", "m a=2", 'm s="ok"']
    assert skipped.count == 3
    assert skipped.first.startswith("line 2: ")
    with pytest.raises(TableError, match=r"^line 2: "):
        list(Lines("x", io.BytesIO(b"\n".join(lines))))
