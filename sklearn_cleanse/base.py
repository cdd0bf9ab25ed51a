"""What all estimators share: scoring, disambiguation and class priors."""

import functools
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import joblib
import numpy as np
from scipy.special import log_softmax
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import _num_samples, check_is_fitted
from threadpoolctl import ThreadpoolController

from .candidates import check_candidates, check_index
from .features import check_features
from .metrics import covering_rate
from .metrics._measures import true_accuracy

__all__ = ["PartialLabelMixin"]

#: Multiplications that keep a thread busy: up to there a second thread takes at most a fifth off
#: the time of a training step, and on a busy machine it can make the step ten times slower.
WORK_PER_THREAD = 30_000_000

#: Limits of threads that are in force, and what guards the list.
_LIMITS: list[Any] = []
_LOCK = threading.Lock()


class PartialLabelMixin(ClassifierMixin):
    """Mixin for classifiers that learn from candidates.

    A subclass has ``classes_``, ``predict`` and ``_candidate_proba_of(X, candidates)``, which
    returns the probability of each candidate as an array of shape (n_samples, n_classes).
    """

    def score(self, X, y, sample_weight=None, truth=None):
        """Return the accuracy if true labels are given, otherwise the covering rate.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Test samples.
        y : array-like
            Candidates in any form that `fit` takes, or true labels of shape (n_samples,).
        sample_weight : array-like of shape (n_samples,), default=None
            Sample weights.
        truth : array-like of shape (n_samples,), default=None
            True labels. They only score: `fit` has no such parameter. In cross-validation, request
            them by ``estimator.set_score_request(truth=True)`` and pass
            ``params={"truth": y_true}``.

        Returns
        -------
        score : float
            Accuracy if ``truth`` is given or ``y`` is 1-D; otherwise the covering rate, which is
            the proportion of predictions that are candidates.
        """
        for name, part in (("y", y), ("truth", truth), ("sample_weight", sample_weight)):
            check_index(X, part, name)
        predicted = self.predict(X)
        if truth is not None:
            weighted = {"classes": self.classes_, "sample_weight": sample_weight}
            return true_accuracy(y, predicted, truth, **weighted)
        # A label is a set of one, whose covering rate is the accuracy.
        return covering_rate(y, predicted, classes=self.classes_, sample_weight=sample_weight)

    def disambiguate(self, X, y, return_proba=False):
        """Return the most likely candidate of each sample.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples.
        y : array-like
            Their candidates, in any form that `fit` takes.
        return_proba : bool, default=False
            Whether to return the probability of each candidate as well.

        Returns
        -------
        labels : ndarray of shape (n_samples,)
            The most likely candidate of each sample, always one of its own.
        proba : ndarray of shape (n_samples, n_classes)
            Zero outside the candidates; rows sum to one. Only if ``return_proba`` is True.
        """
        check_is_fitted(self)
        check_index(X, y)
        candidates = check_candidates(y, n_samples=_num_samples(X), classes=self.classes_)
        proba = self._candidate_proba_of(X, candidates)
        labels = self.classes_[proba.argmax(axis=1)]
        return (labels, proba) if return_proba else labels

    @property
    def class_proportions_(self):
        """Estimated proportion of each class among the training rows, of shape (n_classes,)."""
        mass = getattr(self, "_class_mass", None)
        if mass is None:
            raise AttributeError(f"{type(self).__name__} has no class_proportions_")
        rows = mass + (mass > 0)
        return rows / rows.sum()

    def save(self, path):
        """Write the fitted model to a file that `load_model` reads without running code.

        Parameters
        ----------
        path : str or path-like
            The file, which is replaced if it exists.

        Returns
        -------
        self : object
            The estimator.

        See Also
        --------
        sklearn_cleanse.load_model : Read the file.
        """
        from .persistence import save

        save(self, path)
        return self

    def _prior_odds(self) -> np.ndarray:
        """Return the ratio of the requested class proportions to those of the training rows."""
        wanted: Any = check_class_prior(self.class_prior, self.classes_)
        own = self.class_proportions_
        if isinstance(self.class_prior, str):
            wanted = (own > 0) / (own > 0).sum()
        # The training rows carry no information on a class that is never a candidate.
        return np.divide(wanted, own, out=np.ones(len(own)), where=own > 0)


class ProbabilityMixin(PartialLabelMixin):
    """Mixin for classifiers that compute probabilities from features of any form.

    A subclass has ``_log_proba(X)``, which returns the logarithm of each class's probability for
    checked features, without class prior.
    """

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = tags.input_tags.allow_nan = True
        return tags

    def _check_X(self, X):
        """Return new features, checked."""
        check_is_fitted(self)
        return check_features(self, X, reset=False, allow_images=True)

    def predict_log_proba(self, X):
        """Return the logarithm of each class's probability.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features) or (n_samples, channels, height, width)
            Samples.

        Returns
        -------
        log_proba : ndarray of shape (n_samples, n_classes)
        """
        log_proba = self._log_proba(self._check_X(X))
        if self.class_prior is None:
            return log_proba
        with np.errstate(divide="ignore"):  # a class whose proportion is set to 0
            return log_softmax(log_proba + np.log(self._prior_odds()), axis=1)

    def predict_proba(self, X):
        """Return the probability of each class.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features) or (n_samples, channels, height, width)
            Samples.

        Returns
        -------
        proba : ndarray of shape (n_samples, n_classes)
            Columns in the order of ``classes_``. Those of kernel votes, and of a network with a
            kernel voter, are calibrated without true labels.
        """
        return np.exp(self.predict_log_proba(X))

    def to_onnx(self, path):
        """Write the model as an ONNX file, for runtimes without Python or torch.

        Parameters
        ----------
        path : str or path-like
            The file, which is replaced if it exists. It takes raw features and returns
            probabilities as `predict_proba` does; its metadata hold ``classes`` as JSON. Where a
            kernel predicts, it contains training rows. Needs the extra ``export``.

        Returns
        -------
        self : object
            The estimator.
        """
        from .onnx import write_onnx

        write_onnx(self, path)
        return self


