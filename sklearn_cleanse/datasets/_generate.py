"""Candidates made from true labels, under the models of the literature.

Every model but `uniform` is a table of probabilities with which wrong labels join a sample's set;
one sampler serves them all.
"""

from __future__ import annotations

from collections.abc import Callable
from numbers import Real
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.stats import binom
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import check_random_state

from ..candidates import check_candidates
from ..candidates._labels import find_columns
from ._bunch import check_columns, output_candidates

__all__ = ["make_candidates"]

_BLOCK = 1 << 22  # entries drawn at once, so that a million rows need no gigabytes


def make_candidates(
    y,
    kind="uniform",
    *,
    flip_proba=0.1,
    clean_rate=None,
    noise=0.0,
    confusion=None,
    estimator=None,
    X=None,
    classes=None,
    as_frame=False,
    sparse_output=False,
    random_state=None,
):
    """Draw candidate sets around true labels.

    Parameters
    ----------
    y : array-like of shape (n_samples,)
        True labels.
    kind : {"uniform", "flip", "confusable", "instance"}, default="uniform"
        How wrong labels join, m being the number of classes:

        - "uniform": the set's size is j with probability C(m, j) / (2^m − 2), j = 1 … m − 1, and
          its j − 1 wrong labels are drawn uniformly (the protocol of Feng et al. 2020, as the
          image benchmarks use it: for m = 10 the mean size is 5).
        - "flip": each wrong label joins with probability ``flip_proba``.
        - "confusable": label k joins the set of a sample of class j with probability
          ``confusion[j, k]``; by default the next class joins with probability ``flip_proba``.
        - "instance": the labels that a classifier finds likely for the sample join. A wrong
          label's probability is ``flip_proba`` times the classifier's, divided by the mean of
          the classifier's over the sample's wrong labels, and at most one.
    flip_proba : float in [0, 1], default=0.1
        The (mean) probability of a wrong label, as said above. Not used by "uniform".
    clean_rate : float in [0, 1], default=None
        The share of samples to be clean, that is, to have the true label as the only candidate.
        It is met exactly (to the nearest sample): so many samples drawn at random are clean, and
        the others follow ``kind`` given that at least one wrong label joins. If None, it is what
        ``kind`` gives.
    noise : float in [0, 1], default=0.0
        The share of samples whose true label is *not* a candidate: in so many samples a wrong
        label takes its place, which leaves sizes as they are. (Where all labels are candidates
        the true one is just removed.)
    confusion : array-like of shape (n_classes, n_classes), default=None
        Probabilities for "confusable"; the diagonal is not used.
    estimator : classifier with ``predict_proba``, default=None
        For "instance": a fitted classifier. If None, a logistic regression on standardised
        features is fitted to (X, y).
    X : array-like of shape (n_samples, n_features), default=None
        For "instance": the features.
    classes : array-like of shape (n_classes,), default=None
        The labels of the columns, which may include some that ``y`` never has. If None, the
        labels in ``y``, which must then be 0 … m − 1 unless ``as_frame`` is True.
    as_frame : bool, default=False
        Whether to return a DataFrame with the labels as column names.
    sparse_output : bool, default=False
        Whether to return a csr_array.
    random_state : int, RandomState instance or None, default=None
        What determines the draws. Pass an int for reproducible output.

    Returns
    -------
    S : {ndarray, csr_array, DataFrame} of shape (n_samples, n_classes), dtype bool
        The candidates.

    References
    ----------
    L. Feng et al. Provably consistent partial-label learning. NeurIPS 2020.

    N. Xu et al. Instance-dependent partial label learning. NeurIPS 2021.

    Examples
    --------
    >>> from sklearn_cleanse.datasets import make_candidates
    >>> S = make_candidates([0, 1, 2, 0], kind="flip", flip_proba=0.5, random_state=0)
    >>> S.shape
    (4, 3)
    >>> S[[0, 1, 2, 3], [0, 1, 2, 0]].all()
    np.True_
    """
    classes, columns = _check_labels(y, classes, as_frame)
    for parameter, value in (("flip_proba", flip_proba), ("noise", noise)):
        _check_share(parameter, value)
    if clean_rate is not None:
        _check_share("clean_rate", clean_rate)
    if kind not in _KINDS:
        raise ValueError(f"kind is {kind!r}; expected one of {', '.join(map(repr, _KINDS))}")
    rng = np.random.default_rng(check_random_state(random_state).randint(2**31, size=4))
    draw = _KINDS[kind](
        columns, classes, flip_proba=flip_proba, confusion=confusion, estimator=estimator, X=X
    )
    n_samples, n_classes = len(columns), len(classes)
    clean = _choose(n_samples, clean_rate or 0.0, rng)
    noisy = _choose(n_samples, noise, rng)
    blocks = []
    for rows in _blocks(n_samples, n_classes):
        S = np.zeros((len(rows), n_classes), dtype=bool)
        drawn = ~clean[rows]
        if drawn.any():
            S[drawn] = draw(rows[drawn], clean_rate is not None, rng)
        S[np.arange(len(rows)), columns[rows]] = True
        _add_noise(S, columns[rows], noisy[rows], rng)
        blocks.append(sp.csr_array(S))
    candidates = sp.vstack(blocks, format="csr")
    return output_candidates(classes, candidates, sparse_output=sparse_output, as_frame=as_frame)


def _check_labels(y: Any, classes: Any, as_frame: bool) -> tuple[np.ndarray, np.ndarray]:
    y = np.asarray(y)
    if y.ndim != 1:
        raise ValueError(f"y has shape {y.shape}; expected one true label per sample, 1-D")
    if classes is not None:
        classes = np.asarray(classes)
        if classes.ndim != 1 or len(set(classes.tolist())) != len(classes):
            raise ValueError("classes holds a label twice; expected each label once, in a row")
        columns = check_candidates(y, classes=classes)[1].indices
        return classes, columns.astype(np.int64)
    classes, truth = check_candidates(y)
    check_columns(classes, as_frame)
    return classes, truth.indices.astype(np.int64)


def _check_share(parameter: str, value: Any) -> None:
    if not isinstance(value, Real) or not 0 <= value <= 1:
        raise ValueError(f"{parameter} is {value!r}; expected a number from 0 to 1")


def _choose(n_samples: int, share: float, rng: np.random.Generator) -> np.ndarray:
    chosen = np.zeros(n_samples, dtype=bool)
    chosen[rng.permutation(n_samples)[: round(share * n_samples)]] = True
    return chosen


def _blocks(n_samples: int, n_classes: int) -> list[np.ndarray]:
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


def _bernoulli(columns: np.ndarray, classes: np.ndarray, table: np.ndarray, by_class: bool):
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
    return _bernoulli(columns, classes, table, by_class=True)


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
    return _bernoulli(columns, classes, table, by_class=True)


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
    return _bernoulli(columns, classes, np.minimum(flip_proba * table, 1.0), by_class=False)


_KINDS = {
    "uniform": _uniform,
    "flip": _flip,
    "confusable": _confusable,
    "instance": _instance,
}


def _add_noise(
    S: np.ndarray, columns: np.ndarray, noisy: np.ndarray, rng: np.random.Generator
) -> None:
    """Put a wrong label in the true one's place, in the rows given."""
    rows = np.flatnonzero(noisy)
    outside = ~S[rows]
    swap = outside.any(axis=1)
    stand_in = np.where(outside, rng.random(outside.shape), -1.0).argmax(axis=1)
    S[rows, columns[rows]] = False
    S[rows[swap], stand_in[swap]] = True
