"""Candidates in every form that users write them in, read into one record."""

from collections.abc import Hashable, Iterable, Mapping, Set
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils import column_or_1d
from sklearn.utils.multiclass import check_classification_targets

from ._labels import check_classes, find_row, is_missing, mark_labels, shorten
from ._matrix import read_dense, read_sparse
from ._record import Candidates, from_arrow, row_labels


def check_candidates(y: Any, *, n_samples: int | None = None, classes: Any = None) -> Candidates:
    """Read candidate labels in any accepted form.

    Parameters
    ----------
    y : {array-like, sparse matrix, DataFrame} of shape (n_samples, n_classes), list of n_samples \
            label collections, array-like of shape (n_samples,), or Candidates
        - A matrix of 0/1 or booleans marks each sample's candidates. The columns of a DataFrame
          are the class labels; those of any other matrix are the classes 0, 1, 2, …
        - A float matrix with other values between 0 and 1 holds prior weights: how likely each
          label is before features are looked at. Labels with weight 0 are not candidates; each
          row is divided by its sum.
        - A list of sets, such as ``[{"cat", "dog"}, {"cat"}]``, holds the labels themselves.
          Lists or tuples of strings do as well, and those of numbers if their lengths differ:
          lists of numbers of equal length are read as a matrix.
        - A 1-D array holds one label per sample, so that every sample is clean.
    n_samples : int, default=None
        The number of rows of the features. Not checked if None.
    classes : array-like of shape (n_classes,), default=None
        The classes of a fitted estimator, which the columns or labels must match. Found in ``y``
        if None.

    Returns
    -------
    candidates : Candidates
        Classes, mask and prior weights.

    Examples
    --------
    >>> from sklearn_cleanse.candidates import check_candidates
    >>> candidates = check_candidates([{"cat", "dog"}, {"cat"}])
    >>> candidates.classes
    array(['cat', 'dog'], dtype='<U3')
    >>> candidates.mask
    array([[ True,  True],
           [ True, False]])
    >>> candidates.prior
    array([[0.5, 0.5],
           [1. , 0. ]], dtype=float32)
    >>> check_candidates([[0.6, 0.2, 0.0], [0.0, 0.5, 0.5]]).prior
    array([[0.75, 0.25, 0.  ],
           [0.  , 0.5 , 0.5 ]], dtype=float32)
    """
    if not isinstance(y, Candidates):
        return encode(read_form(y), classes, n_samples=n_samples)
    _check_rows(len(y), n_samples)
    match_columns(y.classes, len(y.classes), None if classes is None else check_classes(classes))
    return y


@dataclass(frozen=True)
class Given:
    """What ``y`` holds: a matrix, perhaps with named columns; or else labels, so many per row."""

    matrix: np.ndarray | None = None
    names: np.ndarray | None = None
    index: Any = None
    labels: np.ndarray | list[Any] | None = None
    counts: np.ndarray | None = None


def read_form(y: Any) -> Given:
    """Find out which form ``y`` has, and check what can be checked without the classes."""
    if sp.issparse(y):
        return Given(read_sparse(y))
    index = row_labels(y)
    y = _check_container(y)
    if hasattr(y, "columns") and y.shape[1] != 1:
        return Given(read_dense(np.asarray(y)), check_classes(y.columns, "Columns of `y`"), index)
    rows = None if hasattr(y, "__array__") else list(y)
    try:
        values = np.asarray(y if rows is None else rows)
    except ValueError:  # rows of different lengths
        values = np.empty(0, dtype=object)
    if values.dtype.kind == "T":  # variable-width strings, which scikit-learn does not read
        y = values = values.astype(object)
    if values.dtype == object and values.ndim == 1 and rows is None:
        rows = list(values)
    if rows and (_holds_collections(rows) or not len(values)):
        counts = np.array([len(row) for row in rows], dtype=np.int64)
        return _check_labels(list(chain.from_iterable(rows)), counts, index)
    if values.ndim == 2 and values.shape[1] == 1:
        values, rows = column_or_1d(values, warn=True), rows and list(chain.from_iterable(rows))
    if values.ndim == 2:
        return Given(read_dense(values), index=index)
    if values.ndim != 1:
        raise ValueError(f"`y` must have 1 or 2 dimensions, got {values.ndim}: {values.shape}.")
    labels: Any = values if hasattr(y, "__array__") else rows
    given = _check_labels(labels, np.ones(len(values), dtype=np.int64), index)
    # numpy makes floats of integers beyond 64 bits, which is not the user's doing.
    if values.dtype.kind not in "biuSUO" and any(not isinstance(b, int) for b in labels):
        check_classification_targets(values)
    return given


def encode(
    given: Given, classes: Any = None, *, n_samples: int | None = None, min_classes: int = 2
) -> Candidates:
    """Return the record of what was given; see `check_candidates`."""
    known = None if classes is None else check_classes(classes)
    if given.matrix is None:
        classes, matrix = mark_labels(given.labels, given.counts, known)
    else:
        matrix = np.ascontiguousarray(given.matrix)
        classes = match_columns(given.names, matrix.shape[1], known)
    _check_rows(len(matrix), n_samples)
    if len(classes) < min_classes:
        raise ValueError(
            f"`y` must have at least two classes, got {len(classes)}. Nothing can be learned from "
            "one class."
        )
    mask = matrix != 0
    empty = np.flatnonzero(~mask.any(axis=1))
    if len(empty):
        raise ValueError(
            f"Every row must have a candidate, got none in row {empty[0]} ({len(empty)} in all)."
            " Drop these rows, or mark every class if the label is unknown."
        )
    # A few rows of a matrix that `fit` has read may have no zero among them.
    weights = _read_weights(matrix, mask, needs_zero=known is None)
    has_prior = weights is not mask and bool((mask & (weights != 1)).any())
    prior = np.divide(weights, weights.sum(axis=1, keepdims=True), dtype=np.float32)
    return Candidates(classes, mask, prior, has_prior, given.index)


