"""A detector as bytes at every tick, at little more than the cost of copying it."""

from __future__ import annotations

from typing import Any

from ..detector import Detector
from ..saving import assemble, encode, unpack
from ..snapshot import arrays_of


class Freezer:
    """`Detector.to_bytes` of one detector again and again: what does not change is worked out once.

    >>> from mfbocd import Gaussian
    >>> detector = Detector(Gaussian(0, 9, 1))
    >>> freeze = Freezer(detector)
    >>> step = detector.update(0.5)
    >>> freeze(detector) == detector.to_bytes()
    True
    """

    def __init__(self, detector: Detector) -> None:
        self._facts, _ = unpack(detector.to_bytes())
        self._cut(detector.policy)

    def _cut(self, policy: Any) -> None:
        """Encode what stands before, between and after the two facts that move with every tick."""
        self._policy = policy
        self._facts["policy"] = {"kind": type(policy).__name__, **policy.spec()}
        names = list(self._facts)
        learnt, spent = names.index("learnt"), names.index("spent")
        before, between, after = names[:learnt], names[learnt + 1 : spent], names[spent + 1 :]
        self._before, self._between, self._after = (
            encode({name: self._facts[name] for name in part})[1:-1] for part in (before, between, after)
        )

    def __call__(self, detector: Detector) -> bytes:
        """The same bytes as `detector.to_bytes()`."""
        if detector.policy is not self._policy:
            self._cut(detector.policy)
        moved = f'"learnt":{encode(self._policy.state())},{self._between},"spent":{encode(detector.spent)}'
        return assemble(f"{{{self._before},{moved},{self._after}", arrays_of(detector))
