"""The public surface, pinned: a change here is a change users see."""

from __future__ import annotations

import inspect
import subprocess
import sys
from collections.abc import Callable
from types import ModuleType

import numpy as np
import pytest

import mfbocd as mf

NAMES = [
    *("Alarm", "Always", "Bernoulli", "Budget", "Detector", "ExponentialFamily", "Fidelity", "FidelityGain", "Fleet"),
    "FleetAlarm",
    *("Gains", "Gaussian", "Hazard", "InformationRate", "Learned", "Margin", "Model", "Net", "Policy", "Random"),
    *("BaseDetector", "BlockDetector", "Blocks", "Resample"),
    *("Binomial", "Exponential", "Gamma", "GaussianUnknown", "Poisson"),
    *("Categorical", "MultivariateGaussian", "MultivariateGaussianUnknown", "Product"),
    *("Autoregressive", "Confusion", "GaussianProcess", "Grid", "LinearRegression", "Seasonal", "StudentT", "Trend"),
    *("Mixture", "Outliers", "RobustTrend", "StudentTUnknown", "VectorAutoregressive"),
    *("FixedSeason", "Rounded", "Scaled", "Transformed"),
    *("RunLength", "Soft", "Start", "Step", "Surprise", "Threshold", "TopK", "Trace"),
    *("AutoDetector", "Detection", "auto", "detect"),
    *("calibrate", "datasets", "export", "hindsight", "metrics", "models", "plots", "report", "run", "simulate"),
]

SIGNATURES = {
    "Gaussian": "mean var noise_var",
    "GaussianUnknown": "mean count shape scale predictive weighting",
    "Bernoulli": "alpha beta predictive",
    "Binomial": "trials alpha beta predictive",
    "Poisson": "shape rate predictive",
    "Exponential": "shape rate predictive",
    "Gamma": "known shape rate predictive",
    "Categorical": "alpha predictive",
    "MultivariateGaussian": "mean var noise_var",
    "MultivariateGaussianUnknown": "mean count degrees scale predictive weighting",
    "Mixture": "models weights parts",
    "Product": "models parts",
    "LinearRegression": "covariates mean count shape scale noise_var intercept weighting",
    "Trend": "level slope count shape scale noise_var weighting",
    "RobustTrend": "level count shape scale line ar outliers forget weighting",
    "Seasonal": "period harmonics level slope count shape scale noise_var weighting",
    "Autoregressive": "order mean count shape scale noise_var weighting",
    "GaussianProcess": "order mean length count shape scale noise_var reach weighting",
    "VectorAutoregressive": "order mean count degrees scale weighting",
    "StudentT": "mean var noise_var degrees points",
    "StudentTUnknown": "mean count shape scale degrees weighting",
    "Outliers": "model rate outlier",
    "FixedSeason": "model period cosine sine pieces start",
    "Rounded": "model step start",
    "Scaled": "model scale offset",
    "Transformed": "model function offset",
    "Grid": "theta likelihood support prior atoms points",
    "Confusion": "matrices alpha beta points",
    "ExponentialFamily": "a2 u log_h1 chi nu support predictive x_moments",
    "Fidelity": "name zeta cost observe offset scale",
    "Detector": "model fidelities hazard policy prune alarm seed missing on_error shadow surprise learn",
    "Fleet": "n model fidelities hazard policy prune alarm seed missing threads names offset scale share_policy",
    "Blocks": "every features floor",
    "BlockDetector": "blocks detector fidelities policy",
    "run": "detector table posterior raws detail surprise",
    "detect": "data column time model hazard alarm period unit format seed",
    "auto": "hazard alarm period history seed surprise fidelities policy",
    "Hazard": "hazard horizon",
    "Learned": "low high points",
    "Always": "name",
    "Random": "probabilities",
    "InformationRate": "weights gain",
    "Margin": "delta gain",
    "Soft": "temperature weights price gain",
    "Net": "price gain",
    "Budget": "per_tick share reads cap gain",
    "Threshold": "eps",
    "TopK": "k slack",
    "Resample": "k slack",
    "Alarm": "within threshold direction before at_least",
    "FleetAlarm": "threshold armed",
}

