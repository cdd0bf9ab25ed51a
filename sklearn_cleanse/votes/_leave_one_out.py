"""What all other rows say of a row: kernel ridge regression, each row left out, in closed form.

With K the kernel between rows, M = (K + ρI)⁻¹ and targets Y around a mean b, the prediction for
row i of a ridge regression that never saw row i is ``y_i - (M (Y - b))_i / M_ii``. With features Φ
of r landmarks in place of K it is ``b + (ŷ_i - h_i (y_i - b)) / (1 - h_i)``, ŷ and h being fit and
leverage of all rows. Nothing is ever fitted twice.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from .._ranks import ALONE, Ranks
from .._rows import SparseRows
from ._kernels import MeanKernel

__all__ = ["ExactRidge", "LandmarkRidge", "make_ridge"]

#: ρ, added to the kernel's diagonal of ones. Chosen on controlled sets.
RIDGE = 0.05

#: Up to so many rows the exact form is used: 0.8 GB and some seconds at its end.
EXACT_ROWS = 5000

#: Landmarks beyond that, and most values of their features: fewer landmarks for more rows.
LANDMARKS, FEATURE_VALUES = 1000, 2**28

_BLOCK = 4096


class SharedRows(NamedTuple):
    """A sample of the rows of all ranks, in random order, the same on all of them.

    Attributes
    ----------
    X : ndarray of shape (n_shared, ...), or SparseRows
    candidates : csr_array of shape (n_shared, n_classes), dtype bool
    rows : ndarray of shape (n_shared,), dtype int
        Their numbers.
    ranks : Ranks
        The processes, each of which has rows of its own.
    """

    X: np.ndarray | SparseRows
    candidates: sp.csr_array
    rows: np.ndarray
    ranks: Ranks


class ExactRidge:
    """Left-out kernel ridge regression with all rows.

    Parameters
    ----------
    kernel : MeanKernel
        Compares rows.
    X : ndarray of shape (n_samples, ...), or SparseRows
        The rows.
    ridge : float, default=0.05
        ρ, added to the kernel's diagonal of ones.

    Examples
    --------
    >>> import numpy as np, torch
    >>> from sklearn_cleanse.votes import ExactRidge, MeanKernel
    >>> X = np.array([[0.0], [0.1], [1.0], [1.1]])
    >>> ridge = ExactRidge(MeanKernel.fit(X), X)
    >>> Y = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, 1.0]], dtype=torch.float64)
    >>> ridge.left_out(Y).argmax(dim=1)
    tensor([0, 0, 1, 1])
    """

    ranks = ALONE  # it has all rows

    def __init__(
        self, kernel: MeanKernel, X: np.ndarray | SparseRows, ridge: float = RIDGE
    ) -> None:
        self.kernel, self.basis = kernel, kernel.views(X)
        K = kernel(self.basis, self.basis)
        self.dtype, self.ridge, self.n_basis = K.dtype, ridge, len(K)
        K.diagonal().fill_(1.0 + ridge)  # the mean of exactly equal rows, without rounding
        self.inverse = torch.cholesky_inverse(torch.linalg.cholesky(K))
        self.diagonal = self.inverse.diagonal()[:, None].clone()

    @property
    def noise_error(self) -> float:
        """Mean squared left-out error on targets that are noise of variance one."""
        return float((self.inverse.square().sum(dim=1) / self.diagonal[:, 0].square()).mean())

    def coefficients(self, targets: Tensor) -> Tensor:
        """Fit all rows; predictions are the mean target plus kernel times coefficients.

        Parameters
        ----------
        targets : Tensor of shape (n_samples, n_outputs)

        Returns
        -------
        coefficients : Tensor of shape (n_basis, n_outputs)
        """
        return self.inverse @ (targets - targets.mean(dim=0))

    def left_out(self, targets: Tensor) -> Tensor:
        """Predict each row from all others.

        Parameters
        ----------
        targets : Tensor of shape (n_samples, n_outputs)

        Returns
        -------
        left_out : Tensor of shape (n_samples, n_outputs)
        """
        return targets - self.coefficients(targets) / self.diagonal

    def fitted(self, targets: Tensor) -> Tensor:
        """Predict each row from all, itself included.

        Parameters
        ----------
        targets : Tensor of shape (n_samples, n_outputs)

        Returns
        -------
        fitted : Tensor of shape (n_samples, n_outputs)
        """
        return targets - self.ridge * self.coefficients(targets)  # (K + ρI) C = Y - b


class LandmarkRidge:
    """Left-out kernel ridge regression on landmarks: rows that stand for all (Nyström).

    Parameters
    ----------
    kernel : MeanKernel
        Compares rows.
    X : ndarray of shape (n_samples, ...), or SparseRows
        The rows.
    landmarks : ndarray of shape (n_landmarks,), dtype int
        Which rows are landmarks. All of them give the exact form.
    ridge : float, default=0.05
        ρ, as for `ExactRidge`.
    shared : SharedRows, default=None
        Rows that ``landmarks`` are numbers of, where X are those of one rank only. What all rows
        give is then summed over the ranks.

    Examples
    --------
    >>> import numpy as np, torch
    >>> from sklearn_cleanse.votes import LandmarkRidge, MeanKernel
    >>> X = np.linspace(0, 1, 200)[:, None]
    >>> ridge = LandmarkRidge(MeanKernel.fit(X), X, np.arange(0, 200, 10))
    >>> Y = torch.from_numpy(np.hstack([X < 0.5, X >= 0.5]).astype(float))
    >>> bool((ridge.left_out(Y).argmax(dim=1) == Y.argmax(dim=1)).float().mean() > 0.95)
    True
    """

    def __init__(
        self,
        kernel: MeanKernel,
        X: np.ndarray | SparseRows,
        landmarks: np.ndarray,
        ridge: float = RIDGE,
        shared: SharedRows | None = None,
    ) -> None:
        self.kernel, self.ridge = kernel, ridge
        self.ranks = ranks = ALONE if shared is None else shared.ranks
        self.basis = kernel.views((X if shared is None else shared.X)[landmarks])
        K = kernel(self.basis, self.basis)
        K.diagonal().fill_(1.0)
        self._root = _inverse_root(K)
        n, r, dtype = len(X), len(landmarks), K.dtype
        self.n_basis = r
        # Single precision halves the memory of what has a row per sample; sums are in double.
        self.dtype = dtype if r == n and not ranks.several else torch.float32
        self._phi = torch.empty(n, r, dtype=self.dtype, device=K.device)
        gram = torch.zeros(r, r, dtype=dtype, device=K.device)
        if ranks.rank == 0:
            gram.diagonal().fill_(ridge)
        for rows in self._blocks():
            block = kernel(kernel.views(X[rows]), self.basis) @ self._root
            self._phi[rows] = block.to(self.dtype)
            gram += block.T @ block
        [gram] = ranks.totals(gram)
        self._inverse = torch.cholesky_inverse(torch.linalg.cholesky(gram))
        self._leverage = K.new_empty(n, 1)
        self._noise = K.new_zeros(())
        for rows in self._blocks():
            block = self._phi[rows].to(dtype)
            solved = block @ self._inverse
            h = (block * solved).sum(dim=1)
            self._leverage[rows] = h[:, None]
            # (I - H)² has the diagonal 1 - 2h + (h - ρ φ'A⁻²φ)
            squared = 1 - h - ridge * solved.square().sum(dim=1)
            self._noise += (squared / (1 - h).square()).sum()
        [self._noise], self._n_total = ranks.totals(self._noise), ranks.total(n)

    @property
    def noise_error(self) -> float:
        """Mean squared left-out error on targets that are noise of variance one."""
        return float(self._noise) / self._n_total

    def _blocks(self) -> list[slice]:
        n = len(self._phi)
        return [slice(start, min(start + _BLOCK, n)) for start in range(0, n, _BLOCK)]

    def coefficients(self, targets: Tensor) -> Tensor:
        """Fit all rows; predictions are the mean target plus kernel times coefficients.

        Parameters
        ----------
        targets : Tensor of shape (n_samples, n_outputs)

        Returns
        -------
        coefficients : Tensor of shape (n_landmarks, n_outputs)
        """
        return self._root @ self._solve(targets, self.ranks.mean(targets))

    def _solve(self, targets: Tensor, mean: Tensor) -> Tensor:
        """Return the coefficients of the features."""
        total = self._inverse.new_zeros(len(self._inverse), targets.shape[1])
        for rows in self._blocks():
            centred = (targets[rows] - mean).to(self.dtype)
            total += (self._phi[rows].T @ centred).to(total.dtype)
        [total] = self.ranks.totals(total)
        return self._inverse @ total

    def left_out(self, targets: Tensor) -> Tensor:
        """Predict each row from all others.

        Parameters
        ----------
        targets : Tensor of shape (n_samples, n_outputs)

        Returns
        -------
        left_out : Tensor of shape (n_samples, n_outputs)
        """
        mean = self.ranks.mean(targets)
        coefficients = self._solve(targets, mean).to(self.dtype)
        found = torch.empty_like(targets)
        for rows in self._blocks():
            fitted, h = self._phi[rows] @ coefficients, self._leverage[rows].to(targets.dtype)
            own = targets[rows] - mean
            found[rows] = mean + (fitted.to(targets.dtype) - h * own) / (1 - h)
        return found

    def fitted(self, targets: Tensor) -> Tensor:
        """Predict each row from all, itself included.

        Parameters
        ----------
        targets : Tensor of shape (n_samples, n_outputs)

        Returns
        -------
        fitted : Tensor of shape (n_samples, n_outputs)
        """
        h = self._leverage.to(targets.dtype)
        mean = self.ranks.mean(targets)
        return mean + (1 - h) * (self.left_out(targets) - mean) + h * (targets - mean)


def _inverse_root(K: Tensor) -> Tensor:
    """Return K^(-1/2), leaving out directions that rounding makes up."""
    values, vectors = torch.linalg.eigh(K)
    kept = values > values[-1] * 1e-10
    return vectors * torch.where(kept, values.clamp(min=1e-300).rsqrt(), 0.0) @ vectors.T


def make_ridge(
    X: np.ndarray | SparseRows,
    *,
    n_landmarks: int | str | None = "auto",
    ridge: float = RIDGE,
    device: torch.device | str = "cpu",
    shared: SharedRows | None = None,
) -> ExactRidge | LandmarkRidge:
    """Choose between all rows and landmarks.

    Parameters
    ----------
    X : ndarray of shape (n_samples, ...), or SparseRows
        Rows in random order: the first ones are the landmarks.
    n_landmarks : int, "auto" or None, default="auto"
        None takes all rows, "auto" all up to 5,000 and then 1,000 landmarks, fewer where their
        features would take more than 1 GiB.
    ridge : float, default=0.05
        ρ of the regression.
    device : torch.device or str, default="cpu"
    shared : SharedRows, default=None
        Where X are the rows of one rank only: what landmarks and scalings are taken from.

    Returns
    -------
    ridge : ExactRidge or LandmarkRidge

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_cleanse.votes import make_ridge
    >>> X = np.random.RandomState(0).normal(size=(50, 3))
    >>> type(make_ridge(X)).__name__, type(make_ridge(X, n_landmarks=10)).__name__
    ('ExactRidge', 'LandmarkRidge')
    """
    if shared is not None:
        n_landmarks = count_landmarks(shared.ranks.total(len(X)), n_landmarks)
        landmarks = np.arange(min(n_landmarks, len(shared.X)))
        return LandmarkRidge(MeanKernel.fit(shared.X, device), X, landmarks, ridge, shared)
    n_landmarks = count_landmarks(len(X), n_landmarks)
    kernel = MeanKernel.fit(X, device)
    if n_landmarks == len(X):
        return ExactRidge(kernel, X, ridge)
    return LandmarkRidge(kernel, X, np.arange(n_landmarks), ridge)


def count_landmarks(n_samples: int, n_landmarks: int | str | None) -> int:
    """Return the number of rows that stand for all, which is all of them in the exact form."""
    if n_landmarks == "auto":
        few = min(LANDMARKS, max(1, FEATURE_VALUES // n_samples))
        return n_samples if n_samples <= EXACT_ROWS else few
    return n_samples if n_landmarks is None else min(int(n_landmarks), n_samples)


def memory_needed(n_samples: int, n_features: int, n_classes: int, n_landmarks: int) -> float:
    """Estimate the memory of a fit in bytes, beyond the data."""
    views = 3 * n_features * n_landmarks
    rows = 6 * n_classes * n_samples
    if n_landmarks == n_samples:
        return 8.0 * (4 * n_samples**2 + views + rows)
    block = _BLOCK * (4 * n_landmarks + 6 * n_features)
    return 4.0 * n_samples * n_landmarks + 8.0 * (4 * n_landmarks**2 + views + rows + block)


def check_memory(
    n_samples: int,
    n_features: int,
    n_classes: int,
    n_landmarks: int | str | None,
    max_memory: float,
    n_own: int | None = None,
) -> None:
    """Refuse what would take more than ``max_memory`` GiB; of the samples, ``n_own`` are here."""
    count = count_landmarks(n_samples, n_landmarks)
    n_here = n_samples if n_own is None or count == n_samples else n_own
    need = memory_needed(n_here, n_features, n_classes, count) / 2**30
    if need > max_memory:
        raise MemoryError(
            f"kernel votes of {n_samples} samples with n_landmarks={count} need about {need:.3g} "
            f"GiB, more than max_memory={max_memory!r} GiB; lower n_landmarks, fit a random subset "
            "of the rows, or raise max_memory if the machine has more"
        )
