"""DPCLS: candidates shrunk by propagated dissimilarity."""

from __future__ import annotations

from numbers import Integral, Real
from typing import ClassVar

import numpy as np
from sklearn.utils._param_validation import Interval
from tqdm import tqdm

from ._base import KernelClassifier
from ._dissimilarity import Dissimilarity, Smoother, elimination_order
from ._steps import ExactRidge, confidence_step, neighbor_laplacian

__all__ = ["DPCLSClassifier"]

# Largest ratio of smoothness to penalty: systems of this condition number keep half the digits.
MAX_SMOOTHNESS_RATIO = 1e8


class DPCLSClassifier(KernelClassifier):
    """Partial label learning by dissimilarity propagation (DPCLS).

    Two samples whose candidate sets are disjoint must differ in class. This certainty spreads
    along a neighbour graph to other pairs, and samples held to be dissimilar push each other's
    confidences apart, which shrinks the candidate sets.

    Parameters
    ----------
    ridge : float, default=0.05
        Strength of the ridge penalty [λ].
    dissimilarity_weight : float, default=0.01
        How strongly dissimilar samples push each other's confidences apart [α].
    smoothness_weight : float, default=0.001
        How far dissimilarity spreads along the graph [β].
    n_neighbors : int, default=10
        Neighbours per sample in the graph; all other samples if there are fewer.
    max_iter : int, default=800
        Largest number of iterations.
    tol : float, default=1e-8
        Stop when the two copies of the dissimilarity differ by less.
    n_inner_iter : int, default=10
        Most projected gradient steps on the confidences per iteration.
    penalty : float, default=0.0001
        First penalty on the difference of the two copies [μ]. It grows to at most 1e10.
    penalty_growth : float, default=1.1
        Factor of the penalty per iteration [ρ].
    length_scale : float, default=None
        Width of the RBF kernel, from 1e-150 to 1e150. The mean distance between training rows if
        None.
    normalize : {"standard-l2", "standard", "l2", None}, default="standard-l2"
        Scaling of the features, by training statistics: columns to mean zero and variance one,
        rows to length one, or both in this order. Length one suits many features; it loses the
        magnitude of a row, so that "standard" may be better for two or three.
    max_memory : float, default=8.0
        Most memory to use in `fit`, in GiB. A fit that needs more is refused before it starts.
    verbose : bool, default=False
        Whether to show a progress bar.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The class labels.
    candidate_proba_ : ndarray of shape (n_samples, n_classes)
        Confidences of the training rows; zero outside their candidates.
    coef_ : ndarray of shape (n_samples, n_classes)
        Coefficients on ``feature_map_.transform(scaler_.transform(X))``.
    intercept_ : ndarray of shape (n_classes,)
        Intercepts.
    n_iter_ : int
        Number of iterations done.
    n_features_in_ : int
        Number of features seen in `fit`.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the features, if `fit` saw any.

    See Also
    --------
    PLCGRClassifier : Faster, and has a low-rank form for many samples.

    Notes
    -----
    Of an iteration, the ridge and the confidences take O(n_samples² n_classes). Spreading the
    dissimilarity takes O(n_samples³), some n_samples³ operations at the speed of a matrix product,
    while the penalty is small, which are the first 40 to 80 iterations of about 145, and later
    O(n_samples² n_neighbors). Clean samples of one class share their row of the dissimilarity.
    Memory is about nine n_samples × n_samples matrices. A kernel of low rank would save one of
    them, so there is no such option. Nothing is random, and there are no sample weights, as the
    method has none.

    References
    ----------
    Y. Jia, F. Yang, Y. Dong. Partial label learning with dissimilarity propagation guided
    candidate label shrinkage. NeurIPS 36 (2023), pp. 34190-34200.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn_cleanse.kernel import DPCLSClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> candidates = [{label, (label + i % 2) % 3} for i, label in enumerate(y)]
    >>> DPCLSClassifier().fit(X, candidates).score(X, y) > 0.85
    True
    """

    _parameter_constraints: ClassVar[dict] = {
        **KernelClassifier._parameter_constraints,
        "dissimilarity_weight": [Interval(Real, 0, None, closed="left")],
        "smoothness_weight": [Interval(Real, 0, None, closed="left")],
        "n_neighbors": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="left")],
        "n_inner_iter": [Interval(Integral, 1, None, closed="left")],
        "penalty": [Interval(Real, 0, None, closed="neither")],
        "penalty_growth": [Interval(Real, 1, None, closed="left")],
    }

    def __init__(
        self,
        ridge=0.05,
        dissimilarity_weight=0.01,
        smoothness_weight=0.001,
        n_neighbors=10,
        max_iter=800,
        tol=1e-8,
        n_inner_iter=10,
        penalty=0.0001,
        penalty_growth=1.1,
        length_scale=None,
        normalize="standard-l2",
        max_memory=8.0,
        verbose=False,
    ):
        self.ridge = ridge
        self.dissimilarity_weight = dissimilarity_weight
        self.smoothness_weight = smoothness_weight
        self.n_neighbors = n_neighbors
        self.max_iter = max_iter
        self.tol = tol
        self.n_inner_iter = n_inner_iter
        self.penalty = penalty
        self.penalty_growth = penalty_growth
        self.length_scale = length_scale
        self.normalize = normalize
        self.max_memory = max_memory
        self.verbose = verbose

    def _train(self, X, candidates):
        if self.smoothness_weight > MAX_SMOOTHNESS_RATIO * self.penalty:
            raise ValueError(
                f"smoothness_weight={self.smoothness_weight!r} is more than "
                f"{MAX_SMOOTHNESS_RATIO:.0e} times penalty={self.penalty!r}, beyond what double "
                "precision can smooth; raise penalty or lower smoothness_weight"
            )
        laplacian = neighbor_laplacian(X, self.n_neighbors)
        order, sizes = elimination_order(laplacian)
        X, candidates, laplacian = X[order], candidates[order], laplacian[order][:, order]
        ridge = ExactRidge(X, self.ridge, self.length_scale)
        dissimilarity = Dissimilarity(
            candidates,
            Smoother(laplacian, sizes),
            weight=self.dissimilarity_weight,
            smoothness=self.smoothness_weight,
            penalty=self.penalty,
            growth=self.penalty_growth,
        )
        confidences = candidates / candidates.sum(axis=1, keepdims=True)
        partial = dissimilarity.partial
        n_iter = 0
        for _ in tqdm(range(self.max_iter), desc="DPCLS", disable=not self.verbose):
            n_iter += 1
            outputs = ridge.fit(confidences)
            if len(partial) == 0:  # nothing to update
                break
            confidences[partial] = confidence_step(
                confidences[partial],
                outputs[partial],
                dissimilarity.couple(confidences),
                candidates[partial],
                self.dissimilarity_weight,
                self.n_inner_iter,
            )
            if dissimilarity.update(confidences) < self.tol:
                break
        return ridge, confidences[np.argsort(order)], n_iter

    def _memory_columns(self, candidates):
        return 9 * candidates.shape[0], "use PLCGRClassifier(n_components=...)"
