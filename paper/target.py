"""What every target is given and what it gives back."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from .study.parts import Job, finish

if TYPE_CHECKING:
    from matplotlib.figure import Figure

AGREES = 2.0  # standard errors within which two numbers are taken for one


@dataclass(frozen=True)
class Options:
    """What a user may ask of a target."""

    out: Path
    """Folder of this target: figures, table and page."""
    trials: int | None = None
    """Instead of the target's own number."""
    seed: int = 1
    jobs: int = -1
    quick: bool = False
    """Fewer trials and levels: under a minute."""
    as_published: bool = False
    """The paper's code's behaviour, where it differs from the paper's equations, in place of the library's."""
    progress: bool = True
    given: Mapping[str, Any] = field(default_factory=dict)
    """Files, folders and numbers of the user's own for the targets that take them: frames, labels, models, clips."""

    def count(self, full: int, quick: int) -> int:
        """How many trials to run."""
        return self.trials or (quick if self.quick else full)

    def finish(self, work: Mapping[str, Job], setting: Mapping[str, Any]) -> dict[str, Any]:
        """The result of every job; those of an interrupted run are kept under ``out/.parts``."""
        mark = {"seed": self.seed, "quick": self.quick, "as_published": self.as_published, **setting}
        return finish(work, self.out / ".parts", mark, jobs=self.jobs, progress=self.progress)


@dataclass(frozen=True)
class Number:
    """A mean, with two standard errors where there are any."""

    value: float
    two_se: float | None = None
    text: str = ""
    """As printed; its last digit says how far it was rounded."""

    @classmethod
    def printed(cls, text: str) -> Number:
        """A number as a paper prints it, "0.879 (0.034)" or "465291".

        >>> Number.printed("0.879 (0.034)").two_se
        0.034
        """
        mean, _, error = text.partition("(")
        return cls(float(mean), float(error.rstrip(") ")) if error else None, text.strip())

    @classmethod
    def mean_of(cls, values: ArrayLike) -> Number:
        """Mean of independent trials with two standard errors.

        >>> Number.mean_of([1.0, 2.0, 3.0]).value
        2.0
        """
        known = np.asarray(values, dtype=float)
        error = 2.0 * float(known.std(ddof=1)) / math.sqrt(known.size) if known.size > 1 else None
        return cls(float(known.mean()), error)

    @property
    def rounding(self) -> float:
        """Half a unit of the last digit printed; 0 of a number that is ours."""
        mean = self.text.partition("(")[0].strip()
        if not mean:
            return 0.0
        return 0.5 * 10.0 ** -len(mean.partition(".")[2])

    def __str__(self) -> str:
        if self.text:
            return self.text
        if self.two_se is None or not math.isfinite(self.two_se) or self.two_se == 0.0:
            return f"{self.value:.4g}"
        places = max(0, 1 - math.floor(math.log10(self.two_se)))
        return f"{self.value:.{places}f} ({self.two_se:.{places}f})"


@dataclass(frozen=True)
class Row:
    """One number of the paper beside ours."""

    what: str
    ours: Number
    published: Number | None = None
    engine: str = "library"
    """Which code made ours: "library", "as published" or a variant of it."""
    keys: Mapping[str, Any] = field(default_factory=dict)
    """What tells this row from its neighbours, one column each in the table: level, rule, measure."""

    @property
    def apart(self) -> float | None:
        """By how many standard errors the two differ; None where neither has any, or nothing was published."""
        if self.published is None:
            return None
        errors = [n.two_se / 2.0 for n in (self.ours, self.published) if n.two_se]
        difference = max(abs(self.ours.value - self.published.value) - self.published.rounding, 0.0)
        return difference / math.hypot(*errors) if errors else None

    @property
    def verdict(self) -> str:
        """In words: agrees or differs, and by how much.

        >>> Row("MSE", Number(0.82, 0.03), Number.printed("0.879 (0.034)")).verdict
        'differs by 2.6 se'
        """
        if self.published is None:
            return "not published"
        apart = self.apart
        if apart is not None:
            return f"agrees ({apart:.1f} se)" if apart <= AGREES else f"differs by {apart:.1f} se"
        off = abs(self.ours.value - self.published.value)
        if off <= self.published.rounding * (1.0 + 1e-9):
            return "agrees to the digits printed"
        return f"differs by {off / abs(self.published.value):.2g} of it" if self.published.value else "differs"


@dataclass(frozen=True)
class Result:
    """A finished target: what its page is made of."""

    headline: str
    """The page's first line: what came out, above all where choosing did not beat a coin."""
    protocol: Sequence[str]
    """How it was done, one sentence an item; where the paper is silent, what was chosen."""
    rows: Sequence[Row]
    figures: Sequence[tuple[str, str]] = ()
    """Stem of the file and caption."""
    sections: Sequence[tuple[str, str]] = ()
    """Title and Markdown of what else there is to say."""


@dataclass(frozen=True)
class Target:
    """One table or figure of the paper."""

    name: str
    paper: str
    """The label in the paper, or "ours"."""
    title: str
    run: Callable[[Options], Result]
    takes: Sequence[str] = ()
    """Names of the user's own files it can start from."""


def save(figure: Figure, options: Options, stem: str) -> None:
    """As PNG and as PDF, with no date in either: the same seed gives the same bytes."""
    options.out.mkdir(parents=True, exist_ok=True)
    figure.savefig(options.out / f"{stem}.png", dpi=130, metadata={"Software": None})
    figure.savefig(options.out / f"{stem}.pdf", metadata={"CreationDate": None, "Producer": None, "Creator": None})
