"""Cross-validation folds for candidate sets."""

from __future__ import annotations

from collections.abc import Iterator
from numbers import Integral
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.model_selection import BaseCrossValidator
from sklearn.utils import check_random_state

from .candidates import check_graded, is_clean

__all__ = ["CandidateKFold"]


def __dir__() -> list[str]:
    return __all__  # without the imports of this file


class CandidateKFold(BaseCrossValidator):
    """Shuffled folds, balanced in the candidates and the clean samples of every class.

    With a matrix for y scikit-learn's own default is ``KFold`` without shuffling, and its
    stratified splitters raise. This one takes candidates in any form that ``fit`` takes, graded
    or not, and no class is too small for it: one with fewer samples than folds is missing from some
    test folds.

    Samples are dealt one by one, those of the rarest class first, each to the fold that most
    lacks what the sample has: iterative stratification [1]_, with folds of equal size (to within
    one sample).

    Parameters
    ----------
    n_splits : int, default=5
        Number of folds.
    n_repeats : int, default=1
        Number of times to shuffle and split anew.
    random_state : int, RandomState instance or None, default=None
        Seed of the shuffling. With None every call of `split` gives other folds; pass an int to
        compare estimators on the same ones.

    References
    ----------
    .. [1] K. Sechidis, G. Tsoumakas, I. Vlahavas. On the stratification of multi-label data.
       ECML PKDD 2011.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_cleanse.model_selection import CandidateKFold
    >>> S = [{"cat"}, {"cat", "dog"}, {"cat", "dog"}, {"cat"}, {"cat", "cow"}, {"cat", "cow"}]
    >>> folds = CandidateKFold(2, random_state=0)
    >>> for train, test in folds.split(np.zeros((6, 1)), S):
    ...     print([sorted(S[i]) for i in test])
    [['cat', 'dog'], ['cat'], ['cat', 'cow']]
    [['cat'], ['cat', 'dog'], ['cat', 'cow']]
    """

    def __init__(self, n_splits=5, *, n_repeats=1, random_state=None):
        for name, value, least in (("n_splits", n_splits, 2), ("n_repeats", n_repeats, 1)):
            if not isinstance(value, Integral) or isinstance(value, bool) or value < least:
                raise ValueError(f"{name} is {value!r}; it must be an integer of at least {least}")
        self.n_splits = n_splits
        self.n_repeats = n_repeats
        self.random_state = random_state

    def get_n_splits(self, X=None, y=None, groups=None):
        """Return the number of splits, folds times repeats.

        Parameters
        ----------
        X : object, default=None
            Ignored.
        y : object, default=None
            Ignored.
        groups : object, default=None
            Ignored.

        Returns
        -------
        n_splits : int
        """
        return self.n_splits * self.n_repeats

    def _iter_test_indices(self, X=None, y=None, groups=None) -> Iterator[np.ndarray]:
        """Yield the test samples of each fold. `split` itself is scikit-learn's."""
        _, candidates, _ = check_graded(y, n_samples=None if X is None else _n_rows(X))
        if candidates.shape[0] < self.n_splits:
            raise ValueError(
                f"n_splits is {self.n_splits}, but there are only {candidates.shape[0]} samples; "
                "every fold needs at least one"
            )
        rng = check_random_state(self.random_state)
        for _ in range(self.n_repeats):
            fold = _deal(candidates, self.n_splits, rng)
            for f in range(self.n_splits):
                yield np.flatnonzero(fold == f)


def _n_rows(X: Any) -> int:
    return X.shape[0] if hasattr(X, "shape") else len(X)


def _deal(candidates: sp.csr_array, n_folds: int, rng: np.random.RandomState) -> np.ndarray:
    """Return the fold of each sample."""
    # Two marks per class: "is a candidate" and "is the only one". Both are to be balanced.
    ones = candidates.astype(np.int64)
    clean = ones.multiply(is_clean(candidates)[:, None]).tocsr()
    clean.eliminate_zeros()
    marks = sp.csr_array(sp.hstack([ones, clean], format="csr"))
    marked = marks.tocsc()
    n_samples, n_marks = marks.shape

    room = np.full(n_folds, n_samples // n_folds)
    room[rng.permutation(n_folds)[: n_samples % n_folds]] += 1
    left = np.bincount(marks.indices, minlength=n_marks)
    lacking = np.outer(left, room / n_samples)  # what each fold is still to get of each mark
    # DEVIATES: the paper looks at the rarest mark alone. All marks of a sample, each relative to
    # its count, left 10 to 40 % less imbalance on Lost, MSRCv2 and BirdSong (means of ten seeds).
    urgency = 1.0 / np.maximum(left, 1)
    luck = rng.random_sample((n_samples, n_folds)) * 1e-9  # settles what room leaves tied
    fold = np.full(n_samples, -1)
    while left.any():
        rarest = int(np.argmin(np.where(left > 0, left, n_samples + 1)))
        rows = marked.indices[marked.indptr[rarest] : marked.indptr[rarest + 1]]
        for row in rng.permutation(rows[fold[rows] < 0]):
            own = marks.indices[marks.indptr[row] : marks.indptr[row + 1]]
            need = urgency[own] @ lacking[own] + 1e-7 * room + luck[row]
            need[room == 0] = -np.inf
            chosen = int(need.argmax())
            fold[row] = chosen
            room[chosen] -= 1
            lacking[own, chosen] -= 1
            left[own] -= 1
    return fold
