"""What the operator sets: a default config, limits, and the observers a stream may name."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from ..io.config import Config, ConfigError
from .limits import Limits

GROUP = "mfbocd.observers"
"""Entry points of installed packages that read a raw input."""


@dataclass(frozen=True)
class Settings:
    """All of it. Nothing a client sends is ever imported or executed: it can only name what is here."""

    config: dict[str, Any] | None = None
    observers: Mapping[str, Callable[[Any], Any]] = field(default_factory=dict)
    limits: Limits = field(default_factory=Limits)

    @classmethod
    def load(cls, path: Path | None, **limits: Any) -> Settings:
        """From a TOML file: a config as everywhere, and beside it ``[serve]`` with ``[serve.observers]``."""
        try:
            given = {} if path is None else tomllib.loads(path.read_text(encoding="utf-8-sig"))
        except tomllib.TOMLDecodeError as error:
            raise ConfigError(f"{path}: not TOML: {error}") from None
        serve = given.pop("serve", {})
        named = serve.pop("observers", {})
        known = {f.name: f for f in fields(Limits)}
        for name, value in serve.items():
            if name not in known:
                raise ConfigError(f"serve.{name} is unknown; expected observers, {', '.join(known)}")
            if isinstance(value, bool) or not isinstance(value, (int, float)) or value < 0:
                raise ConfigError(f"serve.{name} must be a number of at least 0, not {value!r}")
        observers = {point.name: point.load() for point in entry_points(group=GROUP)}
        observers |= {name: _imported(name, where) for name, where in named.items()}
        config = Config.parse(given).to_dict() if given else None
        return cls(config, observers, Limits(**(serve | {k: v for k, v in limits.items() if v is not None})))


def _imported(name: str, where: Any) -> Callable[[Any], Any]:
    """The function an operator's ``"package.module:function"`` means."""
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
