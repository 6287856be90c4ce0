"""Estimates of zeta, cost, price, alarm threshold and hyperparameters from held-out data."""

from ..detector.shadow import ShadowGuard, ShadowWarning
from .alarm import AlarmFor, FleetAlarmFor, alarm_for, fleet_alarm_for
from .anomaly import ANOMALY_FEATURES, Anomaly, AnomalyScore, anomaly_detector
from .checks import CalibrationError
from .correction import CorrectionEstimate, estimate_correction
from .cost import (
    CostEstimate,
    decision_operations,
    decision_time,
    declared_cost,
    measured_time,
    onnx_operations,
)
from .dependence import autocorrelation, effective_power
from .draft.model import guess_model
from .evidence import Fitted, fit
from .intervals import period_of
from .noise import local_noise
from .period import PeriodEstimate, estimate_period
from .price import Tuned, average_spend, price_for, tune, weights_for
from .shape import SHAPE_FEATURES, block_length, block_prior, shape_detector
from .threshold import ThresholdEstimate, threshold_fnr_fpr
from .zeta import ZetaEstimate, bernoulli_zeta, gaussian_zeta

__all__ = [
    "ANOMALY_FEATURES",
    "SHAPE_FEATURES",
    "AlarmFor",
    "Anomaly",
    "AnomalyScore",
    "CalibrationError",
    "CorrectionEstimate",
    "CostEstimate",
    "Fitted",
    "FleetAlarmFor",
    "PeriodEstimate",
    "ShadowGuard",
    "ShadowWarning",
    "ThresholdEstimate",
    "Tuned",
    "ZetaEstimate",
    "alarm_for",
    "anomaly_detector",
    "autocorrelation",
    "average_spend",
    "bernoulli_zeta",
    "block_length",
    "block_prior",
    "decision_operations",
    "decision_time",
    "declared_cost",
    "effective_power",
    "estimate_correction",
    "estimate_period",
    "fit",
    "fleet_alarm_for",
    "gaussian_zeta",
    "guess_model",
    "local_noise",
    "measured_time",
    "onnx_operations",
    "period_of",
    "price_for",
    "shape_detector",
    "threshold_fnr_fpr",
    "tune",
    "weights_for",
]
