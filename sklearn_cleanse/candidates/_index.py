"""Row labels of features and candidates, which must agree."""

from __future__ import annotations

from bisect import bisect_left
from typing import Any


def check_index(X: Any, y: Any, name: str = "S") -> None:
    """Refuse features and candidates whose rows are labelled differently.

    Rows are matched by position. Where both are pandas objects, their indices tell whether that is
    right.

    Parameters
    ----------
    X : array-like
        Features.
    y : array-like
        Candidates, or labels.
    name : str, default="S"
        What to call ``y`` in the message.

    Raises
    ------
    ValueError
        If both have an index and these differ: the first row that does is named, with the remedy.

    Examples
    --------
    >>> import pandas as pd
    >>> from sklearn_cleanse.candidates import check_index
    >>> X = pd.DataFrame({"size": [1.0, 2.0]}, index=["a", "b"])
    >>> S = pd.DataFrame({"cat": [1, 0], "dog": [1, 1]}, index=["b", "a"])
    >>> check_index(X, S)
    Traceback (most recent call last):
    ValueError: ... S = S.loc[X.index]
    >>> check_index(X, S.loc[X.index])
    """
    if not (hasattr(X, "iloc") and hasattr(y, "iloc")) or len(X) != len(y):
        return
    ours, theirs = X.index, y.index
    if ours.equals(theirs):
        return
    # the first that differs, by pandas' own comparison, to which a gap equals a gap
    row = bisect_left(range(len(X)), True, key=lambda i: not ours[: i + 1].equals(theirs[: i + 1]))
    ours_at, theirs_at = ours.tolist()[row], theirs.tolist()[row]
    found = f"row {row} is {ours_at!r} in the index of X, but {theirs_at!r} in that of {name}"
    if ours.is_unique and theirs.is_unique and ours.isin(theirs).all():
        raise ValueError(
            f"{found}: the same rows in another order. Rows are matched by position; align them "
            f"by {name} = {name}.loc[X.index]"
        )
    raise ValueError(
        f"{found}. Rows are matched by position; if {name} has a row for each of X, align them by "
        f"{name} = {name}.loc[X.index], and if they are in the same order already, label them "
        f"alike by {name} = {name}.set_axis(X.index)"
    )
