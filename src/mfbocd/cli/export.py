"""``mfbocd export``."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import click

from .common import CONFIG, force_option, handle_errors, quiet_option, status


@click.group()
def export() -> None:
    """Write a detector as source code for other systems."""


@export.command()
@click.option("-c", "--config", "path", type=CONFIG, required=True, help="Configuration of the detector.")
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    required=True,
    help="Folder to write.",
)
@click.option(
    "--real",
    type=click.Choice(["float", "double"]),
    default="float",
    show_default=True,
    help="Precision of the C code; -DMFBOCD_DOUBLE=1 or 0 overrides it at compile time.",
)
@click.option(
    "--hypotheses",
    type=click.IntRange(1, 65534),
    help="Largest number of hypotheses, which determines memory and time. Default: that of the configuration.",
)
@force_option
@quiet_option
def c(
    path: Path, out: Path, real: Literal["float", "double"], hypotheses: int | None, force: bool, quiet: bool
) -> None:
    """Write a detector as header-only C99 for microcontrollers.

    The folder is also a PlatformIO and Arduino library and a Zephyr module. Its README.md says how to use it.

    Models: Gaussian, GaussianUnknown, Bernoulli, Poisson and RobustTrend, and the maps before one (Transformed,
    FixedSeason, Scaled, Rounded), so also the structures that `mfbocd init --from` finds. What cannot be exported is
    named in the error.

    \b
    Examples:
      mfbocd export c -c mf.toml --out firmware
      mfbocd export c -c mf.toml --out firmware --hypotheses 32
    """
    with handle_errors():
        from .. import export as exporters
        from ..export.maps import structure
        from ..io.config import Config, ConfigError

        if (out / "src" / "mfbocd_model.h").exists() and not force:
            raise click.UsageError(f"{out} already has an exported detector; use --force to overwrite it")
        if out.is_dir() and any(out.iterdir()) and not force:
            raise click.UsageError(f"{out} is not empty; use --force to write into it and overwrite its files")
        config = Config.load(path)
        try:
            detector = config.detector(**_pruning(config, hypotheses))
            exporters.c(detector, out, real=real)
        except ValueError as error:
            raise ConfigError(f"{path}: {error}") from None
        sensors = ", ".join(f.name for f in detector.fidelities)
        size = f"{detector.pruning.most} hypotheses"
        status(f"{out}: {structure(detector.model)} over {sensors}, {size}, {real}", quiet=quiet)


def _pruning(config: Any, hypotheses: int | None) -> dict[str, Any]:
    """Return the override of the pruning: the configured kind with another number of hypotheses."""
    from ..belief.pruning import Resample, Threshold, TopK

    if hypotheses is None:
        return {}
    pruning = config.detector().pruning
    kind = Resample if pruning.resample or pruning.most == 0 else TopK
    return {"prune": [kind(hypotheses), *([Threshold(pruning.eps)] if pruning.eps else [])]}
