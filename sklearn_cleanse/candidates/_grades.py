"""Graded candidates: how likely each is before features are looked at."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from ._labels import order_labels
from ._matrix import check_sparse_format, dense_frame
from ._read import check_candidates, match_columns, read_form

#: A grade counts at least so much of the largest one of its row.
LEAST_GRADE = 1e-9


def check_graded(
    y: Any, *, graded: bool = True, n_samples: int | None = None, classes: Any = None
) -> tuple[np.ndarray, sp.csr_array, sp.csr_array | None]:
    """Read candidates and, where they have some, their grades.

    Parameters
    ----------
    y : array-like
        Candidates in any form that `check_candidates` takes; or a matrix (dense, sparse or a
        DataFrame) of numbers from 0 to 1, the grades. A nonzero one marks a candidate.
    graded : bool, default=True
        Whether grades are allowed. If not, this is `check_candidates`.
    n_samples : int, default=None
        The number of rows the features have. Not checked if None.
    classes : array-like of shape (n_classes,), default=None
        The classes of a fitted estimator. Found in ``y`` if None.

    Returns
    -------
    classes : ndarray of shape (n_classes,)
        The class labels, in the order of the columns.
    candidates : csr_array of shape (n_samples, n_classes), dtype bool
        Entry (i, j) is True where class j is a candidate of sample i.
    grades : csr_array of shape (n_samples, n_classes) or None
        The grades, in the same entries, divided by the largest one of each row. None if they are
        all alike, as those of plain candidates are.

    Examples
    --------
    >>> from sklearn_cleanse.candidates import check_graded
    >>> _, candidates, grades = check_graded([[0.6, 0.3, 0.0], [0.0, 0.0, 0.2]])
    >>> candidates.toarray().astype(int)
    array([[1, 1, 0],
           [0, 0, 1]])
    >>> grades.toarray()
    array([[1. , 0.5, 0. ],
           [0. , 0. , 1. ]])
    """
    grades = None
    if graded:
        y, grades = split_grades(y)
    classes, candidates = check_candidates(y, n_samples=n_samples, classes=classes)
    if grades is None:
        return classes, candidates, None
    counts = np.diff(grades.indptr)
    top = np.maximum.reduceat(grades.data, grades.indptr[:-1])
    grades.data = (grades.data / np.repeat(top, counts)).clip(LEAST_GRADE)
    return classes, candidates, None if (grades.data == 1).all() else grades


def find_classes(y: Any, *, graded: bool = True) -> tuple[np.ndarray, bool]:
    """Return the classes that ``y`` names, and whether these are the columns of a matrix."""
    given = read_form(split_grades(y)[0] if graded else y)
    if given.labels is not None:
        return order_labels(given.labels, given.counts)[0], False
    return match_columns(given.names, given.matrix, None), True


def split_grades(y: Any) -> tuple[Any, sp.csr_array | None]:
    """Return candidates without grades, and the grades; None if ``y`` is no matrix of numbers."""
    if sp.issparse(y):
        if y.dtype.kind not in "iuf":
            return y, None
        check_sparse_format(y, "y")
        grades = sp.csr_array(y, dtype=np.float64, copy=True)
        grades.sum_duplicates()
    else:
        values = _numbers(y)
        if values is None:
            return y, None
        grades = sp.csr_array(values)
        marks = y > 0 if hasattr(y, "columns") else values > 0
    for place in np.flatnonzero(~((grades.data >= 0) & (grades.data <= 1))):
        row = np.searchsorted(grades.indptr, place, side="right") - 1
        raise ValueError(
            f"row {row}, column {grades.indices[place]} of the graded candidates is "
            f"{grades.data[place]}; grades are numbers from 0, no candidate, to 1"
        )
    grades.eliminate_zeros()
    return grades.astype(bool) if sp.issparse(y) else marks, grades


def _numbers(y: Any) -> np.ndarray | None:
    """Return ``y`` as an array if it is a matrix of floating-point numbers."""
    if not hasattr(y, "__array__"):
        rows = list(y) if isinstance(y, (list, tuple)) else []
        if len({len(row) if isinstance(row, (list, tuple)) else 0 for row in rows}) != 1:
            return None
    try:
        values = np.asarray(dense_frame(y) if hasattr(y, "columns") else y)
    except ValueError:
        return None
    if values.ndim != 2 or values.shape[1] < 2 or values.dtype.kind != "f":
        return None
    return values.astype(np.float64)


def regrade(proba: sp.csr_array, grades: sp.csr_array | None) -> sp.csr_array:
    """Multiply confidences in candidates by grades, and normalise rows.

    Parameters
    ----------
    proba : csr_array of shape (n_samples, n_classes)
        Confidences, with an entry for each candidate.
    grades : csr_array of shape (n_samples, n_classes) or None
        Grades, with the same entries; None leaves the confidences as they are.

    Returns
    -------
    proba : csr_array of shape (n_samples, n_classes)
        Rows sum to one.
    """
    if grades is None:
        return proba
    values = proba.data * grades.data.astype(proba.dtype)
    total = np.add.reduceat(values, proba.indptr[:-1])
    values = values / np.repeat(total, np.diff(proba.indptr))
    return sp.csr_array((values, proba.indices, proba.indptr), shape=proba.shape)


def widen_grades(grades: sp.csr_array | None, candidates: sp.csr_array) -> sp.csr_array | None:
    """Return a grade for each candidate: 1 for those that have joined a set since it was graded."""
    if grades is None:
        return None
    rows = np.repeat(np.arange(candidates.shape[0]), np.diff(candidates.indptr))
    values = np.asarray(grades[rows, candidates.indices]).ravel()
    entries = np.where(values > 0, values, 1.0), candidates.indices, candidates.indptr
    return sp.csr_array(entries, shape=candidates.shape)


def label_odds(
    candidates: sp.csr_array, noise: float, grades: sp.csr_array | None = None
) -> sp.csr_array:
    """Return the odds of each label, candidate or not, where sets may be wrong.

    Parameters
    ----------
    candidates : csr_array of shape (n_samples, n_classes), dtype bool
    noise : float in (0, 1)
        Share of the rows whose label is no candidate.
    grades : csr_array of shape (n_samples, n_classes), default=None
        Odds of the candidates. Even odds if None.

    Returns
    -------
    odds : csr_array of shape (n_samples, n_classes)
        An entry for each label: the grade of a candidate; the other labels share evenly what the
        noise leaves them.
    """
    inside = candidates.toarray()
    odds = inside.astype(float) if grades is None else grades.toarray()
    n_outside = (~inside).sum(axis=1, keepdims=True)
    share = noise / (1 - noise) * odds.sum(axis=1, keepdims=True) / np.maximum(n_outside, 1)
    return sp.csr_array(np.where(inside, odds, share))
