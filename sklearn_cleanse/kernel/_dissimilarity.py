"""The dissimilarity of DPCLS: two copies of an n×n matrix, and the dual that makes them agree."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.linalg import lapack

__all__ = ["Coupling", "Dissimilarity", "Smoother", "constrain", "elimination_order"]

MAX_PENALTY = 1e10
# Rows of the dissimilarity per block: many, for fast products of dense matrices, and not a power of
# two, which would map the columns of a tile to the same cache lines.
BLOCK_ROWS = 248
STRIP_VALUES = 2**15  # fit into the fastest cache several times
SMOOTHING_ACCURACY = 1e-9  # of each row of the smooth copy, in Euclidean norm
MAX_ROUNDS = 5  # of elimination
MIN_ELIMINATED = 64  # samples that a round must eliminate to be worth it
# How many times as fast as with a sparse factor a product of dense matrices runs, per operation.
DENSE_SPEED = 12


class Coupling(NamedTuple):
    """Interaction among the confidences of the partial samples, those with several candidates.

    Parameters
    ----------
    matrix : ndarray of shape (n_partial, n_partial)
        Symmetric part of the dissimilarity among them.
    pull : ndarray of shape (n_partial, n_classes)
        The part of the gradient that comes from clean samples, whose confidences never change.
    curvature : float
        Bound on the eigenvalues of the symmetric part, that of all samples.
    """

    matrix: np.ndarray
    pull: np.ndarray
    curvature: float


def _slices(n: int, size: int) -> list[slice]:
    return [slice(start, min(start + size, n)) for start in range(0, n, size)]


def elimination_order(laplacian: sp.csr_array) -> tuple[np.ndarray, list[int]]:
    """Choose an order in which samples can be eliminated from systems with the graph's Laplacian.

    A round eliminates samples of which no two are neighbours, all at once; their neighbours become
    neighbours of each other.

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
        for i in np.argsort(np.diff(system.indptr), kind="stable"):  # fewest neighbours first
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
        self._rounds, self._inverse = [], None
        if self._n_steps * DENSE_SPEED * system.nnz > system.shape[0] ** 2:
            for size in self._sizes:
                self._rounds.append(Elimination(system, size))
                system = self._rounds[-1].rest
            self._inverse = _invert(system.toarray())

    def solve(self, Y: np.ndarray) -> np.ndarray:
        """Solve for Y of shape (n_samples, n_columns)."""
        if self._inverse is not None:
            return self._eliminate(Y)
        X = np.empty_like(Y)
        for strip in _slices(Y.shape[1], max(32, STRIP_VALUES // len(Y))):
            X[:, strip] = self._iterate(Y[:, strip].copy())
        return X

    def _eliminate(self, Y: np.ndarray) -> np.ndarray:
        X = rest = Y.copy()
        visited = []
        for leaving in self._rounds:
            gone, rest = rest[: leaving.size], rest[leaving.size :]
            gone /= leaving.pivots
            rest -= leaving.down @ gone
            visited.append((leaving, gone, rest))
        rest[:] = self._inverse @ rest
        for leaving, gone, rest in reversed(visited):
            gone -= leaving.up @ rest
        return X

    def _iterate(self, residual: np.ndarray) -> np.ndarray:
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


def _invert(matrix: np.ndarray) -> np.ndarray:
    """Invert a symmetric positive definite matrix in its own memory."""
    # its transpose is the column-major view that LAPACK overwrites
    factor, _ = lapack.dpotrf(matrix.T, lower=True, clean=False, overwrite_a=True)
    lower, _ = lapack.dpotri(factor, lower=True, overwrite_c=True)
    inverse = lower.T
    for rows in _slices(len(inverse), BLOCK_ROWS):
        inverse[rows.stop :, rows] = inverse[rows, rows.stop :].T
        tile = np.triu(inverse[rows, rows])
        inverse[rows, rows] = tile + np.triu(tile, 1).T
    return inverse


class Dissimilarity:
    """Dissimilarity of all pairs of samples: the matrices of DPCLS's augmented Lagrangian.

    The bounded copy A lies in [0, 1] and is one between disjoint candidate sets, the smooth copy D
    varies little along the graph, and the dual makes them agree. Given the confidences F, a row of
    the three does not depend on the other rows. So rows are updated in blocks, which saves passes
    over n×n matrices, and clean samples (those with one candidate) of the same class, whose rows
    are always equal, share one.

    Parameters
    ----------
    candidates : ndarray of shape (n_samples, n_classes), dtype bool
        Candidates.
    smoother : Smoother
        Smooths along the neighbour graph, whose Laplacian is L.
    weight : float
        How strongly dissimilar samples push each other's confidences apart [α].
    smoothness : float
        How far dissimilarity spreads along the graph [β].
    penalty, growth : float
        First penalty on the difference of the copies [μ], and its factor per update [ρ].
    """

    def __init__(
        self,
        candidates: np.ndarray,
        smoother: Smoother,
        *,
        weight: float,
        smoothness: float,
        penalty: float,
        growth: float,
    ) -> None:
        self.weight, self.smoothness = weight, smoothness
        self.penalty, self.growth = penalty, growth
        is_clean = candidates.sum(axis=1) == 1
        self.partial, self._clean = np.flatnonzero(~is_clean), np.flatnonzero(is_clean)
        labels = candidates[self._clean].argmax(axis=1)
        _, first, self._class_of_clean, self._class_sizes = np.unique(
            labels, return_index=True, return_inverse=True, return_counts=True
        )
        self._representatives = self._clean[first]
        self._smoother = smoother
        self._norm = math.sqrt(len(candidates))  # bounds each row of ``pending``
        self._matrix = np.empty((len(self.partial), len(self.partial)))
        numbers = candidates.astype(float)
        self._partial_blocks, self._clean_blocks = (
            [
                _Block(part, rows[part], numbers @ numbers[rows[part]].T == 0)
                for part in _slices(len(rows), BLOCK_ROWS)
            ]
            for rows in (self.partial, self._representatives)
        )

    def update(self, confidences: np.ndarray) -> float:
        """Minimise the Lagrangian over D, then over A; update the dual and the penalty.

        Returns the largest difference of the two copies.
        """
        self._smoother.prepare(2 * self.smoothness / self.penalty, self._norm)
        penalty = min(self.growth * self.penalty, MAX_PENALTY)
        push = self.weight / self.penalty * confidences
        blocks = self._partial_blocks + self._clean_blocks
        done = [
            block.update(self._smoother, confidences, push, self.penalty / penalty)
            for block in blocks
        ]
        self.penalty = penalty
        gap, self._norm = np.max(done, axis=0)
        return gap

    def couple(self, confidences: np.ndarray) -> Coupling:
        """Compute how the confidences of the partial samples interact, given those of the clean."""
        partial, clean = self.partial, self._clean
        n_samples, n_classes = confidences.shape
        # what a row of A is multiplied by: the confidences of clean samples, and ones to sum it
        factors = np.ones((n_samples, n_classes + 1))
        factors[:, :-1] = confidences
        factors[partial, :-1] = 0.0
        pull = np.zeros((len(partial), n_classes))
        row_sums, column_sums = np.empty(n_samples), np.zeros(n_samples)
        for block in self._partial_blocks:
            products = factors.T @ block.bounded
            pull[block.part], row_sums[block.rows] = products[:-1].T, products[-1]
            column_sums += block.bounded.sum(axis=1)
        for block in self._clean_blocks:
            sizes = self._class_sizes[block.part]
            row_sums[block.rows] = block.bounded.sum(axis=0)
            columns = block.bounded @ (sizes[:, None] * factors[block.rows])
            pull += columns[partial, :-1]
            column_sums += columns[:, -1]
        row_sums[clean] = row_sums[self._representatives][self._class_of_clean]
        # A is non-negative: its symmetric part has no eigenvalue above its largest row sum.
        return Coupling(self._symmetric_part(), pull / 2, (row_sums + column_sums).max() / 2)

    def _symmetric_part(self) -> np.ndarray:
        """Compute the symmetric part among partial samples, in tiles that stay in the cache."""
        matrix = self._matrix
        for i, one in enumerate(self._partial_blocks):
            for other in self._partial_blocks[: i + 1]:
                tile = one.bounded[other.rows]
                tile += other.bounded[one.rows].T
                tile /= 2
                matrix[other.part, one.part] = tile
                matrix[one.part, other.part] = tile.T
        return matrix


class _Block:
    """Some rows of the three matrices, kept as columns, the layout that sparse products need.

    ``dual`` is the dual of the Lagrangian divided by the penalty. ``pending`` is the change that
    the smooth copy has not seen yet: with D the solution of the last smoothing, the next is D + X
    where ``(μ' I + 2βL) X = μ' pending``. It shrinks from update to update, and with it the work
    for a given accuracy.
    """

    def __init__(self, part: slice, rows: np.ndarray, disjoint: np.ndarray) -> None:
        self.part, self.rows = part, rows
        self._disjoint = disjoint
        self.bounded, self.smooth, self.dual, self.pending = (
            np.zeros(disjoint.shape) for _ in range(4)
        )

    def update(
        self, smoother: Smoother, confidences: np.ndarray, push: np.ndarray, ratio: float
    ) -> tuple[float, float]:
        """Update the rows; return the largest difference of the copies and the norm of ``pending``.

        ``ratio`` is the penalty divided by the next one.
        """
        smoothed = smoother.solve(self.pending)
        push = push[self.rows].T
        largest, norms = 0.0, np.zeros(len(self.rows))
        for strip in _slices(len(smoothed), max(1, STRIP_VALUES // len(self.rows))):
            smooth, dual, bounded = self.smooth[strip], self.dual[strip], self.bounded[strip]
            smooth += smoothed[strip]
            renewed = constrain(smooth, dual, confidences[strip] @ push, self._disjoint[strip])
            gap = smooth - renewed
            dual += gap
            dual *= ratio
            pending = self.pending[strip]
            np.subtract(renewed, bounded, out=pending)
            pending *= ratio
            pending -= gap
            bounded[:] = renewed
            largest = max(largest, gap.max(), -gap.min())
            norms += np.einsum("ij,ij->j", pending, pending)
        return largest, math.sqrt(norms.max())


def constrain(
    smooth: np.ndarray, dual: np.ndarray, push: np.ndarray, disjoint: np.ndarray
) -> np.ndarray:
    """Bound the dissimilarity to [0, 1], and to one between disjoint candidate sets.

    With the dual over the penalty and ``push = α/μ FF'`` this minimises the Lagrangian's part
    ``α tr(F'AF) + μ <dual, D - A> + μ/2 ||D - A||²`` over such A, with D the smooth copy.
    """
    bounded = smooth + dual
    bounded -= push
    np.minimum(bounded, 1.0, out=bounded)
    return np.maximum(bounded, disjoint, out=bounded)  # from zero, or one where disjoint
