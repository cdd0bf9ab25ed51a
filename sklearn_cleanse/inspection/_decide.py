"""Labels, prediction sets and rows to label next, by any fitted estimator, pipeline or search."""

from numbers import Integral, Real
from typing import Any

import numpy as np
import pandas as pd
from sklearn.utils._param_validation import Interval, validate_params
from sklearn.utils.validation import _num_samples

from ..candidates import Candidates, check_candidates, check_index
from ..metrics._predictions import candidate_proba, final_step

#: Arguments of `validate_params`: what these functions call checks its own parameters as well.
CHECK = {"prefer_skip_nested_validation": False}


@validate_params({"return_proba": ["boolean"]}, **CHECK)
def disambiguate(
    estimator: Any, X: Any, S: Any, *, return_proba: bool = False
) -> np.ndarray | tuple[np.ndarray, np.ndarray]:
    """Return the most likely candidate of each sample.

    Parameters
    ----------
    estimator : classifier
        A fitted estimator, a pipeline that ends in one, or a search that was refitted. Without
        `disambiguate` it needs ``predict_proba``, which is then restricted to the candidates.
    X : array-like of shape (n_samples, n_features)
        Samples, as ``estimator.predict`` takes them.
    S : array-like
        Their candidates, in any form that `fit` takes.
    return_proba : bool, default=False
        Whether to return the probability of each candidate as well.

    Returns
    -------
    labels : ndarray of shape (n_samples,)
        The most likely candidate of each sample, always one of its own.
    proba : ndarray of shape (n_samples, n_classes)
        Zero outside the candidates; rows sum to one. Columns are in the order of
        ``estimator.classes_``. Only if ``return_proba`` is True.

    Examples
    --------
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from sklearn_cleanse import CleanSEKernelClassifier
    >>> from sklearn_cleanse.inspection import disambiguate
    >>> X, S = [[0.0], [0.1], [0.9], [1.0]], [{"low"}, {"low", "high"}, {"low", "high"}, {"high"}]
    >>> pipe = make_pipeline(StandardScaler(), CleanSEKernelClassifier()).fit(X, S)
    >>> disambiguate(pipe, X, S)
    array(['low', 'low', 'high', 'high'], dtype='<U4')
    """
    candidates, proba = read_proba(estimator, X, S)
    labels = candidates.classes[proba.argmax(axis=1)]
    return (labels, proba) if return_proba else labels


def read_proba(estimator: Any, X: Any, S: Any) -> tuple[Candidates, np.ndarray]:
    """Return the candidates, in the estimator's classes, and the probability of each."""
    inner, _ = final_step(estimator)
    remedy = "Fit CleanSEKernelClassifier, or wrap a classifier in CalibratedClassifierCV."
    _check_has(inner, ["predict_proba", "disambiguate"], remedy)
    candidates = read_sets(X, S, inner.classes_)
    return candidates, candidate_proba(estimator, X, candidates)


def _check_has(inner: Any, methods: list[str], remedy: str) -> None:
    if not any(hasattr(inner, method) for method in methods):
        raise ValueError(f"`estimator` must have `{methods[0]}`, got {inner!r:.300}. {remedy}")


def read_sets(X: Any, S: Any, classes: Any = None) -> Candidates:
    """Return the candidates; messages call them `S`, as the parameter is called here."""
    check_index(X, S, "S")
    try:
        return check_candidates(S, n_samples=_num_samples(X), classes=classes)
    except ValueError as error:
        raise ValueError(str(error).replace("`y`", "`S`")) from error


