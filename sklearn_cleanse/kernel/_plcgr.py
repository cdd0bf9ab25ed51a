"""PL-CGR: cost-guided retraining."""

from __future__ import annotations

from numbers import Integral, Real
from typing import ClassVar

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval
from tqdm import tqdm

from ._base import KernelClassifier
from ._steps import (
    ExactRidge,
    NystroemRidge,
    class_costs,
    cost_step,
    project_simplex,
)

__all__ = ["PLCGRClassifier"]


class PLCGRClassifier(KernelClassifier):
    """Partial label learning by cost-guided retraining (PL-CGR).

    Kernel ridge regression, retrained on confidences that are sharpened class by class: outputs
    above a class's threshold rise and those below it fall, by costs that come from the distances
    between the classes.

    Parameters
    ----------
    ridge : float, default=0.04
        Strength of the ridge penalty [μ].
    cost_weight : float, default=0.6
        How far costs move the confidences [λ].
    first_bonus : float, default=0.2
        Bonus on the output of each row's best candidate at the start [c].
    cluster_ratio : float, default=0.1
        Centres per member of a class, for the distances between classes.
    balance : bool, default=True
        Whether to multiply the distance from class i to class j by the size of j over the size of
        i. This raises the thresholds of frequent classes. The published code has nearly this
        factor, apparently by a wrong divisor. It is on by default because without it the costs of
        all classes are nearly equal and change little.
    max_iter : int, default=30
        Number of retrainings.
    length_scale : float, default=None
        Width of the RBF kernel, from 1e-150 to 1e150. The mean distance between training rows if
        None.
    normalize : {"standard-l2", "standard", "l2", None}, default="standard-l2"
        Scaling of the features, by training statistics: columns to mean zero and variance one,
        rows to length one, or both in this order. Length one suits many features; it loses the
        magnitude of a row, so that "standard" may be better for two or three.
    n_components : int, default=None
        Rank of a Nyström approximation of the kernel, with memory n_samples × n_components. The
        exact kernel, with memory n_samples², if None or not below n_samples.
    max_memory : float, default=8.0
        Most memory to use in `fit`, in GiB. A fit that needs more is refused before it starts.
    random_state : int, RandomState instance or None, default=None
        Seeds k-means, and the choice of rows if ``n_components`` is set.
    verbose : bool, default=False
        Whether to show a progress bar.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The class labels.
    candidate_proba_ : ndarray of shape (n_samples, n_classes)
        Confidences of the training rows; zero outside their candidates.
    cost_scale_, cost_threshold_ : ndarray of shape (n_classes,)
        How strongly costs act on each class, and around which output.
    coef_ : ndarray of shape (n_samples or n_components, n_classes)
        Coefficients on ``feature_map_.transform(scaler_.transform(X))``.
    intercept_ : ndarray of shape (n_classes,)
        Intercepts.
    n_iter_ : int
        Number of retrainings done.
    n_features_in_ : int
        Number of features seen in `fit`.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the features, if `fit` saw any.

    See Also
    --------
    DPCLSClassifier : Spreads dissimilarity between samples instead.

    Notes
    -----
    Time is O(n_samples³) once and O(n_samples² n_classes) per iteration. There are no sample
    weights, as the method has none.

    References
    ----------
    Z. Zhang, Z. Liu, H. Lu. Partial label learning via cost-guided retraining. ECAI 2024,
    pp. 2170-2177.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn_cleanse.kernel import PLCGRClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> candidates = [{label, (label + i % 2) % 3} for i, label in enumerate(y)]
    >>> model = PLCGRClassifier(random_state=0).fit(X, candidates)
    >>> model.score(X, y) > 0.85
    True
    """

    _parameter_constraints: ClassVar[dict] = {
        **KernelClassifier._parameter_constraints,
        "cost_weight": [Interval(Real, 0, None, closed="left")],
        "first_bonus": [Interval(Real, 0, None, closed="left")],
        "cluster_ratio": [Interval(Real, 0, 1, closed="right")],
        "balance": ["boolean"],
        "n_components": [Interval(Integral, 1, None, closed="left"), None],
        "random_state": ["random_state"],
    }

    _per_class: ClassVar[tuple[str, ...]] = ("cost_scale_", "cost_threshold_")

    def __init__(
        self,
        ridge=0.04,
        cost_weight=0.6,
        first_bonus=0.2,
        cluster_ratio=0.1,
        balance=True,
        max_iter=30,
        length_scale=None,
        normalize="standard-l2",
        n_components=None,
        max_memory=8.0,
        random_state=None,
        verbose=False,
    ):
        self.ridge = ridge
        self.cost_weight = cost_weight
        self.first_bonus = first_bonus
        self.cluster_ratio = cluster_ratio
        self.balance = balance
        self.max_iter = max_iter
        self.length_scale = length_scale
        self.normalize = normalize
        self.n_components = n_components
        self.max_memory = max_memory
        self.random_state = random_state
        self.verbose = verbose

    def _train(self, X, candidates):
        random_state = check_random_state(self.random_state)
        # One seed for every class, so that the order of the classes does not matter.
        seed = random_state.randint(np.iinfo(np.int32).max)
        if self.n_components is None or self.n_components >= len(X):
            ridge = ExactRidge(X, self.ridge, self.length_scale)
        else:
            ridge = NystroemRidge(X, self.ridge, self.n_components, random_state, self.length_scale)
        outputs = ridge.fit(candidates.astype(float))
        # DEVIATES: published code takes the largest of candidates × outputs, which is that of a
        # non-candidate, zero, where the outputs of all candidates are negative.
        best = np.where(candidates, outputs, -np.inf).argmax(axis=1)
        outputs[np.arange(len(X)), best] += self.first_bonus / 2
        confidences = project_simplex(outputs, candidates)
        self.cost_scale_, self.cost_threshold_ = class_costs(
            X, confidences, cluster_ratio=self.cluster_ratio, balance=self.balance, seed=seed
        )
        for _ in tqdm(range(self.max_iter), desc="PL-CGR", disable=not self.verbose):
            confidences = cost_step(
                ridge.fit(confidences),
                candidates,
                self.cost_scale_,
                self.cost_threshold_,
                self.cost_weight,
            )
        ridge.fit(confidences)
        return ridge, confidences, self.max_iter

    def _memory_columns(self, candidates):
        n_samples, n_classes = candidates.shape
        # Held by the costs: the members of a class (three times while k-means starts), all centres
        # twice, the distances of a batch of members to them, and the distances between classes.
        centers = (self.cluster_ratio * candidates.nnz + n_classes) / n_samples
        costs = (3 + 2 * centers) * self.n_features_in_ + 128 * centers
        costs += 2 * n_classes**2 / n_samples
        if self.n_components is None or self.n_components >= n_samples:
            return costs + 1.2 * n_samples, "set n_components (low rank)"
        rank = self.n_components * (4 + self.n_features_in_ / n_samples)
        return costs + rank, "lower n_components"
