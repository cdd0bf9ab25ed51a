"""Features: one check of X for all estimators."""

from collections import Counter
from contextlib import suppress
from datetime import timedelta
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import validate_data

from .candidates._labels import is_missing
from .candidates._matrix import check_sparse
from .candidates._record import from_arrow

#: Sparse features become dense up to this many GiB.
DENSE_LIMIT = 2.0

#: Beyond these, squares and sums of squares overflow or vanish in double precision.
LARGEST, SMALLEST = 1e100, 1e-100

_ODD_KINDS = "OUSTmM"  # of arrays that may hold something other than numbers


def check_features(
    estimator: Any, X: Any, *, reset: bool, allow_images: bool = False
) -> np.ndarray:
    """Return features as a native array of float64, float32 or small integers, or raise.

    Parameters
    ----------
    estimator : object
        Its ``n_features_in_`` and ``feature_names_in_`` are set if ``reset``, otherwise compared.
    X : array-like of shape (n_samples, n_features) or (n_samples, channels, height, width)
        Sparse features become dense. Masked entries, None and pd.NA are missing values (NaN).
    reset : bool
        Whether this is a first fit.
    allow_images : bool, default=False
        Whether more than two dimensions are allowed, without missing values.

    Returns
    -------
    X : ndarray
        Not copied if its type and strides allow.

    Examples
    --------
    >>> from sklearn_cleanse import CleanSEKernelClassifier
    >>> from sklearn_cleanse.features import check_features
    >>> check_features(CleanSEKernelClassifier(), [[1, 2], [3, 4]], reset=True)
    array([[1., 2.],
           [3., 4.]])
    """
    X = from_arrow(X)
    parts = X if isinstance(X, (list, tuple)) else [X]
    if any(isinstance(part, np.ma.MaskedArray) for part in parts):
        masked: Any = np.ma.array(X)
        X = masked.astype(np.float64 if masked.dtype.kind in "biuf" else object).filled(np.nan)
    if sp.issparse(X) or hasattr(X, "sparse"):
        X = _dense(X)
    X = _read_columns(X, type(estimator).__name__)
    X = validate_data(estimator, X, reset=reset, allow_nd=allow_images, ensure_all_finite=False)
    if X.dtype not in (np.float64, np.float32, np.uint8, np.int8, np.int16, np.bool_):
        X = X.astype(np.float64)
    if any(step < 0 or step % X.itemsize for step in X.strides):  # torch reads neither
        X = X.copy()
    if reset:
        estimator._sample_shape, estimator._sample_dtype = X.shape[1:], X.dtype.name
    if X.ndim > 2:
        _check_images(estimator, X)
    _check_magnitude(X, reset)
    return np.asarray(X)


def _read_columns(X: Any, name: str) -> Any:
    """Return X without pd.NA, or raise if columns do not hold numbers, or have unusable names."""
    if (n_levels := getattr(getattr(X, "columns", None), "nlevels", 1)) > 1:
        raise ValueError(
            f"X must have plain columns, got {n_levels} levels. Set X.columns = X.columns.map(str)."
        )
    names = list(getattr(X, "columns", ())) if hasattr(X, "__array__") else []
    for column, count in Counter(names).most_common(1):
        if count > 1:
            raise ValueError(f"X must have unique columns, got {column!r} twice. Rename one.")
    columns = [(column, X[column]) for column in names]
    kind = getattr(getattr(X, "dtype", None), "kind", "O")
    if not names and kind in _ODD_KINDS:
        with suppress(ValueError):  # scikit-learn explains what is not a table
            columns = list(enumerate(np.asarray(X).swapaxes(0, 1)))
    # By kind, the first cell in each column of that kind.
    found: dict[str, dict[Any, Any]] = {"date": {}, "text": {}, "other": {}, "NA": {}, "number": {}}
    for column, values in columns:
        cells = np.asarray(values)
        if getattr(getattr(values, "dtype", None), "name", "") == "category":
            found["text"][column] = 0, cells[0]
        elif names and cells.ndim > 1:  # a struct of polars
            found["other"][column] = 0, cells[0]
        elif cells.dtype.kind in _ODD_KINDS:
            for (row, *_), cell in np.ndenumerate(cells):
                found[_kind(cell, len(names) > 0)].setdefault(column, (row, cell))
    for column in found["date"]:
        raise ValueError(
            f"X must be numeric, got dates in column {column!r}. Pass the days since a fixed one."
        )
    if texts := [*found["text"]]:
        raise ValueError(
            f"X must be numeric, got text or categories in column {', '.join(map(repr, texts))}. "
            "Encode them in a pipeline: make_pipeline(make_column_transformer((OneHotEncoder("
            f"handle_unknown='ignore'), {texts!r}), remainder='passthrough'), {name}())."
        )
    for column, (row, cell) in found["other"].items():
        raise TypeError(  # in words that scikit-learn's checks expect
            f"X must be numeric: the argument must be a string or a number, got {cell!r:.80} "
            f"({type(cell).__name__}) in row {row}, column {column!r}. Write NaN if it is missing."
        )
    if found["NA"] or kind == "T":
        import pandas as pd

        frame = pd.DataFrame(np.asarray(X, dtype=object), columns=names or None)
        X = frame.map(lambda cell: np.nan if is_missing(cell) else cell)
    return X


