"""Kinds of candidates that are drawn for each row by itself.

Every kind but `uniform` is a table of probabilities with which wrong labels join a sample's set;
one sampler serves them all.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.stats import binom
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from ..candidates._labels import find_columns

__all__ = ["BY_ROW", "cut_blocks", "draw_flips"]

_BLOCK = 1 << 22  # entries drawn at once, so that a million rows need no gigabytes


def cut_blocks(n_samples: int, n_classes: int) -> list[np.ndarray]:
    """Cut the rows into blocks that are drawn at once."""
    step = max(1, _BLOCK // n_classes)
    return [np.arange(i, min(i + step, n_samples)) for i in range(0, n_samples, step)]


def _uniform(columns: np.ndarray, classes: np.ndarray, **_: Any) -> Callable:
    n_classes = len(classes)
    sizes = np.arange(1, n_classes)
    # C(m, j) / (2^m − 2) is Binomial(m, 1/2) given that it is neither 0 nor m.
    proba = binom.pmf(sizes, n_classes, 0.5)

    def draw(rows: np.ndarray, partial: bool, rng: np.random.Generator) -> np.ndarray:
        weights = np.where(sizes > 1, proba, 0.0) if partial else proba
        if weights.sum() == 0:
            raise ValueError(
                'clean_rate cannot be met: with two classes kind="uniform" has only clean samples; '
                'use kind="flip"'
            )
        n_wrong = rng.choice(sizes, size=len(rows), p=weights / weights.sum()) - 1
        scores = rng.random((len(rows), n_classes))
        scores[np.arange(len(rows)), columns[rows]] = -1.0  # the truth comes first
        last = np.sort(scores, axis=1)[np.arange(len(rows)), n_wrong]
        return scores <= last[:, None]

    return draw


def draw_flips(columns: np.ndarray, classes: np.ndarray, table: np.ndarray, by_class: bool):
    """Let each wrong label join by its own probability, found by class or by sample."""

    def draw(rows: np.ndarray, partial: bool, rng: np.random.Generator) -> np.ndarray:
        proba = table[columns[rows] if by_class else rows]
        proba[np.arange(len(rows)), columns[rows]] = 0.0
        joins = rng.random(proba.shape) < proba
        if not partial:
            return joins
        # Given that one joins at least: draw which is the first to join, exclude those before it,
        # and leave those after it as they are. This is exact, and needs no rejected draws.
        reached = 1 - np.cumprod(1 - proba, axis=1)
        never = np.flatnonzero(reached[:, -1] <= 0)
        if len(never):
            label = classes[columns[rows[never[0]]]]
            raise ValueError(
                f"clean_rate cannot be met: row {rows[never[0]]} of class {label!r} has no wrong "
                "label of positive probability; raise flip_proba or change confusion"
            )
        level = rng.random(len(rows)) * reached[:, -1]
        level = np.minimum(level, np.nextafter(reached[:, -1], 0))  # against rounding up
        first = (reached <= level[:, None]).sum(axis=1)
        order = np.arange(proba.shape[1])
        return (joins & (order > first[:, None])) | (order == first[:, None])

    return draw


def _flip(columns: np.ndarray, classes: np.ndarray, *, flip_proba: float, **_: Any) -> Callable:
    table = np.full((len(classes), len(classes)), float(flip_proba))
    return draw_flips(columns, classes, table, by_class=True)


def _confusable(
    columns: np.ndarray, classes: np.ndarray, *, flip_proba: float, confusion: Any, **_: Any
) -> Callable:
    m = len(classes)
    if confusion is None:
        table = np.roll(np.eye(m), 1, axis=1) * flip_proba
    else:
        table = np.asarray(confusion, dtype=float)
        if table.shape != (m, m):
            raise ValueError(
                f"confusion has shape {table.shape}; expected ({m}, {m}), a row per true class and "
                "a column per candidate"
            )
        wrong = ~((table >= 0) & (table <= 1)) & ~np.eye(m, dtype=bool)
        if wrong.any():
            row, column = np.argwhere(wrong)[0]
            raise ValueError(
                f"confusion[{row}, {column}] is {table[row, column]}; expected a probability"
            )
    return draw_flips(columns, classes, table, by_class=True)


def _instance(
    columns: np.ndarray, classes: np.ndarray, *, flip_proba: float, estimator: Any, X: Any, **_: Any
) -> Callable:
    if X is None:
        raise ValueError('X is None; kind="instance" needs the features to find likely mistakes')
    if estimator is None:
        estimator = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
        estimator.fit(X, classes[columns])
    if not hasattr(estimator, "predict_proba") or not hasattr(estimator, "classes_"):
        raise ValueError(
            f"estimator is {estimator!r}; expected a fitted classifier with predict_proba: "
            "fit it before passing it"
        )
    found = np.asarray(estimator.predict_proba(X), dtype=float)
    if len(found) != len(columns):
        raise ValueError(f"X has {len(found)} rows but y has {len(columns)}")
    known = find_columns(estimator.classes_, classes)
    if (known < 0).any():
        unknown = estimator.classes_[known < 0].tolist()[0]
        raise ValueError(
            f"estimator knows the class {unknown!r}, which is none of the labels; pass classes"
        )
    table = np.zeros((len(columns), len(classes)))
    table[:, known] = found
    table[np.arange(len(columns)), columns] = 0.0
    # A classifier that is sure of the truth still has its least unlikely mistakes.
    mean = table.sum(axis=1, keepdims=True) / (len(classes) - 1)
    table = np.divide(table, mean, out=np.ones_like(table), where=mean > 0)
    return draw_flips(columns, classes, np.minimum(flip_proba * table, 1.0), by_class=False)


BY_ROW = {
    "uniform": _uniform,
    "flip": _flip,
    "confusable": _confusable,
    "instance": _instance,
}
