"""A detector of block features, which reports in ticks of the readings."""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, Self

import numpy as np

from ..belief.alarm import Alarm
from ..belief.gains import Gain, expected_gains
from ..belief.records import RunLength
from ..inputs.arguments import not_negative
from ..inputs.blocks import Blocks
from ..inputs.display import count_text, html_table
from ..models import Model
from ..policy import POLICIES, Policy, policy_of
from ..policy.fidelity import Fidelity, checked
from .base import ANY_NUMBER, Array, BaseDetector
from .detector import Detector
from .level_rule import LevelRule
from .lock import exclusive
from .step import Step, reading

_LENGTHS = struct.Struct("<II")


class BlockDetector(BaseDetector):
    """A detector that reads the features of blocks instead of single readings.

    Parameters
    ----------
    blocks : Blocks
        Turns readings into vectors.
    detector : Detector
        Its model has one number per feature, and it has one fidelity. If one feature of a block is missing, a
        `Product` with ``missing="skip"`` uses the others; else the block is a tick without a reading.
    fidelities : iterable of Fidelity, or Fidelity, optional
        The ways to observe a reading; by default those of `detector`. A block is weighed by the mean zeta of its
        readings.
    policy : Policy, optional
        How the fidelity of a reading is chosen; `Budget(share=0.35)` by default.

    Attributes
    ----------
    blocks, detector, fidelities, policy : Any
        The arguments; their states advance with every update.
    last_block : Step or None
        The step of `detector` at the last complete block, in which `x` is the vector of features; None before it and
        in a loaded detector.

    Raises
    ------
    ValueError
        If the model has not one number per feature, if `detector` has several fidelities, or if the two have not seen
        the same number of blocks.

    Notes
    -----
    Within a block `update` returns a step without news: the belief changes when a block is complete. A change
    within a block is reported at the beginning of that block or of the next one, so its position is known to half a
    block. The
    alarm's window and the hazard of `detector` are per block. The gains are those of completing the block at a
    fidelity; a policy compares their share of one reading with its cost.

    Examples
    --------
    >>> import numpy as np
    >>> from mfbocd import GaussianUnknown
    >>> t = np.arange(400)
    >>> wave = np.where(t < 240, np.sin(t / 3), np.sign(np.sin(t / 3)))  # another shape at the same level
    >>> model = GaussianUnknown(mean=-1.5, count=0.1, shape=2, scale=0.02)
    >>> watch = BlockDetector(Blocks(20, ["log_sd_diff"]), Detector(model, hazard=0.02))
    >>> for x in wave:
    ...     step = watch.update(x)
    ...     if step.alarm:
    ...         print(step.tick, step.changed_at)
    259 240
    """

    def __init__(
        self,
        blocks: Blocks,
        detector: Detector,
        fidelities: Iterable[Fidelity] | Fidelity | None = None,
        policy: Policy | None = None,
    ) -> None:
        if detector.dimension != blocks.dimension:
            raise ValueError(
                f"the blocks have {blocks.dimension} features, {', '.join(blocks.names)}, but a reading of the model "
                f"has {detector.dimension} numbers"
            )
        if len(detector.fidelities) > 1:
            raise ValueError(f"a detector of blocks has one fidelity, not {len(detector.fidelities)}")
        if detector.ticks != blocks.ticks // blocks.every:
            raise ValueError(
                f"the detector has seen {detector.ticks} blocks, but {blocks.ticks} readings are "
                f"{blocks.ticks // blocks.every} blocks"
            )
        self._renew()
        self.blocks = blocks
        self.detector = detector
        self.fidelities = detector.fidelities if fidelities is None else checked(fidelities)
        zetas = [fidelity.zeta for fidelity in self.fidelities]
        detector.model.check_zetas([min(zetas), max(zetas)])
        self.policy = policy_of(policy, self.fidelities).bind(self.fidelities)
        self.policy.initialize(detector._filter)
        self.seed = detector.seed
        self.missing = "skip"
        self.surprise = detector.surprise
        self.spent = 0.0
        self._by_name = {f.name: f for f in self.fidelities}
        self._reader = ANY_NUMBER
        self._quoted, self._chosen = (-1, None, {}), (-1, None)
        self._partial = detector.model.partial and detector.missing == "skip"
        self._zetas: list[float] = []  # of the readings of the unfinished block
        self._p_change = 0.0  # as the last block was reported
        self.last_block: Step | None = None

    def __repr__(self) -> str:
        return f"BlockDetector({self.blocks!r}, {self.detector!r})"

    def _repr_html_(self) -> str:
        title = f"BlockDetector: {count_text(self.ticks, 'reading')}, {self.blocks!r}"
        return html_table(title, (), ()) + self.detector._repr_html_()

    @property
    def ticks(self) -> int:
        """Readings so far."""
        return self.blocks.ticks

    @property
    def alarm(self) -> Alarm | None:  # type: ignore[override]
        """When `Step.alarm` is set, with the window in readings."""
        alarm = self.detector.alarm
        return alarm if alarm is None else replace(alarm, within=alarm.within * self.blocks.every)

    @property
    def last_alarm(self) -> int:
        """Tick of the last alarm; -1 before the first."""
        return self._end_of(self.detector.last_alarm)

    @property
    def level_rule(self) -> LevelRule:
        """How the levels of regimes follow from the readings."""
        return LevelRule(tuple(fidelity.zeta for fidelity in self.fidelities))

    @exclusive
    def update(
        self, x: Any, fidelity: Fidelity | str | None = None, *, raw: Any = None, cost: float | None = None
    ) -> Step:
        """Add a reading, and update the detector if it completes a block.

        Returns
        -------
        Step
            The record of the tick. Within a block, `p_change` is that of the last block, and no alarm fires. With
            ``surprise=True`` of `detector`, the surprise of a block is in the step that completes it.
        """
        observed = self._resolve(fidelity, x)
        value = reading(ANY_NUMBER, x, "skip", observed)
        paid = self._paid(observed, raw, cost)
        vector = self.blocks.push(value)
        if value is not None and observed is not None:
            self._zetas.append(observed.zeta)
        self.spent += paid
        self.policy.record_cost((paid,))
        changed_at, confidence, surprise = None, None, None
        if vector is not None:
            block = self.last_block = self._update_block(vector)
            self._p_change = block.p_change
            surprise = block.surprise
            if block.changed_at is not None:
                changed_at, confidence = self.blocks.every * block.changed_at, block.confidence
        return Step(
            tick=self.ticks - 1,
            fidelity=None if observed is None else observed.name,
            x=value,
            cost=paid,
            mean=self._mean(),
            run_length=self._run_length(),
            p_change=self._p_change,
            alarm=changed_at is not None,
            changed_at=changed_at,
            confidence=confidence,
            surprise=surprise,
        )

    @exclusive
    def expected_gains(self, gain: Gain) -> Array:
        """Return one kind of gain of completing the block at each fidelity."""
        remaining = self.blocks.remaining
        before = sum(self._zetas)
        zetas = (before + remaining * self.policy.zeta) / (len(self._zetas) + remaining)
        return expected_gains(self.detector._filter, zetas, gain)

    @property
    def mean(self) -> float:
        """E[x_{t+1}] if the features contain the mean, otherwise NaN."""
        return self._mean()

    @exclusive
    def interval(self, level: float = 0.9, fidelity: Fidelity | str | None = None) -> tuple[float, float]:
        """Return NaN: features do not say in which interval a reading lies."""
        return math.nan, math.nan

    @property
    @exclusive
    def run_length(self) -> RunLength:
        """P(readings since the first of the current regime), which began with a block."""
        if self.detector.ticks == 0:
            return RunLength(np.array([max(self.ticks - 1, 0)]), np.ones(1))
        length, weight = self.detector.run_length
        since = self.ticks - self.blocks.every * self.detector.ticks
        return RunLength(self.blocks.every * (length + 1) - 1 + since, weight)

    @exclusive
    def p_changed(self, within: int) -> float:
        """Return P(a regime began in the last `within` readings)."""
        return self.run_length.p_changed(within, self.ticks)

    def explain(self) -> str:
        """Name the features, the model and the hazard."""
        return f"Blocks of {self.blocks.every} readings: {', '.join(self.blocks.names)}. {self.detector.explain()}"

    @exclusive
    def to_bytes(self) -> bytes:
        """Return everything except functions as bytes.

        Raises
        ------
        TypeError
            If a feature of the blocks is a function.
        """
        facts = {
            "fidelities": [
                [f.name, f.zeta, None if callable(f.cost) else f.cost, f.offset, f.scale] for f in self.fidelities
            ],
            "policy": {"kind": type(self.policy).__name__, **self.policy.spec()},
            "learned": self.policy.state(),
            "spent": self.spent,
            "zetas": self._zetas,
            "p_change": self._p_change,
        }
        text, blocks = json.dumps(facts, allow_nan=False).encode(), self.blocks.to_bytes()
        return _LENGTHS.pack(len(text), len(blocks)) + text + blocks + self.detector.to_bytes()

    @classmethod
    def from_bytes(
        cls,
        data: bytes,
        *,
        observers: Mapping[str, Callable[[Any], Any]] | None = None,
        costs: Mapping[str, Callable[[Any], float]] | None = None,
        model: Model | None = None,
    ) -> Self:
        """Return the detector that `to_bytes` saved; functions, which cannot be saved, are passed again.

        Parameters
        ----------
        data : bytes
            What `to_bytes` returned.
        observers, costs : mapping of str to callable, optional
            Functions of the fidelities by name.
        model : Model, optional
            The model, needed if it contains functions.

        Returns
        -------
        BlockDetector
            The detector.

        Raises
        ------
        ValueError
            If the bytes are not a saved detector of blocks.
        """
        if len(data) < _LENGTHS.size:
            raise ValueError("these bytes are not a saved detector of blocks")
        first, second = _LENGTHS.unpack_from(data)
        begin = _LENGTHS.size + first
        end = begin + second
        blocks = Blocks.from_bytes(data[begin:end])
        detector = Detector.from_bytes(data[end:], model=model)
        try:
            facts = json.loads(data[_LENGTHS.size : begin])
            fidelities = [
                Fidelity(name, zeta, (costs or {}).get(name, cost), (observers or {}).get(name), offset, scale)
                for name, zeta, cost, offset, scale in facts["fidelities"]
            ]
            kind = facts["policy"].pop("kind")
            loaded = cls(blocks, detector, fidelities, POLICIES[kind](**facts["policy"]))
            loaded.policy.restore(facts["learned"])
            loaded.spent = not_negative("", "spent", facts["spent"])
            loaded._p_change = not_negative("", "p_change", facts["p_change"])
            loaded._zetas = [not_negative("", "zeta", zeta) for zeta in facts["zetas"]]
        except (AttributeError, KeyError, TypeError, ValueError, RecursionError) as error:
            raise ValueError(f"these bytes are not a saved detector of blocks: {error}") from None
        if len(loaded._zetas) > blocks.ticks % blocks.every:
            raise ValueError("these bytes are not a saved detector of blocks: a block has too many readings")
        return loaded

    def _choose(self, raw: Any) -> Fidelity:
        """Return the fidelity that the policy chooses for the coming tick."""
        share = None
        if self.policy.gain is not None:
            share = self.expected_gains(self.policy.gain) / self.blocks.remaining
        return self.fidelities[self.policy.choose_by(share, self.seed, self.ticks, self._costs(raw))]

    def _update_block(self, vector: Array) -> Step:
        """Update the detector with the features of a block, weighed by the mean zeta of its readings."""
        missing = np.isnan(vector)
        usable = not missing.all() if self._partial else not missing.any()
        zetas, self._zetas = self._zetas, []
        if not usable:
            return self.detector.update(None)
        value: Any = vector if vector.size > 1 else float(vector[0])
        block = replace(self.detector.fidelities[0], zeta=sum(zetas) / len(zetas))
        return self.detector._apply(self.detector._accept(value, block), block, 0.0)

    def _mean(self) -> float:
        if "mean" not in self.blocks.names:
            return math.nan
        return float(np.atleast_1d(self.detector.mean)[self.blocks.names.index("mean")])

    def _run_length(self) -> int:
        """Return the most probable run length in readings."""
        longest = self.detector.map_run_length
        if longest is None:
            return self.ticks - 1
        return self._end_of(longest) + self.ticks - self.blocks.every * self.detector.ticks

    def _end_of(self, block: int) -> int:
        """Return the last reading of a block; -1 for block -1."""
        return self.blocks.every * (block + 1) - 1
