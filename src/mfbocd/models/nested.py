"""Models as arguments of other models: given as objects or as tables, saved as tables."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

from .base import Model
from .unknown_noise import UnknownNoise


def families() -> dict[str, type[Model]]:
    """Return the exported model classes by name."""
    package = import_module(__package__)
    return {name: getattr(package, name) for name in package.__all__ if name != "Model"}


def family(kind: Any) -> type[Model] | None:
    """Return the model class of this name, in any case and with or without underscores; None if there is none.

    Examples
    --------
    >>> family("gaussian_process").__name__
    'GaussianProcess'
    """
    wanted = str(kind).replace("_", "").lower()
    return next((found for name, found in families().items() if name.lower() == wanted), None)


def model_of(where: str, given: object) -> Model:
    """Return a family, given as a model or as a table that names it.

    Examples
    --------
    >>> model_of("Outliers.model", {"kind": "gaussian", "var": 9})
    Gaussian(mean=0, var=9, noise_var=1)
    """
    if isinstance(given, Mapping):
        arguments = dict(given)
        kind = arguments.pop("kind", None)
        made = family(kind)
        if made is None:
            raise ValueError(f"{where}.kind must be one of {', '.join(families())}, not {kind!r}")
        given = made(**arguments)
    if not isinstance(given, Model):
        raise TypeError(f"{where} must be a model or a table that names one, not {given!r}")
    return given


def saved_arguments(kind: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a saved model; one saved before `weighting` existed tempers its likelihood."""
    found = {name: _saved_part(value) for name, value in arguments.items()}
    made = family(kind)
    if made is not None and issubclass(made, UnknownNoise):
        found.setdefault("weighting", "tempered")
    return found


def _saved_part(value: Any) -> Any:
    if isinstance(value, list):
        return [_saved_part(part) for part in value]
    if not isinstance(value, dict) or "kind" not in value:
        return value
    arguments = dict(value)
    kind = arguments.pop("kind")
    return {"kind": kind, **saved_arguments(kind, arguments)}


def named_spec(model: Model) -> dict[str, Any]:
    """Return the table of a model: its kind and its arguments.

    Examples
    --------
    >>> from mfbocd.models import Gaussian
    >>> named_spec(Gaussian(0, 9, 1))
    {'kind': 'Gaussian', 'mean': 0.0, 'var': 9.0, 'noise_var': 1.0}
    """
    return {"kind": type(model).__name__, **model.spec()}
