"""Type annotations as the types of TOML values."""

from __future__ import annotations

import types
from collections.abc import Mapping, Sequence
from dataclasses import is_dataclass
from typing import Any, Literal, Union, get_args, get_origin

import numpy as np

from mfbocd.models import Model

_PLAIN = {float: "float", int: "integer", str: "string", bool: "boolean"}


def toml_type(hint: Any, *, plural: bool = False) -> str:
    """Describe the TOML values that an annotation admits; what TOML cannot express is left out.

    >>> toml_type(float | Sequence[float] | None), toml_type(Literal["paper", "normalized"])
    ('float or array of floats', '`"paper"` or `"normalized"`')
    >>> toml_type(tuple[float, int]), toml_type(Mapping[str, float])
    ('array [float, integer]', 'table of floats')
    """
    if hint in _PLAIN:
        return _PLAIN[hint] + ("s" if plural else "")
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Literal:
        return " or ".join(f'`"{value}"`' for value in arguments)
    if origin in (Union, types.UnionType):
        found = [toml_type(one, plural=plural) for one in arguments if one is not type(None)]
        return " or ".join(dict.fromkeys(text for text in found if text))
    if hint is dict or origin is dict or is_dataclass(hint):
        return "tables" if plural else "table"
    if origin is list or (origin is tuple and arguments[1:] == (...,)):
        return f"{'arrays' if plural else 'array'} of {toml_type(arguments[0], plural=True)}"
    if origin is tuple:
        return f"{'arrays' if plural else 'array'} [{', '.join(toml_type(one) for one in arguments)}]"
    if origin is Mapping and arguments[0] is str:
        inner = toml_type(arguments[1], plural=True)
        return ("tables" if plural else "table") + (f" of {inner}" if arguments[1] is not Any else "")
    if origin is Sequence:
        return f"{'arrays' if plural else 'array'} of {toml_type(arguments[0], plural=True)}"
    if origin is np.ndarray:
        return f"{'arrays' if plural else 'array'} of floats"
    if hint is Any:
        return "values" if plural else "value"
    if origin is Mapping or (isinstance(hint, type) and issubclass(hint, Model)):
        return ""
    raise TypeError(f"no TOML type is known for {hint!r}")