@validate_params({"coverage": [Interval(Real, 0, 1, closed="neither")]}, **CHECK)
def predict_set(estimator: Any, X: Any, *, coverage: float = 0.9) -> np.ndarray:
    """Return for each sample a set of labels that holds the true one about as often as requested.

    Parameters
    ----------
    estimator : classifier
        A fitted `CleanSEKernelClassifier` or `CleanSEClassifier`, a pipeline that ends in one, or a
        search that was refitted.
    X : array-like of shape (n_samples, n_features)
        Samples, as ``estimator.predict`` takes them.
    coverage : float in (0, 1), default=0.9
        Proportion of new rows that should have the true label in their set.

    Returns
    -------
    sets : ndarray of shape (n_samples, n_classes), dtype bool
        Columns in the order of ``estimator.classes_``. It is itself a valid candidate matrix.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from sklearn_cleanse import CleanSEKernelClassifier
    >>> from sklearn_cleanse.inspection import predict_set
    >>> X, y = load_iris(return_X_y=True)
    >>> pipe = make_pipeline(StandardScaler(), CleanSEKernelClassifier()).fit(X[::2], y[::2])
    >>> sets = predict_set(pipe, X[1::2])
    >>> sets.shape
    (75, 3)
    >>> bool(sets[range(75), y[1::2]].mean() > 0.8)
    True
    """
    inner, Z = final_step(estimator, X)
    _check_has(inner, ["predict_set"], "Use CleanSEKernelClassifier or CleanSEClassifier.")
    return np.asarray(inner.predict_set(Z, coverage=coverage))


@validate_params({"n": [Interval(Integral, 1, None, closed="left")]}, **CHECK)
def rank_for_labeling(estimator: Any, X: Any, S: Any, *, n: int = 50) -> pd.DataFrame:
    """Rank the ambiguous rows whose label is most worth asking for, closest calls first.

    These are rows to label next, by the margin between their two likeliest candidates. For rows
    whose candidates look wrong, see `find_candidate_issues`.

    Parameters
    ----------
    estimator : classifier
        A fitted estimator, a pipeline that ends in one, or a search that was refitted.
    X : array-like of shape (n_samples, n_features)
        Samples, training rows or others.
    S : array-like
        Their candidates, in any form that `fit` takes.
    n : int, default=50
        Number of rows to return, at most.

    Returns
    -------
    ranking : DataFrame
        Rows with several candidates. Columns: "row" (by the index of X or S if one of them has an
        index, otherwise the position), "candidates" (a list, likeliest first), "suggested" (the
        likeliest), "probability" (of this one) and "margin" (to the next).

    Examples
    --------
    >>> from sklearn_cleanse import CleanSEKernelClassifier
    >>> from sklearn_cleanse.inspection import rank_for_labeling
    >>> X = [[0.0], [0.1], [0.4], [0.9], [1.0]]
    >>> S = [{"low"}, {"low", "high"}, {"low", "high"}, {"low", "high"}, {"high"}]
    >>> model = CleanSEKernelClassifier().fit(X, S)
    >>> ranking = rank_for_labeling(model, X, S, n=2)
    >>> ranking[["row", "candidates", "suggested"]]
       row   candidates suggested
    0    2  [low, high]       low
    1    3  [high, low]      high
    """
    candidates, proba = read_proba(estimator, X, S)
    order = np.argsort(-proba, axis=1, kind="stable")
    first, second, *_ = np.take_along_axis(proba, order, axis=1).T
    ambiguous = np.flatnonzero(~candidates.is_clean)
    rows = ambiguous[np.argsort((first - second)[ambiguous], kind="stable")[:n]]
    names = candidates.classes
    return pd.DataFrame(
        {
            "row": row_labels(X, S)[rows],
            "candidates": [names[order[r][candidates.mask[r, order[r]]]].tolist() for r in rows],
            "suggested": names[order[rows, 0]],
            "probability": first[rows],
            "margin": (first - second)[rows],
        }
    )


def row_labels(X: Any, S: Any = None) -> pd.Index:
    """Return the index of X or S, whichever has one, otherwise positions."""
    return next((t.index for t in (X, S) if hasattr(t, "iloc")), pd.RangeIndex(_num_samples(X)))
