"""Probabilities made as sure as they should be, by candidates alone."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.optimize import minimize_scalar

from ..candidates._sets import candidate_log_mass
from ._readers import check_weight, log_probabilities, read_proba

__all__ = ["candidate_temperature"]

#: The logarithm of the temperature is sought within these bounds.
_BOUNDS = (-4.0, 4.0)


def candidate_temperature(
    y_candidates: Any,
    y_proba: Any,
    *,
    log: bool = False,
    classes: Any = None,
    sample_weight: Any = None,
) -> float:
    """Find the temperature under which probabilities fit the candidates of held-out rows best.

    Log-probabilities divided by a temperature, and normalised, give the same predictions but other
    confidences: more sure below 1, less above. The one that maximises the likelihood of the
    candidate sets is that of true labels where sets are drawn by the label alone (labels that join
    at random, bags, labels that are often confused). Where they depend on the features it is too
    low, and makes a model too sure: see ``dependence_`` of `CleanSEKernelClassifier`. Sets
    that lack the true label pull the other way: use rows whose sets are right.

    Parameters
    ----------
    y_candidates : array-like of shape (n_samples, n_classes) or (n_samples,)
        Candidates of rows that the classifier was not fitted on, in any form that ``fit`` takes.
    y_proba : array-like of shape (n_samples, n_classes)
        Their predicted probabilities, or the logarithms if ``log`` is True.
    log : bool, default=False
        Whether ``y_proba`` holds logarithms, up to a constant per row, so that logits do too.
    classes : array-like of shape (n_classes,), default=None
        The labels that the columns of ``y_proba`` stand for, such as ``classes_``. If None, those
        that occur in ``y_candidates``.
    sample_weight : array-like of shape (n_samples,), default=None
        Sample weights.

    Returns
    -------
    temperature : float
        Between 0.018 and 55. New rows get ``softmax(predict_log_proba(X) / temperature)``.

    Examples
    --------
    >>> from sklearn_cleanse.metrics import candidate_temperature
    >>> labels, proba = [0, 1, 0, 0], [[0.99, 0.01], [0.01, 0.99], [0.99, 0.01], [0.01, 0.99]]
    >>> round(candidate_temperature(labels, proba), 1)  # 99 % sure, but 75 % right
    4.2
    """
    candidates, log_proba, _ = read_proba(y_candidates, y_proba, log, classes)
    weight = check_weight(sample_weight, len(log_proba))
    log_proba = np.maximum(log_proba, -700.0)  # as sure as double precision can be

    def loss(log_temperature: float) -> float:
        scaled = log_probabilities(log_proba / np.exp(log_temperature), log=True)
        return -float(weight @ candidate_log_mass(scaled, candidates))

    return float(np.exp(minimize_scalar(loss, bounds=_BOUNDS, method="bounded").x))