def _kind(cell: Any, in_frame: bool) -> str:
    """Return the kind of a cell: a date, text, a missing value, a number, or anything else."""
    if hasattr(cell, "strftime") or isinstance(cell, (timedelta, np.datetime64, np.timedelta64)):
        return "date"
    is_text = isinstance(cell, (str, bytes))
    with suppress(TypeError, ValueError, OverflowError):
        # An array with text in one column has digits in others.
        if not (in_frame if is_text else hasattr(cell, "__len__")):
            float(cell)
            return "number"
    return "text" if is_text else "NA" if is_missing(cell) else "other"


def _dense(X: Any) -> Any:
    size = 8.0 * X.shape[0] * X.shape[1] / 2**30 if len(X.shape) == 2 else 0.0
    if size > DENSE_LIMIT:
        raise MemoryError(
            f"Sparse X must fit into {DENSE_LIMIT:g} GiB when dense, got {size:.3g} GiB of shape "
            f"{X.shape}. Reduce its columns: make_pipeline(TruncatedSVD(100), ...)."
        )
    return check_sparse(X, "X").toarray() if sp.issparse(X) else X.sparse.to_dense()


def _check_images(estimator: Any, X: np.ndarray) -> None:
    if not X.size:
        raise ValueError(f"Images must have pixels, got X of shape {X.shape}. Drop that axis.")
    if X.dtype.kind == "f" and np.isnan(X).any():
        row = int(np.argwhere(np.isnan(X))[0, 0])
        raise ValueError(f"Images must not have missing values, got NaN in row {row}. Fill them.")
    if X.shape[1:] != estimator._sample_shape:
        raise ValueError(
            f"X must have samples of shape {estimator._sample_shape}, as in `fit`, got "
            f"{X.shape[1:]}."
        )


def _check_magnitude(X: np.ndarray, reset: bool) -> None:
    """Raise if values are too large to square, or a feature varies too little to be scaled."""
    if X.dtype.kind != "f":
        return
    axes = (0, *range(2, X.ndim))  # channels of images are scaled as a whole
    with np.errstate(invalid="ignore"):
        low = np.fmin.reduce(X, axis=axes).astype(np.float64)
        high = np.fmax.reduce(X, axis=axes).astype(np.float64)
    if max(np.fmax.reduce(high, axis=None), -np.fmin.reduce(low, axis=None)) > LARGEST:
        first = np.argwhere(np.abs(X) > LARGEST)[0]
        raise ValueError(
            f"X must lie between ±{LARGEST:.0e}, got {X[tuple(first)]:.3g} in row {first[0]}, "
            f"column {first[1]}. Write NaN if it means a missing value, divide the feature by a "
            "large number, or drop the row."
        )
    is_small = (high - low > 0) & (high - low < SMALLEST)
    if reset and is_small.any():
        feature = int(np.argmax(is_small))
        raise ValueError(
            f"Features must vary by at least {SMALLEST:.0e}, got {(high - low)[feature]:.3g} in "
            f"feature {feature} of X. Multiply that feature by a large number, or drop it."
        )


def row_keys(*tables: np.ndarray) -> list[bytes]:
    """Return the bytes of each row over all tables; equal rows have equal bytes, NaN equals NaN."""
    parts = []
    for table in tables:
        flat = table.reshape(len(table), -1)
        if flat.dtype.kind == "f":
            flat = np.where(np.isnan(flat), np.nan, flat + 0.0)  # -0.0 equals 0.0
        parts.append([row.tobytes() for row in np.ascontiguousarray(flat)])
    return [b"".join(row) for row in zip(*parts, strict=True)]
