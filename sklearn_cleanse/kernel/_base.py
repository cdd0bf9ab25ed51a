"""The base class of PL-CGR and DPCLS."""

from numbers import Integral, Real
from typing import ClassVar

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import gen_batches
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from ..base import PartialLabelMixin, limit_threads, refuse_truth, unchanged_on_error
from ..candidates import check_candidates, check_index, check_memory
from ..features import check_features
from ._steps import FeatureScaler, project_simplex


class KernelClassifier(PartialLabelMixin, BaseEstimator):
    """Checks, scaling, the limit on memory, and prediction from the outputs of the ridge."""

    _parameter_constraints: ClassVar[dict] = {
        "alpha": [Interval(Real, 0, 1e18, closed="right")],
        "max_iter": [Interval(Integral, 1, 10**9, closed="both")],
        # the kernel needs its square and the inverse of that
        "length_scale": [Interval(Real, 1e-150, 1e150, closed="both"), None],
        "normalize": [StrOptions({"standard-l2", "standard", "l2"}), None],
        "verbose": ["verbose"],
    }

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    @refuse_truth
    def fit(self, X, y):
        """Fit the model to candidate labels.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Training samples. Sparse ones become dense.
        y : {array-like, sparse matrix, DataFrame} of shape (n_samples, n_classes), list of \
                n_samples label collections, or array-like of shape (n_samples,)
            Candidate labels, as `sklearn_cleanse.candidates.check_candidates` reads them.

        Returns
        -------
        self : object
            The fitted estimator.
        """
        self._validate_params()
        for name in ("max_iter", "n_components", "n_neighbors"):
            if getattr(self, name, None) is True:  # an integer to `_validate_params`
                raise ValueError(f"`{name}` must be an integer, got True. Pass a number.")
        check_index(X, y)
        with unchanged_on_error(self):
            X = self._check_X(X, reset=True)
            candidates = check_candidates(y, n_samples=len(X))
            if candidates.has_prior:
                raise ValueError(
                    f"`y` must be candidate sets for {type(self).__name__}, got prior weights. "
                    "Pass S = weights > 0, or use CleanSEKernelClassifier."
                )
            self.classes_ = candidates.classes
            columns, remedy = self._memory_columns(candidates.mask)
            columns += 14 * len(self.classes_) + 3 * X.shape[1]
            remedy = f"Fit a random subset of the rows, or {remedy}."
            check_memory(8 * len(X) * columns, f"{len(X)} samples", remedy)
            # DEVIATES: PL-CGR's published demo has "l2" alone, which lets features of large values
            # dominate. The default, "standard-l2", first makes the columns comparable.
            self.scaler_ = FeatureScaler.fit(X, self.normalize)
            with limit_threads(8 * len(X) ** 2):
                ridge, self.candidate_proba_, self.n_iter_ = self._train(
                    self.scaler_.transform(X), candidates.mask
                )
            # only what prediction needs: the n×n factor would make every pickle n×n
            self.feature_map_, self.coef_ = ridge.feature_map, ridge.coef
            self.intercept_ = ridge.intercept
        return self

    def _check_X(self, X, reset):
        X = check_features(self, X, reset=reset)
        if np.isnan(X).any():
            row, column = np.argwhere(np.isnan(X))[0]
            raise ValueError(
                f"X must not have missing values, got NaN in row {row}, column {column}. Use "
                "CleanSEKernelClassifier, which allows them, or make_pipeline(SimpleImputer("
                f"add_indicator=True), {type(self).__name__}())."
            )
        return np.asarray(X, dtype=np.float64)

    def _outputs(self, X):
        check_is_fitted(self)
        return self._scores(self._check_X(X, reset=False))

    def _scores(self, X):
        """Return the outputs for checked features."""
        X = self.scaler_.transform(X)
        outputs = np.empty((len(X), len(self.classes_)))
        for rows in gen_batches(len(X), max(1, 2**24 // len(self.coef_))):
            outputs[rows] = self.feature_map_.transform(X[rows]) @ self.coef_
        outputs += self.intercept_  # in place: a damaged intercept must not widen the result
        if not np.isfinite(outputs).all():
            raise ValueError("Outputs must be finite, got NaN or infinity. Fit the model again.")
        return outputs

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

        The outputs sum to one but may be negative. The methods project those of training rows onto
        the simplex in the same way. The result is not a calibrated probability, and can be exactly
        zero.

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
        # Not by way of predict_proba: where that is zero on all candidates, the outputs still
        # rank them.
        return project_simplex(self._outputs(X), candidates.mask)
