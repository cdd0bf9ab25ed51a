"""The training rows in random order, and a sample of those of all ranks."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from .._ranks import Ranks
from .._rows import SparseRows
from ..base import content_rank, first_equals
from ..votes._leave_one_out import SharedRows

#: Rows of all ranks, at most, that each of them gets to see: as many as statistics are taken from,
#: fewer where these take more bytes than the second figure, but never fewer than the third.
SHARED_ROWS, SHARED_BYTES, LEAST_SHARED = 20_000, 2**28, 1000


class Pool(NamedTuple):
    """Rows in an order that is random, and does not depend on how they came.

    Attributes
    ----------
    X : ndarray of shape (n_rows, ...), or SparseRows
    sets : csr_array of shape (n_rows, n_classes), dtype bool
        Candidates of these rows.
    used : ndarray of shape (n_samples,), dtype int
        Which of them are trained on; one may occur several times.
    candidates : csr_array of shape (n_samples, n_classes), dtype bool
        Candidates of those.
    grades : csr_array of shape (n_samples, n_classes) or None
    by_content : ndarray of shape (n_samples,), dtype int
        Positions in ``used``: equal rows are side by side.
    shuffle : ndarray of shape (n_samples,), dtype int
        Positions in ``used``, in random order.
    ours : slice or None
        Which of ``used`` are this rank's own training rows; None if these are not all there.
    numbers : ndarray of shape (n_rows,), dtype int, or None
        Numbers of X's rows among those of all ranks, rank after rank; None if X is all there is.
    """

    X: np.ndarray | SparseRows
    sets: sp.csr_array
    used: np.ndarray
    candidates: sp.csr_array
    grades: sp.csr_array | None
    by_content: np.ndarray
    shuffle: np.ndarray
    ours: slice | None = slice(None)
    numbers: np.ndarray | None = None

    @classmethod
    def of(
        cls,
        X: Any,
        sets: sp.csr_array,
        used: np.ndarray,
        candidates: sp.csr_array,
        grades: sp.csr_array | None,
        rank: np.ndarray,
        rng: np.random.RandomState,
        **others: Any,
    ) -> Pool:
        """Shuffle rows, from an order that does not depend on how they came (`content_rank`)."""
        by_content = np.argsort(rank, kind="stable")
        shuffle = by_content[rng.permutation(len(used))]
        return cls(X, sets, used, candidates, grades, by_content, shuffle, **others)

    def shared(self, ranks: Ranks, rng: np.random.RandomState) -> Pool:
        """Return the rows of all ranks, or a sample of many; ``rng`` is the same on all of them."""
        if not ranks.several:
            return self
        sizes = ranks.gather((len(self.used), len(self.X)))
        n_rows = sum(n for n, _ in sizes)
        start, n_before = (sum(n) for n in zip((0, 0), *sizes[: ranks.rank], strict=True))
        some = np.arange(len(self.used))
        row_bytes = max(1, math.prod(self.X.shape[1:]) * self.X.dtype.itemsize)
        limit = min(SHARED_ROWS, max(LEAST_SHARED, SHARED_BYTES // row_bytes))
        if n_rows > limit:
            some = self.shuffle[: max(1, limit * len(some) // n_rows)]
        told = ranks.gather(
            (
                self.X[self.used[some]],
                self.candidates[some],
                None if self.grades is None else self.grades[some],
                n_before + self.used[some],
            )
        )
        rows, all_sets, all_grades, numbers = zip(*told, strict=True)
        X = _concatenate(rows)
        sets = sp.vstack(all_sets, format="csr")
        grades = None if self.grades is None else sp.vstack(all_grades, format="csr")
        parts = X, sets, np.arange(len(X)), sets, grades
        rank = content_rank(X, sets if grades is None else grades)
        ours = slice(start, start + len(self.used)) if n_rows <= limit else None
        return Pool.of(*parts, rank, rng, ours=ours, numbers=np.concatenate(numbers))

    def distinct(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the first of the rows equal to each, and these first ones in random order."""
        marks = self.candidates if self.grades is None else self.grades
        first = first_equals(self.X, marks, self.used, self.by_content)
        return first, self.shuffle[first[self.shuffle] == self.shuffle]

    def sample(self, ranks: Ranks) -> SharedRows:
        """Return the distinct rows, in random order, for landmarks."""
        voters = self.distinct()[1]
        rows = self.used[voters]
        numbers = rows if self.numbers is None else self.numbers[rows]
        return SharedRows(self.X[rows], self.candidates[voters], numbers, ranks)


def _concatenate(parts: tuple) -> np.ndarray | SparseRows:
    if isinstance(parts[0], SparseRows):
        return SparseRows(sp.vstack([part.matrix for part in parts]))
    return np.concatenate(parts)
