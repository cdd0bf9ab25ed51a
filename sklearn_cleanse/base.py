"""What every estimator here shares: scoring against candidates or truth, and disambiguation."""

from __future__ import annotations

import functools
from contextlib import contextmanager
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from ._model_file import ModelFile, write
from ._rows import SparseRows
from .candidates import check_index
from .metrics._measures import _accuracy, covering_rate
from .metrics._predictions import candidate_proba, without_grades
from .metrics._readers import report_unknown

__all__ = ["PartialLabelMixin", "refuse_truth"]


def __dir__() -> list[str]:
    return __all__  # without the imports of this file


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


@contextmanager
def unchanged_on_error(estimator):
    """Leave an estimator as it was if fitting it goes wrong.

    Parameters
    ----------
    estimator : object
        Its attributes are put back as they were before an error or an interrupt.
    """
    before = dict(estimator.__dict__)
    try:
        yield
    except BaseException:
        estimator.__dict__.clear()
        estimator.__dict__.update(before)
        raise


class PartialLabelMixin(ClassifierMixin):
    """Mixin for classifiers that learn from candidate sets.

    It needs ``classes_``, ``predict`` and ``predict_log_proba``. A classifier may define
    ``_candidate_proba_of(X, candidates)``, which takes and returns a csr_array, to find confidences
    among candidates in a way of its own.
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
        check_index(X, y, "y")
        check_index(X, truth, "truth")
        y = without_grades(self, y)
        predicted = self.predict(X)
        if truth is not None:
            return _accuracy(y, predicted, truth, self.classes_, sample_weight)
        report_unknown(y, self.classes_)
        # Plain labels are sets of one, for which the covering rate is the accuracy.
        return covering_rate(y, predicted, classes=self.classes_, sample_weight=sample_weight)

    @property
    def class_shares_(self):
        """Estimated share of each class among the training rows."""
        if getattr(self, "_class_mass", None) is None:
            raise AttributeError(f"{type(self).__name__} has no class_shares_")
        rows = self._class_mass + (self._class_mass > 0)
        return rows / rows.sum()

    def _prior_odds(self):
        """Return by how much the shares that are asked for exceed those of the training rows."""
        shares = check_class_prior(self.class_prior, self.classes_)
        own = self.class_shares_
        if isinstance(self.class_prior, str):
            shares = (own > 0) / (own > 0).sum()
        # Training rows say nothing about a class that is nobody's candidate: it stays as it is.
        return np.divide(shares, own, out=np.ones(len(own)), where=own > 0)

    def disambiguate(self, X, y, return_proba=False):
        """Return the most likely candidate of each sample.

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
        proba = candidate_proba(self, X, y)
        labels = self.classes_[proba.argmax(axis=1)]
        return (labels, proba.toarray()) if return_proba else labels

    def save(self, path):
        """Write the fitted model to a file that `sklearn_cleanse.load` reads without running code.

        Arrays are kept as safetensors and all else as JSON, in one file, which appears when it is
        complete or not at all. What predicts and explains is kept to the last bit, training rows
        included where these do so; not kept are callbacks, a generator as ``random_state`` and
        the optimiser's state.

        Parameters
        ----------
        path : str or path-like
            The file, which is replaced if it exists.

        Returns
        -------
        self : object
            The estimator.

        Examples
        --------
        >>> import tempfile
        >>> from pathlib import Path
        >>> from sklearn_cleanse import CleanSEKernelClassifier, load
        >>> clf = CleanSEKernelClassifier().fit([[0.0], [0.1], [1.0]], [{"a"}, {"a", "b"}, {"b"}])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     _ = clf.save(Path(folder, "model.safetensors"))
        ...     again = load(Path(folder, "model.safetensors"))
        >>> again.predict([[0.2], [0.9]])
        array(['a', 'b'], dtype='<U1')
        """
        check_is_fitted(self)
        if type(self).__module__.partition(".")[0] != __package__:
            raise ValueError(
                f"save keeps this package's own estimators, and {type(self).__name__} is derived "
                "from one; pickle it"
            )
        common = {"classes": self.classes_, "n_features_in": self.n_features_in_}
        common["feature_names_in"] = getattr(self, "feature_names_in_", None)
        common["class_mass"] = getattr(self, "_class_mass", None)
        state = {**common, **self._state()}
        write(path, type(self).__name__, self._params_to_save(), state)
        return self

    def _params_to_save(self):
        params = self.get_params(deep=False)
        if "device" in params:
            params["device"] = str(self.device)
        if isinstance(params.get("random_state"), np.random.RandomState):
            params["random_state"] = None
        if not isinstance(params.get("class_prior"), (str, type(None))):
            params["class_prior"] = _in_order(self.class_prior, self.classes_).tolist()
        return params

    def _restore(self, file: ModelFile):
        """Take from a file what all estimators have; each adds what is its own."""
        self._validate_params()
        self.classes_ = file.labels("classes")
        self.n_features_in_ = file.value("n_features_in", int)
        if file.has("feature_names_in"):
            self.feature_names_in_ = file.labels("feature_names_in")
            if len(self.feature_names_in_) != self.n_features_in_:
                raise ValueError(f"feature_names_in are not {self.n_features_in_}")
        if file.has("class_mass"):
            self._class_mass = file.array("class_mass", "f", (len(self.classes_),))
            if not ((self._class_mass >= 0).all() and self._class_mass.any()):
                raise ValueError("class_mass has a negative number, or none above zero")


