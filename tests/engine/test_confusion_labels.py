"""A confusion matrix from two columns of labels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

import mfbocd as mf

LABELS = [1, 0, 0, 1, 0, 0, 1, 1]
TRUTH = [1, 0, 1, 0, 0, 0, 1, 1]
MATRIX = [[(3 + 0.5) / 5, (1 + 0.5) / 5], [(1 + 0.5) / 5, (3 + 0.5) / 5]]  # counts and a half


@pytest.mark.parametrize(
    "make", [list, tuple, np.array, pd.Series, pl.Series, lambda x: np.array(x, dtype=bool), lambda x: map(float, x)]
)
def test_columns_of_zeros_and_ones(make: Any) -> None:
    columns = [make(LABELS), make(TRUTH)]
    if not hasattr(columns[0], "__len__"):
        columns = [list(column) for column in columns]
    model = mf.Confusion.from_labels(*columns, 0.3, alpha=2, beta=5, points=50)
    np.testing.assert_allclose(model.matrices[0.3], MATRIX)
    assert model.matrices[1.0].tolist() == [[1.0, 0.0], [0.0, 1.0]]
    assert (model.alpha, model.beta, model.points) == (2, 5, 50)
    assert mf.Confusion.from_labels(*columns).matrices.keys() == {1.0, 0.5}


def test_words_and_missing_labels() -> None:
    def word(label: int) -> str:
        return "fail" if label else "ok"

    labels = [*map(word, LABELS), "fail", None, "ok", "ok"]
    truth = [*map(word, TRUTH), None, "ok", float("nan"), pd.NA]
    np.testing.assert_allclose(mf.Confusion.from_labels(labels, truth, positive="fail").matrices[0.5], MATRIX)
    frame = pd.DataFrame({"cheap": [*LABELS, None], "judge": [*TRUTH, 1]})
    np.testing.assert_allclose(mf.Confusion.from_labels(frame["cheap"], frame["judge"]).matrices[0.5], MATRIX)


def test_the_estimate_approaches_the_matrix() -> None:
    rng = np.random.default_rng(0)
    truth = rng.random(20_000) < 0.2
    labels = np.where(truth, rng.random(20_000) < 0.7, rng.random(20_000) < 0.1)
    found = mf.Confusion.from_labels(labels, truth).matrices[0.5]
    error = np.sqrt(0.7 * 0.3 / 4000)  # standard error of the second row, which has some 4000 items
    np.testing.assert_allclose(found, [[0.9, 0.1], [0.3, 0.7]], atol=4 * error)


def test_it_detects() -> None:
    """The model works in a detector whose cheap fidelity has that zeta."""
    model = mf.Confusion.from_labels(LABELS * 20, TRUTH * 20, 0.4)
    cheap, judge = mf.Fidelity("cheap", 0.4, 1), mf.Fidelity("judge", 1.0, 20)
    detector = mf.Detector(model, [cheap, judge], hazard=0.02)
    for label in [0.0] * 40 + [1.0] * 40:
        detector.update(label, "cheap")
    assert detector.mean > 0.6


def test_bad_labels() -> None:
    cases: list[tuple[Any, Any, dict[str, Any], str]] = [
        (["a", "b"], [0, 1], {}, "labels must be 0 or 1, not 'a': name the label"),
        ([0, 1], [0, 2], {}, "truth must be 0 or 1, not 2"),
        ([0, 1, 1], [0, 1], {}, "same length, not 3 and 2"),
        ([0, 1], [1, 1], {}, "it has no 0"),
        ([0, 1], ["ok", "ok"], {"positive": "fail"}, "it has no 1"),
        ([[0, 1]], [0, 1], {}, "one column"),
        ([0, 1], [0, 1], {"zeta": 1.0}, "zeta must be between 0 and 1"),
    ]
    for labels, truth, options, message in cases:
        with pytest.raises(ValueError, match=message):
            mf.Confusion.from_labels(labels, truth, **options)
