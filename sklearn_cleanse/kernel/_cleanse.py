"""CleanSE without a network: `CleanSEKernelClassifier`."""

from __future__ import annotations

from numbers import Integral, Real
from typing import ClassVar

import numpy as np
import scipy.sparse as sp
import torch
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state, gen_batches
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted, validate_data

from .._device import check_magnitude, choose_device
from .._rows import SparseRows, refuse_text
from ..base import (
    PartialLabelMixin,
    check_class_prior,
    class_mass,
    content_rank,
    first_equals,
    refuse_truth,
    unchanged_on_error,
)
from ..candidates import check_graded, check_index
from ..explanation import assemble, blocks_to_explain, poll_kernel
from ..votes import KernelModel, fit_kernel_votes
from ..votes._kernel_votes import regrade_votes
from ._base import warn_in_group

__all__ = ["CleanSEKernelClassifier"]


class CleanSEKernelClassifier(PartialLabelMixin, BaseEstimator):
    """Kernel regression on the votes of all other rows, weighed by label counts.

    The quick form of CleanSE: no network, nothing to tune, about a second for a thousand rows. Each
    row's candidates are voted on by all *other* rows, by kernel ridge regression in exact
    leave-one-out form, and votes are weighed by how likely the candidate set is under each label;
    this is repeated until the votes settle. Predictions are the regression on these votes.

    Parameters
    ----------
    ridge : float, default=0.05
        Ridge of the regression, added to the kernel's diagonal of ones; from 1e-6 to 1e6.
    count_strength : float in [0, 1] or "auto", default="auto"
        How strongly label counts weigh votes. The assumption behind 1 is that a row's wrong
        candidates depend on its label alone, as where labels join at random or come in bags.
        "auto" measures how far features predict candidates beyond that, as they do where a set
        belongs to a kind of row. 0 leaves counts out.
    noise : float in [0, 1) or "auto", default=0.0
        Share of the rows whose true label is *not* among their candidates. 0: the sets are right.
        Otherwise votes may name a label outside the set; "auto" estimates the share without true
        labels, see `sklearn_cleanse.votes.estimate_noise`. `disambiguate` still chooses among the
        candidates given; `sklearn_cleanse.find_candidate_issues` and `predict` name labels outside.
    n_landmarks : int, "auto" or None, default="auto"
        Rows that stand for all. None takes all rows, whose cost is cubic; "auto" all rows up to
        5,000, then 1,000, fewer where their features would take more than 1 GiB.
    graded : bool, default=False
        Whether candidates may be graded: ``y`` is then a matrix of numbers from 0 to 1, those above
        0 mark candidates, and their ratios within a row are the odds of each before features are
        looked at, such as the votes of annotators
        (`sklearn_cleanse.datasets.candidates_from_votes`). If not, such a matrix is refused.
    class_prior : "uniform", dict, array-like of shape (n_classes,) or None, default=None
        Class shares that predictions are made for, where new rows have others than the training
        rows, or rare classes matter as much as others: "uniform". A dict or a Series is taken by
        label, anything else in the order of ``classes_``. It may be changed after `fit`; those of
        ``class_shares_`` change nothing. Votes, `disambiguate` and ``candidate_proba_`` are as
        without.
    max_iter : int, default=20
        Most rounds of votes.
    max_memory : float, default=8.0
        GiB that `fit` may take. What would take more is refused before it starts.
    device : str, default="auto"
        Where to fit. "auto" takes CUDA, then MPS, then the CPU.
    random_state : int, RandomState instance or None, default=None
        Draws the landmarks.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Class labels.
    class_shares_ : ndarray of shape (n_classes,)
        Estimated share of each class among the training rows, as if each had one
        row more; 0 for a class that is nobody's candidate, whose probability no ``class_prior``
        changes.
    candidate_proba_ : {ndarray, csr_array} of shape (n_samples, n_classes)
        Votes on the training rows: the confidence in each candidate. Sparse if the candidates were.
    left_out_proba_ : ndarray of shape (n_samples, n_classes)
        What all other rows say of each training row, candidates or not, as probabilities.
    label_proba_ : ndarray of shape (n_samples, n_classes)
        The belief in each label of the training rows. Where ``noise_`` is not 0 it need not be a
        candidate.
    dependence_ : float
        Share of the candidates' variation beyond labels that features predict: about 0 where
        labels join at random or in bags, towards 1 where a set belongs to a kind of row.
    count_strength_ : float
        How strongly counts weighed the votes.
    noise_ : float
        The share of wrong sets that was reckoned with.
    n_iter_ : int
        Rounds of votes taken.
    n_landmarks_ : int
        Rows that predictions are made from.
    model_ : KernelModel
        The regression.
    n_features_in_ : int
        Number of features seen in `fit`.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Their names, if they have any.

    See Also
    --------
    CleanSEClassifier : A network trained on the same votes.

    Notes
    -----
    With n rows, m classes and r landmarks, time is O(n³) once and O(n² m) per round for all rows,
    O(n r²) once and O(n r m) per round with landmarks; memory is O(n²) or O(n r). There are no
    sample weights: a row that counts twice would vote on itself. Therefore rows with equal features
    and equal candidates vote once.

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
        "ridge": [Interval(Real, 1e-6, 1e6, closed="both")],
        "count_strength": [Interval(Real, 0, 1, closed="both"), StrOptions({"auto"})],
        "noise": [Interval(Real, 0, 1, closed="left"), StrOptions({"auto"})],
        "n_landmarks": [Interval(Integral, 1, None, closed="left"), StrOptions({"auto"}), None],
        "graded": ["boolean"],
        "class_prior": ["array-like", dict, StrOptions({"uniform"}), None],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "max_memory": [Interval(Real, 0, None, closed="neither")],
        "device": [str, torch.device],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        *,
        ridge=0.05,
        count_strength="auto",
        noise=0.0,
        n_landmarks="auto",
        graded=False,
        class_prior=None,
        max_iter=20,
        max_memory=8.0,
        device="auto",
        random_state=None,
    ):
        self.ridge = ridge
        self.count_strength = count_strength
        self.noise = noise
        self.n_landmarks = n_landmarks
        self.graded = graded
        self.class_prior = class_prior
        self.max_iter = max_iter
        self.max_memory = max_memory
        self.device = device
        self.random_state = random_state

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = tags.input_tags.allow_nan = True
        return tags

    @refuse_truth
    def fit(self, X, y):
        """Learn from candidate labels.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Training samples, dense or sparse. They need no scaling. A gap (NaN) counts as the mean
            of its feature, and each feature that has gaps here gets a further one that tells where
            they are.
        y : array-like
            Candidates: a binary matrix of shape (n_samples, n_classes), dense, sparse or a
            DataFrame whose columns are the classes; a list of label sets; or labels of shape
            (n_samples,). With ``graded``, the matrix may hold numbers from 0 to 1.

        Returns
        -------
        self : object
            The fitted estimator.
        """
        self._validate_params()
        warn_in_group(type(self).__name__)
        check_index(X, y)
        with unchanged_on_error(self):
            X = self._check_X(X, reset=True)
            self.classes_, candidates, grades = check_graded(
                y, graded=self.graded, n_samples=len(X)
            )
            check_class_prior(self.class_prior, self.classes_)
            marks = candidates if grades is None else grades
            by_content = np.argsort(content_rank(X, marks), kind="stable")
            # Rows that are repeated vote once: none must vote on its copy.
            first = first_equals(X, marks, np.arange(len(X)), by_content)
            voters = by_content[first[by_content] == by_content]
            voters = voters[check_random_state(self.random_state).permutation(len(voters))]
            votes, model, fitted = fit_kernel_votes(
                X,
                candidates[voters],
                voters,
                count_strength=self.count_strength,
                noise=self.noise,
                n_landmarks=self.n_landmarks,
                ridge=self.ridge,
                max_rounds=self.max_iter,
                max_memory=self.max_memory,
                device=choose_device(self.device),
                grades=None if grades is None else grades[voters],
            )
            self.model_, self.n_landmarks_ = model, len(model.coef)
            # what `disambiguate` says of these rows
            scores = votes.left_out if model.is_exact else fitted
            proba = model.vote_on(scores, torch.from_numpy(candidates[voters].toarray()))
            place = np.empty(len(X), dtype=np.int64)
            place[voters] = np.arange(len(voters))
            back = place[first]
            self.candidate_proba_ = proba.numpy()[back]
            if grades is not None:
                self.candidate_proba_ = self.candidate_proba_ * grades.toarray()
                self.candidate_proba_ /= self.candidate_proba_.sum(axis=1, keepdims=True)
            if sp.issparse(y):
                self.candidate_proba_ = sp.csr_array(self.candidate_proba_)
            self.left_out_proba_ = model.normalize(votes.left_out).numpy()[back]
            self.label_proba_ = votes.proba.numpy()[back]
            belief = self.label_proba_ if votes.noise else self.candidate_proba_
            self._class_mass = class_mass(belief, candidates)
            self.dependence_, self.count_strength_ = votes.dependence, votes.count_strength
            self.noise_, self.n_iter_ = votes.noise, votes.n_rounds
        return self

    def _check_X(self, X, reset=False):
        if not reset:
            check_is_fitted(self)
        shape = getattr(X, "shape", ())
        if len(shape) > 2:
            raise ValueError(
                f"X has shape {shape}; a sample must be a row of features: flatten samples "
                "by X.reshape(len(X), -1)"
            )
        refuse_text(X, type(self).__name__)
        X = validate_data(
            self,
            X,
            dtype=(np.float64, np.float32),
            reset=reset,
            accept_sparse="csr",
            ensure_all_finite="allow-nan",
        )
        X = SparseRows(X) if sp.issparse(X) else X
        return check_magnitude(X, 1e150, fitting=reset)

    def _state(self):
        """Return what a file keeps of this estimator."""
        return {
            "candidate_proba": self.candidate_proba_,
            "left_out_proba": self.left_out_proba_,
            "label_proba": self.label_proba_,
            "n_iter": self.n_iter_,
            "model": self.model_._state(),
        }

    def _restore(self, file):
        super()._restore(file)
        n_classes = len(self.classes_)
        self.model_ = KernelModel._restored(file, "model", (self.n_features_in_,), n_classes)
        self.left_out_proba_ = file.array("left_out_proba", "f", (None, n_classes))
        n_samples = len(self.left_out_proba_)
        self.label_proba_ = file.array("label_proba", "f", (n_samples, n_classes))
        if file.has("candidate_proba.data"):
            self.candidate_proba_ = file.sparse("candidate_proba", n_samples, n_classes)
        else:
            self.candidate_proba_ = file.array("candidate_proba", "f", (n_samples, n_classes))
        self.n_iter_, self.n_landmarks_ = file.value("n_iter", int), len(self.model_.coef)
        self.dependence_ = self.model_.dependence
        self.count_strength_, self.noise_ = self.model_.count_strength, self.model_.noise

    def predict(self, X):
        """Predict the label of each sample.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        labels : ndarray of shape (n_samples,)
        """
        if self.class_prior is not None:
            return self.classes_[self.predict_proba(X).argmax(axis=1)]
        X = self._check_X(X)
        return self.classes_[self.model_.scores(X).argmax(dim=1).numpy()]

    def predict_log_proba(self, X):
        """Return the logarithm of each class's probability.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        log_proba : ndarray of shape (n_samples, n_classes)
        """
        with np.errstate(divide="ignore"):  # a class whose share is set to 0
            return np.log(self.predict_proba(X))

    def predict_proba(self, X):
        """Return the probability of each class.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        proba : ndarray of shape (n_samples, n_classes)
            Columns in the order of ``classes_``. They rank well, and are underconfident.
        """
        X = self._check_X(X)
        scores = self.model_.scores(X)
        if self.class_prior is None:
            return self.model_.normalize(scores).numpy()
        # A vote is the square of a score, so a score takes the root of the odds; scores of a rare
        # class scatter as the root of its share. Too small ones are raised afterwards only, as that
        # would be multiplied too.
        odds = self._prior_odds()
        proba = self.model_.normalize(scores * torch.from_numpy(odds).sqrt()).numpy() * (odds > 0)
        return proba / proba.sum(axis=1, keepdims=True)

    def _candidate_proba_of(self, X, candidates):
        """Return the confidence in each of the given candidates, sparse, block by block."""
        X = self._check_X(X)
        parts = []
        for rows in gen_batches(len(X), 1024):
            own = torch.from_numpy(candidates[rows].toarray())
            scores, _ = self.model_.left_out_scores(X[rows], own)
            votes = self.model_.vote_on(scores, own).numpy()
            parts.append(votes[own.numpy()])
        entries = (np.concatenate(parts), candidates.indices, candidates.indptr)
        return sp.csr_array(entries, shape=candidates.shape)

    def explain(self, X, y=None):
        """Show which training rows speak for and against each candidate.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples to explain. A training row has no vote about itself, as in `fit`: the same
            features and the same candidates give it away. (With landmarks it does not vote, but
            what it has added to the regression stays.)
        y : array-like, default=None
            Their candidates, in any form that `fit` takes. If None, every class is one.

        Returns
        -------
        explanations : list of Explanation
            One per sample; print it for a small table.
        """
        check_index(X, y)
        X = self._check_X(X)
        candidates = grades = None
        if y is not None:
            _, candidates, grades = check_graded(
                y, graded=self.graded, n_samples=len(X), classes=self.classes_
            )
        explanations = []
        for block, own, odds in blocks_to_explain(X, candidates, grades, len(self.classes_)):
            _, votes, parts = poll_kernel(self.model_, block, own, self.classes_)
            votes = regrade_votes(votes, odds)
            best = self.model_.scores(block).argmax(dim=1).numpy()
            explanations += assemble(self.classes_, own, votes.numpy(), votes, votes, best, parts)
        return explanations
