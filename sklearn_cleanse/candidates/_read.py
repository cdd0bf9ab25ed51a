"""Candidates in every form that users write them in, read into classes and a matrix."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.exceptions import DataConversionWarning
from sklearn.utils.multiclass import check_classification_targets

from .._warn import warn_caller
from ._labels import check_classes, find_columns, is_missing, label_array, order_labels, shorten
from ._matrix import check_dense, check_sparse, dense_frame

_COLLECTIONS = (set, frozenset, list, tuple, np.ndarray)
_ROWS = (*_COLLECTIONS, str, bytes)


def check_candidates(
    y: Any, *, n_samples: int | None = None, classes: Any = None
) -> tuple[np.ndarray, sp.csr_array]:
    """Read candidate labels in any accepted form.

    Parameters
    ----------
    y : {array-like, sparse matrix, DataFrame} of shape (n_samples, n_classes), or a list of \
            n_samples label collections, or array-like of shape (n_samples,)
        - A matrix of 0/1 or booleans marks each sample's candidates. The columns of a DataFrame
          are the class labels; those of any other matrix are the classes 0, 1, 2, …
        - A list of sets, such as ``[{"cat", "dog"}, {"cat"}]``, holds the labels themselves.
          Lists or tuples of strings do as well, and those of numbers if their lengths differ
          (rows of equal length read as a matrix).
        - A 1-D array holds one label per sample, so that every sample is clean.
    n_samples : int, default=None
        The number of rows the features have. Not checked if None.
    classes : array-like of shape (n_classes,), default=None
        The classes of a fitted estimator, which the columns or labels must then match. Found in
        ``y`` if None.

    Returns
    -------
    classes : array-like of shape (n_classes,)
        The class labels, in the order of the columns.
    candidates : csr_array of shape (n_samples, n_classes), dtype bool
        Entry (i, j) is True where class j is a candidate of sample i.

    Examples
    --------
    >>> from sklearn_cleanse.candidates import check_candidates
    >>> classes, candidates = check_candidates([{"cat", "dog"}, {"cat"}])
    >>> classes
    array(['cat', 'dog'], dtype='<U3')
    >>> candidates.toarray()
    array([[ True,  True],
           [ True, False]])
    """
    return encode(read_form(y), classes, n_samples=n_samples)


@dataclass(frozen=True)
class Given:
    """What ``y`` holds: a matrix, perhaps with named columns; or else labels, so many per row."""

    matrix: sp.csr_array | None = None
    names: np.ndarray | None = None
    labels: np.ndarray | list[Any] | None = None
    counts: np.ndarray | None = None


def read_form(y: Any) -> Given:
    """Find out which form ``y`` has, and check what can be checked without the classes."""
    if sp.issparse(y):  # before dicts are refused: scipy 1.12 makes its "dok" format one
        return Given(check_sparse(y))
    _refuse_no_rows(y)
    if hasattr(y, "columns"):  # a DataFrame, whatever library it comes from
        if y.shape[1] != 1:
            return Given(check_dense(dense_frame(y)), np.asarray(y.columns))
        y = np.asarray(y)
    rows = None if hasattr(y, "__array__") else list(y)
    if rows is None:
        y = np.asarray(y)
        if y.dtype == object and y.ndim == 1:
            rows = list(y)
    if rows is not None and _holds_collections(rows):
        return _flatten(rows)
    try:
        y = y if isinstance(y, np.ndarray) else np.asarray(rows)
    except ValueError as error:
        raise ValueError(
            "y is ragged: some entry holds several values; give every row one entry per class, or "
            "pass the labels themselves as sets"
        ) from error
    if y.ndim == 2 and y.shape[1] == 1:
        rows = rows and [row[0] for row in rows]
        warn_caller(
            "A column-vector y was passed when a 1d array was expected; its values are taken as "
            "labels. Please change the shape of y to (n_samples,), for example using ravel().",
            DataConversionWarning,
        )
        y = y.ravel()
    if y.ndim == 2:
        return Given(check_dense(y))
    if y.ndim != 1:
        raise ValueError(
            f"y has {y.ndim} dimensions, shape {y.shape}; expected a candidate matrix of shape "
            "(n_samples, n_classes) or labels of shape (n_samples,)"
        )
    if len(y) == 0:
        raise ValueError("y is empty (0 sample(s)); at least one sample is needed")
    counts = np.ones(len(y), dtype=np.int64)
    if y.dtype.kind in "fO" or rows is not None:
        y = _check_labels(y, y.tolist() if rows is None else rows, counts)
    check_classification_targets(y)
    return Given(labels=y, counts=counts)


def _refuse_no_rows(y: Any) -> None:
    if y is None:
        raise ValueError(
            "y is None: this estimator requires y to be passed, but the target y is None; "
            "pass a candidate matrix, a list of label sets, or labels"
        )
    if isinstance(y, (Mapping, Set)):
        raise ValueError(
            f"y is a {type(y).__name__}, which has no row per sample; pass a list in the order of "
            "the rows of X" + (", such as list(y.values())" if isinstance(y, Mapping) else "")
        )
    if isinstance(y, (str, bytes)) or not (isinstance(y, Iterable) or hasattr(y, "__array__")):
        raise ValueError(
            f"y is {y!r}; expected a candidate matrix, a list of label sets, or an array of labels"
        )


def _check_labels(y: np.ndarray, rows: list[Any], counts: np.ndarray) -> np.ndarray:
    """Check one label per row; ``rows`` holds them as they were before they became an array."""
    missing = np.flatnonzero([is_missing(label) for label in rows])
    if len(missing):
        raise ValueError(
            f"row {missing[0]}: the label is missing (NaN), and y contains NaN in {len(missing)} "
            "row(s); drop the row, or mark all classes as candidates if nothing is known of it"
        )
    held = label_array(rows, rows, counts)
    if held.dtype == object:
        odd = next((i for i, label in enumerate(rows) if np.asarray(label).dtype == object), 0)
        raise ValueError(
            f"row {odd} of y is {rows[odd]!r} ({type(rows[odd]).__name__}); labels are strings or "
            "integers of 64 bits; write others as sets of one"
        )
    return y if held.dtype.kind == "U" else held  # strings that were objects stay objects


def encode(
    given: Given, classes: Any = None, *, n_samples: int | None = None, min_classes: int = 2
) -> tuple[np.ndarray, sp.csr_array]:
    """Return classes and candidates; see `check_candidates`."""
    if classes is not None:
        classes = check_classes(classes)
    if given.matrix is None:
        classes, matrix = _mark(given.labels, given.counts, classes)
    else:
        classes, matrix = match_columns(given.names, given.matrix, classes), given.matrix
    n_rows, n_classes = matrix.shape
    if n_samples is not None and n_rows != n_samples:
        raise ValueError(
            f"X has {n_samples} rows but y has {n_rows}: inconsistent numbers of samples; "
            "a candidate matrix needs one row per sample and one column per class"
        )
    if n_rows == 0:
        raise ValueError("y is empty (0 sample(s)); at least one sample is needed")
    if n_classes < min_classes:
        raise ValueError(
            f"y has only one class ({n_classes} in all), so there is nothing to learn; "
            "a classifier needs at least two classes"
        )
    empty = np.flatnonzero(np.diff(matrix.indptr) == 0)
    if len(empty):
        raise ValueError(
            f"row {empty[0]} has no candidate label ({len(empty)} such row(s)); every sample "
            "needs at least one: drop the row, or mark all classes if nothing is known of it"
        )
    return classes, matrix


def _holds_collections(rows: list[Any]) -> bool:
    """Return whether these are label collections or rows of a matrix; refuse what could be both."""
    for i, row in enumerate(rows):
        if isinstance(row, Iterable) and not (isinstance(row, _ROWS) or hasattr(row, "__array__")):
            raise ValueError(
                f"row {i} of y is of type {type(row).__name__}; write its labels as a set, such as "
                "{'cat', 'dog'}"
            )
    kinds = [isinstance(row, _COLLECTIONS) for row in rows]
    if not any(kinds):
        return False
    if not all(kinds):
        odd = kinds.index(False)
        raise ValueError(
            f"row {odd} of y is {rows[odd]!r}, not a collection like the others; "
            "write a single label as a set of one, such as {'cat'}"
        )
    if any(isinstance(row, (set, frozenset)) for row in rows):
        return True
    if any(isinstance(label, str) for row in rows for label in row):
        return True
    lengths = [len(row) for row in rows]
    if len(set(lengths)) == 1:
        return False
    if all(np.ndim(label) == 0 and label in (0, 1) for row in rows for label in row):
        odd = next(i for i, length in enumerate(lengths) if length != lengths[0])
        raise ValueError(
            f"y is ragged: row {odd} has {lengths[odd]} entries where row 0 has {lengths[0]}; "
            "give every row one entry per class, or pass the labels themselves as sets"
        )
    return True


def _flatten(rows: list[Any]) -> Given:
    flat: list[Any] = []
    for i, row in enumerate(rows):
        for label in row:
            try:
                hash(label)
            except TypeError:
                raise ValueError(
                    f"row {i} holds the label {label!r}, which is unhashable; "
                    "labels must be strings, numbers or other hashable values"
                ) from None
            if is_missing(label):
                raise ValueError(
                    f"row {i} holds a missing label (NaN or None); leave it out of the collection"
                )
            flat.append(label)
    return Given(labels=flat, counts=np.array([len(row) for row in rows], dtype=np.int64))


def _mark(labels: Any, counts: Any, classes: np.ndarray | None) -> tuple[np.ndarray, sp.csr_array]:
    """Turn labels, so many per row, into classes and a matrix."""
    if classes is None:
        classes, columns = order_labels(labels, counts)
    else:
        columns = find_columns(labels, classes)
        unknown = np.flatnonzero(columns < 0)
        if len(unknown):
            row = np.repeat(np.arange(len(counts)), counts)[unknown[0]]
            label = labels[unknown[0]]
            raise ValueError(
                f"row {row} has the label {getattr(label, 'item', lambda: label)()!r}, none of the "
                f"{len(classes)} classes seen in fit: {shorten(classes)}"
            )
    indptr = np.concatenate([[0], np.cumsum(counts)])
    ones = np.ones(len(columns), dtype=bool)
    matrix = sp.csr_array((ones, columns, indptr), shape=(len(counts), len(classes)))
    matrix.sum_duplicates()  # a label named twice in one row is one candidate
    return classes, matrix.astype(bool)


def match_columns(
    names: np.ndarray | None, matrix: sp.csr_array, classes: np.ndarray | None
) -> np.ndarray:
    """Return the classes of a matrix's columns, or refuse columns that are not ``classes``."""
    if classes is None:
        if names is not None and len(set(names.tolist())) < len(names):
            twice = next(name for name in names.tolist() if names.tolist().count(name) > 1)
            raise ValueError(
                f"two columns of the candidate matrix are called {twice!r}; rename one"
            )
        return np.arange(matrix.shape[1]) if names is None else names
    if matrix.shape[1] != len(classes):
        raise ValueError(
            f"the candidate matrix has {matrix.shape[1]} columns, but the classes seen in fit are "
            f"{len(classes)}: {shorten(classes)}"
        )
    if names is not None and not np.array_equal(names, classes):
        odd = next(i for i, (a, b) in enumerate(zip(names, classes, strict=True)) if a != b)
        raise ValueError(
            f"column {odd} of the candidate matrix is {names[odd]!r}, but class {odd} seen in fit "
            f"is {classes.tolist()[odd]!r}; reorder the columns as in fit"
        )
    return classes