def check_class_prior(class_prior, classes) -> np.ndarray | None:
    """Return the shares of the classes, None if none are asked for, or raise."""
    if class_prior is None:
        return None
    if isinstance(class_prior, str) and class_prior == "uniform":
        return np.full(len(classes), 1 / len(classes))
    shares = _in_order(class_prior, classes)
    return shares / shares.sum()


def _in_order(class_prior, classes) -> np.ndarray:
    """Return a number per class, in the order of the classes: a dict or a Series names them."""
    given = class_prior.to_dict() if hasattr(class_prior, "to_dict") else class_prior
    if isinstance(given, dict):
        if len(given) < len(class_prior):
            raise ValueError("class_prior names a class more than once; it must name each once")
        names = classes.tolist()
        said = [f"names {label!r}, which is no class" for label in given if label not in names][:1]
        said += [f"has no share for {label!r}" for label in names if label not in given][:1]
        if said:
            raise ValueError(
                f"class_prior {' and '.join(said)}; a dict or a Series must name each of classes_ "
                "once. A list or an array is taken in their order"
            )
        given = [given[label] for label in names]
    try:
        shares = np.asarray(given, dtype=float)
    except (TypeError, ValueError):
        shares = np.empty(0)
    in_range = shares.shape == (len(classes),) and (shares >= 0).all()
    if not (in_range and 0 < shares.sum() < np.inf):
        raise ValueError(
            f"class_prior is {class_prior!r}; it must be None, 'uniform', or {len(classes)} "
            "numbers, none of them negative, one per class: a dict or a Series by label, anything "
            "else in the order of classes_"
        )
    return shares


def class_mass(proba, candidates, sample_weight=None) -> np.ndarray:
    """Return how many rows each class is believed to have: 0 for one that is nobody's candidate.

    Parameters
    ----------
    proba : {ndarray, csr_array} of shape (n_samples, n_classes)
        Belief in each label.
    candidates : csr_array of shape (n_samples, n_classes), dtype bool
    sample_weight : ndarray of shape (n_samples,), default=None
        How many rows each counts for.

    Returns
    -------
    mass : ndarray of shape (n_classes,)
    """
    weight = np.ones(proba.shape[0]) if sample_weight is None else sample_weight
    known = np.asarray(candidates.T @ weight).ravel() > 0
    # A candidate that nobody believes in is known all the same.
    return np.where(known, np.maximum(proba.T @ weight, 1e-9), 0.0)


def content_rank(X: np.ndarray | SparseRows, candidates: sp.csr_array) -> np.ndarray:
    """Rank rows by what they hold.

    Shuffling from this order makes training independent of the order in which rows come. The
    order itself means nothing.
    """
    if isinstance(X, SparseRows):
        rows = np.array(X.keys(), dtype=object)
    else:
        flat = np.ascontiguousarray(X).reshape(len(X), -1)
        rows = flat.view(np.dtype((np.void, flat.dtype.itemsize * flat.shape[1]))).ravel()
    order = np.argsort(rows, kind="stable")
    new = np.ones(len(X), dtype=bool)
    for start in range(0, len(X) - 1, 2**14):  # block by block, as this copies rows
        block = rows[order[start : start + 2**14 + 1]]
        new[start + 1 : start + len(block)] = block[1:] != block[:-1]
    rank = np.empty(len(X), dtype=np.int64)
    rank[order] = np.cumsum(new)
    if not new.all():  # equal features: the candidates decide, by a number that stands for the set
        key = candidates @ np.random.RandomState(0).uniform(size=candidates.shape[1])
        rank[np.lexsort((key, rank))] = np.arange(len(X))
    return rank


def first_equals(
    X: np.ndarray | SparseRows,
    candidates: sp.csr_array,
    rows: np.ndarray,
    by_content: np.ndarray,
) -> np.ndarray:
    """Return for each row the first one that has the same features and the same candidates.

    Parameters
    ----------
    X : ndarray of shape (n_samples, ...)
    candidates : csr_array of shape (n_rows, n_classes), dtype bool
        Candidates of the rows given next.
    rows : ndarray of shape (n_rows,), dtype int
        Row numbers of X.
    by_content : ndarray of shape (n_rows,), dtype int
        Positions in ``rows``, in the order of `content_rank`, so that equal rows are side by side.

    Returns
    -------
    first : ndarray of shape (n_rows,), dtype int
        Positions in ``rows``.
    """
    n_rows = len(rows)
    key = candidates @ np.random.RandomState(0).uniform(size=candidates.shape[1])
    is_new = np.ones(n_rows, dtype=bool)
    for start in range(1, n_rows, 2**14):  # block by block, as this copies rows
        ours = by_content[start : start + 2**14]
        before = by_content[start - 1 : start - 1 + len(ours)]
        differ = _differ(X[rows[ours]], X[rows[before]])
        is_new[start : start + len(ours)] = differ | (key[ours] != key[before])
    first = np.empty(n_rows, dtype=np.int64)
    first[by_content] = by_content[np.maximum.accumulate(np.where(is_new, np.arange(n_rows), 0))]
    return first


def _differ(A: Any, B: Any) -> np.ndarray:
    """Return which rows of two blocks differ; a gap (NaN) equals a gap."""
    if isinstance(A, SparseRows):
        return np.array([a != b for a, b in zip(A.keys(), B.keys(), strict=True)], dtype=bool)
    differ = (A != B) & ((A == A) | (B == B))
    return differ.reshape(len(A), -1).any(axis=1)
