"""Features as they come: sparse rows that are dense only in parts, and text that is refused."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp

#: Largest number of values that a block of sparse features may have when it is dense.
BLOCK_VALUES = 2**23


class SparseRows:
    """Sparse features that are cut like an array and become dense only when asked to.

    Parameters
    ----------
    matrix : sparse matrix of shape (n_samples, n_features)

    Examples
    --------
    >>> import scipy.sparse as sp
    >>> from sklearn_cleanse._rows import SparseRows
    >>> X = SparseRows(sp.csr_array([[0.0, 2.0], [1.0, 0.0], [0.0, 0.0]]))
    >>> len(X), X[:2].toarray().tolist()
    (3, [[0.0, 2.0], [1.0, 0.0]])
    """

    ndim = 2

    def __init__(self, matrix: Any) -> None:
        self.matrix = sp.csr_array(matrix)
        if not self.matrix.has_canonical_format or not self.matrix.data.all():
            self.matrix = self.matrix.copy()  # the caller's stays as it is
            self.matrix.sum_duplicates()
            self.matrix.eliminate_zeros()

    @property
    def shape(self) -> tuple[int, int]:
        return self.matrix.shape

    @property
    def dtype(self) -> np.dtype:
        return self.matrix.dtype

    def __len__(self) -> int:
        return self.matrix.shape[0]

    def __getitem__(self, rows: slice | np.ndarray) -> SparseRows:
        return SparseRows(self.matrix[rows])

    def astype(self, dtype: Any) -> SparseRows:
        return SparseRows(self.matrix.astype(dtype))

    def toarray(self) -> np.ndarray:
        return self.matrix.toarray()

    def row_blocks(self) -> Iterator[slice]:
        """Cut the rows into blocks that may be dense."""
        size = max(1, BLOCK_VALUES // self.shape[1])
        for start in range(0, len(self), size):
            yield slice(start, min(start + size, len(self)))

    def column_blocks(self) -> Iterator[np.ndarray]:
        """Yield some columns at a time, dense."""
        columns = self.matrix.tocsc()
        size = max(1, BLOCK_VALUES // max(1, len(self)))
        for start in range(0, self.shape[1], size):
            yield columns[:, start : start + size].toarray()

    def keys(self) -> list[bytes]:
        """Return for each row what it holds, equal for equal rows."""
        indices, data = self.matrix.indices.astype(np.int64), self.matrix.data
        ends = self.matrix.indptr.tolist()
        return [indices[a:b].tobytes() + data[a:b].tobytes() for a, b in pairwise(ends)]


def row_keys(X: Any) -> list[bytes]:
    """Return for each row what it holds, equal for equal rows; a gap (NaN) equals a gap.

    Parameters
    ----------
    X : {array-like, sparse matrix} of shape (n_samples, ...)
        Features of any type.

    Returns
    -------
    keys : list of bytes

    Examples
    --------
    >>> from sklearn_cleanse._rows import row_keys
    >>> keys = row_keys([[0.0, float("nan")], [-0.0, float("nan")], [1.0, 0.0]])
    >>> keys[0] == keys[1], keys[0] == keys[2]
    (True, False)
    """
    if sp.issparse(X):
        return SparseRows(X).keys()
    values = np.asarray(X)
    values = values.reshape(len(values), -1)
    if values.dtype.kind == "O":
        return [repr(row).encode() for row in values.tolist()]
    if values.dtype.kind in "fc":
        values = np.where(np.isnan(values), np.nan, values + 0)  # -0.0 equals 0.0
    return [row.tobytes() for row in np.ascontiguousarray(values)]


def refuse_text(X: Any, name: str, use: str = "{}") -> None:
    """Refuse features with text or categories, by the pipeline that takes them.

    Parameters
    ----------
    X : array-like
        Features.
    name : str
        The estimator's name.
    use : str, default="{}"
        How to use the pipeline, which takes the place of the braces.

    Examples
    --------
    >>> import pandas as pd
    >>> from sklearn_cleanse._rows import refuse_text
    >>> refuse_text(pd.DataFrame({"size": [1.0], "town": ["Oslo"]}), "CleanSEClassifier")
    Traceback (most recent call last):
    ValueError: column 'town' of X holds text or categories; ...
    """
    columns = _text_columns(X)
    if columns:
        which = f"column{'s' if len(columns) > 1 else ''} {', '.join(map(repr, columns))}"
        pipeline = (
            "make_pipeline(make_column_transformer((OneHotEncoder(handle_unknown='ignore'), "
            f"{columns!r}), remainder='passthrough'), {name}())"
        )
        raise ValueError(
            f"{which} of X {'hold' if len(columns) > 1 else 'holds'} text or categories; encode "
            "them in a pipeline, with make_pipeline of sklearn.pipeline, make_column_transformer "
            "of sklearn.compose and OneHotEncoder of sklearn.preprocessing: "
            f"{use.format(pipeline)}"
        )


def _text_columns(X: Any) -> list:
    """Return which columns of a frame or an array hold text or categories."""
    if hasattr(X, "iloc") and X.ndim == 2:
        return [
            column
            for column, kind, (_, values) in zip(X.columns, X.dtypes, X.items(), strict=True)
            if kind.name in ("category", "string", "str")
            or (kind.kind == "O" and any(isinstance(value, str) for value in values))
        ]
    if isinstance(X, np.ndarray) and X.ndim == 2 and X.dtype.kind in "OU":
        return [column for column, values in enumerate(X.T) if not all(map(_is_numeric, values))]
    return []


def _is_numeric(value: Any) -> bool:
    """Return False for text that is no number; what is no text is judged elsewhere."""
    if not isinstance(value, str):
        return True
    try:
        float(value)
    except ValueError:
        return False
    return True
