"""The public surface, pinned: a change here is a change users see."""

from __future__ import annotations

import inspect
import subprocess
import sys

import pytest

import mfbocd as mf

NAMES = [
    *("Alarm", "Always", "Bernoulli", "Budget", "Detector", "ExponentialFamily", "Fidelity", "FidelityGain", "Fleet"),
    *("Gains", "Gaussian", "Hazard", "InformationRate", "Learned", "Margin", "Model", "Net", "Policy", "Random"),
    "Resample",
    *("Binomial", "Exponential", "Gamma", "GaussianUnknown", "Poisson"),
    *("Categorical", "MultivariateGaussian", "MultivariateGaussianUnknown", "Product"),
    *("Autoregressive", "Confusion", "GaussianProcess", "Grid", "LinearRegression", "StudentT", "Trend"),
    "VectorAutoregressive",
    *("RunLength", "Soft", "Start", "Step", "Threshold", "TopK", "Trace"),
    *("calibrate", "datasets", "hindsight", "metrics", "models", "plots", "report", "run", "simulate"),
]

SIGNATURES = {
    "Gaussian": "mean var noise_var",
    "GaussianUnknown": "mean count shape scale predictive",
    "Bernoulli": "alpha beta predictive",
    "Binomial": "trials alpha beta predictive",
    "Poisson": "shape rate predictive",
    "Exponential": "shape rate predictive",
    "Gamma": "known shape rate predictive",
    "Categorical": "alpha predictive",
    "MultivariateGaussian": "mean var noise_var",
    "MultivariateGaussianUnknown": "mean count degrees scale predictive",
    "Product": "models parts",
    "LinearRegression": "covariates mean count shape scale noise_var intercept",
    "Trend": "level slope count shape scale noise_var",
    "Autoregressive": "order mean count shape scale noise_var",
    "GaussianProcess": "order mean length count shape scale noise_var reach",
    "VectorAutoregressive": "order mean count degrees scale",
    "StudentT": "mean var noise_var degrees points",
    "Grid": "theta likelihood support prior atoms points",
    "Confusion": "matrices alpha beta points",
    "ExponentialFamily": "a2 u log_h1 chi nu support predictive x_moments",
    "Fidelity": "name zeta cost observe",
    "Detector": "model fidelities hazard policy prune alarm seed missing on_error shadow",
    "Fleet": "n model fidelities hazard policy prune alarm seed missing threads names offset scale share_policy",
    "run": "detector table posterior raws detail",
    "Always": "name",
    "Random": "probabilities",
    "InformationRate": "weights gain",
    "Margin": "delta gain",
    "Soft": "temperature weights price gain",
    "Net": "price gain",
    "Budget": "per_tick share cap gain",
    "Threshold": "eps",
    "TopK": "k slack",
    "Resample": "k slack",
    "Alarm": "within threshold",
}

MEMBERS = {
    "Detector": "choose update step gains run_length changed mean variance spent to_bytes from_bytes regime "
    "log_evidence interval parameter map_run_length ticks hazards wait reset with_fidelities "
    "model fidelities hazard policy pruning alarm seed missing on_error shadow",
    "Fleet": "choose decide update step gains spent spent_by_stream mean run_length p_changed likely log_evidence "
    "ticks add remove extract insert to_bytes to_bytes_each from_bytes names seeds model fidelities policy missing "
    "threads share_policy",
    "Trace": "choice x cost mean run_length alarm posterior to_frame changes p_change changed_at confidence spent "
    "of plot costs detail fidelities first number",
    "Step": "tick fidelity x cost mean run_length p_change alarm changed_at confidence failed warning count index",
    "FidelityGain": "name zeta cost run_length joint variance chosen count index",
    "RunLength": "length weight count index",
    "Start": "at low high probability count index",
    "Fidelity": "name zeta cost observe cost_of",
    "Hazard": "table setup mean_length weibull from_lengths",
    "Alarm": "within threshold",
}
"""All that each has, also what its instances are given; `count` and `index` are a tuple's."""

INTERNAL = {"Detector": "adopt advance by_name count filter nothing taken tell twin weighed"}
"""What the package's own modules use of it, and users must not: a name that is added here is a leak, so add none."""


def instance(name: str) -> object:
    model = mf.Gaussian(0, 9, 1)
    detector = mf.Detector(model)
    step = detector.update(0.0)
    made = {
        "Detector": detector,
        "Fleet": mf.Fleet(1, model),
        "Trace": mf.run(mf.Detector(model), [0.0]),
        "Step": step,
        "FidelityGain": detector.gains()[0],
        "RunLength": detector.run_length,
        "Start": detector.regime(),
        "Fidelity": detector.fidelities[0],
        "Hazard": detector.hazard,
        "Alarm": detector.alarm,
    }
    assert type(made[name]) is getattr(mf, name)
    return made[name]


def test_names() -> None:
    assert sorted(mf.__all__) == sorted(NAMES)
    assert dir(mf) == sorted(NAMES)
    for name in NAMES:
        assert getattr(mf, name) is not None
    with pytest.raises(AttributeError, match="has no attribute 'nonsense'"):
        mf.nonsense  # noqa: B018


@pytest.mark.parametrize("name", SIGNATURES)
def test_signatures(name: str) -> None:
    assert list(inspect.signature(getattr(mf, name)).parameters) == SIGNATURES[name].split()


@pytest.mark.parametrize("name", MEMBERS)
def test_members(name: str) -> None:
    there = {member for member in dir(instance(name)) if not member.startswith("_")}
    assert there == set(MEMBERS[name].split()) | set(INTERNAL.get(name, "").split())


@pytest.mark.parametrize("name", NAMES)
def test_every_public_thing_is_documented(name: str) -> None:
    thing = getattr(mf, name)
    assert (thing.__doc__ or "").strip()
    if inspect.isclass(thing):
        for member, value in vars(thing).items():
            if not member.startswith("_") and inspect.isfunction(value):
                assert (value.__doc__ or "").strip(), f"{name}.{member}"


def test_import_is_light() -> None:
    """Importing the package loads neither the compiler nor numpy."""
    code = "import sys, mfbocd; print([m for m in ('numba', 'numpy', 'pandas', 'scipy') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
