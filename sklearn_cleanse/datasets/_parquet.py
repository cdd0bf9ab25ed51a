"""Rows and candidates out of Parquet files, a batch at a time, for data larger than memory."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

__all__ = ["ParquetBatches"]


class ParquetBatches:
    """Batches of features and candidates from Parquet files, to be iterated as often as wanted.

    Memory holds one batch, and the row group of the file that it comes from. Needs pyarrow.

    Parameters
    ----------
    paths : str, path-like, or list of these
        The files, read in this order.
    candidates : str
        The column of candidates: a list of labels in each row, or one label.
    classes : array-like of shape (n_classes,)
        All labels there are, in the order of the columns of the candidate matrices.
    features : str or list of str, default=None
        The columns of the features: numbers, or a single column of lists of the same length. If
        None, all columns but that of the candidates.
    batch_size : int, default=16384
        Rows per batch; the last one of a file may have fewer.

    Attributes
    ----------
    n_samples : int
        Rows of all files together.

    See Also
    --------
    sklearn_cleanse.PartialLabelClassifier.partial_fit : Trains on one batch after the other.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import pyarrow as pa
    >>> import pyarrow.parquet as pq
    >>> from sklearn_cleanse.datasets import ParquetBatches
    >>> table = pa.table({"a": [0.5, 1.0], "b": [2.0, 3.0], "tags": [["cat", "dog"], ["dog"]]})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     pq.write_table(table, Path(folder, "pets.parquet"))
    ...     batches = ParquetBatches(Path(folder, "pets.parquet"), "tags", ["cat", "dog"])
    ...     [(X, S)] = batches
    >>> X
    array([[0.5, 2. ],
           [1. , 3. ]], dtype=float32)
    >>> S.toarray()
    array([[ True,  True],
           [False,  True]])
    """

    def __init__(
        self,
        paths: str | os.PathLike | Sequence[str | os.PathLike],
        candidates: str,
        classes: Any,
        *,
        features: str | Sequence[str] | None = None,
        batch_size: int = 16384,
    ) -> None:
        self.paths = [paths] if isinstance(paths, (str, os.PathLike)) else list(paths)
        self.candidates, self.classes = candidates, np.asarray(classes)
        if batch_size < 1:
            raise ValueError(f"batch_size is {batch_size}; a batch has one row or more")
        self.batch_size = batch_size
        known = _open(self.paths[0]).schema_arrow.names
        if features is None:
            features = [name for name in known if name != candidates]
        self.features = [features] if isinstance(features, str) else list(features)
        for name in [candidates, *self.features]:
            if name not in known:
                raise ValueError(
                    f"{self.paths[0]} has no column {name!r}; it has {', '.join(known)}"
                )
        self.n_samples = sum(_open(path).metadata.num_rows for path in self.paths)

    def __iter__(self) -> Iterator[tuple[np.ndarray, sp.csr_array]]:
        columns = [*self.features, self.candidates]
        for path in self.paths:
            first = 0
            batches = _open(path).iter_batches(self.batch_size, columns=columns)
            for batch in batches:
                where = f"{path}, row {{}}"
                X = _features({name: batch.column(name) for name in self.features}, where, first)
                yield X, self._candidates(batch.column(self.candidates), where, first)
                first += batch.num_rows

    def _candidates(self, column: Any, where: str, first: int) -> sp.csr_array:
        import pyarrow as pa
        import pyarrow.compute as pc

        if column.null_count:
            row = int(np.flatnonzero(np.asarray(column.is_null()))[0])
            raise ValueError(f"{where.format(first + row)}: there are no candidates")
        labels, indptr = column, np.arange(len(column) + 1)
        if pa.types.is_list(column.type) or pa.types.is_large_list(column.type):
            labels = column.flatten()
            indptr = np.concatenate([[0], np.cumsum(np.asarray(pc.list_value_length(column)))])
        known = pa.array(self.classes.tolist())
        if known.type != labels.type:
            known = known.cast(labels.type)
        found = pc.index_in(labels, value_set=known)
        if found.null_count:
            entry = int(np.flatnonzero(np.asarray(found.is_null()))[0])
            row = int(np.searchsorted(indptr, entry, side="right")) - 1
            raise ValueError(
                f"{where.format(first + row)}: the candidate {labels[entry].as_py()!r} is none of "
                "the classes; add it to classes, or mend the file"
            )
        indices = np.asarray(found)
        entries = (np.ones(len(indices), dtype=bool), indices, indptr)
        S = sp.csr_array(entries, shape=(len(column), len(self.classes)))
        S.sum_duplicates()
        return S


def _open(path: str | os.PathLike) -> Any:
    try:
        import pyarrow.parquet as pq
    except ImportError as error:
        raise ImportError(
            'ParquetBatches needs pyarrow: pip install "sklearn-cleanse[data]"'
        ) from error
    return pq.ParquetFile(path, pre_buffer=False)  # what is read ahead stays in memory


def _features(columns: dict[str, Any], where: str, first: int) -> np.ndarray:
    """Lay columns of numbers, or one column of lists, out as rows in single precision."""
    for column in columns.values():
        if column.null_count:
            row = int(np.flatnonzero(np.asarray(column.is_null()))[0])
            raise ValueError(f"{where.format(first + row)}: a feature is missing")
    lists = next(iter(columns.values()))
    n_rows = len(lists)
    if len(columns) == 1 and hasattr(lists, "flatten"):
        values = np.asarray(lists.flatten(), dtype=np.float32)
        if not n_rows or len(values) % n_rows:
            raise ValueError(f"{where.format(first)} or later: features differ in number")
        return values.reshape(n_rows, -1)
    X = np.empty((n_rows, len(columns)), dtype=np.float32)
    for j, (name, column) in enumerate(columns.items()):
        try:
            X[:, j] = column.to_numpy(zero_copy_only=False)
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"{where.format(first)} or later: the column {name!r} holds {column.type}, no "
                "numbers; name the columns of numbers as features"
            ) from error
    return X
