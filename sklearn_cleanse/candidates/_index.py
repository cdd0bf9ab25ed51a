"""Row labels of features and candidates, which must agree."""

from __future__ import annotations

from bisect import bisect_left
from typing import Any

from ._record import Candidates


def check_index(X: Any, y: Any, name: str = "y") -> None:
    """Raise if the row labels of two pandas objects differ, as rows are matched by position.

    Parameters
    ----------
    X : array-like
        Features.
    y : array-like or Candidates
        Candidates, labels or sample weights.
    name : str, default="y"
        What to call ``y`` in the message.

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
    if not all(isinstance(table, Candidates) or hasattr(table, "iloc") for table in (X, y)):
        return
    ours, theirs = X.index, y.index
    if ours is None or theirs is None or len(ours) != len(theirs) or ours.equals(theirs):
        return
    # The first that differs, by pandas' own comparison: to it, a missing value equals another.
    row = bisect_left(
        range(len(ours)), True, key=lambda i: not ours[: i + 1].equals(theirs[: i + 1])
    )
    remedy = f"Align the rows by {name} = {name}.loc[X.index]."
    if not (ours.is_unique and set(map(repr, ours)) == set(map(repr, theirs))):
        remedy += f" If they are in the same order already, pass {name}.set_axis(X.index)."
    raise ValueError(
        f"`{name}` must have the row labels of X in the same order, got {theirs.tolist()[row]!r} "
        f"in row {row}, where X has {ours.tolist()[row]!r}. {remedy}"
    )
