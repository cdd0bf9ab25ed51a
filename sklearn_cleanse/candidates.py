"""Candidate labels: the one data type of the package.

Whatever a user hands in as ``y`` becomes, here and nowhere else, a pair: the class labels, and a
sparse boolean matrix with a row per sample and a column per class. It is sparse because a sample
has a handful of candidates even where there are hundreds of classes.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning, DataConversionWarning
from sklearn.utils import column_or_1d
from sklearn.utils.multiclass import check_classification_targets

__all__ = [
    "candidate_counts",
    "candidate_softmax",
    "check_candidates",
    "clean_rows",
    "covers",
    "estimate_proportions",
]


def check_candidates(
    y: Any, *, n_samples: int | None = None, classes: np.ndarray | None = None
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
    classes : ndarray of shape (n_classes,), default=None
        The classes of a fitted estimator, which the columns or labels must then match. Found in
        ``y`` if None.

    Returns
    -------
    classes : ndarray of shape (n_classes,)
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
    if y is None:
        raise ValueError(
            "y is None: this estimator requires y to be passed, but the target y is None; "
            "pass a candidate matrix, a list of label sets, or labels"
        )
    labels, matrix = _as_labels_or_matrix(y)
    if matrix is None:
        classes, matrix = _encode(labels, classes)
    else:
        classes = _match_columns(labels, matrix, classes)
    n_rows, n_classes = matrix.shape
    if n_samples is not None and n_rows != n_samples:
        raise ValueError(
            f"X has {n_samples} rows but y has {n_rows}: inconsistent numbers of samples; "
            "a candidate matrix needs one row per sample and one column per class"
        )
    if n_rows == 0:
        raise ValueError("y is empty (0 sample(s)); at least one sample is needed")
    if n_classes < 2:
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


def clean_rows(candidates: sp.csr_array) -> np.ndarray:
    """Tell which samples are clean, that is, have a single candidate.

    Parameters
    ----------
    candidates : csr_array of shape (n_samples, n_classes), dtype bool
        What `check_candidates` returns.

    Returns
    -------
    clean : ndarray of shape (n_samples,), dtype bool

    Examples
    --------
    >>> from sklearn_cleanse.candidates import check_candidates, clean_rows
    >>> clean_rows(check_candidates([{"cat", "dog"}, {"cat"}])[1])
    array([False,  True])
    """
    return np.diff(candidates.indptr) == 1


def candidate_counts(candidates: sp.csr_array) -> tuple[np.ndarray, np.ndarray]:
    """Count clean samples and candidates of each class: the bounds of Eq. (9).

    Parameters
    ----------
    candidates : csr_array of shape (n_samples, n_classes), dtype bool
        What `check_candidates` returns.

    Returns
    -------
    lower : ndarray of shape (n_classes,)
        Samples whose only candidate is the class: the class occurs at least so often.
    upper : ndarray of shape (n_classes,)
        Samples that have the class among their candidates: it occurs at most so often.

    Examples
    --------
    >>> from sklearn_cleanse.candidates import candidate_counts, check_candidates
    >>> candidate_counts(check_candidates([{"cat", "dog"}, {"cat"}])[1])
    (array([1, 0]), array([2, 1]))
    """
    n_classes = candidates.shape[1]
    lower = np.bincount(candidates[clean_rows(candidates)].indices, minlength=n_classes)
    return lower, np.bincount(candidates.indices, minlength=n_classes)


def estimate_proportions(candidates: Any, *, max_iter: int = 2000, tol: float = 1e-7) -> np.ndarray:
    """Class proportions from candidate sets alone.

    Maximises ``sum_i log sum_{j in S_i} pi_j`` over the simplex, by expectation maximisation:
    each row spreads one vote over its candidates in the present proportions. This is the maximum
    likelihood if a candidate set is equally likely under each of its labels, as when distractors
    are drawn without regard to the true label. Where distractors depend on the label, as in real
    data, it is biased towards frequent candidates, and splitting each row evenly over its
    candidates can be closer. The objective is concave; where it has several maxima (labels that
    always occur together) the mass is shared.

    Parameters
    ----------
    candidates : sparse array, or ndarray, of shape (n, m)
        Nonzero where a label is a candidate of a row.
    max_iter : int, default=2000
        Most iterations; reaching them gives a ConvergenceWarning.
    tol : float, default=1e-7
        Stop when no proportion moves by more.

    Returns
    -------
    ndarray of shape (m,)
        Non-negative, summing to one; zero for labels no row has.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_cleanse.candidates import estimate_proportions
    >>> estimate_proportions(np.array([[1, 0, 0], [1, 1, 0], [0, 1, 1], [0, 1, 0]])).round(3)
    array([0.333, 0.667, 0.   ])
    """
    sets = sp.csr_array(candidates, dtype=np.float64)
    sets.data = (sets.data != 0).astype(np.float64)
    sets.eliminate_zeros()
    n, m = sets.shape
    empty = np.flatnonzero(np.diff(sets.indptr) == 0)
    if n == 0 or len(empty):
        what = f"row {empty[0]} has no candidate label" if n else "there are no rows"
        raise ValueError(f"{what}; every sample needs at least one candidate")
    votes = sets.T.tocsr()
    pi = np.full(m, 1.0 / m)
    for _ in range(max_iter):
        previous, pi = pi, pi * (votes @ (1.0 / (sets @ pi))) / n
        if np.abs(pi - previous).max() <= tol:
            break
    else:
        warnings.warn(
            f"the proportions had not settled to tol={tol} after max_iter={max_iter} iterations; "
            "raise one of the two",
            ConvergenceWarning,
            stacklevel=2,
        )
    return np.asarray(pi / pi.sum())


def covers(candidates: sp.csr_array, columns: np.ndarray) -> np.ndarray:
    """Tell which predictions lie inside the candidate sets.

    Parameters
    ----------
    candidates : csr_array of shape (n_samples, n_classes), dtype bool
        What `check_candidates` returns.
    columns : ndarray of shape (n_samples,), dtype int
        The column of the class predicted for each sample.

    Returns
    -------
    covered : ndarray of shape (n_samples,), dtype bool

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_cleanse.candidates import check_candidates, covers
    >>> covers(check_candidates([{"cat", "dog"}, {"cat"}])[1], np.array([1, 1]))
    array([ True, False])
    """
    return np.asarray(candidates[np.arange(len(columns)), columns]).ravel()


def candidate_softmax(log_proba: np.ndarray, candidates: sp.csr_array) -> sp.csr_array:
    """Restrict log-probabilities to the candidates and normalise each row.

    Parameters
    ----------
    log_proba : ndarray of shape (n_samples, n_classes)
        Log-probabilities, up to a constant per row; -inf is allowed.
    candidates : csr_array of shape (n_samples, n_classes), dtype bool
        What `check_candidates` returns.

    Returns
    -------
    proba : csr_array of shape (n_samples, n_classes)
        Zero outside the candidates; each row sums to one. A row whose candidates all have
        log-probability -inf is spread evenly.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_cleanse.candidates import candidate_softmax, check_candidates
    >>> log_proba = np.log([[0.2, 0.2, 0.6], [0.1, 0.1, 0.8]])
    >>> _, candidates = check_candidates([[1, 1, 0], [1, 0, 1]])
    >>> candidate_softmax(log_proba, candidates).toarray().round(3)
    array([[0.5  , 0.5  , 0.   ],
           [0.111, 0.   , 0.889]])
    """
    starts, counts = candidates.indptr[:-1], np.diff(candidates.indptr)
    rows = np.repeat(np.arange(len(counts)), counts)
    values = np.asarray(log_proba)[rows, candidates.indices].astype(float)
    top = np.maximum.reduceat(values, starts)
    values = np.where(np.isneginf(top)[rows], 0.0, values)
    values = np.exp(values - np.where(np.isneginf(top), 0.0, top)[rows])
    values /= np.add.reduceat(values, starts)[rows]
    return sp.csr_array((values, candidates.indices, candidates.indptr), shape=candidates.shape)


def _as_labels_or_matrix(y: Any) -> tuple[Any, sp.csr_array | None]:
    """Return (column names or None, matrix), or (1-D labels or label collections, None)."""
    if sp.issparse(y):
        return None, _check_sparse(y)
    if hasattr(y, "columns"):  # a DataFrame, whatever library it comes from
        if y.shape[1] != 1:
            return np.asarray(y.columns), _check_dense(_dense_frame(y))
        y = np.asarray(y)
    if isinstance(y, (str, bytes)) or not (isinstance(y, Iterable) or hasattr(y, "__array__")):
        raise ValueError(
            f"y is {y!r}; expected a candidate matrix, a list of label sets, or an array of labels"
        )
    if not hasattr(y, "__array__"):
        y = list(y)
        if _holds_collections(y):
            return y, None
    y = np.asarray(y)
    if y.dtype == object and y.ndim == 1 and _holds_collections(list(y)):
        return list(y), None
    if y.ndim == 2 and y.shape[1] == 1:
        warnings.warn(
            "A column-vector y was passed when a 1d array was expected; its values are taken as "
            "labels. Please change the shape of y to (n_samples,), for example using ravel().",
            DataConversionWarning,
            stacklevel=4,
        )
        y = y.ravel()
    if y.ndim == 2:
        return None, _check_dense(y)
    if y.ndim != 1:
        raise ValueError(
            f"y has {y.ndim} dimensions, shape {y.shape}; expected a candidate matrix of shape "
            "(n_samples, n_classes) or labels of shape (n_samples,)"
        )
    if len(y) == 0:
        raise ValueError("y is empty (0 sample(s)); at least one sample is needed")
    if y.dtype.kind in "fO":
        _refuse_missing(y)
    check_classification_targets(y)
    return column_or_1d(y), None


def _holds_collections(rows: list[Any]) -> bool:
    """Tell label collections from the rows of a matrix; refuse what could be either."""
    kinds = [isinstance(row, (set, frozenset, list, tuple, np.ndarray)) for row in rows]
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


def _check_sparse(y: Any) -> sp.csr_array:
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


def _dense_frame(frame: Any) -> np.ndarray:
    values = np.asarray(frame)
    if values.dtype == object:  # mixed or nullable columns: keep the values, lose the wrappers
        values = np.asarray([[np.nan if v is None else v for v in row] for row in values.tolist()])
    return values


def _check_dense(y: np.ndarray) -> sp.csr_array:
    if y.dtype != bool:
        if y.dtype.kind not in "iuf":
            for row, values in enumerate(y.tolist()):
                odd = [value for value in values if not isinstance(value, (bool, int, float))]
                if any(_is_missing(value) for value in odd):
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


def _refuse_missing(y: np.ndarray) -> None:
    missing = np.flatnonzero([_is_missing(value) for value in y.tolist()])
    if len(missing):
        raise ValueError(
            f"row {missing[0]}: the label is missing (NaN), and y contains NaN in {len(missing)} "
            "row(s); drop the row, or mark all classes as candidates if nothing is known of it"
        )


def _is_missing(value: Any) -> bool:
    """Tell None, NaN and what pandas has for them."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(value, float) and value != value