MODULES = {
    "calibrate": "ANOMALY_FEATURES AlarmFor Anomaly AnomalyScore CalibrationError CorrectionEstimate CostEstimate "
    "Fitted FleetAlarmFor PeriodEstimate SHAPE_FEATURES ShadowGuard ShadowWarning ThresholdEstimate Tuned "
    "ZetaEstimate alarm_for anomaly_detector autocorrelation average_spend bernoulli_zeta block_length block_prior "
    "decision_operations decision_time declared_cost effective_power estimate_correction estimate_period fit "
    "fleet_alarm_for gaussian_zeta guess_model local_noise measured_time onnx_operations period_of price_for "
    "shape_detector threshold_fnr_fpr tune weights_for",
    "datasets": "RealStream camvid_fence digits run_log toycar",
    "export": "c",
    "hindsight": "Hindsight hindsight live_for",
    "metrics": "DetectionScore detection l1 mse",
    "plots": "changes data figure gains run_length spend",
    "report": "Detection FoundChange Level detect page write",
    "simulate": "Stream bernoulli gaussian",
}
"""What each documented module offers; `models` offers the families above."""

DETECTOR = (
    "choose update update_from step wait advance readings bulk gains expected_gains run_length map_run_length "
    "p_changed regime mean interval explain warnings without_seasons level_rule has_outliers last_alarm ticks spent "
    "dimension fidelities policy alarm seed missing surprise learn to_bytes from_bytes "
)
"""The members of every detector."""

MEMBERS = {
    "Detector": DETECTOR + "variance log_evidence parameter families hazard_posterior reset with_fidelities model "
    "hazard pruning on_error shadow",
    "Fleet": "choose decide update step gains spent spent_by_stream mean run_length p_changed likely log_evidence "
    "ticks add remove extract insert to_bytes to_bytes_each from_bytes names seeds model fidelities policy missing "
    "threads share_policy",
    "Blocks": "every features floor names ticks dimension remaining push transform to_bytes from_bytes",
    "BlockDetector": DETECTOR + "blocks detector last_block",
    "AutoDetector": DETECTOR + "run structure changes hazard period history",
    "Detection": "changes warnings explain plot report to_dict detector trace name labels unit",
    "Trace": "choice x cost mean run_length alarm posterior to_frame changes p_change changed_at confidence spent "
    "of plot costs detail fidelities first number outlier surprise season level_rule",
    "Step": "tick fidelity x cost mean run_length p_change alarm changed_at confidence failed warning "
    "outlier surprise count index",
    "Surprise": "log_density log_lower log_upper count index",
    "FidelityGain": "name zeta cost run_length joint variance change chosen count index",
    "Gains": "count index",
    "RunLength": "length weight p_changed count index",
    "Start": "at low high probability of count index",
    "Fidelity": "name zeta cost observe offset scale has_correction cost_of corrected",
    "Hazard": "table setup mean_length weibull from_lengths",
    "Learned": "low high points table setup mean_length weibull from_lengths",
    "Alarm": "within threshold direction before at_least has_options",
    "FleetAlarm": "threshold armed update passes",
    "Threshold": "eps",
    "TopK": "k slack room",
    "Resample": "k slack room",
}
"""All members of each public class, also those that only instances have; `count` and `index` are a tuple's."""

POLICY = (
    "affords bind choose choose_by cost costs fidelities for_one_stream gain initialize learns pick pick_one priced "
    "rebound record_cost restore rowwise schedule scheduled shared spec state streams validate zeta"
)
POLICIES: dict[str, tuple[Callable[[], mf.Policy], str]] = {
    "Always": (mf.Always, "name"),
    "Random": (mf.Random, "probabilities"),
    "InformationRate": (mf.InformationRate, "weights"),
    "Margin": (lambda: mf.Margin(0.1), "delta"),
    "Soft": (lambda: mf.Soft(0.1), "temperature weights price"),
    "Net": (lambda: mf.Net(0.1), "price"),
    "Budget": (
        lambda: mf.Budget(share=0.5),
        "per_tick share reads cap price limit effective_price debt log_price recent ticks learn lockstep numeric "
        "pick_many prices limits resized target",
    ),
}
"""The signature of each policy, and its members beyond those of every policy."""

