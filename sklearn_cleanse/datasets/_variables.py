"""What the variables of a MATLAB file become, and how much memory they may take."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

__all__ = ["Budget", "Unread", "cast_exactly", "csc_from_parts"]

_MIN_LIMIT, _EXPANSION = 64 * 2**20, 50
_MAX_NODES = 20_000


class Unread:
    """A variable of a kind that holds no data (text, function, object): its name is enough."""

    shape = ("not a matrix",)


class Budget:
    """The bytes and nodes that the content of one file may still take.

    Everything is counted before it is allocated, so that a small file cannot fill the memory.
    """

    def __init__(self, max_bytes: int | None, file_size: int):
        self.limit = max(_MIN_LIMIT, _EXPANSION * file_size) if max_bytes is None else max_bytes
        self.left = self.limit
        self.nodes = 0

    def spend(self, n_bytes: int, what: str) -> None:
        """Count bytes that are about to be allocated; raise ValueError if they are too many."""
        self.left -= n_bytes
        if self.left < 0:
            raise ValueError(
                f"{what} declares {n_bytes} bytes, which brings the content beyond the "
                f"{self.limit} bytes allowed; if you trust the file, pass a larger max_bytes"
            )

    def visit(self, depth: int) -> None:
        """Count a variable, cell or field; raise ValueError if they are too many or too deep."""
        self.nodes += 1
        if self.nodes > _MAX_NODES:
            raise ValueError(f"the file holds more than {_MAX_NODES} variables, cells and fields")
        if depth > 4:
            raise ValueError("cells or structs are nested more than 4 deep")


def cast_exactly(values: np.ndarray, dtype: Any) -> np.ndarray:
    """Return the values in the type that the file declares, or unchanged if that would alter one.

    A label of 1.5 in a matrix declared logical then reaches the check of labels as 1.5.
    """
    with np.errstate(invalid="ignore"):  # NaN has no integer; the comparison below finds it
        cast = values.astype(dtype, copy=False)
    return cast if cast is values or np.array_equal(cast, values) else values


def csc_from_parts(
    data: np.ndarray, indices: np.ndarray, indptr: np.ndarray, rows: int, budget: Budget
) -> sp.csc_array:
    """Return the sparse matrix of a file's parts, every index of which is checked."""
    if indices.dtype.kind not in "iu" or indptr.dtype.kind not in "iu":
        raise ValueError("a sparse matrix has indices that are no integers")
    indices, indptr = indices.ravel().astype(np.int64), indptr.ravel().astype(np.int64)
    data = data.ravel().astype(float)
    if len(indptr) == 0 or indptr[0] != 0 or np.any(np.diff(indptr) < 0):
        raise ValueError("a sparse matrix has column pointers that do not ascend from 0")
    if indptr[-1] > min(len(indices), len(data)):
        raise ValueError(f"a sparse matrix has {len(data)} values where {indptr[-1]} are declared")
    indices, data = indices[: indptr[-1]], data[: indptr[-1]]
    if rows < 0 or (len(indices) and (indices.min() < 0 or indices.max() >= rows)):
        raise ValueError(f"a sparse matrix of {rows} rows has an entry outside them")
    budget.spend(8 * rows, f"a sparse matrix of {rows} rows")
    return sp.csc_array((data, indices, indptr), shape=(rows, len(indptr) - 1))
