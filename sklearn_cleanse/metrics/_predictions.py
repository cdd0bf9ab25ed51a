"""Predictions of any fitted classifier: labels, log-probabilities, disambiguated labels."""

from typing import Any, cast

import numpy as np
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from ..candidates import Candidates, candidate_softmax, check_candidates
from ._readers import read_labels


def final_step(fitted: Any, X: Any = None) -> tuple[Any, Any]:
    """Return the estimator at the end of a fitted pipeline or search, and X as it takes it."""
    check_is_fitted(fitted)
    if isinstance(fitted, Pipeline):
        X = X if X is None or len(fitted) == 1 else fitted[:-1].transform(X)
        return final_step(fitted[-1], X)
    if hasattr(fitted, "best_estimator_"):
        return final_step(fitted.best_estimator_, X)
    if hasattr(fitted, "refit"):
        raise ValueError(
            f"{type(fitted).__name__} must hold a fitted estimator, got one with refit=False. Fit "
            "it with refit=True, or fit an estimator with its best_params_."
        )
    return fitted, X


def predict_labels(estimator: Any, X: Any, y: Any = None) -> np.ndarray:
    """Return the predicted labels. ``y`` is ignored: scorers pass it to all three functions."""
    return cast(np.ndarray, estimator.predict(X))


def predict_log_proba(estimator: Any, X: Any, y: Any = None) -> np.ndarray:
    """Return the logarithm of the probability of each class. ``y`` is ignored."""
    if hasattr(estimator, "predict_log_proba"):
        return cast(np.ndarray, estimator.predict_log_proba(X))
    with np.errstate(divide="ignore"):
        return cast(np.ndarray, np.log(estimator.predict_proba(X)))


def candidate_proba(estimator: Any, X: Any, candidates: Candidates) -> np.ndarray:
    """Return the probability of each candidate by any fitted classifier, pipeline or search."""
    inner, X = final_step(estimator, X)
    if hasattr(inner, "disambiguate"):
        return cast(np.ndarray, inner.disambiguate(X, candidates, return_proba=True)[1])
    return candidate_softmax(predict_log_proba(inner, X), candidates.mask, candidates.prior)


def disambiguate(estimator: Any, X: Any, y: Any) -> np.ndarray:
    """Return the most likely candidate of each sample, which may be a label that fit never saw."""
    candidates, _ = read_labels(y, estimator.classes_)
    classes, mask, n_known = candidates.classes, candidates.mask, len(estimator.classes_)
    # A label that fit never saw is chosen only where no other is a candidate.
    unseen = np.all(~mask[:, :n_known], axis=1)
    if len(classes) > n_known:
        known = mask[:, :n_known] | unseen[:, None]
        candidates = check_candidates(known, classes=estimator.classes_)
    columns = candidate_proba(estimator, X, candidates).argmax(axis=1)
    return np.asarray(classes[np.where(unseen, mask.argmax(axis=1), columns)])
