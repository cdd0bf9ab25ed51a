"""Candidate matrices, dense and sparse, checked entry by entry."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from ._labels import is_missing


def check_sparse(y: Any) -> sp.csr_array:
    if y.dtype.kind not in "biuf":
        raise ValueError(f"the candidate matrix has dtype {y.dtype}; it may hold only 0 and 1")
    matrix = sp.csr_array(y, copy=True)  # tidied in place below; the caller's stays as it is
    matrix.sum_duplicates()
    bad = np.flatnonzero((matrix.data != 0) & (matrix.data != 1))
    if len(bad):
        row = np.searchsorted(matrix.indptr, bad[0], side="right") - 1
        _refuse_value(row, matrix.indices[bad[0]], matrix.data[bad[0]])
    matrix.eliminate_zeros()
    return matrix.astype(bool)


def dense_frame(frame: Any) -> np.ndarray:
    values = np.asarray(frame)
    if values.dtype == object:  # mixed or nullable columns: keep the values, lose the wrappers
        values = np.asarray([[np.nan if v is None else v for v in row] for row in values.tolist()])
    return values


def check_dense(y: np.ndarray) -> sp.csr_array:
    if y.dtype != bool:
        if y.dtype.kind not in "iuf":
            for row, values in enumerate(y.tolist()):
                odd = [value for value in values if not isinstance(value, (bool, int, float))]
                if any(is_missing(value) for value in odd):
                    _refuse_value(row, values.index(odd[0]), np.nan)
                if odd:
                    raise ValueError(
                        f"row {row} of the candidate matrix holds {odd[0]!r}; it may hold only 0 "
                        "and 1. Pass label names as a list of sets instead, such as "
                        "[{'cat', 'dog'}, {'cat'}]"
                    )
            y = y.astype(float)
        wrong = (y != 0) & (y != 1)
        if wrong.any():
            row, column = np.argwhere(wrong)[0]
            _refuse_value(row, column, y[row, column])
    return sp.csr_array(y.astype(bool, copy=False))


def _refuse_value(row: int, column: int, value: Any) -> None:
    if value != value:
        raise ValueError(
            f"row {row}, column {column} of the candidate matrix is NaN; "
            "write 1 for a candidate and 0 for a label that is ruled out"
        )
    raise ValueError(
        f"row {row}, column {column} of the candidate matrix is {value!s}; only 0 and 1 are "
        "allowed. Threshold scores first; pass label names as a list of sets"
    )
