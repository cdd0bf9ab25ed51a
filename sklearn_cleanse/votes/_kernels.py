"""Similarity of rows without a choice of kernel: a mean of kernels over scalings."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from ..scaling import Scaling, fit_scaling

#: The scalings of the features whose kernels are averaged.
VIEWS = ("standard", "minmax", "common")

#: Rows, at most, which scalings and mean distances are computed from.
STATISTICS_ROWS = 20_000
_WIDTH_ROWS = 1000

#: Features, at most, over which absolute distances are summed: they are not a matrix product.
_ABSOLUTE_FEATURES = 128

#: Rows and columns of a tile: distances of more do not stay in the processor's cache.
_ROWS, _COLUMNS = 256, 2048


@dataclass(eq=False)
class MeanKernel:
    """Mean of nine kernels: three scalings of the features times three measures of distance.

    The scalings are z-scores, ranges and one common factor. In each, rows are compared by
    direction (a Gaussian of the distance between rows of length one) and by ``exp(-distance / mean
    distance)``, Euclidean and absolute. Which of these suits a data set differs widely, a choice
    by candidates alone often goes wrong, and their mean is never far from the best.

    Parameters
    ----------
    kinds : tuple of str
        Names of the scalings, see `sklearn_cleanse.scaling.fit_scaling`.
    scalings : tuple of Scaling
        The scalings.
    widths : tuple of tuple of float
        For each scaling the mean distance by direction, Euclidean and absolute.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_cleanse.votes import MeanKernel
    >>> X = np.array([[0.0, 0.0], [0.0, 1.0], [4.0, 4.0]])
    >>> kernel = MeanKernel.fit(X)
    >>> views = kernel.views(X)
    >>> kernel(views, views).argsort(dim=1, descending=True)  # each row is most similar to itself
    tensor([[0, 1, 2],
            [1, 0, 2],
            [2, 1, 0]])
    """

    kinds: tuple[str, ...]
    scalings: tuple[Scaling, ...]
    widths: tuple[tuple[float, ...], ...]

    @classmethod
    def fit(
        cls, X: np.ndarray, device: torch.device | str = "cpu", kinds: Sequence[str] = VIEWS
    ) -> Self:
        """Fit scalings and mean distances.

        Parameters
        ----------
        X : ndarray of shape (n_samples, n_features) or (n_samples, n_channels, ...)
            Training rows, in random order: of many, the first ones are used.
        device : torch.device or str, default="cpu"
            Where kernels are computed.
        kinds : sequence of str, default=("standard", "minmax", "common")
            The scalings whose kernels are averaged.

        Returns
        -------
        kernel : MeanKernel
        """
        scalings = tuple(fit_scaling(X[:STATISTICS_ROWS], kind).to(device) for kind in kinds)
        kernel = cls(tuple(kinds), scalings, ())
        for view in kernel.views(X[:_WIDTH_ROWS]):
            means = [float(distance.mean()) or 1.0 for distance in _distances(view, view)]
            kernel.widths += (tuple(means),)
        return kernel

    def to(self, device: torch.device | str) -> Self:
        """Move the scalings to a device, in place."""
        for scaling in self.scalings:
            scaling.to(device)
        return self

    @torch.no_grad()
    def views(self, X: np.ndarray) -> list[Tensor]:
        """Scale rows for comparison.

        Parameters
        ----------
        X : ndarray of shape (n_samples, ...)

        Returns
        -------
        views : list of Tensor of shape (n_samples, n_features)
        """
        rows = torch.tensor(X, device=self.scalings[0].shift.device)
        views = [scaling(rows).flatten(start_dim=1) for scaling in self.scalings]
        # directions need a center
        return [2 * V - 1 if k == "minmax" else V for k, V in zip(self.kinds, views, strict=True)]

    def __call__(self, A: list[Tensor], B: list[Tensor]) -> Tensor:
        """Compare rows with rows.

        Parameters
        ----------
        A, B : list of Tensor
            As `views` returns them, of n_a and n_b rows.

        Returns
        -------
        K : Tensor of shape (n_a, n_b)
            From 0 to 1; 1 for equal rows.
        """
        return self._fill(A[0].new_empty(len(A[0]), len(B[0])), A, B)

    def gram(self, views: list[Tensor], dtype: torch.dtype) -> Tensor:
        """Compare each row with itself and those before it.

        Parameters
        ----------
        views : list of Tensor
            As `views` returns them, of n rows.
        dtype : torch.dtype
            Precision of the result; distances are in double precision.

        Returns
        -------
        K : Tensor of shape (n, n)
            The lower triangle of the kernel. Values above the diagonal are arbitrary.
        """
        K = views[0].new_empty(len(views[0]), len(views[0]), dtype=dtype)
        return self._fill(K, views, views, lower=True)

    def _fill(self, K: Tensor, A: list[Tensor], B: list[Tensor], lower: bool = False) -> Tensor:
        for rows in blocks(len(K)):
            for columns in blocks(rows.stop if lower else K.shape[1], _COLUMNS):
                tiles = [a[rows] for a in A], [b[columns] for b in B]
                K[rows, columns] = self._compare(*tiles, K.dtype)
        return K

    def _compare(self, A: list[Tensor], B: list[Tensor], dtype: torch.dtype) -> Tensor:
        K = A[0].new_zeros(len(A[0]), len(B[0]), dtype=dtype)
        for a, b, (turn, far, apart) in zip(A, B, self.widths, strict=True):
            angular, euclidean, absolute = _distances(a, b)
            K += angular.square_().mul_(-0.5 / turn**2).to(dtype).exp_()
            K += euclidean.mul_(-1 / far).to(dtype).exp_()
            K += absolute.mul_(-1 / apart).to(dtype).exp_()
        return K.div_(3 * len(self.kinds))


def blocks(size: int, step: int | None = None) -> list[slice]:
    """Divide rows into blocks, by default those of one tile."""
    step = step or _ROWS
    return [slice(start, min(start + step, size)) for start in range(0, size, step)]


def _distances(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return distance of directions, Euclidean and absolute distance, each (n_a, n_b)."""
    few = slice(None, None, -(-a.shape[1] // _ABSOLUTE_FEATURES))
    absolute = torch.cdist(a[:, few].contiguous(), b[:, few].contiguous(), p=1)
    return torch.cdist(F.normalize(a), F.normalize(b)), torch.cdist(a, b), absolute
