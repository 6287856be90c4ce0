"""Every public class, function and method has a numpydoc docstring that agrees with its signature.

It also says which errors it raises, and the names of `mfbocd` itself have examples. An override documents only what
differs from the method it replaces, so it may omit the sections.
"""

from __future__ import annotations

import ast
import inspect
import pkgutil
import re
import textwrap
from collections.abc import Callable, Iterator
from functools import cache, cached_property
from importlib import import_module
from itertools import chain
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import mfbocd as mf
import mfbocd.adapters
from mfbocd.inputs import arguments
from mfbocd.inputs.arguments import whole

REFERENCE = Path(__file__).parents[2] / "docs" / "reference"
CHECKS = {name for name, function in vars(arguments).items() if inspect.isfunction(function)} - {"name_of"}
"""Functions that raise an error for their caller."""
MODULES = (
    "mfbocd.models",
    "mfbocd.policy",
    "mfbocd.fleet",
    "mfbocd.calibrate",
    "mfbocd.datasets",
    "mfbocd.datasets.simulate",
    "mfbocd.trace",
    "mfbocd.trace.hindsight",
    "mfbocd.trace.metrics",
    "mfbocd.trace.plots",
    "mfbocd.report",
    "mfbocd.io.config",
    "mfbocd.export",
    *(f"mfbocd.adapters.{module.name}" for module in pkgutil.iter_modules(mfbocd.adapters.__path__)),
)
"""Documented modules, in addition to the names of `mfbocd` itself."""

_HEADING = re.compile(r"^(\w[\w ]*)\n-{3,} *$", re.MULTILINE)
_ENTRY = re.compile(r"(\*{0,2}\w+(?:, \*{0,2}\w+)*) : \S.*")
_DEFAULT = re.compile(r"(\w+) : .*, default (.+)")


class Docstring:
    """The summary and the sections of a numpydoc docstring.

    >>> doc = Docstring("Add.\\n\\nParameters\\n----------\\na, b : int\\n    Terms.\\n\\nReturns\\n-------\\nint")
    >>> doc.summary, doc.parameters, doc.sections["Returns"]
    ('Add.', ['a', 'b'], 'int')
    """

    def __init__(self, text: str) -> None:
        first, *pairs = _HEADING.split(inspect.cleandoc(text))
        self.lead = first.strip()
        self.summary = self.lead.partition("\n\n")[0]
        self.sections = {name: body.strip("\n") for name, body in zip(pairs[::2], pairs[1::2], strict=True)}

    def entries(self, section: str) -> list[str]:
        """The lines of a section that are not indented."""
        return [line for line in self.sections.get(section, "").splitlines() if line and not line.startswith(" ")]

    @cached_property
    def parameters(self) -> list[str]:
        """The documented parameters, in order; a record's fields may be under `Attributes`."""
        lines = self.entries("Parameters") or self.entries("Attributes")
        return [name.lstrip("*") for line in lines for name in line.partition(" : ")[0].split(", ")]

    def problems(self) -> Iterator[str]:
        """Problems that do not depend on the signature."""
        if "\n" in self.summary or not self.summary.endswith(".") or re.search(r"[a-z)`]\. +[A-Z]", self.summary):
            yield f"the summary must be one sentence on one line: {self.summary!r}"
        for section in ("Parameters", "Attributes"):
            for line in self.entries(section):
                if not _ENTRY.fullmatch(line):
                    yield f"{section} must be 'name : type' lines, not {line!r}"
                if (choices := re.search(r": {([^,}]+).*}, default (.+)", line)) and choices[1] != choices[2]:
                    yield f"the default must be the first of the choices, or it is rendered wrong: {line!r}"
        if any(">>>" in body for name, body in [("", self.lead), *self.sections.items()] if name != "Examples"):
            yield "examples must stand in a section Examples"


def problems(name: str, thing: Callable[..., Any], inherited: Any = None) -> Iterator[str]:
    """Problems of the docstring of a class or function; `inherited` is the method it overrides, if any."""
    text = vars(thing).get("__doc__") if isinstance(thing, type) else thing.__doc__
    if not text:
        yield f"{name}: no docstring"
        return
    doc = Docstring(text)
    yield from (f"{name}: {problem}" for problem in doc.problems())
    wanted = parameters_of(thing)
    if set(doc.parameters) <= set(wanted):
        yield from (f"{name}: {problem}" for problem in wrong_defaults(thing, doc))
    if inherited is None:
        if fails(thing) and "Raises" not in doc.sections:
            yield f"{name}: no Raises section"
        if doc.parameters != wanted and not ("Parameters" not in doc.sections and not wanted):
            yield f"{name}: Parameters must be {wanted}, not {doc.parameters}"
        if not isinstance(thing, type) and returns(thing) and not {"Returns", "Yields"} & set(doc.sections):
            yield f"{name}: no Returns section"
        return
    extra = [p for p in wanted if p not in parameters_of(inherited)]
    if not set(extra) <= set(doc.parameters):
        yield f"{name}: Parameters must have {extra}, which the base method does not"
    if doc.parameters != [p for p in wanted if p in doc.parameters]:
        yield f"{name}: Parameters must be some of {wanted}, not {doc.parameters}"