def _encode(labels: Any, classes: np.ndarray | None) -> tuple[np.ndarray, sp.csr_array]:
    """Turn 1-D labels or label collections into classes and a matrix."""
    if isinstance(labels, np.ndarray):
        flat, counts = labels, np.ones(len(labels), dtype=np.int64)
    else:
        flat, counts = _flatten(labels)
    rows = np.repeat(np.arange(len(counts)), counts)
    if classes is None:
        try:
            classes, columns = np.unique(flat, return_inverse=True)
        except TypeError:
            kinds = sorted({type(label).__name__ for label in flat})
            raise ValueError(
                f"labels of different types cannot be ordered: found {', '.join(kinds)}; "
                "use strings throughout or integers throughout"
            ) from None
    else:
        position = {label: column for column, label in enumerate(classes.tolist())}
        columns = np.array([position.get(label, -1) for label in flat.tolist()], dtype=np.int64)
        unknown = np.flatnonzero(columns < 0)
        if len(unknown):
            raise ValueError(
                f"row {rows[unknown[0]]} has the label {flat[unknown].tolist()[0]!r}, none of the "
                f"{len(classes)} classes seen in fit: {_shorten(classes)}"
            )
    indptr = np.concatenate([[0], np.cumsum(counts)])
    ones = np.ones(len(columns), dtype=bool)
    matrix = sp.csr_array((ones, columns.ravel(), indptr), shape=(len(counts), len(classes)))
    matrix.sum_duplicates()  # a label named twice in one row is one candidate
    return classes, matrix.astype(bool)


