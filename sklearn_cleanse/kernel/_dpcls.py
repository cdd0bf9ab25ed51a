"""DPCLS: candidates shrunk by propagated dissimilarity."""

from numbers import Integral, Real
from typing import ClassVar

import numpy as np
from sklearn.utils._param_validation import Interval
from tqdm import tqdm

from ._base import KernelClassifier
from ._dissimilarity import FIRST_PENALTY, Dissimilarity, Smoother, elimination_order
from ._steps import ExactRidge, confidence_step, neighbor_laplacian

# Projected gradient steps on the confidences per iteration, at most: more change nothing, as the
# next iteration goes on from where they end.
N_STEPS = 10

# Largest ratio of smoothness to penalty: systems of this condition number keep half the digits.
MAX_SMOOTHNESS = 1e8 * FIRST_PENALTY


class DPCLSClassifier(KernelClassifier):
    """Partial label learning by dissimilarity propagation (DPCLS).

    Two samples whose candidate sets are disjoint must differ in class. This certainty spreads
    along a neighbor graph to other pairs, and dissimilar samples push each other's confidences
    apart, which shrinks the candidate sets.

    Parameters
    ----------
    alpha : float, default=0.05
        Strength of the ridge penalty [λ], at most 1e18.
    dissimilarity_weight : float, default=0.01
        How strongly dissimilar samples push each other's confidences apart [α], at most 1e18.
    smoothness_weight : float, default=0.001
        How far dissimilarity spreads along the graph [β], at most 1e4.
    n_neighbors : int, default=10
        Neighbors per sample in the graph; all other samples if there are fewer.
    max_iter : int, default=800
        Largest number of iterations.
    tol : float, default=1e-8
        Stop when the two copies of the dissimilarity differ by less.
    length_scale : float, default=None
        Width of the RBF kernel, from 1e-150 to 1e150. The mean distance between training rows if
        None.
    normalize : {"standard-l2", "standard", "l2", None}, default="standard-l2"
        Scaling of the features, by training statistics: columns to mean zero and variance one,
        rows to length one, or both in this order. Length one suits many features; it loses the
        magnitude of a row, so that "standard" may be better for two or three.
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
    Over ridge outputs Q, confidences F on the candidates, and the dissimilarity A of pairs of
    rows (in [0, 1], one where candidates are disjoint), it lowers ``‖F − Q‖² + alpha tr(B'KB) +
    dissimilarity_weight tr(F'AF) + smoothness_weight tr(A L A')``, L the Laplacian of the graph
    of ``n_neighbors`` neighbors with weights exp(−d²/s²), s the mean distance of the last of
    them. An iteration fits Q to F, moves F by projected gradient steps, then A, its copy D and
    their dual as in an augmented Lagrangian with a growing penalty on ‖D − A‖²/2. It stops when
    the largest difference of A and D is below ``tol`` or after ``max_iter``; the last Q predicts.

    Of an iteration, the ridge and the confidences take O(n_samples² n_classes). Spreading the
    dissimilarity takes O(n_samples³), some n_samples³ operations at the speed of a matrix product,
    while the penalty on the difference of the copies is small, which are the first 40 to 80
    iterations of about 145, and later O(n_samples² n_neighbors). Memory is about eight n_samples ×
    n_samples matrices. A kernel of low rank would save one of them only.
    Nothing is random. The method has no sample weights and no prior weights of candidates, so that
    `fit` takes neither.

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
        "dissimilarity_weight": [Interval(Real, 0, 1e18, closed="both")],
        "smoothness_weight": [Interval(Real, 0, MAX_SMOOTHNESS, closed="both")],
        "n_neighbors": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="left")],
    }

    def __init__(
        self,
        alpha=0.05,
        dissimilarity_weight=0.01,
        smoothness_weight=0.001,
        n_neighbors=10,
        max_iter=800,
        tol=1e-8,
        length_scale=None,
        normalize="standard-l2",
        verbose=False,
    ):
        self.alpha = alpha
        self.dissimilarity_weight = dissimilarity_weight
        self.smoothness_weight = smoothness_weight
        self.n_neighbors = n_neighbors
        self.max_iter = max_iter
        self.tol = tol
        self.length_scale = length_scale
        self.normalize = normalize
        self.verbose = verbose

    def _train(self, X, mask):
        laplacian = neighbor_laplacian(X, self.n_neighbors)
        order, sizes = elimination_order(laplacian)
        X, mask = X[order], mask[order]
        smoother = Smoother(laplacian[order][:, order], sizes)
        ridge = ExactRidge(X, self.alpha, self.length_scale)
        weight = self.dissimilarity_weight
        dissimilarity = Dissimilarity(mask, smoother, weight, self.smoothness_weight)
        confidences = mask / mask.sum(axis=1, keepdims=True)
        all_clean = (confidences == mask).all()
        for n_iter in tqdm(range(1, self.max_iter + 1), desc="DPCLS", disable=not self.verbose):  # noqa: B007
            outputs = ridge.fit(confidences)
            if all_clean:  # nothing to update
                break
            confidences = confidence_step(
                confidences, outputs, dissimilarity.symmetric_part(), mask, weight, N_STEPS
            )
            if dissimilarity.update(confidences) < self.tol:
                break
        return ridge, confidences[np.argsort(order)], n_iter

    def _memory_columns(self, mask):
        return 8 * len(mask), "use PLCGRClassifier(n_components=...)"
