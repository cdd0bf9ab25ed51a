"""The record that candidates are read into, and a check of its row labels."""

from bisect import bisect_left
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np


@dataclass(frozen=True, eq=False)
class Candidates:
    """Candidate labels and their prior weights, a row per sample and a column per class.

    `check_candidates` makes one from any form of ``y``; every estimator and measure takes one.

    Parameters
    ----------
    classes : ndarray of shape (n_classes,)
        The class labels, in the order of the columns.
    mask : ndarray of shape (n_samples, n_classes), dtype bool
        True where a class is a candidate of a sample.
    prior : ndarray of shape (n_samples, n_classes), dtype float32
        How likely each candidate is before features are looked at. Rows sum to one; zero outside
        the mask; even where no weights were given.
    has_prior : bool
        Whether weights were given that are uneven in some row.
    index : pandas.Index or None, default=None
        The row labels of a Series or DataFrame.

    Examples
    --------
    >>> from sklearn_cleanse.candidates import check_candidates
    >>> candidates = check_candidates([{"cat", "dog"}, {"cat"}])
    >>> len(candidates), candidates.sizes, candidates.is_clean
    (2, array([2, 1]), array([False,  True]))
    >>> candidates[[1]].prior
    array([[1., 0.]], dtype=float32)
    """

    classes: np.ndarray
    mask: np.ndarray
    prior: np.ndarray
    has_prior: bool
    index: Any = None

    def __len__(self) -> int:
        return len(self.mask)

    def __getitem__(self, rows: Any) -> Self:
        """Return the record of some rows, given by a slice, a mask or an array of positions."""
        index = None if self.index is None else self.index[rows]
        return replace(self, mask=self.mask[rows], prior=self.prior[rows], index=index)

    @property
    def sizes(self) -> np.ndarray:
        """Number of candidates of each row, shape (n_samples,)."""
        return np.asarray(np.count_nonzero(self.mask, axis=1))

    @property
    def is_clean(self) -> np.ndarray:
        """Whether a row has a single candidate, shape (n_samples,), dtype bool."""
        return np.asarray(self.sizes == 1)

    def to_frame(self) -> Any:
        """Return candidates in the form that users write them in.

        Returns
        -------
        S : DataFrame of shape (n_samples, n_classes)
            Columns are the classes. Prior weights if there are any, otherwise booleans.

        Examples
        --------
        >>> from sklearn_cleanse.candidates import check_candidates
        >>> check_candidates([{"cat", "dog"}, {"cat"}]).to_frame()
            cat    dog
        0  True   True
        1  True  False
        """
        import pandas as pd

        columns = pd.Index(self.classes, tupleize_cols=False)
        values = self.prior if self.has_prior else self.mask
        return pd.DataFrame(values, index=self.index, columns=columns)


def from_arrow(table: Any) -> Any:
    """Return pyarrow's tables and arrays as those of pandas, anything else as it is."""
    return table.to_pandas() if type(table).__module__.startswith("pyarrow") else table


def row_labels(table: Any) -> Any:
    """Return the index of a record, of a pandas object or of Arrow's copy of one, or None."""
    kept = getattr(getattr(table, "schema", None), "pandas_metadata", None)
    if levels := kept and kept["index_columns"]:
        table = table.select([level for level in levels if isinstance(level, str)]).to_pandas()
    return table.index if isinstance(table, Candidates) or hasattr(table, "iloc") else None


def check_index(X: Any, y: Any, name: str = "y", of: str = "X") -> None:
    """Raise if the row labels of two tables differ, as rows are matched by position.

    Parameters
    ----------
    X : array-like
        Features.
    y : array-like or Candidates
        Candidates, labels or sample weights.
    name, of : str, default="y" and "X"
        What to call ``y`` and ``X`` in the message.

    Raises
    ------
    ValueError
        If both have an index and these differ. The message names the first row and the remedy.

    Examples
    --------
    >>> import pandas as pd
    >>> from sklearn_cleanse.candidates import check_index
    >>> X = pd.DataFrame({"size": [1.0, 2.0]}, index=["a", "b"])
    >>> S = pd.DataFrame({"cat": [1, 0], "dog": [1, 1]}, index=["b", "a"])
    >>> check_index(X, S)
    Traceback (most recent call last):
    ValueError: ... y = y.loc[X.index]...
    >>> check_index(X, S.loc[X.index])
    """
    ours, its = row_labels(X), row_labels(y)
    if ours is None or its is None or len(ours) != len(its) or ours.equals(its):
        return
    # The first that differs, by pandas' own comparison: to it, a missing value equals another.
    row = bisect_left(range(len(its)), True, key=lambda i: not ours[: i + 1].equals(its[: i + 1]))
    remedy = f"Align the rows by {name} = {name}.loc[{of}.index]."
    if not (ours.is_unique and set(map(repr, ours)) == set(map(repr, its))):
        remedy += f" If they are in the same order already, pass {name}.set_axis({of}.index)."
    raise ValueError(
        f"`{name}` must have the row labels of {of} in the same order, got "
        f"{its.tolist()[row]!r} in row {row}, where {of} has {ours.tolist()[row]!r}. {remedy}"
    )
