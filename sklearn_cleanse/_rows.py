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


def refuse_text(X: Any, name: str) -> None:
    """Refuse a frame with text or categories, by the pipeline that takes them.

    Parameters
    ----------
    X : array-like
        Features.
    name : str
        The estimator's name.

    Examples
    --------
    >>> import pandas as pd
    >>> from sklearn_cleanse._rows import refuse_text
    >>> refuse_text(pd.DataFrame({"size": [1.0], "town": ["Oslo"]}), "CleanSEClassifier")
    Traceback (most recent call last):
    ValueError: column 'town' of X holds text or categories; ...
    """
    if not hasattr(X, "iloc") or X.ndim != 2:
        return
    columns = [
        column
        for column, kind, (_, values) in zip(X.columns, X.dtypes, X.items(), strict=True)
        if kind.name in ("category", "string", "str")
        or (kind.kind == "O" and any(isinstance(value, str) for value in values))
    ]
    if columns:
        which = f"column{'s' if len(columns) > 1 else ''} {', '.join(map(repr, columns))}"
        raise ValueError(
            f"{which} of X {'hold' if len(columns) > 1 else 'holds'} text or categories; encode "
            "them in a pipeline, with make_pipeline of sklearn.pipeline, make_column_transformer "
            "of sklearn.compose and OneHotEncoder of sklearn.preprocessing: "
            "make_pipeline(make_column_transformer((OneHotEncoder(handle_unknown='ignore'), "
            f"{columns!r}), remainder='passthrough'), {name}())"
        )
