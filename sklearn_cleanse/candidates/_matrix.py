"""Candidate matrices, dense and sparse, checked entry by entry."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from ._labels import is_missing


def check_sparse(y: Any) -> sp.csr_array:
    if y.dtype.kind not in "biuf":
        raise ValueError(f"the candidate matrix has dtype {y.dtype}; it may hold only 0 and 1")
    check_sparse_format(y, "y")
    matrix = sp.csr_array(y, copy=True)  # tidied in place below; the caller's stays as it is
    matrix.sum_duplicates()
    bad = np.flatnonzero((matrix.data != 0) & (matrix.data != 1))
    if len(bad):
        row = np.searchsorted(matrix.indptr, bad[0], side="right") - 1
        _refuse_value(row, matrix.indices[bad[0]], matrix.data[bad[0]])
    matrix.eliminate_zeros()
    return matrix.astype(bool)


def check_sparse_format(matrix: Any, name: str) -> None:
    """Refuse a sparse matrix whose indices point outside: scipy's own code may crash on it."""
    if matrix.ndim != 2:
        raise ValueError(
            f"{name} is a sparse array of shape {matrix.shape}; expected two dimensions, "
            "(n_samples, n_classes)"
        )
    n_rows, n_columns = matrix.shape
    if matrix.format == "csr":
        sizes = _check_pointers(matrix, n_rows, name)
        _check_indices(matrix.indices[: matrix.indptr[-1]], n_columns, "column", sizes, name)
    elif matrix.format == "csc":
        _check_pointers(matrix, n_columns, name)
        _check_indices(matrix.indices[: matrix.indptr[-1]], n_rows, "row", None, name)
    elif matrix.format == "bsr":
        height, width = matrix.data.shape[1:]
        _check_pointers(matrix, n_rows // height, name)
        columns = matrix.indices[: matrix.indptr[-1]].astype(np.int64) * width
        _check_indices(columns, n_columns, "column", None, name)
    elif matrix.format == "lil":
        lengths = [len(row) for row in matrix.rows]
        if len(lengths) != n_rows or lengths != [len(values) for values in matrix.data]:
            _refuse_format(name, "its lists of columns and of values differ in length")
        columns = np.array([column for row in matrix.rows for column in row] or np.empty(0, int))
        _check_indices(columns, n_columns, "column", np.array(lengths), name)
    else:  # built from pairs of indices, or, as diagonals are, turned into such without risk
        if matrix.format == "dok":
            rows, columns = np.array(list(matrix.keys()), dtype=np.int64).reshape(-1, 2).T
        else:
            entries = matrix if matrix.format == "coo" else matrix.tocoo()
            rows, columns = entries.row, entries.col
            if not len(rows) == len(columns) == len(entries.data):
                _refuse_format(name, "rows, columns and values differ in number")
        _check_indices(rows, n_rows, "row", None, name)
        _check_indices(columns, n_columns, "column", None, name)


def _check_pointers(matrix: Any, n_slots: int, name: str) -> np.ndarray:
    """Check where the rows (or columns) of a compressed matrix begin; return their sizes."""
    pointers = np.asarray(matrix.indptr)
    if pointers.shape != (n_slots + 1,) or pointers.dtype.kind not in "iu" or pointers[0] != 0:
        _refuse_format(name, f"indptr must hold {n_slots + 1} integers, the first of them 0")
    sizes = np.diff(pointers.astype(np.int64))
    if (sizes < 0).any():
        at = int(np.argmax(sizes < 0))
        _refuse_format(name, f"indptr falls from {pointers[at]} to {pointers[at + 1]} at {at}")
    n_entries = min(len(matrix.indices), len(matrix.data))
    if pointers[-1] > n_entries:
        _refuse_format(name, f"indptr ends at {pointers[-1]}, but there are {n_entries} entries")
    return sizes


def _check_indices(
    indices: np.ndarray, n_slots: int, what: str, row_sizes: np.ndarray | None, name: str
) -> None:
    if len(indices) and indices.dtype.kind not in "iu":
        _refuse_format(name, f"its {what} indices have dtype {indices.dtype}, not integers")
    wrong = np.flatnonzero((indices < 0) | (indices >= n_slots))
    if not len(wrong):
        return
    where = ""
    if row_sizes is not None:
        where = f"row {np.searchsorted(np.cumsum(row_sizes), wrong[0], side='right')} of "
    counted = "classes" if what == "column" else "samples"
    raise ValueError(
        f"{where}the sparse matrix {name} has an entry in {what} {indices[wrong[0]]}, but its "
        f"{what}s are 0 to {n_slots - 1} ({len(wrong)} such entries); indices count from zero: "
        f"subtract 1 if your {counted} are numbered from one, or pass the right shape"
    )


def _refuse_format(name: str, fault: str) -> None:
    raise ValueError(
        f"the sparse matrix {name} is malformed: {fault}; build it anew, such as by "
        "scipy.sparse.csr_array((ones, (rows, columns)), shape=(n_samples, n_classes))"
    )


def dense_frame(frame: Any) -> np.ndarray:
    values = np.asarray(frame)
    if values.dtype == object:  # mixed or nullable columns: keep the values, lose the wrappers
        values = np.asarray([[np.nan if v is None else v for v in row] for row in values.tolist()])
    return values


def check_dense(y: np.ndarray) -> sp.csr_array:
    if y.dtype != bool:
        if y.dtype.kind not in "iuf":
            for row, values in enumerate(y.tolist()):
                for column, value in enumerate(values):
                    if is_missing(value):
                        _refuse_value(row, column, np.nan, _holds_votes(y))
                    if not isinstance(value, (bool, int, float)):
                        raise ValueError(
                            f"row {row} of the candidate matrix holds {value!r}; it may hold only "
                            "0 and 1. Pass label names as a list of sets instead, such as "
                            f"[{{'cat', 'dog'}}, {{'cat'}}]; {_VOTES}"
                        )
            y = y.astype(float)
        wrong = (y != 0) & (y != 1)
        if wrong.any():
            row, column = np.argwhere(wrong)[0]
            _refuse_value(row, column, y[row, column], _holds_votes(y))
    return sp.csr_array(y.astype(bool, copy=False))


#: What to do with a table that has a column per annotator.
_VOTES = (
    "if each column holds what one annotator said, "
    "S = sklearn_cleanse.datasets.candidates_from_votes(y) makes candidates of them"
)


def _holds_votes(y: np.ndarray) -> bool:
    """Return whether a table that is no candidate matrix may be several annotators' labels."""
    values = [value for row in y.tolist() for value in row if not is_missing(value)]
    if any(isinstance(value, str) for value in values):
        return True
    whole = all(isinstance(v, (int, float)) and float(v).is_integer() for v in values)
    return whole and any(value > 1 for value in values)


def _refuse_value(row: int, column: int, value: Any, votes: bool = False) -> None:
    remedy = f"; {_VOTES}" if votes else ""
    if value != value:
        raise ValueError(
            f"row {row}, column {column} of the candidate matrix is NaN; "
            f"write 1 for a candidate and 0 for a label that is ruled out{remedy}"
        )
    raise ValueError(
        f"row {row}, column {column} of the candidate matrix is {value!s}; only 0 and 1 are "
        "allowed. Threshold scores first, or pass graded=True to the estimator if the values are "
        "the odds of each candidate, from 0 to 1; pass label names as a list of sets" + remedy
    )