def wrong_defaults(thing: Callable[..., Any], doc: Docstring) -> Iterator[str]:
    """Documented defaults that are not those of the signature."""
    for line in doc.entries("Parameters"):
        if found := _DEFAULT.fullmatch(line):
            default = inspect.signature(thing).parameters[found[1]].default
            try:
                same = ast.literal_eval(found[2]) == default
            except (ValueError, SyntaxError):  # words, or an expression such as 1 / 250
                same = default is not inspect.Parameter.empty
            if not same:
                yield f"the default of {found[1]} is {default!r}, not {found[2]}"


def parameters_of(thing: Callable[..., Any]) -> list[str]:
    """The parameters a caller passes."""
    if getattr(thing, "_is_protocol", False):  # its __init__ comes from typing
        return []
    if isinstance(thing, type) and not hasattr(thing, "_fields"):  # a named tuple has no own __init__
        owner = next(c for c in thing.__mro__ if "__init__" in vars(c))
        if not ours(owner):
            return []
    try:
        names = list(inspect.signature(thing).parameters)
    except ValueError:  # a foreign base method without one
        return []
    return [n for n in names if n not in ("self", "cls") and not n.startswith("_")]


def fails(thing: Callable[..., Any]) -> bool:
    """Whether the code of a function, or of a class's constructor, raises an error or checks an argument."""
    if getattr(thing, "_is_protocol", False):
        return False
    made = (vars(thing).get(name) for name in ("__init__", "__post_init__")) if isinstance(thing, type) else (thing,)
    for function in map(inspect.unwrap, filter(inspect.isfunction, made)):
        if function.__code__.co_filename == "<string>":  # generated by dataclass
            continue
        for node in ast.walk(ast.parse(textwrap.dedent(inspect.getsource(function)))):
            called = node.func.id if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) else None
            if called in CHECKS or (isinstance(node, ast.Raise) and node.exc is not None):
                return True
    return False


def returns(function: Callable[..., Any]) -> bool:
    """Whether the return value needs a section."""
    annotation = inspect.unwrap(function).__annotations__.get("return")
    return annotation not in (None, "None", "NoReturn", type(None))


def ours(thing: Any) -> bool:
    """Whether it is defined in this package."""
    return str(getattr(thing, "__module__", "")).partition(".")[0] == "mfbocd"


def members(cls: type) -> Iterator[tuple[str, Any, Any]]:
    """The public methods and properties of a class: the name, the member, and the method it overrides."""
    for base in (c for c in cls.__mro__ if ours(c)):
        for name, member in vars(base).items():
            function = unbound(member)
            if name.startswith("_") or not inspect.isfunction(function):  # a compiled kernel is not one
                continue
            above = (unbound(vars(b)[name]) for b in base.__mro__[1:] if name in vars(b))
            documented = (f for f in above if f is not None and f.__doc__)
            yield f"{base.__module__}.{base.__qualname__}.{name}", member, next(documented, None)


def unbound(member: Any) -> Any:
    """The function of a method or property; None for anything else."""
    if isinstance(member, property):
        return member.fget
    found = member.__func__ if isinstance(member, (classmethod, staticmethod)) else member
    return found if inspect.isroutine(found) else None


def public(module: ModuleType) -> Iterator[Any]:
    """The classes and functions a module offers."""
    listed = getattr(module, "__all__", None)
    for name in listed or [name for name in vars(module) if not name.startswith("_")]:
        thing = getattr(module, name)
        here = listed is not None or getattr(thing, "__module__", "") == module.__name__
        if here and ours(thing) and (isinstance(thing, type) or inspect.isfunction(thing)):
            yield thing


def modules() -> Iterator[ModuleType]:
    """The documented modules that can be imported with what is installed."""
    yield mf
    for name in MODULES:
        try:
            yield import_module(name)
        except ModuleNotFoundError as error:
            if str(error.name).startswith("mfbocd"):
                raise


