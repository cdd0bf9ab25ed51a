"""The base class of the kernel methods."""

from __future__ import annotations

import sys
from numbers import Integral, Real
from typing import ClassVar

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator
from sklearn.utils import gen_batches
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted, validate_data

from .._rows import refuse_text
from .._warn import warn_caller
from ..base import PartialLabelMixin, refuse_truth, unchanged_on_error
from ..candidates import check_candidates, check_index
from ._saving import (
    SCALERS,
    feature_map_from_file,
    feature_map_state,
    scaler_from_file,
    scaler_state,
)
from ._steps import project_simplex

MAX_MAGNITUDE = 1e150  # squares of larger values, summed over rows or columns, may overflow


def check_magnitude(X, smallest=0.0):
    """Return X unless its largest value, by magnitude, has no square in double precision."""
    largest = max(X.max(), -X.min())
    if largest > MAX_MAGNITUDE or 0 < largest < smallest:
        row = np.flatnonzero(np.abs(X).max(axis=1) == largest)[0]
        raise ValueError(
            f"the largest value of X, {largest:.3g} in row {row}, cannot be squared in double "
            f"precision; rescale the features so that it lies between {1 / MAX_MAGNITUDE:.0e} and "
            f"{MAX_MAGNITUDE:.0e}"
        )
    return X


def warn_in_group(name):
    """Warn that a process group has no part in the fit of a kernel method."""
    dist = sys.modules.get("torch.distributed")  # without it there is no group
    grouped = dist is not None and dist.is_available() and dist.is_initialized()
    if grouped and dist.get_world_size() > 1:
        warn_caller(
            f"{name} fits the rows of this process alone; the process group is not used. For one "
            "model of all ranks' rows use CleanSEClassifier"
        )


