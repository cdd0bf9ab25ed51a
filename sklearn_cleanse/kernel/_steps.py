"""The numerical parts of `kernel`: projection onto the candidate simplex, ridge, and updates.

Everything here is a plain function of arrays, or a linear system that is factored once.
Confidences are arrays of shape (n_samples, n_classes). Each row is a distribution over the
candidates of that row.
"""

from dataclasses import dataclass
from typing import Self

import numpy as np
import scipy.sparse as sp
from scipy.linalg import LinAlgError, cho_factor, cho_solve
from scipy.sparse.csgraph import laplacian
from sklearn.cluster import KMeans
from sklearn.kernel_approximation import Nystroem
from sklearn.metrics.pairwise import euclidean_distances, rbf_kernel
from sklearn.neighbors import NearestNeighbors
from sklearn.preprocessing import StandardScaler, normalize
from sklearn.utils import gen_batches

Array = np.ndarray
Rng = np.random.RandomState

SMOOTHING = 0.1  # added to distances between classes before they are normalized
CONFIDENCE_TOL = 1e-6  # confidences that change by less have converged


def project_simplex(values: Array, candidates: Array | None = None) -> Array:
    """Compute the nearest distribution over the candidates, row by row.

    Each row of the result minimizes the Euclidean distance to that row of ``values`` among all
    non-negative vectors that sum to one and vanish outside the candidates. By its optimality
    conditions the result is ``max(values - t, 0)`` on the candidates, with one threshold t per
    row; sorting finds the threshold of all rows at once.

    Parameters
    ----------
    values : ndarray of shape (n_samples, n_classes)
        Finite values.
    candidates : ndarray of shape (n_samples, n_classes), dtype bool, default=None
        Where the result may be positive, at least once in each row. Everywhere if None.

    Returns
    -------
    proba : ndarray of shape (n_samples, n_classes)
        Zero outside the candidates; rows sum to one.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_cleanse.kernel._steps import project_simplex
    >>> project_simplex(np.array([[0.9, 0.5, 0.0]]))
    array([[0.7, 0.3, 0. ]])
    >>> project_simplex(np.array([[0.9, 0.5, 0.0]]), np.array([[False, True, True]]))
    array([[0.  , 0.75, 0.25]])
    """
    if candidates is not None:
        values = np.where(candidates, values, -np.inf)
    # Relative to each row's largest candidate: the projection ignores a common shift, and in sums
    # of huge values the 1 subtracted below would be lost.
    values = values - values.max(axis=1, keepdims=True)
    descending = -np.sort(-values, axis=1)
    inside = descending > -np.inf  # candidates come first
    sizes = np.arange(1, values.shape[1] + 1)
    thresholds = (np.cumsum(np.where(inside, descending, 0.0), axis=1) - 1.0) / sizes
    support = np.count_nonzero(inside & (descending > thresholds), axis=1)
    return np.maximum(values - thresholds[np.arange(len(values)), support - 1][:, None], 0.0)


@dataclass(frozen=True, eq=False)
class FeatureScaler:
    """Scaling of the features: columns to mean zero and variance one, rows to length one."""

    mean: Array
    scale: Array
    unit_rows: bool

    @classmethod
    def fit(cls, X: Array, kind: str | None) -> Self:
        """Compute the statistics for "standard-l2", "standard", "l2" or None."""
        mean, scale = np.zeros(X.shape[1]), np.ones(X.shape[1])
        if kind in ("standard", "standard-l2"):
            fitted = StandardScaler().fit(np.sort(X, axis=0))  # rounded alike in any order of rows
            mean, scale = fitted.mean_, fitted.scale_
        return cls(mean, scale, kind in ("l2", "standard-l2"))

    def transform(self, X: Array) -> Array:
        """Scale samples."""
        # In place: damaged statistics must not widen the result.
        X = np.subtract(X, self.mean, out=np.empty_like(X))
        X /= self.scale
        return normalize(X, copy=False) if self.unit_rows else X


@dataclass(frozen=True, eq=False)
class RBFFeatures:
    """Kernel values against some rows, decorrelated by a matrix if there is one."""

    X: Array
    gamma: float
    normalization: Array | None = None

    def transform(self, X: Array) -> Array:
        """Compute the features of samples."""
        values = rbf_kernel(X, self.X, gamma=self.gamma)
        return values if self.normalization is None else values @ self.normalization.T


