"""What every estimator here shares: scoring against candidates or truth, and disambiguation."""

from __future__ import annotations

import functools

import numpy as np
import scipy.sparse as sp
from sklearn.base import ClassifierMixin
from sklearn.metrics import accuracy_score

from .candidates import check_candidates, covers

__all__ = ["PartialLabelMixin", "candidate_softmax", "refuse_truth"]


def refuse_truth(fit):
    """Decorate a ``fit`` so that true labels sent to it by mistake get a helpful refusal.

    Without metadata routing scikit-learn hands everything in ``params`` to `fit`.

    Parameters
    ----------
    fit : callable
        The method.

    Returns
    -------
    fit : callable
        The same, except that a keyword ``truth`` is explained.
    """

    @functools.wraps(fit)
    def checked(self, X, y, *args, **kwargs):
        if "truth" in kwargs:
            raise TypeError(
                "fit takes no truth: true labels only score. Write "
                "sklearn.set_config(enable_metadata_routing=True) once; then "
                'params={"truth": y} reaches scoring=truth_scorer and never fit'
            )
        return fit(self, X, y, *args, **kwargs)

    return checked


def candidate_softmax(log_proba: np.ndarray, candidates: sp.csr_array) -> sp.csr_array:
    """Restrict log-probabilities to the candidates and normalise each row.

    Parameters
    ----------
    log_proba : ndarray of shape (n_samples, n_classes)
        Log-probabilities, up to a constant per row; -inf is allowed.
    candidates : csr_array of shape (n_samples, n_classes), dtype bool
        What `check_candidates` returns.

    Returns
    -------
    proba : csr_array of shape (n_samples, n_classes)
        Zero outside the candidates; each row sums to one. A row whose candidates all have
        log-probability -inf is spread evenly.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_cleanse.base import candidate_softmax
    >>> from sklearn_cleanse.candidates import check_candidates
    >>> log_proba = np.log([[0.2, 0.2, 0.6], [0.1, 0.1, 0.8]])
    >>> _, candidates = check_candidates([[1, 1, 0], [1, 0, 1]])
    >>> candidate_softmax(log_proba, candidates).toarray().round(3)
    array([[0.5  , 0.5  , 0.   ],
           [0.111, 0.   , 0.889]])
    """
    starts, counts = candidates.indptr[:-1], np.diff(candidates.indptr)
    rows = np.repeat(np.arange(len(counts)), counts)
    values = np.asarray(log_proba)[rows, candidates.indices].astype(float)
    top = np.maximum.reduceat(values, starts)
    values = np.where(np.isneginf(top)[rows], 0.0, values)
    values = np.exp(values - np.where(np.isneginf(top), 0.0, top)[rows])
    values /= np.add.reduceat(values, starts)[rows]
    return sp.csr_array((values, candidates.indices, candidates.indptr), shape=candidates.shape)


class PartialLabelMixin(ClassifierMixin):
    """Mixin for classifiers that learn from candidate sets.

    It needs ``classes_`` and ``predict_log_proba`` (any row-wise order-preserving scores do).
    """

    def score(self, X, y, sample_weight=None, truth=None):
        """Score predictions by true labels if there are any, else by candidates.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Test samples.
        y : array-like
            Candidates in any form that `fit` takes, or true labels of shape (n_samples,).
        sample_weight : array-like of shape (n_samples,), default=None
            Sample weights.
        truth : array-like of shape (n_samples,), default=None
            True labels. They only score: `fit` has no such parameter. In cross-validation ask for
            them by ``estimator.set_score_request(truth=True)`` and pass
            ``params={"truth": y_true}``.

        Returns
        -------
        score : float
            Accuracy where ``truth`` is given or ``y`` is 1-D; otherwise the covering rate, the
            share of predictions that lie inside the candidate set.
        """
        predicted = self.predict(X)
        if truth is None and np.ndim(y) == 1 and not _is_collections(y):
            truth = y
        if truth is not None:
            return float(accuracy_score(truth, predicted, sample_weight=sample_weight))
        _, candidates = check_candidates(y, n_samples=len(predicted), classes=self.classes_)
        columns = _columns(predicted, self.classes_)
        return float(np.average(covers(candidates, columns), weights=sample_weight))

    def disambiguate(self, X, y, return_proba=False):
        """Tell the most likely candidate of each sample.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples.
        y : array-like
            Their candidates, in any form that `fit` takes.
        return_proba : bool, default=False
            Whether to return the confidence in each candidate as well.

        Returns
        -------
        labels : ndarray of shape (n_samples,)
            The most likely candidate of each sample, always one of its own.
        proba : ndarray of shape (n_samples, n_classes)
            Zero outside the candidates; rows sum to one. Only if ``return_proba`` is True.
        """
        log_proba = self.predict_log_proba(X)
        _, candidates = check_candidates(y, n_samples=len(log_proba), classes=self.classes_)
        proba = candidate_softmax(log_proba, candidates).toarray()
        labels = self.classes_[proba.argmax(axis=1)]
        return (labels, proba) if return_proba else labels


def _is_collections(y) -> bool:
    first = y.iloc[0] if hasattr(y, "iloc") else y[0]
    return isinstance(first, (set, frozenset, list, tuple))


def _columns(labels: np.ndarray, classes: np.ndarray) -> np.ndarray:
    position = {label: column for column, label in enumerate(classes.tolist())}
    return np.array([position[label] for label in labels.tolist()], dtype=np.int64)
