"""Where tensors live, and how arrays get there."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from ._rows import SparseRows


def as_tensor(X: np.ndarray | SparseRows, device) -> Tensor:
    """Put features on the device, sharing memory where possible.

    Floats keep their precision until they are scaled (single precision would lose, say, time
    stamps); only a device without double precision gets single. Sparse features become dense.
    """
    if isinstance(X, SparseRows):
        X = X.toarray()
    device = torch.device(device)
    if X.dtype == np.float64 and device.type == "mps":
        X = X.astype(np.float32)
    if any(stride < 0 for stride in X.strides) or not X.dtype.isnative:
        X = np.ascontiguousarray(X, dtype=X.dtype.newbyteorder("="))
    return torch.from_numpy(X if X.flags.writeable else np.asarray(_Writable(X))).to(device)


class _Writable:
    """A read-only array, such as a mapped file, that says it may be written to.

    Torch warns of the others. We never write, and to silence a warning is no matter of one thread.
    """

    def __init__(self, X: np.ndarray) -> None:
        self.X = X
        self.__array_interface__ = {
            **X.__array_interface__,
            "data": (X.__array_interface__["data"][0], False),
        }


def check_magnitude(X: Any, largest: float, fitting: bool) -> Any:
    """Return features unless they are too large, or too small to be scaled, in their precision.

    ``largest`` is that of double precision; in single precision it is 1e37 at most. What is too
    small is refused when ``fitting``; a constant feature is not. Gaps (NaN) are looked over.
    """
    if X.dtype.kind != "f" or not len(X):
        return X
    single = X.dtype == np.float32
    largest = min(largest, 1e37) if single else largest
    low, high = _ranges(X)
    if max(np.fmax.reduce(high, axis=None), -np.fmin.reduce(low, axis=None)) > largest:
        row = _row_of_largest(X)
        raise ValueError(
            f"row {row} of X has a value beyond ±{largest:.0e}, which is too large to be computed "
            "with; divide that feature by a large number, or drop the row"
        )
    spread, smallest = high.astype(np.float64) - low, 1e-34 if single else 1e-150
    is_small = (spread > 0) & (spread < smallest)
    if fitting and is_small.any():
        feature = np.argmax(is_small)
        raise ValueError(
            f"feature {feature} of X varies by {spread[feature]:.3g} only, which is too little to "
            f"be computed with in {'single' if single else 'double'} precision (at least "
            f"{smallest:.0e}); multiply that feature by a large number, or drop it"
        )
    return X


def _ranges(X: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return the least and the largest value of each feature, NaN where it has none."""
    if isinstance(X, SparseRows):
        return X.matrix.nanmin(axis=0).toarray(), X.matrix.nanmax(axis=0).toarray()
    axes = (0, *range(2, X.ndim))  # channels of images are scaled as a whole
    return np.fmin.reduce(X, axis=axes), np.fmax.reduce(X, axis=axes)


def _row_of_largest(X: Any) -> int:
    if isinstance(X, SparseRows):
        place = np.nanargmax(np.abs(X.matrix.data))
        return int(np.searchsorted(X.matrix.indptr, place, side="right")) - 1
    return int(np.nanargmax(np.fmax.reduce(np.abs(X).reshape(len(X), -1), axis=1)))


def choose_device(device: str) -> str:
    """Return the device to use: for "auto" the best there is, CUDA, then MPS, then CPU."""
    if device != "auto":
        try:
            return str(torch.zeros(0, device=device).device)
        except (RuntimeError, AssertionError) as error:
            raise ValueError(
                f"device={device!r} cannot be used here ({error}); use 'auto' or 'cpu'"
            ) from error
    if torch.cuda.is_available():
        return "cuda"
    return "mps" if torch.backends.mps.is_available() else "cpu"
