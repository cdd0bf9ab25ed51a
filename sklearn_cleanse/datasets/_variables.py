"""What the variables of a MATLAB file become, and how much memory they may take."""

from typing import Any

import numpy as np
import scipy.sparse as sp

_MAX_NODES = 20_000


class Unread:
    """A variable of a kind that holds no data (text, function, object): its name is enough."""

    shape = ("not a matrix",)


class Budget:
    """The bytes and nodes that the content of one file may still take.

    Everything is counted before it is allocated, so that a small file cannot fill the memory.
    """

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = self.left = max_bytes
        self.nodes = 0

    def spend(self, n_bytes: int, what: str) -> None:
        """Count bytes that are about to be allocated; raise ValueError if they are too many."""
        self.left -= n_bytes
        if self.left < 0:
            raise ValueError(
                f"{what} declares {n_bytes} bytes, and the content must take at most "
                f"max_bytes={self.max_bytes}. If you trust the file, pass a larger `max_bytes`"
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
    data: np.ndarray, indices: np.ndarray, indptr: np.ndarray, n_rows: int, budget: Budget
) -> sp.csc_array:
    """Return the sparse matrix of a file's parts, every index of which is checked."""
    if indices.dtype.kind not in "iu" or indptr.dtype.kind not in "iu":
        raise ValueError("the indices of a sparse matrix must be integers")
    budget.spend(8 * max(0, n_rows), f"a sparse matrix of {n_rows} rows")
    indices, indptr = indices.ravel().astype(np.int64), indptr.ravel().astype(np.int64)
    # scipy's full check skips pointers that fall where the last one is 0, and then crashes.
    if len(indptr) == 0 or indptr[0] != 0 or (np.diff(indptr) < 0).any():
        raise ValueError("the column pointers of a sparse matrix must ascend from 0")
    # MATLAB allocates more entries than it uses.
    parts = data.ravel()[: indptr[-1]].astype(float), indices[: indptr[-1]], indptr
    try:
        matrix = sp.csc_array(parts, shape=(n_rows, len(indptr) - 1))
        matrix.check_format(full_check=True)
    except ValueError as error:
        raise ValueError(f"a sparse matrix of {n_rows} rows is malformed: {error}") from error
    return matrix