class ExactRidge:
    """Kernel ridge regression with an intercept, factored once for any number of targets.

    With H = I - 11'/n the dual system (K + alpha I - 11'K/n) A = HU has A = HA. So it equals the
    symmetric positive definite (HKH + alpha I) A = HU, and the fit on the training rows is
    U - alpha A. Distances, kernel and factor share the memory of one n×n matrix.
    """

    def __init__(self, X: Array, alpha: float, length_scale: float | None = None) -> None:
        n = len(X)
        K = euclidean_distances(X, squared=True)
        if length_scale is None:
            total = sum(np.sqrt(K[rows]).sum() for rows in gen_batches(n, 64))
            length_scale = total / max(n * (n - 1), 1)
        self.feature_map = RBFFeatures(X, _gamma(length_scale))
        K *= -self.feature_map.gamma
        np.exp(K, out=K)
        self._mean = K.mean(axis=0)
        K -= self._mean
        K -= self._mean[:, None] - self._mean.mean()
        # K is symmetric, so its transpose is the column-major view that LAPACK overwrites.
        self._factor = _factorize(K.T, alpha, lower=True, overwrite_a=True, check_finite=False)
        self._alpha = alpha

    def fit(self, targets: Array) -> Array:
        """Fit targets of shape (n_samples, n_classes); return the outputs on the same rows."""
        mean = targets.mean(axis=0)
        self.coef = cho_solve(self._factor, targets - mean, check_finite=False)
        self.intercept = mean - self._mean @ self.coef
        return targets - self._alpha * self.coef


class NystroemRidge:
    """The same regression on a kernel of low rank, in O(n_samples × n_components) memory."""

    def __init__(
        self, X: Array, alpha: float, length_scale: float | None, n_components: int, rng: Rng
    ) -> None:
        if length_scale is None:
            some = rng.choice(len(X), n_components, replace=False)
            parts = (euclidean_distances(X[r], X[some]).sum() for r in gen_batches(len(X), 1024))
            length_scale = sum(parts) / (n_components * (len(X) - 1))
        low = Nystroem(gamma=_gamma(length_scale), n_components=n_components, random_state=rng)
        self._features = low.fit_transform(X)
        self.feature_map = RBFFeatures(low.components_, low.gamma, low.normalization_)
        self._mean = self._features.mean(axis=0)
        self._features -= self._mean
        self._factor = _factorize(self._features.T @ self._features, alpha)

    def fit(self, targets: Array) -> Array:
        """Fit targets of shape (n_samples, n_classes); return the outputs on the same rows."""
        mean = targets.mean(axis=0)
        self.coef = cho_solve(self._factor, self._features.T @ (targets - mean))
        self.intercept = mean - self._mean @ self.coef
        return self._features @ self.coef + mean


def _factorize(matrix: Array, alpha: float, **options: bool) -> tuple[Array, bool]:
    """Factorize a positive semidefinite matrix after adding alpha to its diagonal."""
    try:
        if alpha < np.finfo(float).eps * np.trace(matrix):  # rounding errors would outweigh it
            raise LinAlgError
        np.einsum("ii->i", matrix)[:] += alpha
        return cho_factor(matrix, **options)
    except LinAlgError:
        raise ValueError(
            "`alpha` must be large enough for double precision with these rows, got "
            f"{alpha!r}. Raise it, for instance to {max(1e-6, 10 * alpha):g}."
        ) from None


def _gamma(length_scale: float) -> float:
    """Return the kernel's coefficient; a length scale of 0 means that all rows are equal."""
    return float(0.5 / length_scale**2) if length_scale > 0 else 1.0


def class_costs(
    X: Array, confidences: Array, *, cluster_ratio: float, balance: bool, seed: int
) -> tuple[Array, Array]:
    """Compute the costs of PL-CGR from the distances between classes.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
        Scaled samples.
    confidences : ndarray of shape (n_samples, n_classes)
        Confidences of the samples.
    cluster_ratio : float
        Centers per member of a class.
    balance : bool
        Whether to multiply the distance from class i to class j by size of j over size of i.
    seed : int
        Seed of k-means, the same for every class, so that the order of classes has no effect.

    Returns
    -------
    scale, threshold : ndarray of shape (n_classes,)
        How strongly costs act on each class, and around which output.
    """
    distance, missing = class_distances(X, confidences, cluster_ratio, balance, seed)
    n_classes = len(distance)
    # DEVIATES: the published code writes the distance 2 for an empty class and lets it set the
    # scale of its row, which fits rows of length one only. Here empty classes set no scale.
    largest = distance.max(axis=1, keepdims=True)
    distance = (distance + SMOOTHING) / (largest + SMOOTHING * n_classes)
    distance[missing] = 1.0
    closeness = 1.0 - distance
    np.fill_diagonal(distance, 0.0)
    np.fill_diagonal(closeness, 0.0)
    to, of = closeness.sum(axis=0), closeness.sum(axis=1)
    # DEVIATES: 0/0 for a class without members, where the published code returns NaN. Costs then
    # leave the class as it is.
    scale = np.divide(of, to + of, out=np.zeros(n_classes), where=to + of > 0)
    return scale, distance.sum(axis=0) / (distance.sum(axis=0) + distance.sum(axis=1))