def refuse_truth(fit: Callable) -> Callable:
    """Decorate a ``fit`` so that ``fit(truth=...)`` raises an error that explains the routing."""

    @functools.wraps(fit)
    def checked(self, X, y, *args, **kwargs):
        if "truth" in kwargs:
            # Without metadata routing scikit-learn passes everything in `params` to `fit`.
            raise TypeError(
                "`fit` has no parameter `truth`: true labels only score. Call "
                "sklearn.set_config(enable_metadata_routing=True) once; then "
                'params={"truth": y} reaches scoring=true_accuracy_scorer and never `fit`.'
            )
        return fit(self, X, y, *args, **kwargs)

    return checked


@contextmanager
def unchanged_on_error(estimator: Any) -> Iterator[None]:
    """Restore the estimator's attributes if the block raises or is interrupted."""
    before = dict(vars(estimator))
    try:
        yield
    except BaseException:
        vars(estimator).clear()
        vars(estimator).update(before)
        raise


def check_class_prior(class_prior: Any, classes: np.ndarray) -> np.ndarray | None:
    """Return the requested class proportions, None if none are requested, or raise."""
    if class_prior is None:
        return None
    if isinstance(class_prior, str) and class_prior == "uniform":
        return np.full(len(classes), 1 / len(classes))
    given = class_prior.to_dict() if hasattr(class_prior, "to_dict") else class_prior
    if isinstance(given, dict):
        names = classes.tolist()
        wrong = [f"{label!r}, which is not a class" for label in given if label not in names]
        wrong += [f"nothing for class {label!r}" for label in names if label not in given]
        wrong += ["a class twice"] * (len(given) < len(class_prior))
        if wrong:
            raise ValueError(
                f"`class_prior` must name each of classes_ once, got {wrong[0]}. Pass one number "
                "per class, or a list in the order of classes_."
            )
        given = [given[label] for label in names]
    prior: np.ndarray
    try:
        prior = np.ma.filled(np.ma.asarray(given, dtype=float), np.nan)
    except (TypeError, ValueError):
        prior = np.empty(0)
    in_range = prior.shape == (len(classes),) and (prior >= 0).all()
    if not (in_range and 0 < prior.sum() < np.inf):
        raise ValueError(
            f"`class_prior` must be None, 'uniform' or {len(classes)} non-negative numbers, one "
            f"per class, got {class_prior!r}. Pass a dict by label, or a list in the order of "
            "classes_."
        )
    return prior / prior.sum()


def class_mass(
    proba: np.ndarray, mask: np.ndarray, sample_weight: np.ndarray | None = None
) -> np.ndarray:
    """Return the expected number of rows of each class, 0 for one that is never a candidate."""
    weight = np.ones(len(proba)) if sample_weight is None else sample_weight
    # A candidate whose probability is 0 everywhere is still a known class.
    return np.where(weight @ mask > 0, np.maximum(weight @ proba, 1e-9), 0.0)


@functools.cache
def _thread_pools(with_torch: bool) -> ThreadpoolController:
    """Find the pools of threads, which takes 8 ms: once without torch, once with it."""
    return ThreadpoolController()


@contextmanager
def limit_threads(work: float) -> Iterator[None]:
    """Limit threads to those that so many multiplications keep busy; a user's setting wins."""
    torch, pools = sys.modules.get("torch"), _thread_pools("torch" in sys.modules)
    by_default = (joblib.cpu_count(), joblib.cpu_count(only_physical_cores=True))
    is_set = any(os.environ.get(f"{kind}_NUM_THREADS") for kind in ("OMP", "MKL", "OPENBLAS"))
    is_set |= torch is not None and torch.get_num_threads() not in by_default
    n_threads = max(1.0, work / WORK_PER_THREAD)
    larger = [n for pool in pools.info() if (n := pool["num_threads"]) > n_threads]
    if is_set or not larger:
        yield
        return
    with _LOCK:
        _LIMITS.append(pools.select(num_threads=larger).limit(limits=int(n_threads)))
    try:
        yield
    finally:
        with _LOCK:  # limits of several threads overlap: only the first has found what was before
            _LIMITS[0].restore_original_limits()
            _LIMITS.pop()


def choose_device(device: Any) -> str:
    """Return the device to use: for "auto" the best available of CUDA, MPS and CPU."""
    import torch  # PL-CGR and DPCLS do without

    if str(device) != "auto":
        try:
            found = torch.zeros(1, device=device) + 1
            if found.item() == 1:
                return str(found.device)
        except (RuntimeError, AssertionError, NotImplementedError) as error:
            raise ValueError(
                f"`device` must be available, got {device!r} ({error}). Pass 'auto' or 'cpu'."
            ) from error
    if torch.cuda.is_available():
        return "cuda"
    return "mps" if torch.backends.mps.is_available() else "cpu"
