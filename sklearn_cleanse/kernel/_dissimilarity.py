"""The dissimilarity of DPCLS: two copies of an n×n matrix, and the dual that makes them agree."""

import math

import numpy as np
import scipy.sparse as sp
from scipy.linalg import blas, lapack
from sklearn.utils import gen_batches

from ._steps import Array

# The method's first penalty on the difference of the copies [μ], its growth [ρ] and its end.
FIRST_PENALTY, GROWTH, MAX_PENALTY = 1e-4, 1.1, 1e10
# Columns per block: many, for fast products of dense matrices, and not a power of two, which would
# map the columns of a strip to the same cache lines.
BLOCK_COLUMNS = 248
STRIP_VALUES = 2**15  # fit into the fastest cache several times
SMOOTHING_ACCURACY = 1e-9  # of each row of the smooth copy, in Euclidean norm
MAX_ROUNDS = 5  # of elimination
MIN_ELIMINATED = 64  # samples that a round must eliminate to be worth it
# How many times as fast as with a sparse factor a product of dense matrices runs, per operation.
DENSE_SPEED = 12


def elimination_order(laplacian: sp.csr_array) -> tuple[Array, list[int]]:
    """Choose an order in which samples can be eliminated from systems with the graph's Laplacian.

    A round eliminates samples of which no two are neighbors, all at once; their neighbors become
    neighbors of each other.

    Returns
    -------
    order : ndarray of shape (n_samples,)
        The samples, those of the first round first, those never eliminated last.
    sizes : list of int
        How many are eliminated in each round.
    """
    left = np.arange(laplacian.shape[0])
    system = laplacian + sp.eye_array(len(left), format="csr")
    order, sizes = [], []
    for _ in range(MAX_ROUNDS):
        free = np.ones(len(left), dtype=bool)
        leaves = np.zeros(len(left), dtype=bool)
        for i in np.argsort(np.diff(system.indptr), kind="stable"):  # fewest neighbors first
            if free[i]:
                leaves[i] = True
                free[system.indices[system.indptr[i] : system.indptr[i + 1]]] = False
        if leaves.all() or leaves.sum() < MIN_ELIMINATED:
            break
        order.append(left[leaves])
        sizes.append(len(order[-1]))
        now = np.concatenate([np.flatnonzero(leaves), np.flatnonzero(~leaves)])
        system = Elimination(system[now][:, now], sizes[-1]).rest
        left = left[~leaves]
    return np.concatenate([*order, left]), sizes


class Elimination:
    """One round: eliminates the first samples, of which no two are linked, from a system."""

    def __init__(self, system: sp.csr_array, size: int) -> None:
        self.size = size
        self.pivots = system.diagonal()[:size, None]
        self.down = sp.csr_array(system[size:, :size])
        self.up = sp.csr_array(self.down.T / self.pivots)
        self.rest = sp.csr_array(system[size:, size:] - self.down @ self.up)