class KernelClassifier(PartialLabelMixin, BaseEstimator):
    """Checks, scaling, the limit on memory, and prediction from the outputs of the ridge."""

    _parameter_constraints: ClassVar[dict] = {
        "ridge": [Interval(Real, 0, None, closed="neither")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        # the kernel needs its square and the inverse of that
        "length_scale": [Interval(Real, 1e-150, 1e150, closed="both"), None],
        "normalize": [StrOptions({name for name in SCALERS if name}), None],
        "max_memory": [Interval(Real, 0, None, closed="neither")],
        "verbose": ["verbose"],
    }

    @refuse_truth
    def fit(self, X, y):
        """Fit the model to candidate labels.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Training samples.
        y : {array-like, sparse matrix, DataFrame} of shape (n_samples, n_classes), list of \
                n_samples label collections, or array-like of shape (n_samples,)
            Candidate labels, as `sklearn_cleanse.candidates.check_candidates` reads them.

        Returns
        -------
        self : object
            The fitted estimator.
        """
        self._validate_params()
        warn_in_group(type(self).__name__)
        check_index(X, y)
        with unchanged_on_error(self):
            X = check_magnitude(self._check_X(X, reset=True), smallest=1 / MAX_MAGNITUDE)
            self.classes_, candidates = check_candidates(y, n_samples=len(X))
            self._check_memory(candidates)
            self.scaler_ = SCALERS[self.normalize]()
            ridge, self.candidate_proba_, self.n_iter_ = self._train(
                self.scaler_.fit_transform(X), candidates.toarray()
            )
            # only what prediction needs: the n×n factor would make every pickle n×n
            self.feature_map_, self.coef_ = ridge.feature_map, ridge.coef
            self.intercept_ = ridge.intercept
        return self

    #: Further attributes that prediction does not need, each of shape (n_classes,).
    _per_class: ClassVar[tuple[str, ...]] = ()

    def _state(self):
        """Return what a file keeps of this estimator."""
        return {
            "candidate_proba": self.candidate_proba_,
            "coef": self.coef_,
            "intercept": self.intercept_,
            "n_iter": self.n_iter_,
            "scaler": scaler_state(self.scaler_),
            "feature_map": feature_map_state(self.feature_map_),
            **{name: getattr(self, name) for name in self._per_class},
        }

    def _restore(self, file):
        super()._restore(file)
        n_classes = len(self.classes_)
        self.scaler_ = scaler_from_file(file, self.n_features_in_)
        self.feature_map_, n_outputs = feature_map_from_file(file, self.n_features_in_)
        self.coef_ = file.array("coef", "f", (n_outputs, n_classes))
        self.intercept_ = file.array("intercept", "f", (n_classes,))
        self.candidate_proba_ = file.array("candidate_proba", "f", (None, n_classes))
        self.n_iter_ = file.value("n_iter", int)
        for name in self._per_class:
            setattr(self, name, file.array(name, "f", (n_classes,)))

    def _check_X(self, X, reset):
        name = type(self).__name__
        refuse_text(X, name)
        X = validate_data(self, X, dtype=np.float64, reset=reset, ensure_all_finite="allow-nan")
        if np.isnan(X).any():
            row, column = np.argwhere(np.isnan(X))[0]
            raise ValueError(
                f"row {row}, column {column} of X is NaN, which {name} does not take; fill gaps by "
                f"make_pipeline(SimpleImputer(add_indicator=True), {name}()), or use "
                "CleanSEKernelClassifier, which takes them"
            )
        return X

    def _check_memory(self, candidates):
        n_samples, n_classes = candidates.shape
        columns, remedy = self._memory_columns(candidates)
        columns += 14 * n_classes + 2 * self.n_features_in_
        need = 8 * n_samples * columns / 2**30
        if need > self.max_memory:
            raise MemoryError(
                f"{n_samples} samples need about {need:.3g} GiB, more than "
                f"max_memory={self.max_memory!r} GiB; fit a random subset of the rows, "
                f"{remedy}, or raise max_memory if the machine has more"
            )

    def _outputs(self, X):
        check_is_fitted(self)
        X = check_magnitude(self._check_X(X, reset=False))
        X = self.scaler_.transform(X)
        outputs = np.empty((len(X), len(self.classes_)))
        for rows in gen_batches(len(X), max(1, 2**24 // len(self.coef_))):
            outputs[rows] = self.feature_map_.transform(X[rows]) @ self.coef_
        return outputs + self.intercept_

    def decision_function(self, X):
        """Compute the outputs of the kernel ridge regression.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        scores : ndarray of shape (n_samples, n_classes), or (n_samples,) for two classes
            Outputs per class, which sum to one; for two classes, the second minus the first.
        """
        outputs = self._outputs(X)
        return outputs[:, 1] - outputs[:, 0] if outputs.shape[1] == 2 else outputs

    def predict(self, X):
        """Predict the class of the largest output.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        labels : ndarray of shape (n_samples,)
            Predicted labels, out of ``classes_``.
        """
        outputs = self._outputs(X)
        return self.classes_[outputs.argmax(axis=1)]

    def predict_proba(self, X):
        """Compute the distribution over the classes that is nearest to the outputs.

        The outputs sum to one but may be negative. Projecting them onto the simplex is what the
        methods do to training rows. It is not a calibrated probability, and can be exactly zero.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        proba : ndarray of shape (n_samples, n_classes)
            Rows sum to one; the largest entry is that of the predicted class.
        """
        return project_simplex(self._outputs(X))

    def predict_log_proba(self, X):
        """Compute the logarithm of `predict_proba`.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        log_proba : ndarray of shape (n_samples, n_classes)
            It is -inf where the probability is zero.
        """
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))

    def _candidate_proba_of(self, X, candidates):
        """Return the outputs projected onto the candidates, sparse."""
        # Not by way of predict_proba: where that is zero on all candidates, the outputs still
        # rank them.
        proba = project_simplex(self._outputs(X), candidates.toarray())
        rows = np.repeat(np.arange(len(proba)), np.diff(candidates.indptr))
        entries = (proba[rows, candidates.indices], candidates.indices, candidates.indptr)
        return sp.csr_array(entries, shape=candidates.shape)