def class_distances(
    X: Array, confidences: Array, cluster_ratio: float, balance: bool, seed: int
) -> tuple[Array, Array]:
    """Compute the mean distance of each class's members to each class's centers.

    Members of a class are the samples whose confidence in it is at least the mean of the positive
    ones. Returns the distances of shape (n_classes, n_classes), zero on the diagonal and where a
    class has no members, and a mask of the latter.
    """
    n_classes = confidences.shape[1]
    members, centers = [], []
    for column in confidences.T:
        positive = column[column > 0]
        # DEVIATES: the published code takes the mean of nothing, NaN, if none is positive.
        # A mean of equal confidences may be rounded up, above all of them.
        least = positive.mean() * (1 - 1e-12) if len(positive) else np.inf
        members.append(np.flatnonzero(column >= least))
        centers.append(_cluster(X[members[-1]], cluster_ratio, seed))
    sizes = np.array([len(rows) for rows in members])
    counts = np.array([len(rows) for rows in centers])
    owner = np.repeat(np.arange(n_classes), counts)
    all_centers = np.concatenate(centers)
    distance = np.zeros((n_classes, n_classes))
    for i in np.flatnonzero(sizes):
        # in batches: members times centers may be a good part of n_samples²
        batches = gen_batches(sizes[i], 64)
        total = sum(euclidean_distances(X[members[i][b]], all_centers).sum(axis=0) for b in batches)
        # DEVIATES: the published code divides by the number k_i of centers of class i where the
        # mean needs k_j, so that its distances are means times k_j / k_i. Here they are means. The
        # ratio of class sizes, which is nearly that factor, is a parameter (`balance`), and on by
        # default: the method's costs do little without it.
        distance[i] = np.bincount(owner, total, n_classes) / (sizes[i] * np.maximum(counts, 1))
    if balance:
        distance *= sizes / np.maximum(sizes, 1)[:, None]
    np.fill_diagonal(distance, 0.0)
    return distance, (sizes == 0) | (sizes == 0)[:, None]


def _cluster(rows: Array, cluster_ratio: float, seed: int) -> Array:
    """Return the k-means centers of a class, one per 1/cluster_ratio members, rounded up."""
    # DEVIATES: where one center is due, the published code uses all members as centers.
    n_clusters = int(np.ceil(cluster_ratio * len(rows)))
    if n_clusters <= 1:
        return rows.mean(axis=0, keepdims=True) if len(rows) else rows
    distinct = np.unique(rows, axis=0)
    if n_clusters >= len(distinct):
        return distinct
    return KMeans(n_clusters, n_init=1, random_state=seed).fit(rows).cluster_centers_


def cost_step(outputs: Array, mask: Array, scale: Array, threshold: Array, weight: float) -> Array:
    """Update the confidences of PL-CGR.

    Minimizes ``||P - outputs||² - weight Σ scale (outputs - threshold) P`` over confidences P.
    """
    return project_simplex(outputs + weight / 2 * scale * (outputs - threshold), mask)


def neighbor_laplacian(X: Array, n_neighbors: int) -> sp.csr_array:
    """Build the Laplacian of the neighbor graph, of shape (n_samples, n_samples)."""
    n_neighbors = min(n_neighbors, len(X) - 1)
    if n_neighbors == 0:  # a single row
        return sp.csr_array((1, 1))
    graph = NearestNeighbors(n_neighbors=n_neighbors).fit(X).kneighbors_graph(mode="distance")
    farthest = graph.data.reshape(len(X), n_neighbors).max(axis=1)
    width = farthest.mean() or 1.0  # 0: all rows are equal
    graph.data = np.exp(-((graph.data / width) ** 2))
    return sp.csr_array(laplacian((graph + graph.T) / 2))


def confidence_step(
    confidences: Array, outputs: Array, A: Array, mask: Array, weight: float, max_iter: int
) -> Array:
    """Update the confidences of DPCLS by projected gradient descent.

    Lowers ``||F - outputs||² + weight tr(F'AF)`` over confidences F, with A the symmetric part of
    the dissimilarity. The step is one over a bound on the curvature, so no step goes up, convex or
    not.
    """
    # DEVIATES: the published code solves the quadratic program in all n × m confidences at once. A
    # few steps lower the same objective, and the next iteration goes on from where they end.
    # A is non-negative: it has no eigenvalue above its largest row sum.
    step = 1.0 / (1.0 + weight * A.sum(axis=1).max())
    # DEVIATES: the published row-wise variant has half of this (each pair of samples occurs twice
    # in the trace), and so solves another problem.
    pull = (confidences.T @ A).T  # twice as fast as A @ confidences
    moving, rows = np.ones(len(confidences), dtype=bool), A
    for _ in range(max_iter):
        gradient = confidences - outputs + weight * pull
        renewed = project_simplex(confidences - step * gradient, mask)
        change, confidences = renewed - confidences, renewed
        if np.abs(change).max() < CONFIDENCE_TOL:
            break
        # Most samples end in a corner of the simplex and no longer change the pull. Copying the
        # rows of the others costs as much as a few products with them.
        moved = change.any(axis=1)
        if moved[~moving].any():
            moving, rows = np.ones(len(confidences), dtype=bool), A
        elif 3 * moved.sum() < len(rows):
            moving, rows = moved, A[moved]
        pull += (change[moving].T @ rows).T
    return confidences
