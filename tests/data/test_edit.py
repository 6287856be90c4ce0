"""TOML texts are changed in place: comments, order and layout stay."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest

from mfbocd.io.config.edit import EditError, Path, Scanner, edited

TEXT = """\
# a = 1 in a comment
hazard = 0.01   # per tick

"quoted key" = "with # and ] and = in it"
'literal.key' = 'C:\\no \\escapes'
long = \"\"\"
[model]
not = "a table"  # nor a comment
\"\"\"
a.b."c d" = -1_000
list = [ 1, [2, 3], # inside
  "x, y", { deep = 4.5 },
]
date = 1979-05-27T07:32:00Z
empty = {}
nothing = []

  [model]  # indented
  mean = 3.0
var=4

[[fidelity]]
name = "imu"
zeta = 0.1   # a guess

  # belongs to gps
[[fidelity]]
name = "gps"
zeta = 1
[fidelity.extra]
note = true

[policy]
kind = "budget"
"""


def leaves(value: Any, path: Path = ()) -> dict[Path, Any]:
    """All values by path, with those of tables and lists inside."""
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    found = {} if isinstance(value, (dict, list)) and value else {path: value}
    for name, inner in pairs:
        found |= leaves(inner, (*path, name))
    return found


def test_every_value_is_found_where_it_is() -> None:
    found = Scanner(TEXT)
    wanted = leaves(tomllib.loads(TEXT))
    assert set(wanted) <= set(found.values)
    for path, value in wanted.items():
        start, end, _ = found.values[path]
        assert tomllib.loads(f"x = {TEXT[start:end]}")["x"] == value
    for path in set(found.values) - set(wanted):  # only lists and inline tables
        assert TEXT[found.values[path].start] in "[{"


@pytest.mark.parametrize("path", sorted(leaves(tomllib.loads(TEXT)), key=str), ids=str)
def test_one_value_is_changed_and_nothing_else(path: Path) -> None:
    new = edited(TEXT, {path: 77.5}, {})
    assert leaves(tomllib.loads(new)) == {p: v for p, v in leaves(tomllib.loads(TEXT)).items() if p != path} | {
        path: 77.5
    }
    start, end, _ = Scanner(TEXT).values[path]
    assert new == TEXT[:start] + "77.5" + TEXT[end:]


def test_keys_and_tables_are_added_and_removed() -> None:
    new = edited(
        TEXT,
        {
            ("fidelity", 0, "offset"): 2.0,
            ("fidelity", 0, "scale"): 1.5,
            ("model", "var"): None,
            ("alarm",): {"within": 50},
            ("policy",): {"kind": "net", "price": 0.01},
            ("list", 3, "more"): 1,
            ("empty", "first"): 1,
            ("a", "b", "e"): 5,
        },
        {("fidelity", 0, "offset"): "it reads 2 more", ("policy",): "a price"},
    )
    assert (
        "zeta = 0.1   # a guess\n# Calibrated: it reads 2 more\noffset = 2.0\nscale = 1.5\n\n  # belongs to gps\n"
        in new
    )
    assert "  mean = 3.0\n\n[[fidelity]]" in new
    assert new.endswith(
        '[policy]\n# Calibrated: a price\nkind = "net"\n# Calibrated: a price\nprice = 0.01\n\n[alarm]\nwithin = 50\n'
    )
    found = tomllib.loads(new)
    assert found["list"][3] == {"deep": 4.5, "more": 1}
    assert found["empty"] == {"first": 1}
    assert found["a"]["b"] == {"c d": -1000, "e": 5}
    assert [line for line in TEXT.splitlines() if "#" in line and "var" not in line] == [
        line for line in new.splitlines() if "#" in line and "Calibrated" not in line
    ]


def test_the_comment_of_an_earlier_edit_is_replaced() -> None:
    long = "because " * 30
    once = edited(TEXT, {("model", "mean"): 5.0}, {("model", "mean"): long})
    assert once.count("\n#   because") >= 1
    twice = edited(once, {("model", "mean"): 6.0}, {("model", "mean"): "short"})
    assert "because" not in twice
    assert "# indented\n# Calibrated: short\n  mean = 6.0\n" in twice
    assert edited(TEXT, {("model", "mean"): 3.0}, {("model", "mean"): "same"}) == TEXT  # nothing has changed


def test_an_edit_without_a_last_line_break() -> None:
    assert edited("[a]\nb = 1", {("a", "c"): 2}, {}) == "[a]\nb = 1\nc = 2\n"
    assert edited("b = 1", {("a",): {"c": 2}}, {}) == "b = 1\n\n[a]\nc = 2\n"


@pytest.mark.parametrize(
    ("path", "value"), [(("list", 3, "deep"), None), (("nobody", 0, "x"), 1.0), (("fidelity", 5, "zeta"), 1.0)]
)
def test_what_has_no_place_is_refused(path: Path, value: Any) -> None:
    with pytest.raises(EditError):
        edited(TEXT, {path: value}, {})
