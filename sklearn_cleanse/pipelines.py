"""The estimator inside a fitted pipeline or search."""

from __future__ import annotations

from typing import Any

from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

__all__ = ["final_step"]


def __dir__() -> list[str]:
    return __all__  # without the imports of this file


def final_step(fitted: Any, X: Any = None) -> tuple[Any, Any]:
    """Return the estimator at the end of a fitted pipeline or search, and what it sees of X.

    Pipelines and searches pass ``predict`` on, but not `disambiguate`, `explain` or attributes such
    as ``candidate_proba_``. They are those of the estimator at the end, for features that the steps
    before it have transformed.

    Parameters
    ----------
    fitted : estimator, Pipeline or search
        A fitted estimator, a pipeline that ends in one, a search that was refitted, or any nesting
        of these.
    X : array-like of shape (n_samples, n_features), default=None
        Samples as ``fitted`` takes them.

    Returns
    -------
    estimator : object
        The estimator at the end.
    X : array-like of shape (n_samples, n_transformed_features) or None
        The samples as it takes them; None if none were given.

    Examples
    --------
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from sklearn_cleanse import CleanSEKernelClassifier, final_step
    >>> X, S = [[0.0], [0.1], [0.9], [1.0]], [{"low"}, {"low", "high"}, {"low", "high"}, {"high"}]
    >>> pipe = make_pipeline(StandardScaler(), CleanSEKernelClassifier()).fit(X, S)
    >>> model, Z = final_step(pipe, X)
    >>> model.disambiguate(Z, S)
    array(['low', 'low', 'high', 'high'], dtype='<U4')
    """
    check_is_fitted(fitted)
    if isinstance(fitted, Pipeline):
        if fitted[-1] in ("passthrough", None):
            raise ValueError(
                f"the last step of this pipeline, {fitted.steps[-1][0]!r}, is {fitted[-1]!r} and "
                "no estimator; end the pipeline in one"
            )
        if len(fitted) > 1 and X is not None:
            X = fitted[:-1].transform(X)
        return final_step(fitted[-1], X)
    if hasattr(fitted, "best_estimator_"):
        return final_step(fitted.best_estimator_, X)
    if hasattr(fitted, "refit"):
        raise ValueError(
            f"this {type(fitted).__name__} holds no fitted estimator, as it has refit=False; fit "
            "it with refit=True, or fit an estimator with its best_params_"
        )
    return fitted, X
