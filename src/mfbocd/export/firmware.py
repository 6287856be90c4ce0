"""Write a detector as a folder of C99 headers for a microcontroller."""

from __future__ import annotations

import json
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Literal

from .. import __version__
from ..detector.detector import Detector
from ..models import Bernoulli, Gaussian, GaussianUnknown, Model, Poisson, RobustTrend
from .check import refuse
from .parameters import model_header

_TEMPLATES = files(__package__) / "templates"
_COMMON = (
    "mfbocd.h",
    "mfbocd_math.h",
    "mfbocd_filter.h",
    "mfbocd_gains.h",
    "mfbocd_change.h",
    "mfbocd_policy.h",
    "mfbocd_bytes.h",
    "mfbocd_save.h",
)
_OF_FAMILY: dict[type[Model], tuple[str, ...]] = {
    Gaussian: ("mfbocd_gaussian.h", "mfbocd_mixture.h"),
    GaussianUnknown: ("mfbocd_gamma.h", "mfbocd_unknown_noise.h", "mfbocd_gaussian_unknown.h"),
    Bernoulli: ("mfbocd_gamma.h", "mfbocd_bernoulli.h"),
    Poisson: ("mfbocd_gamma.h", "mfbocd_poisson.h"),
    RobustTrend: ("mfbocd_gamma.h", "mfbocd_unknown_noise.h", "mfbocd_robust_trend.h"),
}


def c(detector: Detector, out: str | Path, *, real: Literal["float", "double"] = "float") -> Path:
    """Write a detector as header-only C99 for a microcontroller.

    The C code chooses the same fidelities and raises the same alarms as the detector. It uses no heap and no library
    beyond ``math.h``; the caller provides the memory. The folder is also a PlatformIO and Arduino library and a
    Zephyr module, and has examples. docs/firmware.md describes its use and its costs.

    Parameters
    ----------
    detector : Detector
        The detector. Its configuration is exported, not its state: move that with `Detector.to_bytes` and
        ``mfbocd_load``. Observers are not exported; the firmware reads the sensors.
    out : str or Path
        The folder to write; created if it does not exist. Files of an earlier export are overwritten.
    real : {'float', 'double'}
        The precision. The macro ``MFBOCD_DOUBLE`` overrides it at compile time.

    Returns
    -------
    Path
        The folder.

    Raises
    ------
    TypeError
        If `detector` is not a `Detector`.
    ValueError
        If a part of the detector has no C code; the message names it and what can be exported.

    Examples
    --------
    >>> import tempfile
    >>> import mfbocd as mf
    >>> sensors = [mf.Fidelity("imu", zeta=0.1, cost=1), mf.Fidelity("gps", zeta=1.0, cost=40)]
    >>> policy = mf.Budget(8.0, gain="variance")
    >>> detector = mf.Detector(mf.Gaussian(0, 9, 1), sensors, policy=policy, prune=mf.TopK(32))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     written = mf.export.c(detector, folder)
    ...     sorted(path.name for path in written.iterdir())
    ['README.md', 'examples', 'library.json', 'library.properties', 'src', 'zephyr']
    """
    refuse(detector, real)
    folder = Path(out)
    for name, text in _project(detector).items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    (folder / "src" / "mfbocd_model.h").write_text(model_header(detector, real), encoding="utf-8")
    return folder


def _project(detector: Detector) -> dict[str, str]:
    """Return all files that do not depend on parameters, by their path in the folder."""
    model = detector.model
    headers = (*_COMMON, *_OF_FAMILY[type(model.core)], *(() if model.core is model else ("mfbocd_maps.h",)))
    found = {f"src/{name}": (_TEMPLATES / name).read_text("utf-8") for name in headers}
    found |= {name: text.replace("@VERSION@", __version__) for name, text in _tree(_TEMPLATES / "project").items()}
    return found | {"library.json": _platformio()}


def _tree(folder: Traversable, prefix: str = "") -> dict[str, str]:
    found: dict[str, str] = {}
    for entry in folder.iterdir():
        name = prefix + entry.name
        if entry.is_dir():
            found |= _tree(entry, name + "/")
        else:
            found[name] = entry.read_text("utf-8")
    return found


def _platformio() -> str:
    description = {
        "name": "mfbocd",
        "version": __version__,
        "description": "Active multi-fidelity Bayesian online changepoint detection, generated for one detector",
        "keywords": ["changepoint", "sensors", "low-power", "bayesian"],
        "license": "MIT",
        "frameworks": "*",
        "platforms": "*",
        "headers": "mfbocd.h",
        "build": {"includeDir": "src", "srcDir": "src"},
        "export": {"include": ["src", "examples", "library.json", "README.md"]},
    }
    return json.dumps(description, indent=2) + "\n"
