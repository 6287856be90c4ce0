"""The reference of the configuration file, from the signatures and docstrings of the classes that it describes."""

from __future__ import annotations

import inspect
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, is_dataclass
from typing import Any, NamedTuple, get_type_hints

from mfbocd.belief.alarm import Alarm
from mfbocd.belief.pruning import Resample, Threshold, TopK
from mfbocd.io.config import Config, Data, FidelityConfig, model_kinds, policy_kinds, toml
from mfbocd.io.config.kinds import PRUNE_KEYS, hazard_kinds, plain
from mfbocd.io.warm import NEEDED
from mfbocd.service.limits import LEAST, Limits
from mfbocd.service.settings import Settings

from .docstrings import parameters, summary
from .types import toml_type

INTRODUCTION = """# Configuration file

A configuration describes a detector as TOML. `mfbocd detect`, `calibrate`, `drive` and `serve` take it with `-c`,
`mfbocd init` writes one, and [`Config`](detector.md#mfbocd.io.config.Config) loads it in Python. The HTTP API takes
the same keys as JSON. Unknown keys and invalid values are errors that name the key.

In the tables, a dash in the column "default" means that the key is optional and has no default value; its description
says what applies without it. This page is generated from the code by `make reference`.

```toml
hazard = 0.004              # one change in 250 ticks on average

[model]
kind = "gaussian"
mean = 0.0
var = 9.0
noise_var = 1.0

[[fidelity]]
name = "imu"
zeta = 0.1
cost = 1.0

[[fidelity]]
name = "gps"
zeta = 1.0
cost = 40.0

[policy]
kind = "budget"
per_tick = 8.0
```
"""

FIDELITY_EXAMPLE = """[[fidelity]]
name = "small"
zeta = 0.4
cost = 2.0
column = "small_network"

[[fidelity]]
name = "large"
zeta = 1.0
cost = 50.0
column = "large_network"

[[fidelity]]
name = "strip"
zeta = 0.1
cost = 0.5
offset = 2.0                # it reads 2 too high
observe = "./strip.sh"      # prints one number, for `mfbocd drive`
"""

HAZARDS = {
    "": "hazard = 0.01\n",
    "weibull": '[hazard]\nkind = "weibull"\nshape = 2.0\nscale = 100.0\n',
    "lengths": '[hazard]\nkind = "lengths"\nprobabilities = [0.0, 0.0, 0.5, 0.25, 0.25]\n',
    "learned": '[hazard]\nkind = "learned"\nlow = 0.001\nhigh = 0.1\n',
}
POLICIES = {
    "always": '[policy]\nkind = "always"\nname = "gps"\n',
    "budget": '[policy]\nkind = "budget"\nper_tick = 8.0\ncap = [400.0, 20]\n',
    "information_rate": '[policy]\nkind = "information_rate"\nweights = { imu = 1.0, gps = 2.5 }\n',
    "margin": '[policy]\nkind = "margin"\ndelta = 0.01\n',
    "net": '[policy]\nkind = "net"\nprice = 0.002\n',
    "random": '[policy]\nkind = "random"\nprobabilities = { imu = 0.7, gps = 0.3 }\n',
    "soft": '[policy]\nkind = "soft"\ntemperature = 0.1\n',
}
SERVE_EXAMPLE = """[serve]
streams = 5000
rate = 200.0

[serve.observers]
magnitude = "math:fabs"
"""


class Key(NamedTuple):
    """One row of a table: a key, its type in TOML, its default (None if it is required), and its meaning."""

    name: str
    type: str
    default: str | None
    meaning: str


