"""Numbers with standard errors, and the comparison of a published number with ours."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

AGREES = 2.0  # standard errors within which two numbers count as equal


@dataclass(frozen=True)
class Number:
    """A mean, with two standard errors if they are known."""

    value: float
    two_se: float | None = None
    text: str = ""
    """As printed; the last digit shows the rounding."""

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
        array = np.asarray(values, dtype=float)
        error = 2.0 * float(array.std(ddof=1)) / math.sqrt(array.size) if array.size > 1 else None
        return cls(float(array.mean()), error)

    @property
    def rounding(self) -> float:
        """Half a unit of the last printed digit; 0 for a number of ours."""
        mean = self.text.partition("(")[0].strip()
        if not mean:
            return 0.0
        return 0.5 * 10.0 ** -len(mean.partition(".")[2])

    @property
    def sign(self) -> int:
        """1 or -1 if the mean is above or below zero by more than two standard errors, else 0.

        >>> Number(-3.0, 1.0).sign, Number(0.5, 1.0).sign
        (-1, 0)
        """
        if self.two_se is None or abs(self.value) <= self.two_se:
            return 0
        return 1 if self.value > 0.0 else -1

    def __str__(self) -> str:
        if self.text:
            return self.text
        if self.two_se is None or not math.isfinite(self.two_se) or self.two_se == 0.0:
            return f"{self.value:.4g}"
        places = max(0, 1 - math.floor(math.log10(self.two_se)))
        return f"{self.value:.{places}f} ({self.two_se:.{places}f})"


@dataclass(frozen=True)
class Row:
    """One of our numbers, with the published one if there is one."""

    what: str
    ours: Number
    published: Number | None = None
    engine: str = "library"
    """Which code computed ours: "library", "as published" or a variant of it."""
    keys: Mapping[str, Any] = field(default_factory=dict)
    """Further columns of the table, such as level or rule."""

    @property
    def apart(self) -> float | None:
        """Difference in standard errors; None if neither number has one, or nothing was published."""
        if self.published is None:
            return None
        errors = [n.two_se / 2.0 for n in (self.ours, self.published) if n.two_se]
        difference = max(abs(self.ours.value - self.published.value) - self.published.rounding, 0.0)
        return difference / math.hypot(*errors) if errors else None

    @property
    def agrees(self) -> bool:
        """Whether the difference is at most `AGREES` standard errors."""
        return (self.apart or 0.0) <= AGREES

    @property
    def verdict(self) -> str:
        """Whether the numbers agree, in words.

        >>> Row("MSE", Number(0.82, 0.03), Number.printed("0.879 (0.034)")).verdict
        'differs by 2.6 se'
        """
        if self.published is None:
            return "not published"
        apart = self.apart
        if apart is not None:
            return f"agrees ({apart:.1f} se)" if self.agrees else f"differs by {apart:.1f} se"
        off = abs(self.ours.value - self.published.value)
        if off <= self.published.rounding * (1.0 + 1e-9):
            return "agrees to the digits printed"
        return f"differs by {off / abs(self.published.value):.2g} of it" if self.published.value else "differs"
