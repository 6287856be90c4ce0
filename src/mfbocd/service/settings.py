"""Settings of the operator: a default configuration, limits, and the observers that streams may use."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from ..inputs.arguments import not_negative
from ..io.config import Config, ConfigError
from ..io.config.kinds import with_key
from .limits import Limits

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
        try:
            values = {} if path is None else tomllib.loads(path.read_text(encoding="utf-8-sig"))
        except tomllib.TOMLDecodeError as error:
            raise ConfigError(f"{path}: not TOML: {error}") from None
        serve = values.pop("serve", {})
        named = serve.pop("observers", {})
        known = {f.name: f for f in fields(Limits)}
        for name, value in serve.items():
            if name not in known:
                raise ConfigError(f"serve.{name} is unknown; expected observers, {', '.join(known)}")
            with_key("serve", "serve", not_negative, "serve", name, value)
        observers = {point.name: point.load() for point in entry_points(group=ENTRY_POINTS)}
        observers |= {name: _import(name, where) for name, where in named.items()}
        config = Config.parse(values).to_dict() if values else None
        return cls(config, observers, Limits(**(serve | {k: v for k, v in limits.items() if v is not None})))


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
