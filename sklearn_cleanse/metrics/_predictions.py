"""Answers of a fitted classifier: labels, log-probabilities, confidences among candidates."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import _num_samples, check_is_fitted

from ..candidates import candidate_softmax, check_graded, check_index
from ..candidates._grades import regrade, split_grades
from ..pipelines import final_step
from ._readers import read_labels


def is_graded(estimator: Any) -> bool:
    """Return whether the classifier, or that at the end of a pipeline, takes graded candidates."""
    # whatever predicts can be scored, with a fit of its own or not
    return hasattr(estimator, "fit") and getattr(final_step(estimator)[0], "graded", False)


def without_grades(estimator: Any, y: Any) -> Any:
    """Return candidates as measures take them, from a ``y`` that the classifier takes."""
    return split_grades(y)[0] if is_graded(estimator) else y


def predict_labels(estimator: Any, X: Any, y: Any = None) -> np.ndarray:
    """Return the predicted labels. ``y`` is ignored: scorers pass it to all three functions."""
    return estimator.predict(X)


def predict_log_proba(estimator: Any, X: Any, y: Any = None) -> np.ndarray:
    """Return the logarithm of the probability of each class. ``y`` is ignored."""
    if hasattr(estimator, "predict_log_proba"):
        return estimator.predict_log_proba(X)
    with np.errstate(divide="ignore"):
        return np.log(estimator.predict_proba(X))


def candidate_proba(estimator: Any, X: Any, y: Any) -> sp.csr_array:
    """Compute the confidence of any classifier in each candidate.

    Whatever disambiguates goes through here. By default probabilities are restricted to the
    candidates and normalised. An estimator with a way of its own defines
    ``_candidate_proba_of(X, candidates)``, which is found inside pipelines and searches as well.

    Parameters
    ----------
    estimator : fitted classifier
        Any that has ``classes_`` and ``predict_log_proba`` or ``predict_proba``.
    X : array-like of shape (n_samples, n_features)
        Samples.
    y : array-like
        Their candidates, in any form that ``fit`` takes. All labels must be in ``classes_``.

    Returns
    -------
    proba : csr_array of shape (n_samples, n_classes)
        Rows sum to one. An entry is stored for each candidate, also where it is zero.
    """
    check_is_fitted(estimator)
    check_index(X, y)
    _, candidates, grades = check_graded(
        y, graded=is_graded(estimator), n_samples=_num_samples(X), classes=estimator.classes_
    )
    return regrade(_restricted(estimator, X, candidates), grades)


def extended_candidate_proba(estimator: Any, X: Any, y: Any) -> tuple[np.ndarray, sp.csr_array]:
    """Return classes and `candidate_proba`, where ``y`` may hold labels that were not in fit.

    These follow the estimator's classes and have confidence zero, except in samples that have no
    other candidate, where they share it evenly.
    """
    sets = without_grades(estimator, y)
    classes, candidates, _ = read_labels(sets, estimator.classes_, n_samples=_num_samples(X))
    n_known = len(estimator.classes_)
    if len(classes) == n_known:
        return classes, candidate_proba(estimator, X, y)
    proba = candidates.toarray() / np.diff(candidates.indptr)[:, None]
    seen = candidates[:, :n_known]
    rows = np.flatnonzero(np.diff(seen.indptr))
    proba[rows, n_known:] = 0.0
    if len(rows):
        found = _restricted(estimator, _safe_indexing(X, rows), seen[rows])
        proba[rows, :n_known] = found.toarray()
    return classes, sp.csr_array(proba)


def disambiguate(estimator: Any, X: Any, y: Any) -> np.ndarray:
    """Return the most likely candidate of each sample, by any classifier."""
    classes, proba = extended_candidate_proba(estimator, X, y)
    return classes[proba.argmax(axis=1)]


def _restricted(estimator: Any, X: Any, candidates: sp.csr_array) -> sp.csr_array:
    estimator, X = final_step(estimator, X)
    if hasattr(estimator, "_candidate_proba_of"):
        return estimator._candidate_proba_of(X, candidates)
    return candidate_softmax(predict_log_proba(estimator, X), candidates)