class Smoother:
    """Solves ``(I + strength L) X = Y`` for a sparse Laplacian L and a strength that falls.

    A strong smoothing is solved exactly: some samples are eliminated by sparse products, and the
    system of the others, about six tenths, is inverted. A weak one is solved by Chebyshev's
    iteration, where a few sparse products bring the error below `SMOOTHING_ACCURACY`.

    Parameters
    ----------
    laplacian : csr_array of shape (n_samples, n_samples)
        L, its samples in the order of elimination.
    sizes : list of int
        How many samples are eliminated in each round.
    """

    def __init__(self, laplacian: sp.csr_array, sizes: list[int]) -> None:
        self._laplacian, self._sizes = laplacian, sizes
        self._identity = sp.eye_array(laplacian.shape[0], format="csr")
        # For a non-negative matrix Q and any x > 0, no eigenvalue exceeds the largest (Qx)_i / x_i.
        Q, x = self._identity + abs(laplacian), np.ones(laplacian.shape[0])
        for _ in range(20):
            x = Q @ x
            x /= x.max()
        self._bound = (Q @ x / x).max() - 1.0

    def prepare(self, strength: float, norm: float) -> None:
        """Set the strength, for columns of Y of at most the given norm."""
        largest = 1.0 + strength * self._bound
        self._middle, self._radius = (largest + 1.0) / 2, (largest - 1.0) / 2
        # The error of k steps is at most 2 rate^k times the norm.
        rate = (math.sqrt(largest) - 1.0) / (math.sqrt(largest) + 1.0)
        excess = math.log(max(2.0 * norm / SMOOTHING_ACCURACY, 1.0))
        self._n_steps = max(1, math.ceil(excess / -math.log(rate))) if rate > 0 else 1
        system = self._system = self._identity + strength * self._laplacian
        self._rounds: list[Elimination] = []
        self._inverse = None
        if self._n_steps * DENSE_SPEED * system.nnz > system.shape[0] ** 2:
            for size in self._sizes:
                self._rounds.append(Elimination(system, size))
                system = self._rounds[-1].rest
            factor, _ = lapack.dpotrf(system.toarray(order="F"), lower=True, overwrite_a=True)
            self._inverse, _ = lapack.dpotri(factor, lower=True, overwrite_c=True)

    def solve(self, Y: Array) -> Array:
        """Solve for Y of shape (n_samples, n_columns)."""
        if self._inverse is not None:
            return self._eliminate(Y)
        X = np.empty(Y.shape)
        for strip in gen_batches(Y.shape[1], max(32, STRIP_VALUES // len(Y))):
            X[:, strip] = self._iterate(Y[:, strip].copy())
        return X

    def _eliminate(self, Y: Array) -> Array:
        X = rest = Y.copy()
        visited = []
        for leaving in self._rounds:
            gone, rest = rest[: leaving.size], rest[leaving.size :]
            gone /= leaving.pivots
            rest -= leaving.down @ gone
            visited.append((leaving, gone, rest))
        # of the inverse there is only the lower triangle
        rest[:] = blas.dsymm(1.0, self._inverse, rest.T, side=1, lower=1).T
        for leaving, gone, rest in reversed(visited):
            gone -= leaving.up @ rest
        return X

    def _iterate(self, residual: Array) -> Array:
        """Solve by Chebyshev's iteration for a spectrum of middle ± radius."""
        X = residual / self._middle
        step, ratio = X.copy(), self._radius / self._middle
        for _ in range(self._n_steps - 1):
            product = self._system @ step
            residual -= product
            previous, ratio = ratio, 1.0 / (2.0 * self._middle / self._radius - ratio)
            np.multiply(residual, 2.0 * ratio / self._radius, out=product)
            step *= previous * ratio
            step += product
            X += step
        return X


class Dissimilarity:
    """Dissimilarity of all pairs of samples: the matrices of DPCLS's augmented Lagrangian.

    The bounded copy A lies in [0, 1] and is one between disjoint candidate sets, the smooth copy D
    varies little along the graph, and the dual makes them agree. Given the confidences F, a row of
    the three does not depend on the other rows. So rows are updated in blocks, which saves passes
    over n×n matrices. A row is kept as a column, the layout that sparse products need.

    Parameters
    ----------
    candidates : ndarray of shape (n_samples, n_classes), dtype bool
        Candidates.
    smoother : Smoother
        Smooths along the neighbor graph, whose Laplacian is L.
    weight : float
        How strongly dissimilar samples push each other's confidences apart [α].
    smoothness : float
        How far dissimilarity spreads along the graph [β].
    """

    def __init__(
        self, candidates: Array, smoother: Smoother, weight: float, smoothness: float
    ) -> None:
        self._smoother, self._weight, self._smoothness = smoother, weight, smoothness
        n_samples, numbers = len(candidates), candidates.astype(float)
        self._bounded = np.zeros((n_samples, n_samples))
        # In blocks, so that strips of them are contiguous: where A is fixed to one; and the smooth
        # copy, the dual divided by the penalty, and the change that the smooth copy has not seen
        # yet. With D the solution of the last smoothing, the next is D + X where
        # ``(μ' I + 2βL) X = μ' pending``. It shrinks from update to update, and with it the work
        # for a given accuracy.
        self._blocks = [
            (b, numbers @ numbers[b].T == 0, np.zeros((3, n_samples, b.stop - b.start)))
            for b in gen_batches(n_samples, BLOCK_COLUMNS)
        ]
        self._norm = math.sqrt(n_samples)  # bounds each column of ``pending``
        self._penalty = FIRST_PENALTY

    def update(self, confidences: Array) -> float:
        """Minimize the Lagrangian over D, then over A; update the dual and the penalty.

        Returns the largest difference of the two copies.
        """
        n_samples = len(confidences)
        self._smoother.prepare(2 * self._smoothness / self._penalty, self._norm)
        pushes = self._weight / self._penalty * confidences.T
        penalty = min(GROWTH * self._penalty, MAX_PENALTY)
        ratio, self._penalty = self._penalty / penalty, penalty
        largest, norms = 0.0, np.zeros(n_samples)
        for block, disjoint, state in self._blocks:
            smoothed = self._smoother.solve(state[2])
            for strip in gen_batches(n_samples, max(1, STRIP_VALUES // BLOCK_COLUMNS)):
                smooth, dual, pending = state[:, strip]
                bounded = self._bounded[strip, block]
                smooth += smoothed[strip]
                push = confidences[strip] @ pushes[:, block]
                renewed = constrain(smooth, dual, push, disjoint[strip])
                gap = smooth - renewed
                dual += gap
                dual *= ratio
                np.subtract(renewed, bounded, out=pending)
                pending *= ratio
                pending -= gap
                bounded[:] = renewed
                largest = max(largest, gap.max(), -gap.min())
                norms[block] += np.einsum("ij,ij->j", pending, pending)
        self._norm = math.sqrt(norms.max())
        return largest

    def symmetric_part(self) -> Array:
        """Return the symmetric part of the bounded copy."""
        total = self._bounded + self._bounded.T
        total /= 2
        return total


def constrain(smooth: Array, dual: Array, push: Array, disjoint: Array) -> Array:
    """Bound the dissimilarity to [0, 1], and to one between disjoint candidate sets.

    With the dual over the penalty and ``push = α/μ FF'`` this minimizes the Lagrangian's part
    ``α tr(F'AF) + μ <dual, D - A> + μ/2 ||D - A||²`` over such A, with D the smooth copy.
    """
    bounded = smooth + dual
    bounded -= push
    np.minimum(bounded, 1.0, out=bounded)
    return np.maximum(bounded, disjoint, out=bounded)  # from zero, or one where disjoint