@dataclass(frozen=True)
class Section:
    """A part of the page.

    Parameters
    ----------
    path : str
        Dotted prefix of the keys, such as ``model.gaussian``; empty at the top level.
    title : str
        Heading, with its level as ``##`` or ``###``.
    text : str
        Paragraphs below the heading.
    keys : list of Key
        Rows of the table.
    example : str
        TOML that loads, possibly together with a model and fidelities.
    """

    path: str
    title: str
    text: str
    keys: list[Key] = field(default_factory=list)
    example: str = ""

    def markdown(self) -> str:
        """Return the section as Markdown."""
        parts = [self.title, self.text]
        if self.keys:
            rows = ["| key | type | default | meaning |", "|---|---|---|---|"]
            for key in self.keys:
                default = "required" if key.default is None else key.default
                if key.default is not None and _is_toml(key.default):
                    default = f"`{default}`"
                cells = (f"`{key.name}`", key.type, default, key.meaning or "-")
                rows.append(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |")
            parts.append("\n".join(rows))
        if self.example:
            parts.append(f"```toml\n{self.example}```")
        return "\n\n".join(part for part in parts if part) + "\n"


def _is_toml(text: str) -> bool:
    try:
        tomllib.loads(f"value = {text}")
    except tomllib.TOMLDecodeError:
        return False
    return True


_PRUNE_TYPES = {
    "threshold": toml_type(get_type_hints(Threshold)["eps"]),
    "resample": toml_type(get_type_hints(Resample)["k"]),
    "top_k": toml_type(get_type_hints(TopK)["k"]),
    "slack": toml_type(get_type_hints(Resample)["slack"]),
}


def arguments(make: Callable[..., Any]) -> list[Key]:
    """Return the arguments of a class or function as keys, as `mfbocd.io.config.kinds.build` passes them."""
    hints = get_type_hints(make.__init__ if inspect.isclass(make) else make)
    described = parameters(make)
    found = []
    for name, parameter in inspect.signature(make).parameters.items():
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            continue
        default = None if parameter.default is parameter.empty else _default(parameter.default)
        found.append(Key(name, toml_type(hints[name]), default, described.get(name, "")))
    return found


def _default(value: Any) -> str:
    """Return a default as TOML, or a dash if there is none."""
    if is_dataclass(value):
        return "see below"
    return "-" if value is None or value in ("", ()) else toml.value(plain(value))


def _kinds(path: str, kinds: dict[str, Callable[..., Any]], examples: dict[str, str]) -> Iterator[Section]:
    for kind, make in sorted(kinds.items()):
        owner = make.__qualname__
        text = f"[`{owner}`]({_page(path)}): {_lower(summary(make))}"
        yield Section(f"{path}.{kind}", f'### `kind = "{kind}"`', text, arguments(make), examples[kind])


def _page(path: str) -> str:
    return "models.md" if path == "model" else "policies.md"


def _lower(sentence: str) -> str:
    return sentence[:1].lower() + sentence[1:] if sentence[1:2].islower() else sentence


def model_example(kind: str) -> str:
    """Return the table of a family with all its arguments, at their defaults where there are any."""
    config = Config.parse({"model": {"kind": kind, **NEEDED.get(kind, {})}})
    return toml.document({"model": config.model}, {})


def sections() -> Iterator[Section]:
    """Yield the parts of the page, in order."""
    top = [key._replace(name="fidelity") if key.name == "fidelities" else key for key in arguments(Config)]
    yield Section("", "## Top level", "", top)
    kind = "`kind` selects the {what}; the other keys are its arguments."
    yield Section("model", "## `[model]`", kind.format(what="family") + " [Models](../models.md) helps to choose.")
    yield from _kinds("model", dict(model_kinds()), {name: model_example(name) for name in model_kinds()})
    yield Section(
        "fidelity",
        "## `[[fidelity]]`",
        "One table per fidelity. [Setting zeta and cost](../calibrating.md) explains how to find the values.",
        arguments(FidelityConfig),
        FIDELITY_EXAMPLE,
    )
    yield Section(
        "hazard",
        "## `hazard`",
        "A number, an array of numbers, or a table whose `kind` is one of these.",
        [],
        HAZARDS[""],
    )
    yield from _kinds("hazard", dict(hazard_kinds()), HAZARDS)
    yield Section(
        "policy", "## `[policy]`", kind.format(what="rule") + " [How it decides](../deciding.md) compares the rules."
    )
    yield from _kinds("policy", dict(policy_kinds()), POLICIES)
    yield Section(
        "alarm",
        "## `[alarm]`",
        "An alarm is raised when the probability of a change within the window reaches the threshold. `alarm = "
        "false` at the top level disables alarms.",
        arguments(Alarm),
        "[alarm]\nwithin = 100\nthreshold = 0.95\n",
    )
    yield Section(
        "prune",
        "## `[prune]`",
        "`resample` or `top_k` bounds the number of hypotheses; [the cost of pruning](../pruning.md) has "
        "measurements. At least one key is required. `prune = false` at the top level disables pruning.",
        [Key(name, _PRUNE_TYPES[name], "-", meaning) for name, meaning in PRUNE_KEYS.items()],
        "[prune]\nresample = 128\nslack = 16\n",
    )
    yield Section(
        "data",
        "## `[data]`",
        "",
        arguments(Data),
        '[data]\ntime = "timestamp"\nunit = "m/s"\ncost_unit = "mJ"\n',
    )
    least = ", ".join(f"{value:g} (`{name}`)" for name, value in LEAST.items())
    observers = f'{parameters(Settings)["observers"]} `name = "package.module:function"`.'
    yield Section(
        "serve",
        "## `[serve]`",
        "Limits of `mfbocd serve`, read from the same file. Values must not be negative; "
        f"the least values of some are {least}. The rest of the file, if "
        "there is any, is the configuration of streams that are created without one. The [service](../service.md) "
        "explains what the limits protect.",
        [Key("observers", "table of strings", "-", observers), *arguments(Limits)],
        SERVE_EXAMPLE,
    )


def page() -> str:
    """Return the page as Markdown."""
    return "\n".join([INTRODUCTION, *(section.markdown() for section in sections())])


def undescribed() -> set[str]:
    """Return the dotted names of all keys without a description."""
    return {
        f"{section.path}.{key.name}".lstrip(".") for section in sections() for key in section.keys if not key.meaning
    }
