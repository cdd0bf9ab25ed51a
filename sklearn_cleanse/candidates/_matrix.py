"""Candidate matrices, dense and sparse: 0 and 1, or prior weights between them."""

from numbers import Real
from typing import Any

import numpy as np
import scipy.sparse as sp

from ._labels import is_missing, plain
from ._memory import check_cells


def read_sparse(matrix: Any) -> np.ndarray:
    """Return the values of a sparse candidate matrix as a dense array, or raise.

    It is checked first, as scipy's compiled code may crash on bad indices.
    """
    try:
        if matrix.ndim != 2:
            raise ValueError(f"shape {matrix.shape} instead of two dimensions")
        if hasattr(matrix, "check_format"):
            matrix = matrix.copy()  # as the check trims the arrays in place
            matrix.check_format(full_check=True)
            if (np.diff(matrix.indptr) < 0).any():  # which the check skips if the last is 0
                raise ValueError("indptr falls")
        else:
            if matrix.format == "lil":  # whose conversion trusts the lengths of its lists
                for columns, values in zip(matrix.rows, matrix.data, strict=True):
                    list(zip(columns, values, strict=True))
            entries = matrix.tocoo()
            matrix = sp.coo_array((entries.data, (entries.row, entries.col)), shape=matrix.shape)
        matrix = sp.csr_array(matrix)
    except ValueError as error:
        raise ValueError(
            f"Sparse candidates must be well-formed, got: {error}. Indices count from zero: "
            "subtract 1 if your classes are numbered from one, or pass the right shape."
        ) from error
    check_cells(*matrix.shape)
    return read_dense(matrix.toarray())


def read_dense(y: np.ndarray) -> np.ndarray:
    """Return the values of a dense candidate matrix as numbers, or raise."""
    values = y
    if y.dtype.kind not in "biuf":  # what is not allowed becomes NaN, and is named below
        real: Any = (float, int, Real, np.bool_)
        flat = [v if isinstance(v, real) and 0 <= v <= 1 else np.nan for v in y.ravel().tolist()]
        values = np.array(flat, dtype=np.float64).reshape(y.shape)
    wrong = np.flatnonzero(~((values >= 0) & (values <= 1)))
    if len(wrong):
        row, column = np.unravel_index(wrong[0], y.shape)
        value = plain(y[row, column])
        # Text, integers and missing values occur in tables with a column per annotator.
        is_label = isinstance(value, (str, int)) or is_missing(value) or str(value).endswith(".0")
        raise ValueError(
            f"Candidates must lie between 0 and 1, got {value!r} in row {row}, column {column}. "
            "Write 1 for a candidate and 0 for a label that is ruled out. For scores, pass "
            "S = scores > 0.1. For label names, pass a list of sets such as "
            "[{'cat', 'dog'}, {'cat'}]."
            + " If each column holds the labels of one annotator, pass "
            "S = sklearn_cleanse.datasets.candidates_from_annotations(y)." * is_label
        )
    return values
