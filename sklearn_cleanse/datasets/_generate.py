"""Candidates made from true labels, under the models of the literature."""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils import check_random_state

from ..candidates import check_candidates
from ._bunch import check_columns, output_candidates
from ._by_row import BY_ROW, cut_blocks

__all__ = ["make_candidates"]


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
    if kind not in BY_ROW:
        raise ValueError(f"kind is {kind!r}; expected one of {', '.join(map(repr, BY_ROW))}")
    rng = np.random.default_rng(check_random_state(random_state).randint(2**31, size=4))
    draw = BY_ROW[kind](
        columns, classes, flip_proba=flip_proba, confusion=confusion, estimator=estimator, X=X
    )
    n_samples, n_classes = len(columns), len(classes)
    clean = _choose(n_samples, clean_rate or 0.0, rng)
    noisy = _choose(n_samples, noise, rng)
    blocks = []
    for rows in cut_blocks(n_samples, n_classes):
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
