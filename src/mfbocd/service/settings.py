"""Settings of the operator: a default configuration, limits, and the observers that streams may use."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, Self

from ..io.config import Config, ConfigError
from ..io.config.kinds import reject_unknown, require_table, with_key
from ..io.config.toml import read_toml
from .limits import Limits, limit_of

ENTRY_POINTS = "mfbocd.observers"
"""Entry point group of installed packages that provide observers."""


@dataclass(frozen=True)
class Settings:
    """Settings of a service. Clients can only refer to these observers by name; nothing they send is executed.

    Parameters
    ----------
    config : dict, optional
        Configuration of streams that are created without one.
    observers : mapping of str to callable
        Functions that turn a raw input into a reading.
    limits : Limits
    """

    config: dict[str, Any] | None = None
    observers: Mapping[str, Callable[[Any], Any]] = field(default_factory=dict)
    limits: Limits = field(default_factory=Limits)

    @classmethod
    def load(cls, path: Path | None, **limits: Any) -> Settings:
        """Read a TOML file: a configuration, with limits in ``[serve]`` and observers in ``[serve.observers]``.

        Parameters
        ----------
        path : Path or None
            No file if None.
        limits
            Fields of `Limits` that replace those of the file, unless they are None.
        """
        if path is None:
            values: dict[str, Any] = {}
        else:
            values = read_toml(path)
        try:
            return cls._of(values, limits)
        except ConfigError as error:
            raise ConfigError(f"{path}: {error}") from None

    @classmethod
    def _of(cls, values: dict[str, Any], limits: Mapping[str, Any]) -> Self:
        serve = dict(require_table("serve", values.pop("serve", {})))
        named = require_table("serve.observers", serve.pop("observers", {}))
        reject_unknown("serve", serve, ["observers", *(f.name for f in fields(Limits))])
        given = {name: with_key("serve", "serve", limit_of, name, value) for name, value in serve.items()}
        observers = {point.name: point.load() for point in entry_points(group=ENTRY_POINTS)}
        observers |= {name: _import(name, where) for name, where in named.items()}
        config = Config.parse(values).to_dict() if values else None
        return cls(config, observers, Limits(**(given | {k: v for k, v in limits.items() if v is not None})))


def _import(name: str, where: Any) -> Callable[[Any], Any]:
    """The function that ``"package.module:function"`` refers to."""
    module, colon, attribute = where.partition(":") if isinstance(where, str) else ("", "", "")
    if not colon or not module or not attribute:
        raise ConfigError(f"serve.observers.{name} must be 'package.module:function', not {where!r}")
    try:
        found = getattr(import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise ConfigError(f"serve.observers.{name}: {error}") from None
    if not callable(found):
        raise ConfigError(f"serve.observers.{name}: {where} is not a function")
    return found  # type: ignore[no-any-return]
