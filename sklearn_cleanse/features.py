"""Features: one check of X for all estimators."""

from collections import Counter
from contextlib import suppress
from datetime import timedelta
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import validate_data

#: Sparse features become dense up to this many GiB.
DENSE_LIMIT = 2.0

#: Beyond these, squares and sums of squares overflow or vanish in double precision.
LARGEST, SMALLEST = 1e100, 1e-100

_DATES = (timedelta, np.datetime64, np.timedelta64)  # beside what has `strftime`


def check_features(
    estimator: Any, X: Any, *, reset: bool, allow_nan: bool = True, allow_images: bool = False
) -> np.ndarray:
    """Return features as a native array of float64, float32 or small integers, or raise.

    Parameters
    ----------
    estimator : object
        Its ``n_features_in_`` and ``feature_names_in_`` are set if ``reset``, otherwise compared.
    X : array-like of shape (n_samples, n_features) or (n_samples, channels, height, width)
        Sparse features become dense. Masked entries are missing values.
    reset : bool
        Whether this is a first fit.
    allow_nan : bool, default=True
        Whether missing values (NaN) are allowed, in tables only.
    allow_images : bool, default=False
        Whether more than two dimensions are allowed.

    Returns
    -------
    X : ndarray
        Not copied if its type allows.

    Examples
    --------
    >>> from sklearn_cleanse import CleanSEKernelClassifier
    >>> from sklearn_cleanse.features import check_features
    >>> check_features(CleanSEKernelClassifier(), [[1, 2], [3, 4]], reset=True)
    array([[1., 2.],
           [3., 4.]])
    """
    _check_columns(X, type(estimator).__name__)
    parts = X if isinstance(X, (list, tuple)) else [X]
    if any(isinstance(part, np.ma.MaskedArray) for part in parts):
        X = np.ma.filled(np.ma.array(X, dtype=np.float64), np.nan)
    if sp.issparse(X):
        X = _dense(X)
    finite = "allow-nan" if allow_nan else True
    X = validate_data(estimator, X, reset=reset, allow_nd=allow_images, ensure_all_finite=finite)
    if X.dtype not in (np.float64, np.float32, np.uint8, np.int8, np.int16, np.bool_):
        X = X.astype(np.float64)
    if reset:
        estimator._sample_shape, estimator._sample_dtype = X.shape[1:], X.dtype.name
    if X.ndim > 2:
        _check_images(estimator, X)
    _check_magnitude(X, reset)
    return X


def _check_columns(X: Any, name: str) -> None:
    """Raise if columns hold dates, text or categories, or have unusable names."""
    if (n_levels := getattr(getattr(X, "columns", None), "nlevels", 1)) > 1:
        raise ValueError(
            f"X must have plain column names, got {n_levels} levels. "
            "Set X.columns = X.columns.map(str)."
        )
    for column, count in Counter(_names_of_columns(X)).most_common(1):
        if count > 1:
            raise ValueError(f"X must have unique columns, got {column!r} twice. Rename one.")
    dates, texts = _kinds_of_columns(X)
    if dates:
        raise ValueError(
            f"X must be numeric, got dates in column {dates[0]!r}. Pass a number instead, such as "
            "the days since a fixed date."
        )
    if texts:
        raise ValueError(
            f"X must be numeric, got text or categories in column {', '.join(map(repr, texts))}. "
            "Encode them in a pipeline: make_pipeline(make_column_transformer((OneHotEncoder("
            f"handle_unknown='ignore'), {texts!r}), remainder='passthrough'), {name}())."
        )


def _names_of_columns(X: Any) -> Any:
    """Return the names of a frame's columns, by pyarrow's attribute or by that of all others."""
    return getattr(X, "column_names", getattr(X, "columns", ())) if hasattr(X, "__array__") else ()


def _kinds_of_columns(X: Any) -> tuple[list[Any], list[Any]]:
    """Return the columns that hold dates, and those that hold text or categories."""
    names = _names_of_columns(X)
    columns = [(name, X[name]) for name in names]
    if len(names) == 0 and getattr(getattr(X, "dtype", None), "kind", "O") in "OUSmM":
        with suppress(ValueError):  # scikit-learn explains what is not a table
            columns = list(enumerate(np.asarray(X).swapaxes(0, 1)))
    dates, texts = [], []
    for name, values in columns:
        cells = np.asarray(values).ravel()
        kind = getattr(getattr(values, "dtype", None), "name", cells.dtype.kind)
        cells = cells if cells.dtype.kind in "OUSmM" else cells[:0]
        if any(hasattr(cell, "strftime") or isinstance(cell, _DATES) for cell in cells):
            dates.append(name)
        elif kind == "category" or any(_is_text(cell, len(names) > 0) for cell in cells):
            texts.append(name)
    return dates, texts


def _is_text(value: Any, in_frame: bool) -> bool:
    with suppress(TypeError, ValueError):
        if not in_frame:  # an array with text in one column has digits in others
            float(value)
            return False
    return isinstance(value, (str, bytes))


def _dense(X: Any) -> np.ndarray:
    size = 8.0 * X.shape[0] * X.shape[1] / 2**30 if len(X.shape) == 2 else 0.0
    if size > DENSE_LIMIT:
        raise MemoryError(
            f"Sparse X of shape {X.shape} must fit into {DENSE_LIMIT:g} GiB when dense, got "
            f"{size:.3g} GiB. Reduce its columns in a pipeline, such as "
            "make_pipeline(TruncatedSVD(100), ...)."
        )
    return X.toarray()


def _check_images(estimator: Any, X: np.ndarray) -> None:
    if X.dtype.kind == "f" and np.isnan(X).any():
        row = int(np.argwhere(np.isnan(X))[0, 0])
        raise ValueError(f"Images must not have missing values, got NaN in row {row}. Fill them.")
    if X.shape[1:] != estimator._sample_shape:
        raise ValueError(
            f"X must have samples of shape {estimator._sample_shape} as in `fit`, got "
            f"{X.shape[1:]}."
        )


def _check_magnitude(X: np.ndarray, reset: bool) -> None:
    """Raise if values are too large to square, or a feature varies too little to be scaled."""
    if X.dtype.kind != "f" or not X.size:
        return
    axes = (0, *range(2, X.ndim))  # channels of images are scaled as a whole
    with np.errstate(invalid="ignore"):
        low = np.fmin.reduce(X, axis=axes).astype(np.float64)
        high = np.fmax.reduce(X, axis=axes).astype(np.float64)
    if max(np.fmax.reduce(high, axis=None), -np.fmin.reduce(low, axis=None)) > LARGEST:
        row = int(np.nanargmax(np.fmax.reduce(np.abs(X).reshape(len(X), -1), axis=1)))
        raise ValueError(
            f"X must lie between ±{LARGEST:.0e}, got a value beyond in row {row}. Divide that "
            "feature by a large number, or drop the row."
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