MODEL = (
    "advance advance_with assimilate bells check check_zetas columns core core_stats dimension divergence "
    "elementwise from_core gains has_outliers joint_gain "
    "known_level last_outlier log_predictive log_predictives log_ratio log_tails nearest new_regime observe "
    "one_parameter ordered outside parameter parameter_gain params partial possible predictive "
    "predictive_cdf prior quick_parameter_gain rescaled run_length_gain sample skip sound spec tabulate units update "
    "update_doubtful variance_gain without_seasons"
)
MAPPED = "base clipped inverse inward is_season kind log_slope model outward to_inner to_outer uses_ticks"
MODELS: dict[str, tuple[Callable[[], mf.Model], str]] = {
    "Gaussian": (mf.Gaussian, "mean var noise_var"),
    "GaussianUnknown": (mf.GaussianUnknown, "mean count shape scale kind weighting"),
    "Bernoulli": (mf.Bernoulli, "alpha beta kind"),
    "Binomial": (lambda: mf.Binomial(9), "trials alpha beta kind"),
    "Poisson": (mf.Poisson, "shape rate kind"),
    "Exponential": (mf.Exponential, "shape rate known kind"),
    "Gamma": (lambda: mf.Gamma(2), "known shape rate kind"),
    "Categorical": (lambda: mf.Categorical([1, 1]), "alpha kind"),
    "MultivariateGaussian": (lambda: mf.MultivariateGaussian([0, 0], 9, 1), "mean var noise_var components"),
    "MultivariateGaussianUnknown": (
        lambda: mf.MultivariateGaussianUnknown([0, 0]),
        "mean count degrees scale kind components covariance weighting",
    ),
    "Mixture": (lambda: mf.Mixture(mf.Gaussian(), mf.Trend()), "families names parts weights"),
    "Product": (lambda: mf.Product(mf.Gaussian(), mf.Poisson()), "parts"),
    "LinearRegression": (lambda: mf.LinearRegression(1), "covariates shape scale noise_var intercept weighting"),
    "Trend": (mf.Trend, "level slope shape scale noise_var weighting"),
    "RobustTrend": (mf.RobustTrend, "level count shape scale line ar outliers forget slope weighting"),
    "Seasonal": (lambda: mf.Seasonal(7), "period harmonics level slope shape scale noise_var weighting"),
    "Autoregressive": (mf.Autoregressive, "order mean shape scale noise_var weighting"),
    "GaussianProcess": (mf.GaussianProcess, "order mean length count shape scale noise_var reach weighting"),
    "VectorAutoregressive": (
        lambda: mf.VectorAutoregressive(1, [0, 0]),
        "order mean count degrees scale components weighting",
    ),
    "StudentT": (mf.StudentT, "mean var noise_var degrees points theta"),
    "StudentTUnknown": (mf.StudentTUnknown, "mean count shape scale degrees weighting"),
    "Outliers": (lambda: mf.Outliers(mf.Gaussian()), "model rate broad"),
    "FixedSeason": (lambda: mf.FixedSeason(mf.Gaussian(), 4, [1], [0]), f"{MAPPED} season start"),
    "Rounded": (lambda: mf.Rounded(mf.Gaussian(), 1), f"{MAPPED} step start"),
    "Scaled": (lambda: mf.Scaled(mf.Gaussian()), f"{MAPPED} scale offset"),
    "Transformed": (lambda: mf.Transformed(mf.Gaussian(), "log"), f"{MAPPED} function offset"),
    "Grid": (
        lambda: mf.Grid([0.2, 0.8], lambda x, theta, zeta: theta**x * (1 - theta) ** (1 - x), support=[0, 1]),
        "theta likelihood support atoms points confusion discrete",
    ),
    "Confusion": (
        lambda: mf.Confusion({0.5: [[0.9, 0.1], [0.2, 0.8]]}),
        "matrices alpha beta theta likelihood support atoms points confusion discrete from_labels",
    ),
    "ExponentialFamily": (
        lambda: mf.ExponentialFamily(
            a2=lambda chi, nu: 0.5 * chi**2 / nu - 0.5 * np.log(nu),
            u=lambda x: x,
            log_h1=lambda x: -0.5 * x**2,
            chi=0.0,
            nu=1.0,
        ),
        "a2 u log_h1 chi nu support kind x_moments scalar",
    ),
}
"""The signature of each model, and its members beyond those of every model."""


