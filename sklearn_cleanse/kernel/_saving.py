"""Scalings and feature maps of the kernel methods, and what a file keeps of them."""

from __future__ import annotations

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.kernel_approximation import Nystroem
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, Normalizer, StandardScaler

from .._model_file import ModelFile
from ._steps import RBFFeatures

# DEVIATES: PL-CGR's published demo has "l2" alone, which lets features of large values dominate.
# The default, "standard-l2", first makes the columns comparable.
SCALERS = {
    "standard-l2": lambda: make_pipeline(StandardScaler(), Normalizer()),
    "standard": StandardScaler,
    "l2": Normalizer,
    None: lambda: FunctionTransformer(np.copy),  # a fitted model must not hold the caller's X
}

_STATISTICS = ("mean_", "var_", "scale_")


def scaler_state(scaler: BaseEstimator) -> dict:
    """Return the kind of a scaler, and its statistics if it has any."""
    steps = _steps(scaler)
    by_column = isinstance(steps[0], StandardScaler)
    by_row = isinstance(steps[-1], Normalizer)
    state: dict = {"by_column": by_column, "by_row": by_row}
    if by_column:
        state |= {name: getattr(steps[0], name) for name in _STATISTICS}
        state["n_samples_seen"] = int(steps[0].n_samples_seen_)
    return state


def scaler_from_file(file: ModelFile, n_features: int) -> BaseEstimator:
    """Return the scaler that was saved."""
    by_column, by_row = file.value("scaler.by_column", bool), file.value("scaler.by_row", bool)
    names = {(True, True): "standard-l2", (True, False): "standard", (False, True): "l2"}
    scaler = SCALERS[names.get((by_column, by_row))]()
    steps = _steps(scaler)
    if by_column:
        for name in _STATISTICS:
            setattr(steps[0], name, file.array(f"scaler.{name}", "f", (n_features,)))
        steps[0].n_samples_seen_ = file.value("scaler.n_samples_seen", int)
    for step in steps:
        step.n_features_in_ = n_features
    return scaler


def _steps(scaler: BaseEstimator) -> list[BaseEstimator]:
    return [step for _, step in scaler.steps] if isinstance(scaler, Pipeline) else [scaler]


def feature_map_state(feature_map: RBFFeatures | Nystroem) -> dict:
    """Return the rows of a feature map, and how it compares with them."""
    if isinstance(feature_map, RBFFeatures):
        return {"X": feature_map.X, "gamma": float(feature_map.gamma), "normalization": None}
    return {
        "X": feature_map.components_,
        "gamma": float(feature_map.gamma),
        "normalization": feature_map.normalization_,
        "indices": feature_map.component_indices_,
    }


def feature_map_from_file(file: ModelFile, n_features: int) -> tuple[RBFFeatures | Nystroem, int]:
    """Return the feature map that was saved, and how many features it gives."""
    X = file.array("feature_map.X", "f", (None, n_features))
    gamma = file.value("feature_map.gamma", float)
    if not len(X) or gamma <= 0:
        raise ValueError(f"feature_map has {len(X)} rows and gamma={gamma}")
    if not file.has("feature_map.normalization"):
        return RBFFeatures(X, gamma), len(X)
    found = Nystroem(gamma=gamma, n_components=len(X))
    found.components_, found.n_features_in_ = X, n_features
    found.normalization_ = file.array("feature_map.normalization", "f", (len(X), len(X)))
    found.component_indices_ = file.array("feature_map.indices", "i", (len(X),))
    return found, len(X)
