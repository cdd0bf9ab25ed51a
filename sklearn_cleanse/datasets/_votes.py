"""Several annotators' labels, turned into candidates."""

from __future__ import annotations

from numbers import Integral

import numpy as np
import scipy.sparse as sp

from ..candidates._labels import check_classes, find_columns, is_missing, order_labels
from ._bunch import check_columns, output_candidates

__all__ = ["candidates_from_votes"]


def candidates_from_votes(
    votes, *, min_votes=1, unlabelled="raise", classes=None, as_frame=None, sparse_output=False
):
    """Turn several annotators' labels into candidates.

    Parameters
    ----------
    votes : DataFrame or array-like of shape (n_items, n_annotators)
        The label that each annotator gave to each item. Missing ones are NaN or None.
    min_votes : int, default=1
        A label is a candidate if at least so many annotators gave it, or, for an item where no
        label got so many, if no label got more.
    unlabelled : {"raise", "all"}, default="raise"
        What to do with an item that nobody labelled: raise an error that names it, or take all
        labels as candidates.
    classes : array-like of shape (n_classes,), default=None
        The labels there are, if some may never have been given, or to fix their order. If None,
        the labels in ``votes``, sorted.
    as_frame : bool, default=None
        Whether to return a DataFrame with the labels as column names, which estimators understand.
        If None, it is so where ``votes`` is a DataFrame and ``sparse_output`` is False.
    sparse_output : bool, default=False
        Whether to return a csr_array.

    Returns
    -------
    S : {DataFrame, ndarray, csr_array} of shape (n_items, n_classes), dtype bool
        The candidates; a DataFrame keeps the items' index.

    Examples
    --------
    >>> import pandas as pd
    >>> from sklearn_cleanse.datasets import candidates_from_votes
    >>> votes = pd.DataFrame(
    ...     {"ann": ["cat", "dog", None], "bob": ["cat", "cat", "dog"]}, index=["a", "b", "c"]
    ... )
    >>> candidates_from_votes(votes)
         cat    dog
    a   True  False
    b   True   True
    c  False   True
    """
    if not isinstance(min_votes, Integral) or min_votes < 1:
        raise ValueError(f"min_votes is {min_votes!r}; expected a whole number of at least 1")
    if unlabelled not in ("raise", "all"):
        raise ValueError(f'unlabelled is {unlabelled!r}; expected "raise" or "all"')
    is_frame = hasattr(votes, "columns")
    index = votes.index if is_frame else None
    as_frame = is_frame and not sparse_output if as_frame is None else as_frame
    given = votes.notna().to_numpy() if is_frame else None
    values = np.asarray(votes, dtype=object)
    if values.ndim != 2:
        raise ValueError(
            f"votes has shape {values.shape}; expected a row per item and a column per annotator "
            "(a long table becomes one by DataFrame.pivot)"
        )
    if given is None:
        given = np.array([[not is_missing(v) for v in row] for row in values], dtype=bool)
        given = given.reshape(values.shape)
    empty = np.flatnonzero(~given.any(axis=1))
    if len(empty) and unlabelled == "raise":
        name = empty[0] if index is None else repr(index[empty[0]])
        raise ValueError(
            f"row {name} has no label from any annotator ({len(empty)} such row(s)); drop the "
            'row, or pass unlabelled="all" to take all labels as its candidates'
        )
    labels, columns = _encode(values[given].tolist(), classes, np.nonzero(given)[0], index)
    if classes is None:
        check_columns(labels, as_frame)
    shape = (len(values), len(labels))
    cells = (np.ones(len(columns)), (np.nonzero(given)[0], columns))
    counts = sp.coo_array(cells, shape=shape).tocsr()  # the same label given twice adds up
    top = counts.max(axis=1).toarray().ravel() if len(labels) else np.zeros(len(values))
    enough = np.repeat(np.minimum(top, min_votes), np.diff(counts.indptr))
    S = sp.csr_array((counts.data >= enough, counts.indices, counts.indptr), shape=shape)
    if len(empty):
        S = S.tolil()
        S[empty] = True
        S = S.tocsr()
    S.eliminate_zeros()
    return output_candidates(
        labels, sp.csr_array(S), sparse_output=sparse_output, as_frame=as_frame, index=index
    )


def _encode(flat: list, classes, rows: np.ndarray, index) -> tuple[np.ndarray, np.ndarray]:
    if all(isinstance(label, float) and label.is_integer() for label in flat):
        flat = [int(label) for label in flat]  # integers that a missing value had made floats
    if classes is None:
        labels, columns = order_labels(flat)
        if len(labels) < 2:
            raise ValueError(
                f"votes hold {len(labels)} different label(s); a classifier needs at least two: "
                "pass classes if there are labels that nobody gave"
            )
        return labels, columns
    labels = check_classes(classes)
    columns = find_columns(flat, labels)
    unknown = np.flatnonzero(columns < 0)
    if len(unknown):
        row = rows[unknown[0]]
        raise ValueError(
            f"row {row if index is None else repr(index[row])} has the label "
            f"{flat[unknown[0]]!r}, which is none of classes"
        )
    return labels, columns
