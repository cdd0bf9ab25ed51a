"""Sources of wrong candidates that draw each row by itself.

Every source but "uniform" is a table of probabilities with which wrong labels join a sample's set;
one sampler serves them all.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import binom
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from ..candidates._labels import find_columns

_BLOCK = 1 << 22  # entries drawn at once, so that a million rows need no gigabytes

#: Rows, and whether a wrong label must join, to their sets.
Draw = Callable[[np.ndarray, bool], np.ndarray]


@dataclass(frozen=True)
class Request:
    """What a call of `make_candidates` asks for; ``partial``: with a clean rate."""

    columns: np.ndarray
    classes: list[Any]
    is_clean: np.ndarray
    partial: bool
    rng: np.random.Generator
    flip_proba: float = 0.1
    confusion: Any = None
    estimator: Any = None
    X: Any = None
    bag_size: Any = (1, 5)
    scenes: float = 0.0
    n_types: Any = None
    groups: Any = None


def cut_blocks(n_samples: int, n_classes: int) -> list[np.ndarray]:
    """Cut the rows into blocks that are drawn at once."""
    step = max(1, _BLOCK // n_classes)
    return [np.arange(i, min(i + step, n_samples)) for i in range(0, n_samples, step)]


def _uniform(request: Request) -> Draw:
    n_classes, rng = len(request.classes), request.rng
    sizes = np.arange(1, n_classes)
    # C(m, j) / (2^m − 2) is Binomial(m, 1/2) given that it is neither 0 nor m.
    proba = binom.pmf(sizes, n_classes, 0.5)

    def draw(rows: np.ndarray, partial: bool) -> np.ndarray:
        weights = np.where(sizes > 1, proba, 0.0) if partial else proba
        if weights.sum() == 0:
            raise ValueError('`source` must not be "uniform" with two classes and a `clean_rate`.')
        n_wrong = rng.choice(sizes, size=len(rows), p=weights / weights.sum()) - 1
        scores = rng.random((len(rows), n_classes))
        scores[np.arange(len(rows)), request.columns[rows]] = -1.0  # the truth comes first
        last = np.sort(scores, axis=1)[np.arange(len(rows)), n_wrong]
        return np.asarray(scores <= last[:, None])

    return draw


def draw_flips(
    request: Request, table: np.ndarray, columns: np.ndarray, by_class: bool = True
) -> Draw:
    """Let each wrong label join by its own probability, found by class or by sample."""

    def draw(rows: np.ndarray, partial: bool) -> np.ndarray:
        proba = table[columns[rows] if by_class else rows]
        proba[np.arange(len(rows)), columns[rows]] = 0.0
        joins = request.rng.random(proba.shape) < proba
        if not partial:
            return joins
        # Given that one joins at least: draw which is the first to join, exclude those before it,
        # and leave those after it as they are. This is exact, and needs no rejected draws.
        reached = 1 - np.cumprod(1 - proba, axis=1)
        never = np.flatnonzero(reached[:, -1] <= 0)
        if len(never):
            raise ValueError(
                "`clean_rate` needs wrong labels of positive probability, got 0 in row "
                f"{rows[never[0]]}. Raise `flip_proba` or change `confusion`."
            )
        level = request.rng.random(len(rows)) * reached[:, -1]
        level = np.minimum(level, np.nextafter(reached[:, -1], 0))  # against rounding up
        first = (reached <= level[:, None]).sum(axis=1)
        order = np.arange(proba.shape[1])
        return (joins & (order > first[:, None])) | (order == first[:, None])

    return draw


def _flip(request: Request) -> Draw:
    table = np.full((len(request.classes),) * 2, float(request.flip_proba))
    return draw_flips(request, table, request.columns)


def _class_dependent(request: Request) -> Draw:
    m = len(request.classes)
    table = np.roll(np.eye(m), 1, axis=1) * request.flip_proba
    if request.confusion is not None:
        table = np.asarray(request.confusion, dtype=float)
        if table.shape != (m, m):
            raise ValueError(f"`confusion` must have shape ({m}, {m}), got {table.shape}.")
        wrong = np.argwhere(~((table >= 0) & (table <= 1)) & ~np.eye(m, dtype=bool))
        if len(wrong):
            place = "row {}, column {}".format(*wrong[0])
            found = table[tuple(wrong[0])]
            raise ValueError(f"`confusion` must hold probabilities, got {found} in {place}.")
    return draw_flips(request, table, request.columns)


def _instance_dependent(request: Request) -> Draw:
    columns, classes, estimator = request.columns, request.classes, request.estimator
    if request.X is None:
        raise ValueError('`X` must be given for source="instance-dependent", got None.')
    if estimator is None:
        estimator = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
        estimator.fit(request.X, np.asarray(classes)[columns])
    if not hasattr(estimator, "predict_proba") or not hasattr(estimator, "classes_"):
        raise ValueError(f"`estimator` must be a fitted probabilistic classifier, got {estimator}.")
    found = np.asarray(estimator.predict_proba(request.X), dtype=float)
    if len(found) != len(columns):
        raise ValueError(f"`X` must have {len(columns)} rows, as `y` has, got {len(found)}.")
    known = find_columns(estimator.classes_, np.asarray(classes))
    if (known < 0).any():
        odd = estimator.classes_.tolist()[known.argmin()]
        raise ValueError(f"`classes` must hold those of `estimator`, got one without {odd!r}.")
    table = np.zeros((len(columns), len(classes)))
    table[:, known] = found
    table[np.arange(len(columns)), columns] = 0.0
    # A classifier that is sure of the truth still has its least unlikely mistakes.
    mean = table.sum(axis=1, keepdims=True) / (len(classes) - 1)
    table = np.divide(table, mean, out=np.ones_like(table), where=mean > 0)
    return draw_flips(request, np.minimum(request.flip_proba * table, 1.0), columns, by_class=False)


BY_ROW = {
    "uniform": _uniform,
    "flip": _flip,
    "class-dependent": _class_dependent,
    "instance-dependent": _instance_dependent,
}
