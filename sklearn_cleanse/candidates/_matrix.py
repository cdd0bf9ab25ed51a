"""Candidate matrices, dense and sparse: 0 and 1, or prior weights between them."""

from copy import copy
from numbers import Real
from typing import Any

import numpy as np
import scipy.sparse as sp

from ._labels import is_missing, plain
from ._memory import check_cells


def read_sparse(matrix: Any) -> np.ndarray:
    """Return the values of a sparse candidate matrix as a dense array, or raise."""
    matrix = check_sparse(matrix, "candidates")
    check_cells(*matrix.shape)
    return read_dense(matrix.toarray())


def check_sparse(matrix: Any, name: str) -> sp.csr_array:
    """Return a sparse matrix by rows, or raise where scipy's compiled code might crash on it."""
    try:
        if matrix.ndim != 2:
            raise ValueError(f"shape {matrix.shape} instead of two dimensions")
        if matrix.format not in ("lil", "dok"):
            matrix = copy(matrix)  # the caller's arrays stay as they are
            if not matrix.dtype.isnative or matrix.dtype.char in "eO":  # float16, objects
                matrix.data = matrix.data.astype(np.float64)
        if hasattr(matrix, "check_format"):
            kinds, starts = {matrix.indices.dtype.kind, matrix.indptr.dtype.kind}, matrix.indptr
            if kinds - {"i", "u"} or (starts[1:] < starts[:-1]).any():
                raise ValueError("indices that are not integers, or indptr falls")
            matrix.check_format(full_check=True)
        else:
            if matrix.format == "lil":  # whose conversion trusts the lengths of its lists
                for _, *lists in zip(range(matrix.shape[0]), matrix.rows, matrix.data, strict=True):
                    list(zip(*lists, strict=True))
            if matrix.format == "dia":
                matrix = sp.dia_array((matrix.data, matrix.offsets), shape=matrix.shape)
            entries = matrix.tocoo()
            matrix = sp.coo_array((entries.data, (entries.row, entries.col)), shape=matrix.shape)
        return sp.csr_array(matrix)
    except (ValueError, TypeError, IndexError, OverflowError) as error:
        raise ValueError(
            f"Sparse {name} must be well-formed, got: {error}. Build it from numbers, with indices "
            "that count from zero: subtract 1 if yours count from one."
        ) from error


def to_numbers(values: Any) -> np.ndarray:
    """Return an array with NaN for what is masked, missing or not a real number."""
    try:
        array: np.ndarray = np.ma.asarray(values)
    except ValueError:  # rows of different lengths
        return np.empty(0)
    if array.dtype.kind not in "biuf":  # integers among objects may be too large for floats
        flat = [v if isinstance(v, (Real, np.bool_)) else np.nan for v in array.ravel()]
        flat = [v if isinstance(v, float) else max(min(v, 1e308), -1e308) for v in flat]
        array = np.array(flat, dtype=np.float64).reshape(array.shape)
    return np.ma.filled(array.astype(float) if np.ma.is_masked(array) else array, np.nan)


def read_dense(y: np.ndarray) -> np.ndarray:
    """Return the values of a dense candidate matrix as numbers, or raise."""
    values = to_numbers(y)
    wrong = np.flatnonzero(~((values >= 0) & (values <= 1)))
    if len(wrong):
        row, column = np.unravel_index(wrong[0], y.shape)
        value = plain(y[row, column])
        # Text, integers and missing values occur in tables with a column per annotator.
        is_label = isinstance(value, (str, int)) or is_missing(value) or str(value).endswith(".0")
        raise ValueError(
            f"Candidates must lie between 0 and 1, got {value!r} in row {row}, column {column}. "
            "Write 1 for a candidate and 0 for a label that is ruled out. For scores, pass S = "
            "scores > 0.1. For label names, pass a list of sets such as [{'cat', 'dog'}, {'cat'}]."
            + " If each column holds the labels of one annotator, pass "
            "S = sklearn_cleanse.datasets.candidates_from_annotations(y)." * is_label
        )
    return values
