"""CleanSE without a network: `CleanSEKernelClassifier`."""

from numbers import Integral, Real
from typing import ClassVar

import numpy as np
import torch
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state, gen_batches
from sklearn.utils._param_validation import Interval, StrOptions

from ..base import (
    ProbabilityMixin,
    check_class_prior,
    choose_device,
    class_mass,
    limit_threads,
    refuse_truth,
    unchanged_on_error,
)
from ..calibration import PredictionSetMixin, calibrate, temper, weigh_dependence
from ..candidates import candidate_softmax, check_candidates, check_index, check_memory
from ..features import check_features
from ..votes import KernelModel, fold_scores, make_ridge, metric_votes
from ..votes._model import distinct_rows
from ..votes._ridge import count_components, memory_needed

#: Smallest score: probabilities are not trusted below this.
_FLOOR = 1e-2

#: Rows whose candidates are voted on at a time.
_BLOCK = 1024


class CleanSEKernelClassifier(PredictionSetMixin, ProbabilityMixin, BaseEstimator):
    """Kernel regression on the votes of all other rows, weighted by label counts.

    The quick form of CleanSE: no network, and nothing to tune. All *other* rows vote on each row's
    candidates, by kernel ridge regression in exact leave-one-out form. Votes are weighted by how
    likely the candidate set is under each label. Rounds of votes follow until the votes settle.

    The rounds run twice. The first votes yield a metric, which weights each feature by how much the
    votes change along it. The second votes use this metric. Predictions are the regression, without
    the metric, on the second votes.

    Parameters
    ----------
    alpha : float, default=0.05
        Ridge of the regression, added to the kernel's diagonal of ones; from 1e-6 to 1e6. Raise it
        if features are noisy.
    count_strength : float in [0, 1] or "auto", default="auto"
        How strongly label counts weight votes. 1 assumes that a row's wrong candidates depend on
        its label alone, as where labels join at random or come in bags. "auto" measures how far
        features predict candidates beyond that, as they do where similar rows have the same set.
        0 leaves counts out.
    noise_rate : float in [0, 1) or "auto", default=0.0
        Proportion of rows whose true label is not a candidate. Above 0, votes may name any label.
        "auto" estimates the proportion without true labels. `disambiguate` stays inside the
        candidates.
    n_components : int, "auto" or None, default="auto"
        Number of rows that represent all rows in the kernel. None takes all rows, at cubic cost.
        "auto" takes all rows up to 8,000, then 1,000, and fewer above 268,000 rows, to stay within
        1 GiB.
    class_prior : "uniform", dict, array-like of shape (n_classes,) or None, default=None
        Class proportions that predictions are made for, if new rows have others than the training
        rows. "uniform" makes rare classes count as much as others. A dict or a Series is read by
        label, anything else in the order of ``classes_``. It may be changed after `fit`. Passing
        ``class_proportions_`` has no effect. `disambiguate` does not use it.
    device : str, default="auto"
        Device to fit on. "auto" takes CUDA, then the CPU. "mps" takes the CPU too, as it has no
        double precision.
    random_state : int, RandomState instance or None, default=None
        Draws the components, and the rows from which the kernel's widths (at most 1,000) and the
        metric (at most 2,000) are computed.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Class labels.
    class_proportions_ : ndarray of shape (n_classes,)
        Estimated proportion of each class among the training rows, with one row added to each; 0
        for a class that is never a candidate, whose probability ``class_prior`` does not change.
    candidate_proba_ : ndarray of shape (n_samples, n_classes)
        The probability of each candidate of the training rows: votes, calibrated.
    loo_proba_ : ndarray of shape (n_samples, n_classes)
        Predictions of each training row by all others, in the learned metric, as probabilities of
        all labels. The last votes come from them.
    label_proba_ : ndarray of shape (n_samples, n_classes)
        The votes: the probability of each label of the training rows. It is 0 outside the
        candidates, unless ``noise_rate_`` is above 0.
    instance_dependence_ : float
        Of the candidates' variation that labels do not explain, the proportion that features
        predict: about 0 where labels join at random or in bags, towards 1 where similar rows have
        the same set.
    count_strength_ : float
        How strongly counts weighted the votes.
    noise_rate_ : float
        The noise rate that the votes used.
    proba_temperature_ : float
        Temperature of the probabilities, chosen by the candidates of rows that had no part in their
        own scores. It does not change predictions. Above 1, probabilities become more even. It is 1
        for fewer than 30 rows.
    n_iter_ : int
        Rounds of votes taken.
    n_components_ : int
        Number of rows that predictions are made from.
    index_ : pandas.Index or None
        Index of the training candidates, if they had one.
    model_ : KernelModel
        The regression.
    n_features_in_ : int
        Number of features seen in `fit`.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the features, if they have any.

    See Also
    --------
    CleanSEClassifier : A network trained on the same votes.

    Notes
    -----
    With n rows and m classes, time is O(n³) once and O(n² m) per round, and memory is O(n²). With r
    components, time is O(n r²) once and O(n r m) per round, and memory is O(n r).

    `fit` does not take sample weights: a row that counts twice would vote on itself. Therefore rows
    with equal features and equal candidates vote once.

    Where candidates depend on the features, the effect of ``class_prior`` is damped: its odds enter
    as a power, from 1 down to 1/2.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn_cleanse import CleanSEKernelClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> candidates = [{label, (label + i % 2) % 3} for i, label in enumerate(y)]
    >>> model = CleanSEKernelClassifier().fit(X, candidates)
    >>> model.score(X, y) > 0.9
    True
    """

    _parameter_constraints: ClassVar[dict] = {
        "alpha": [Interval(Real, 1e-6, 1e6, closed="both")],
        "count_strength": [Interval(Real, 0, 1, closed="both"), StrOptions({"auto"})],
        "noise_rate": [Interval(Real, 0, 1, closed="left"), StrOptions({"auto"})],
        "n_components": [Interval(Integral, 1, None, closed="left"), StrOptions({"auto"}), None],
        "class_prior": ["array-like", dict, StrOptions({"uniform"}), None],
        "device": [str, torch.device],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        *,
        alpha=0.05,
        count_strength="auto",
        noise_rate=0.0,
        n_components="auto",
        class_prior=None,
        device="auto",
        random_state=None,
    ):
        self.alpha = alpha
        self.count_strength = count_strength
        self.noise_rate = noise_rate
        self.n_components = n_components
        self.class_prior = class_prior
        self.device = device
        self.random_state = random_state

    @refuse_truth
    def fit(self, X, y):
        """Fit to candidate labels.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features) or (n_samples, n_channels, ...)
            Features, dense or (in two dimensions) sparse. They need no scaling. A missing value
            (NaN) counts as the mean of its feature. Each feature with missing values in training
            gets an indicator input. Each channel of images is scaled as a whole.
        y : array-like
            Candidates: a binary matrix of shape (n_samples, n_classes), dense, sparse or a
            DataFrame whose columns are the classes; a matrix of prior weights from 0 to 1; a list
            of label sets; or labels of shape (n_samples,).

        Returns
        -------
        self : object
            The fitted estimator.
        """
        self._validate_params()
        check_index(X, y)
        with unchanged_on_error(self):
            X = check_features(self, X, reset=True, allow_images=True)
            candidates = check_candidates(y, n_samples=len(X))
            check_class_prior(self.class_prior, candidates.classes)
            # Equal rows vote once: a row must not vote on its copy.
            voters, group = distinct_rows(X, candidates.prior)
            with limit_threads(len(voters) ** 2):
                votes, fitted = self._vote(X, candidates.prior, voters)
            model = self.model_
            scores = fitted if model.left_out is None else model.left_out
            # what `disambiguate` returns for these rows
            self.candidate_proba_ = self._vote_on(scores, candidates.prior[voters])[group]
            self.label_proba_ = votes.proba.cpu().numpy()[group]
            self.loo_proba_ = self._normalize(votes.left_out.cpu().numpy())[group]
            self._position = group  # of each training row among those that vote
            self.classes_, self.index_ = candidates.classes, candidates.index
            labels = self.label_proba_ if votes.noise_rate else self.candidate_proba_
            self._class_mass = class_mass(labels, candidates.mask)
            self.instance_dependence_ = votes.instance_dependence
            self.count_strength_, self.noise_rate_ = votes.count_strength, votes.noise_rate
            self.n_iter_, self.n_components_ = votes.n_rounds, len(model.coef)
        return self

    def _vote(self, X, prior, voters):
        """Let rows vote, set ``model_``, and return the votes and fitted scores."""
        n_voters, n_features = len(voters), int(np.prod(X.shape[1:]))
        count = count_components(n_voters, self.n_components)
        check_memory(
            memory_needed(n_voters, n_features, prior.shape[1], count, self.alpha),
            f"the votes of {n_voters} rows with n_components={count}",
            "Lower n_components, or fit a random subset of the rows.",
        )
        device = choose_device(self.device)
        device = "cpu" if torch.device(device).type == "mps" else device  # no double precision
        order = check_random_state(self.random_state).permutation(n_voters)
        if n_voters < len(X):
            X, prior = X[voters], prior[voters]
        ridge = make_ridge(X, order, n_components=count, alpha=self.alpha, device=device)
        weights = torch.from_numpy(prior).to(device)
        assumed = {"count_strength": self.count_strength, "noise_rate": self.noise_rate}
        votes = metric_votes(ridge, X, weights, order, **assumed)
        fitted = ridge.fitted(votes.proba).cpu()
        basis = np.arange(n_voters) if count == n_voters else order[:count]
        self.model_ = KernelModel(ridge, votes, X[basis], prior[basis], voters[basis])
        self._calibrate(ridge, votes, X, prior, fitted, voters)
        return votes, fitted

    def _calibrate(self, ridge, votes, X, prior, fitted, voters):
        """Fit the temperature on folds whose sets did not vote; set what predictions need of it."""
        rows, scores = fold_scores(ridge, votes, X, prior)
        dependence = weigh_dependence(votes.instance_dependence)
        temperature, proba, weights = calibrate(
            self._normalize(scores), prior[rows], dependence, votes.noise_rate
        )
        own = np.exp(temper(np.log(self._normalize(fitted[rows].numpy())), temperature))
        # A network is to be as confident as the kernel on training rows; where these have learned
        # wrong candidates that features predict, as on the folds.
        confidence = (1 - dependence) * own.max(axis=1) + dependence * proba.max(axis=1)
        self.proba_temperature_, self._scored = temperature, (proba, weights, dependence)
        self._matched = (voters[rows], confidence)

    def _vote_on(self, scores, prior):
        """Return the probability of candidates, which are squares of scores."""
        with np.errstate(divide="ignore"):
            votes = np.log(self.model_.vote_on(scores, prior).numpy())
        return candidate_softmax(votes / (2 * self.proba_temperature_), prior > 0)

    @property
    def _is_exact(self):
        """Whether predictions are made from all training rows."""
        return self.model_.is_exact

    def _scores(self, X):
        """Return the scores of checked features, (n_samples, n_classes)."""
        with limit_threads(len(X) * len(self.model_.coef)):
            return self.model_.scores(X).numpy()

    def _training_scores(self):
        """Return the scores of the training rows in closed form, None with components."""
        if not self._is_exact:
            return None
        return self.label_proba_ - self.model_.alpha * self.model_.coef.numpy()[self._position]

    @staticmethod
    def _normalize(scores):
        """Turn scores into probabilities that are not calibrated."""
        floor = min(_FLOOR, 1 / scores.shape[1])
        proba = np.maximum(scores.astype(np.float64), floor)
        return proba / proba.sum(axis=1, keepdims=True)

    def predict(self, X):
        """Predict the label of each sample.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features) or (n_samples, n_channels, ...)
            Samples.

        Returns
        -------
        labels : ndarray of shape (n_samples,)
        """
        # Probabilities have a floor, below which scores still rank.
        by_score = self.class_prior is None
        scores = self._scores(self._check_X(X)) if by_score else self.predict_proba(X)
        return self.classes_[scores.argmax(axis=1)]

    def _log_proba(self, X):
        return temper(np.log(self._normalize(self._scores(X))), self.proba_temperature_)

    def _candidate_proba_of(self, X, candidates):
        """Return the probability of each of the given candidates, (n_samples, n_classes)."""
        X, prior, proba = self._check_X(X), candidates.prior, []
        for rows in gen_batches(len(X), _BLOCK):
            with limit_threads(_BLOCK * len(self.model_.coef)):
                scores, _ = self.model_.left_out_scores(X[rows], prior[rows])
            proba.append(self._vote_on(scores, prior[rows]))
        return np.concatenate(proba)

    def explain(self, X, y=None, *, n_similar=5):
        """Show the training rows that are most similar to each sample, and how they were resolved.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features) or (n_samples, n_channels, ...)
            Samples to explain.
        y : array-like, default=None
            Their candidates, in any form that `fit` takes. If None, every class is a candidate. A
            training row needs its candidates to be explained as one.
        n_similar : int, default=5
            Number of similar rows to show.

        Returns
        -------
        explanations : list of Explanation
            One per sample; print it for a table.
        """
        from ..inspection import explain

        return explain(self, X, y, n_similar=n_similar)
