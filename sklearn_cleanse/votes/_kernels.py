"""How alike rows are, when nobody says how to measure it: a mean of kernels over scalings."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .._device import as_tensor
from .._model_file import ModelFile
from .._rows import SparseRows
from ..scaling import SCALINGS, Scaling, fit_scaling

__all__ = ["MeanKernel"]

#: The scalings of the features whose kernels are averaged.
VIEWS = ("standard", "minmax", "common")

#: Rows, at most, from which scalings and mean distances are taken.
_STATISTICS_ROWS = 20_000
_WIDTH_ROWS = 1000

#: Features, at most, over which absolute distances are summed: they are no matrix product.
ABSOLUTE_FEATURES = 128


class MeanKernel:
    """Mean of nine kernels: three scalings of the features times three measures of distance.

    The scalings are z-scores, ranges and one common factor. In each, rows are compared by
    direction (a Gaussian of the distance between rows of length one) and by ``exp(-distance / mean
    distance)``, Euclidean and absolute. Which of these suits a data set differs widely, a choice
    by candidates alone often goes wrong, and their mean is never far from the best.

    Parameters
    ----------
    kinds : sequence of str
        Names of the scalings, see `sklearn_cleanse.scaling.fit_scaling`.
    scalings : list of Scaling
        The views of the features.
    widths : list of tuple of float
        For each view the mean distance by direction, Euclidean and absolute.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_cleanse.votes import MeanKernel
    >>> X = np.array([[0.0, 0.0], [0.0, 1.0], [4.0, 4.0]])
    >>> kernel = MeanKernel.fit(X)
    >>> views = kernel.views(X)
    >>> kernel(views, views).argsort(dim=1, descending=True)  # each row is most like itself
    tensor([[0, 1, 2],
            [1, 0, 2],
            [2, 1, 0]])
    """

    def __init__(
        self, kinds: Sequence[str], scalings: list[Scaling], widths: list[tuple[float, ...]]
    ) -> None:
        self.kinds = kinds
        self.scalings = scalings
        self.widths = widths

    @classmethod
    def fit(
        cls,
        X: np.ndarray | SparseRows,
        device: torch.device | str = "cpu",
        kinds: Sequence[str] = VIEWS,
    ) -> MeanKernel:
        """Fit scalings and mean distances.

        Parameters
        ----------
        X : ndarray of shape (n_samples, n_features) or (n_samples, channels, ...)
            Training rows, in random order: of many, the first ones are used.
        device : torch.device or str, default="cpu"
            Where kernels are computed.
        kinds : sequence of str, default=("standard", "minmax", "common")
            The scalings whose kernels are averaged.

        Returns
        -------
        kernel : MeanKernel
        """
        some = _as_computed(X[:_STATISTICS_ROWS])
        scalings = [fit_scaling(some, kind).to(device) for kind in kinds]
        kernel = cls(kinds, scalings, [])
        views = kernel.views(X[:_WIDTH_ROWS])
        if isinstance(views, SparseViews):
            kernel.widths = views.mean_distances()
        else:
            kernel.widths = [
                tuple(float(distance.mean()) for distance in _distances(view, view))
                for view in views
            ]
        kernel.widths = [tuple(w if w > 0 else 1.0 for w in widths) for widths in kernel.widths]
        return kernel

    def views(self, X: np.ndarray | SparseRows) -> list[Tensor] | SparseViews:
        """Scale rows for comparison.

        Parameters
        ----------
        X : ndarray of shape (n_samples, ...), or SparseRows

        Returns
        -------
        views : list of Tensor of shape (n_samples, n_features), or SparseViews
            Those of sparse rows are made when they are compared, some at a time.
        """
        return SparseViews(self, X) if isinstance(X, SparseRows) else self.scale(X[:])

    def scale(self, X: np.ndarray | SparseRows) -> list[Tensor]:
        """Scale rows, which become dense.

        Parameters
        ----------
        X : ndarray of shape (n_samples, ...), or SparseRows

        Returns
        -------
        views : list of Tensor of shape (n_samples, n_features)
        """
        device = self.scalings[0].shift.device
        dtype = torch.float32 if device.type == "mps" else torch.float64
        tensor = as_tensor(_as_computed(X), device)
        views = []
        for kind, scaling in zip(self.kinds, self.scalings, strict=True):
            view = scaling(tensor).flatten(start_dim=1).to(dtype)
            views.append(2 * view - 1 if kind == "minmax" else view)  # directions need a centre
        return views

    def to(self, device: torch.device | str) -> MeanKernel:
        """Return the same kernel, computed elsewhere.

        Parameters
        ----------
        device : torch.device or str

        Returns
        -------
        kernel : MeanKernel
        """
        moved = [copy.deepcopy(scaling).to(device) for scaling in self.scalings]
        return MeanKernel(self.kinds, moved, self.widths)

    def _state(self) -> dict:
        views = {str(i): scaling._state() for i, scaling in enumerate(self.scalings)}
        return {"kinds": list(self.kinds), "widths": np.array(self.widths), "views": views}

    @classmethod
    def _restored(cls, file: ModelFile, place: str, sample_shape: tuple[int, ...]) -> MeanKernel:
        kinds = file.value(f"{place}.kinds", list)
        if not kinds or any(kind not in SCALINGS for kind in kinds):
            raise ValueError(f"{place}.kinds is {kinds!r:.80}")
        places = [f"{place}.views.{i}" for i in range(len(kinds))]
        scalings = [Scaling._restored(file, view, sample_shape) for view in places]
        widths = file.array(f"{place}.widths", "f", (len(kinds), 3))
        if not (widths > 0).all():
            raise ValueError(f"{place}.widths must be above zero")
        return cls(kinds, scalings, [tuple(row) for row in widths.tolist()])

    @torch.no_grad()
    def __call__(self, A: list[Tensor] | SparseViews, B: list[Tensor] | SparseViews) -> Tensor:
        """Compare rows with rows.

        Parameters
        ----------
        A, B : list of Tensor, or SparseViews
            As `views` returns them, of n_a and n_b rows.

        Returns
        -------
        K : Tensor of shape (n_a, n_b)
            From 0 to 1; 1 for equal rows.
        """
        if isinstance(A, SparseViews) or isinstance(B, SparseViews):
            parts = [torch.cat([self(a, b) for b in _blocks(B)], dim=1) for a in _blocks(A)]
            return torch.cat(parts)
        total = A[0].new_zeros(len(A[0]), len(B[0]))
        for a, b, (turn, far, apart) in zip(A, B, self.widths, strict=True):
            angular, euclidean, absolute = _distances(a, b)
            total += angular.square_().mul_(-0.5 / turn**2).exp_()
            total += euclidean.mul_(-1 / far).exp_()
            total += absolute.mul_(-1 / apart).exp_()
        return total / (3 * len(self.kinds))


class SparseViews:
    """The views of sparse rows, made some rows at a time.

    Parameters
    ----------
    kernel : MeanKernel
    X : SparseRows
    """

    def __init__(self, kernel: MeanKernel, X: SparseRows) -> None:
        self.kernel, self.X = kernel, X

    def mean_distances(self) -> list[tuple[float, ...]]:
        """Return the mean distances between the rows, of each kind in each view."""
        sums = np.zeros((len(self.kernel.kinds), 3))
        for A in _blocks(self):
            for B in _blocks(self):
                for i, (a, b) in enumerate(zip(A, B, strict=True)):
                    sums[i] += [float(distance.sum()) for distance in _distances(a, b)]
        return [tuple(row) for row in (sums / len(self.X) ** 2).tolist()]


def _blocks(views: list[Tensor] | SparseViews) -> Iterator[list[Tensor]]:
    """Yield the views of some rows at a time."""
    if isinstance(views, SparseViews):
        for rows in views.X.row_blocks():
            yield views.kernel.scale(views.X[rows])
    else:
        yield views


def _as_computed(X: Any) -> Any:
    """Return rows in a type that can be scaled without losing what tells them apart."""
    if X.dtype == np.float16:
        return X.astype(np.float32)
    small = X.dtype.kind in "iub" and X.dtype.itemsize <= 2
    exact = X.dtype in (np.float64, np.float32) or small
    return X if exact else X.astype(np.float64)


def _distances(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Distance between directions, Euclidean and absolute distance, each (n_a, n_b)."""
    few = slice(None, None, -(-a.shape[1] // ABSOLUTE_FEATURES))
    absolute = torch.cdist(a[:, few].contiguous(), b[:, few].contiguous(), p=1)
    return torch.cdist(_unit(a), _unit(b)), torch.cdist(a, b), absolute


def _unit(rows: Tensor) -> Tensor:
    return rows / rows.norm(dim=1, keepdim=True).clamp(min=1e-12)