def _flatten(rows: list[Any]) -> tuple[np.ndarray, np.ndarray]:
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
            if _is_missing(label):
                raise ValueError(
                    f"row {i} holds a missing label (NaN or None); leave it out of the collection"
                )
            flat.append(label)
    strings = sum(isinstance(label, str) for label in flat)
    if 0 < strings < len(flat) or any(isinstance(label, tuple) for label in flat):
        # numpy would quietly turn 1 into "1", and a pair into two labels
        flat_array = np.empty(len(flat), dtype=object)
        flat_array[:] = flat
    else:
        flat_array = np.asarray(flat)
    return flat_array, np.array([len(row) for row in rows], dtype=np.int64)


def _match_columns(
    names: np.ndarray | None, matrix: sp.csr_array, classes: np.ndarray | None
) -> np.ndarray:
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
            f"{len(classes)}: {_shorten(classes)}"
        )
    if names is not None and not np.array_equal(names, classes):
        odd = next(i for i, (a, b) in enumerate(zip(names, classes, strict=True)) if a != b)
        raise ValueError(
            f"column {odd} of the candidate matrix is {names[odd]!r}, but class {odd} seen in fit "
            f"is {classes[odd]!r}; reorder the columns as in fit"
        )
    return classes


def _shorten(classes: np.ndarray) -> str:
    shown = ", ".join(repr(label) for label in classes[:8].tolist())
    return shown + (", …" if len(classes) > 8 else "")