def referenced() -> Iterator[Any]:
    """The classes and functions of the reference pages."""
    for page in REFERENCE.glob("*.md"):
        for target in re.findall(r"^::: (\S+)", page.read_text(encoding="utf-8"), re.MULTILINE):
            try:
                thing = pkgutil.resolve_name(target)
            except ModuleNotFoundError:  # the extra of an adapter is not installed
                continue
            yield from public(thing) if isinstance(thing, ModuleType) else (thing,)


@cache
def all_problems() -> dict[str, list[str]]:
    """Checked in the package that defines the name."""
    found: dict[str, list[str]] = {}
    seen: set[str] = set()
    for thing in chain((thing for module in modules() for thing in public(module)), referenced()):
        labelled = [(f"{thing.__module__}.{thing.__qualname__}", thing, None)]
        if isinstance(thing, type):
            labelled += members(thing)
        for label, member, inherited in labelled:
            if label in seen:
                continue
            seen.add(label)
            package = found.setdefault(label.split(".")[1], [])
            if isinstance(member, property):
                doc = Docstring(member.__doc__ or "")
                package.extend(f"{label}: {problem}" for problem in doc.problems())
            else:
                package.extend(problems(label, member if isinstance(member, type) else unbound(member), inherited))
    return found


@pytest.mark.parametrize("package", [m.name for m in pkgutil.iter_modules(mf.__path__) if not m.name.startswith("_")])
def test_docstrings_are_numpydoc_and_agree_with_the_signatures(package: str) -> None:
    found = all_problems().get(package, [])
    assert not found, "\n".join(found)


def test_every_public_name_is_in_the_reference() -> None:
    """Except those that several adapters share."""
    there = {id(thing) for thing in referenced()}
    missing = {thing.__module__ for module in modules() for thing in public(module) if id(thing) not in there}
    assert missing <= {"mfbocd.adapters.network", "mfbocd.adapters.series"}


@pytest.mark.parametrize("name", [name for name in mf.__all__ if not isinstance(getattr(mf, name), ModuleType)])
def test_names_of_the_package_have_examples(name: str) -> None:
    assert "Examples" in Docstring(getattr(mf, name).__doc__).sections


def test_no_two_public_names_are_alike() -> None:
    """An adapter may have its library's version of one: `BOCD` and `run`."""
    found: dict[str, set[Any]] = {}
    for thing in (thing for module in modules() for thing in public(module)):
        found.setdefault(thing.__name__, set()).add(thing)
    assert {name for name, things in found.items() if len(things) > 1} <= {"BOCD", "run"}


def wrong(a: int, b: int) -> int:
    """Add two numbers. Or more.

    Parameters
    ----------
    b : int
        One.
    a: int
        Other.
    """
    return a + b


def outdated(count: int = 2, mode: str = "sum") -> None:
    """Do something.

    Parameters
    ----------
    count : int, default 1
        How often.
    mode : {'mean', 'sum'}, default 'sum'
        How.
    """


class Right(dict[str, int]):
    """Count words.

    Examples
    --------
    >>> Right()
    {}
    """

    def get(self, key: str, default: Any = 0) -> Any:
        """Return 0 where there is no such word."""
        return super().get(key, default)

    def more(self, key: str) -> None:
        """Count one."""


def test_the_check_finds_what_it_should() -> None:
    found = list(problems("wrong", wrong))
    assert len(found) == 4
    for problem, word in zip(found, ("summary", "'name : type'", "['a', 'b']", "Returns"), strict=True):
        assert word in problem
    for problem, word in zip(problems("outdated", outdated), ("first of the choices", "is 2, not 1"), strict=True):
        assert word in problem


def checked(count: int) -> None:
    """Count something.

    Parameters
    ----------
    count : int
        How many.
    """
    whole("", "count", count, 1)


class Failing:
    """Nothing."""

    def __init__(self) -> None:
        raise ValueError("nothing")


def test_errors_are_documented() -> None:
    assert list(problems("checked", checked)) == ["checked: no Raises section"]
    assert list(problems("Failing", Failing)) == ["Failing: no Raises section"]
    assert not list(problems("checked", checked, checked))


def test_an_override_documents_only_what_differs() -> None:
    assert not list(problems("Right", Right))
    assert not list(problems("get", Right.get, dict.get))
    assert list(problems("more", Right.more, dict.get)) == []
    assert list(problems("more", Right.more)) == ["more: Parameters must be ['key'], not []"]
    assert len(list(problems("get", wrong, Right.more))) == 4
