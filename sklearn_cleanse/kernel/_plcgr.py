"""PL-CGR: cost-guided retraining."""

from numbers import Integral, Real
from typing import ClassVar

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval
from tqdm import tqdm

from ._base import KernelClassifier
from ._steps import ExactRidge, NystroemRidge, class_costs, cost_step, project_simplex


class PLCGRClassifier(KernelClassifier):
    """Partial label learning by cost-guided retraining (PL-CGR).

    Kernel ridge regression, retrained on confidences that are sharpened class by class: outputs
    above a class's threshold rise and those below it fall, by costs that come from the distances
    between the classes.

    Parameters
    ----------
    alpha : float, default=0.04
        Strength of the ridge penalty [μ], at most 1e18.
    cost_weight : float, default=0.6
        How far costs move the confidences [λ], at most 1e18.
    first_bonus : float, default=0.2
        Bonus on the output of each row's best candidate at the start [c], at most 1e18.
    cluster_ratio : float, default=0.1
        Centers per member of a class, for the distances between classes.
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
    Q = K B + 1 b' is fitted to targets P by ``min ‖P − Q‖² + α tr(B'KB)``, K the RBF kernel of
    width ``length_scale`` (default: the mean distance between rows) on features scaled by
    ``normalize``. Π projects each row onto the probability distributions over its candidates.
    First Q is fitted to S and ``P = Π(Q + first_bonus/2 · onehot(argmax over candidates of
    Q))``. From this P come, once, a scale a and a threshold t per class: members of a class are
    rows whose confidence in it is at least the mean of the positive ones, k-means gives a
    center per ``1 / cluster_ratio`` of them, D̄_jl is the mean distance of the members of j
    from the centers of l (times n_l/n_j if ``balance``), zero on the diagonal, and::

        D_jl = (D̄_jl + 0.1) / (max_l D̄_jl + 0.1 m)
        t_j  = Σ_{l≠j} D_lj / Σ_{l≠j} (D_lj + D_jl)
        a_j  = Σ_{l≠j} (1 − D_jl) / Σ_{l≠j} (2 − D_jl − D_lj)

    Then, ``max_iter`` times, Q is fitted to P and ``P = Π(Q + cost_weight/2 · a (Q − t))``; a
    last fit predicts. With ``n_components`` r: time O(n r²) once and O(n r m) per iteration,
    memory O(n r).

    Time is O(n_samples³) once and O(n_samples² n_classes) per iteration. The order of rows has no
    effect. The method has no sample weights and no prior weights of candidates, so that `fit`
    takes neither.

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
        "cost_weight": [Interval(Real, 0, 1e18, closed="both")],
        "first_bonus": [Interval(Real, 0, 1e18, closed="both")],
        "cluster_ratio": [Interval(Real, 0, 1, closed="right")],
        "balance": ["boolean"],
        "n_components": [Interval(Integral, 1, None, closed="left"), None],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        alpha=0.04,
        cost_weight=0.6,
        first_bonus=0.2,
        cluster_ratio=0.1,
        balance=True,
        max_iter=30,
        length_scale=None,
        normalize="standard-l2",
        n_components=None,
        random_state=None,
        verbose=False,
    ):
        self.alpha = alpha
        self.cost_weight = cost_weight
        self.first_bonus = first_bonus
        self.cluster_ratio = cluster_ratio
        self.balance = balance
        self.max_iter = max_iter
        self.length_scale = length_scale
        self.normalize = normalize
        self.n_components = n_components
        self.random_state = random_state
        self.verbose = verbose

    def _train(self, X, mask):
        # Sorted in some direction: k-means and the choice of components depend on the row order.
        order = np.argsort(X @ np.random.RandomState(0).normal(size=X.shape[1]), kind="stable")
        X, mask = X[order], mask[order]
        rng = check_random_state(self.random_state)
        seed = rng.randint(np.iinfo(np.int32).max)
        if self.n_components is None or self.n_components >= len(X):
            ridge: ExactRidge | NystroemRidge = ExactRidge(X, self.alpha, self.length_scale)
        else:
            ridge = NystroemRidge(X, self.alpha, self.length_scale, self.n_components, rng)
        outputs = ridge.fit(mask.astype(float))
        # DEVIATES: published code takes the largest of candidates × outputs, which is that of a
        # non-candidate, zero, where the outputs of all candidates are negative.
        best = np.where(mask, outputs, -np.inf).argmax(axis=1)
        outputs[np.arange(len(X)), best] += self.first_bonus / 2
        confidences = project_simplex(outputs, mask)
        self.cost_scale_, self.cost_threshold_ = costs = class_costs(
            X, confidences, cluster_ratio=self.cluster_ratio, balance=self.balance, seed=seed
        )
        for _ in tqdm(range(self.max_iter), desc="PL-CGR", disable=not self.verbose):
            confidences = cost_step(ridge.fit(confidences), mask, *costs, self.cost_weight)
        ridge.fit(confidences)
        return ridge, confidences[np.argsort(order)], self.max_iter

    def _memory_columns(self, mask):
        n_samples, n_classes = mask.shape
        # Held by the costs: the members of a class (three times while k-means starts), all centers
        # twice, the distances of a batch of members to them, and the distances between classes.
        centers = (self.cluster_ratio * mask.sum() + n_classes) / n_samples
        costs = (3 + 2 * centers) * self.n_features_in_ + 128 * centers
        costs += 2 * n_classes**2 / n_samples
        if self.n_components is None or self.n_components >= n_samples:
            return costs + 1.2 * n_samples, "set n_components (low rank)"
        rank = self.n_components * (4 + self.n_features_in_ / n_samples)
        return costs + rank, "lower n_components"
