"""What every target receives and returns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from .numbers import Row
from .parts import Job, finish


@dataclass(frozen=True)
class Options:
    """What a user may ask of a target."""

    out: Path
    """Folder of this target: figures, table, page and parts."""
    trials: int | None = None
    """Instead of the target's own number."""
    seed: int = 1
    jobs: int = -1
    quick: bool = False
    """Fewer trials and levels: under a minute."""
    as_published: bool = False
    """Behave as the paper's own code where it differs from the paper's equations."""
    progress: bool = True
    given: Mapping[str, Any] = field(default_factory=dict)
    """Options of single targets: the user's own frames, labels, models and clips; families of streams."""

    def count(self, full: int, quick: int) -> int:
        """How many trials to run."""
        return self.trials or (quick if self.quick else full)

    def finish(self, work: Mapping[str, Job], setting: Mapping[str, Any]) -> dict[str, Any]:
        """The result of every job; ``out/.parts`` keeps those of an interrupted run."""
        mark = {"seed": self.seed, "quick": self.quick, "as_published": self.as_published, **setting}
        return finish(work, self.out / ".parts", mark, jobs=self.jobs, progress=self.progress)


@dataclass(frozen=True)
class Picture:
    """A figure of a page."""

    stem: str
    """Of the file names."""
    caption: str
    figure: Figure = field(compare=False, repr=False)

    def save(self, folder: Path) -> None:
        """As PNG and as PDF, without a date: the same seed gives the same bytes."""
        self.figure.savefig(folder / f"{self.stem}.png", dpi=130, metadata={"Software": None})
        undated = {"CreationDate": None, "Producer": None, "Creator": None}
        self.figure.savefig(folder / f"{self.stem}.pdf", metadata=undated)


@dataclass(frozen=True)
class Result:
    """A finished target: the content of its page."""

    headline: str
    """First line of the page: the outcome, above all where a rule does not beat random choice at equal spend."""
    protocol: Sequence[str]
    """How it was done, one item per sentence; what was chosen where the paper says nothing."""
    rows: Sequence[Row] = ()
    figures: Sequence[Picture] = ()
    sections: Sequence[tuple[str, str]] = ()
    """Title and Markdown of everything else."""
    more: Sequence[Row] = ()
    """Rows of the CSV file that the page does not list."""


@dataclass(frozen=True)
class Target:
    """A table or figure of the paper, or a study."""

    name: str
    paper: str
    """Its label in the paper, or "ours"."""
    title: str
    run: Callable[[Options], Result]
    takes: Sequence[str] = ()
    """The entries of `Options.given` that it reads."""
    page: str = "paper"
    """Documentation page: "paper", of which it is a section, or the stem of a page of its own."""


def target(
    name: str, *, paper: str, title: str, takes: Sequence[str] = (), page: str = "paper"
) -> Callable[[Callable[[Options], Result]], Target]:
    """Make a target of a function from options to a result."""
    return lambda run: Target(name, paper, title, run, takes, page)