def _read_weights(matrix: np.ndarray, mask: np.ndarray, needs_zero: bool) -> np.ndarray:
    """Return weights relative to the largest one of each row."""
    if matrix.dtype.kind != "f" or (matrix[mask] == 1).all():
        return mask
    if needs_zero and mask.all():
        raise ValueError(
            "Weights must be 0 for labels that are ruled out, got positive weights for all labels "
            "of all rows. Pass S = weights > 0.1, or weights * (weights > 0.1)."
        )
    # A candidate counts at least 1e-9 of the likeliest one: none vanishes in single precision.
    weights = np.maximum(matrix / matrix.max(axis=1, keepdims=True).astype(np.float64), 1e-9)
    return np.where(mask, weights, 0.0).astype(np.float32)


def _check_container(y: Any) -> Any:
    """Return tables of Arrow as those of pandas, or raise where a row per sample is missing."""
    y = from_arrow(y)
    if isinstance(y, np.ma.MaskedArray):
        raise ValueError("`y` must not be masked. Pass y.filled(0) to rule masked labels out.")
    has_rows = isinstance(y, Iterable) or hasattr(y, "__array__")
    if isinstance(y, (str, bytes, Mapping, Set)) or not has_rows:
        none = ": this estimator requires y to be passed, but the target y is None" * (y is None)
        raise ValueError(
            "`y` must be a candidate matrix, a list of label sets, or labels, one row per sample, "
            f"got {type(y).__name__} {y!r:.80}{none}. Pass a list in the order of the rows of X."
        )
    return y


def _holds_collections(rows: list[Any]) -> bool:
    """Return whether these are collections of labels, not labels or rows of a matrix, or raise."""
    are_sets = [isinstance(r, (Set, list, tuple)) or getattr(r, "shape", ()) != () for r in rows]
    for i, row in enumerate(rows):
        is_odd = not (are_sets[i] or isinstance(row, (str, bytes))) and isinstance(row, Iterable)
        if is_odd or isinstance(row, np.ma.MaskedArray) or are_sets[i] != are_sets[0]:
            raise ValueError(
                f"Rows of `y` must all be labels or all be sets, got {row!r:.80} "
                f"({type(row).__name__}) in row {i}. Write each row as a set, such as {{'cat'}}."
            )
    if not are_sets[0]:
        return False
    odd = next((i for i, row in enumerate(rows) if len(row) != len(rows[0])), None)
    has_sets = any(isinstance(row, Set) for row in rows)
    texts = {label if isinstance(label, str) else None for row in rows for label in row}
    is_matrix = not has_sets and odd is None and len(rows[0]) > 1
    if is_matrix and texts <= {"0", "1", "0.0", "1.0", "False", "True"}:
        raise ValueError(
            f"A matrix must hold numbers, got {rows[0]!r:.80} in row 0. Pass np.array(y).astype("
            "float), or np.array(y) == 'True'. Write sets of labels as sets, such as {'0', '1'}."
        )
    if has_sets or texts - {None}:
        return True
    if odd and all(np.ndim(label) == 0 and label in (0, 1) for row in rows for label in row):
        raise ValueError(
            f"Rows of a matrix must be equally long, got {len(rows[odd])} values in row {odd} and "
            f"{len(rows[0])} in row 0. Write a value per class, or pass the labels as sets."
        )
    return odd is not None


def _check_labels(labels: Any, counts: np.ndarray, index: Any) -> Given:
    """Raise if a label is missing or cannot be hashed; ``counts`` is their number in each row."""
    flat = labels.tolist() if isinstance(labels, np.ndarray) else labels
    try:
        sound = not any(map(is_missing, set(flat)))
    except TypeError:
        sound = False
    if not sound:
        bad = (i for i, b in enumerate(flat) if is_missing(b) or not isinstance(b, Hashable))
        at = next(bad, 0)
        raise ValueError(
            f"Labels must be hashable and not missing, got {flat[at]!r} in row "
            f"{find_row(at, counts)}. Leave missing labels out; mark all classes if none is known."
        )
    return Given(labels=labels, counts=counts, index=index)


def _check_rows(n_rows: int, n_samples: int | None) -> None:
    if n_samples is not None and n_rows != n_samples:
        raise ValueError(f"`y` must have as many rows as X, {n_samples}, got {n_rows}.")
    if n_rows == 0:
        raise ValueError("`y` must have at least one row, got an empty one (0 sample(s)).")


def match_columns(names: np.ndarray | None, n_columns: int, classes: Any) -> np.ndarray:
    """Return the classes of a matrix's columns, or raise if the columns are not ``classes``."""
    if classes is None:
        return np.arange(n_columns) if names is None else names
    pairs = zip([] if names is None else names.tolist(), classes.tolist(), strict=False)
    odd = [f", {a!r} in column {i}" for i, (a, b) in enumerate(pairs) if a != b]
    if n_columns != len(classes) or odd:
        raise ValueError(
            f"Columns must be the {len(classes)} classes seen in fit in their order, "
            f"{shorten(classes)}, got {n_columns} columns{''.join(odd[:1])}. Reorder the columns."
        )
    return np.asarray(classes)