def public(thing: object) -> set[str]:
    return {member for member in dir(thing) if not member.startswith("_")}


def offered(module: ModuleType) -> set[str]:
    """The names a module lists, else those it defines."""
    listed = getattr(module, "__all__", None)
    own = (n for n, v in vars(module).items() if getattr(v, "__module__", "") == module.__name__)
    return set(listed or (n for n in own if not n.startswith("_")))


def instance(name: str) -> object:
    model = mf.Gaussian(0, 9, 1)
    detector = mf.Detector(model, surprise=True)
    step = detector.update(0.0)
    made = {
        "Detector": detector,
        "Fleet": mf.Fleet(1, model),
        "Blocks": mf.Blocks(4, ["mean"]),
        "BlockDetector": mf.BlockDetector(mf.Blocks(4, ["mean"]), mf.Detector(model)),
        "AutoDetector": mf.auto(),
        "Detection": mf.detect([0.0]),
        "Trace": mf.run(mf.Detector(model), [0.0]),
        "Step": step,
        "FidelityGain": detector.gains()[0],
        "Gains": detector.gains(),
        "RunLength": detector.run_length,
        "Start": detector.regime(),
        "Surprise": step.surprise,
        "Fidelity": detector.fidelities[0],
        "Hazard": detector.hazard,
        "Learned": mf.Learned(),
        "Alarm": detector.alarm,
        "FleetAlarm": mf.FleetAlarm(1.0),
        "Threshold": mf.Threshold(),
        "TopK": mf.TopK(8),
        "Resample": mf.Resample(8),
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


def test_documented_modules_are_attributes() -> None:
    """Also in a process that has imported nothing else."""
    code = "import mfbocd as mf; print(mf.metrics.__name__, mf.hindsight.__name__, mf.simulate.__name__)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["mfbocd.trace.metrics", "mfbocd.trace.hindsight", "mfbocd.datasets.simulate"]


@pytest.mark.parametrize("name", MODULES)
def test_names_of_modules(name: str) -> None:
    assert offered(getattr(mf, name)) == set(MODULES[name].split())


def test_every_public_module_and_function_is_pinned() -> None:
    assert {n for n in NAMES if inspect.ismodule(getattr(mf, n))} == {"models", *MODULES}
    assert set(mf.models.__all__) == {"Model", *MODELS}
    assert {n for n in NAMES if inspect.isfunction(getattr(mf, n))} <= SIGNATURES.keys()


@pytest.mark.parametrize("name", SIGNATURES)
def test_signatures(name: str) -> None:
    assert list(inspect.signature(getattr(mf, name)).parameters) == SIGNATURES[name].split()


@pytest.mark.parametrize("name", MEMBERS)
def test_members(name: str) -> None:
    assert public(instance(name)) == set(MEMBERS[name].split())


@pytest.mark.parametrize("name", POLICIES)
def test_members_of_policies(name: str) -> None:
    make, own = POLICIES[name]
    policy = make().bind([mf.Fidelity("low", 0.3, 1.0), mf.Fidelity("high", 1.0, 5.0)])
    assert type(policy) is getattr(mf, name)
    assert public(policy) == set(POLICY.split()) | set(own.split())


@pytest.mark.parametrize("name", MODELS)
def test_members_of_models(name: str) -> None:
    make, own = MODELS[name]
    model = make()
    assert type(model) is getattr(mf, name)
    assert public(model) == set(MODEL.split()) | set(own.split())


def test_every_public_class_is_pinned() -> None:
    classes = {name for name in NAMES if inspect.isclass(getattr(mf, name))}
    assert classes == {"BaseDetector", "Model", "Policy", *MEMBERS, *POLICIES, *MODELS}


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
