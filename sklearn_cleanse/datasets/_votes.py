"""Several annotators' labels, turned into candidates."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral

import numpy as np
import scipy.sparse as sp

from ..candidates._labels import check_classes, find_columns, is_missing, order_labels
from ._bunch import check_columns, import_pandas, output_candidates

__all__ = ["annotator_quality", "candidates_from_votes"]


def candidates_from_votes(
    votes,
    *,
    min_votes=1,
    grade=None,
    unlabelled="raise",
    classes=None,
    as_frame=None,
    sparse_output=False,
):
    """Turn several annotators' labels into candidates.

    Parameters
    ----------
    votes : DataFrame or array-like of shape (n_items, n_annotators)
        The label that each annotator gave to each item. Missing ones are NaN or None.
    min_votes : int, default=1
        A label is a candidate if at least so many annotators gave it, or, for an item where no
        label got so many, if no label got more.
    grade : {"counts", "quality"} or None, default=None
        Whether to keep who said what, as grades from 0 to 1 in place of marks, for estimators with
        ``graded=True``. "counts": the share of the item's annotators who gave the label.
        "quality": how likely the label is if good annotators count more, by `annotator_quality`.
        None: two to one is as good as one to one.
    unlabelled : {"raise", "all"}, default="raise"
        What to do with an item that nobody labelled: raise an error that names it, or take all
        labels as candidates, of the same grade.
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
    S : {DataFrame, ndarray, csr_array} of shape (n_items, n_classes)
        The candidates, bool, or their grades, float, which sum to one for each item; a DataFrame
        keeps the items' index.

    See Also
    --------
    annotator_quality : How far each annotator is to be trusted.

    Examples
    --------
    >>> import pandas as pd
    >>> from sklearn_cleanse.datasets import candidates_from_votes
    >>> votes = pd.DataFrame(index=["a", "b", "c"])
    >>> votes["ann"] = ["cat", "dog", None]
    >>> votes["bob"] = ["cat", "cat", "dog"]
    >>> votes["cy"] = ["dog", "dog", "dog"]
    >>> candidates_from_votes(votes)
         cat   dog
    a   True  True
    b   True  True
    c  False  True
    >>> candidates_from_votes(votes, grade="counts").round(2)
        cat   dog
    a  0.67  0.33
    b  0.33  0.67
    c  0.00  1.00
    """
    if not isinstance(min_votes, Integral) or min_votes < 1:
        raise ValueError(f"min_votes is {min_votes!r}; expected a whole number of at least 1")
    if grade not in (None, "counts", "quality"):
        raise ValueError(f'grade is {grade!r}; expected "counts", "quality" or None')
    if unlabelled not in ("raise", "all"):
        raise ValueError(f'unlabelled is {unlabelled!r}; expected "raise" or "all"')
    is_frame = hasattr(votes, "columns")
    index = votes.index if is_frame else None
    as_frame = is_frame and not sparse_output if as_frame is None else as_frame
    ballots = _read_votes(votes, classes)
    empty = np.flatnonzero(np.bincount(ballots.items, minlength=ballots.n_items) == 0)
    if len(empty) and unlabelled == "raise":
        name = empty[0] if index is None else repr(index[empty[0]])
        raise ValueError(
            f"row {name} has no label from any annotator ({len(empty)} such row(s)); drop the "
            'row, or pass unlabelled="all" to take all labels as its candidates'
        )
    labels = ballots.labels
    if classes is None:
        check_columns(labels, as_frame)
    counts = ballots.sum(np.ones(len(ballots.columns)))
    top = counts.max(axis=1).toarray().ravel() if len(labels) else np.zeros(ballots.n_items)
    enough = counts.data >= np.repeat(np.minimum(top, min_votes), np.diff(counts.indptr))
    if grade is None:
        values = enough
    else:
        grades = counts if grade == "counts" else _likelihoods(ballots, _accuracies(ballots))
        values = np.where(enough, grades.data, 0.0)
    S = sp.csr_array((values, counts.indices, counts.indptr), shape=counts.shape)
    if len(empty):
        S = S.tolil()
        S[empty] = True
        S = S.tocsr()
    S.eliminate_zeros()
    if grade is not None:
        S.data /= np.repeat(np.add.reduceat(S.data, S.indptr[:-1]), np.diff(S.indptr))
    return output_candidates(
        labels, sp.csr_array(S), sparse_output=sparse_output, as_frame=as_frame, index=index
    )


def annotator_quality(votes, *, classes=None):
    """Estimate how often each annotator is right, from how they agree.

    The model of Dawid and Skene [1]_ in its simplest form: annotator a gives the true label with
    probability q_a, and else any other one, whatever the item. Labels and accuracies are estimated
    in turn, by expectation maximisation, until they settle: a label is the likelier the better
    those are who gave it, and who gives likely labels is good. All labels are taken to be equally
    frequent, as an estimator itself learns how frequent they are; one right and one wrong answer
    are added to those of each annotator, so that nobody who gave few labels is taken for perfect.

    At least three annotators who share items can be told apart. Two only agree or not, and a
    majority that makes the same mistakes is believed.

    Parameters
    ----------
    votes : DataFrame or array-like of shape (n_items, n_annotators)
        The label that each annotator gave to each item. Missing ones are NaN or None.
    classes : array-like of shape (n_classes,), default=None
        The labels there are. If None, those in ``votes``.

    Returns
    -------
    quality : DataFrame of shape (n_annotators, 3)
        A row per annotator: "labels", the number given; "agreement", the share of the other
        annotators' labels for the same items that are the same; "accuracy", the estimate of q_a.

    References
    ----------
    .. [1] A. P. Dawid, A. M. Skene. Maximum likelihood estimation of observer error-rates using the
       EM algorithm. Applied Statistics 28 (1979).

    Examples
    --------
    >>> import numpy as np, pandas as pd
    >>> from sklearn_cleanse.datasets import annotator_quality
    >>> rng = np.random.RandomState(0)
    >>> y = rng.randint(4, size=500)
    >>> votes = pd.DataFrame({
    ...     name: np.where(rng.uniform(size=500) < right, y, (y + rng.randint(1, 4, 500)) % 4)
    ...     for name, right in [("ann", 0.95), ("bob", 0.8), ("cy", 0.5)]
    ... })
    >>> annotator_quality(votes).round(2)
         labels  agreement  accuracy
    ann     500 ...
    bob     500 ...
    cy      500 ...
    """
    ballots = _read_votes(votes, classes)
    n_annotators = ballots.n_annotators
    given = np.bincount(ballots.annotators, minlength=n_annotators)
    same = ballots.of_entry(ballots.sum(np.ones(len(ballots.columns)))) - 1
    others = np.bincount(ballots.items, minlength=ballots.n_items)[ballots.items] - 1
    agreeing, possible = (
        np.bincount(ballots.annotators, values, minlength=n_annotators) for values in (same, others)
    )
    agreement = np.divide(agreeing, possible, out=np.full(n_annotators, np.nan), where=possible > 0)
    columns = {"labels": given, "agreement": agreement, "accuracy": _accuracies(ballots)}
    return import_pandas().DataFrame(columns, index=getattr(votes, "columns", None))


@dataclass(frozen=True)
class _Ballots:
    """One entry per label given: by whom, to which item, in which column."""

    labels: np.ndarray
    items: np.ndarray
    annotators: np.ndarray
    columns: np.ndarray
    n_items: int
    n_annotators: int

    def sum(self, values: np.ndarray) -> sp.csr_array:
        """Add up values, one per ballot, for each label of each item."""
        shape = (self.n_items, len(self.labels))
        return sp.coo_array((values, (self.items, self.columns)), shape=shape).tocsr()

    def of_entry(self, matrix: sp.csr_array) -> np.ndarray:
        """Look up the entry that each ballot belongs to."""
        return np.asarray(matrix[self.items, self.columns]).ravel()


def _read_votes(votes, classes) -> _Ballots:
    is_frame = hasattr(votes, "columns")
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
    items, annotators = np.nonzero(given)
    index = votes.index if is_frame else None
    labels, columns = _encode(values[given].tolist(), classes, items, index)
    return _Ballots(labels, items, annotators, columns, *values.shape)


#: Rounds of the estimation, at most, and the change of an accuracy at which it ends.
_ROUNDS, _TOLERANCE = 200, 1e-6


def _accuracies(ballots: _Ballots) -> np.ndarray:
    """Estimate how often each annotator is right; see `annotator_quality`."""
    n_annotators = ballots.n_annotators
    given = np.bincount(ballots.annotators, minlength=n_annotators)
    counts = ballots.sum(np.ones(len(ballots.columns)))
    right = ballots.of_entry(counts) / counts.sum(axis=1)[ballots.items]  # at first by majority
    accuracies = np.full(n_annotators, np.inf)
    for _ in range(_ROUNDS):
        hits = np.bincount(ballots.annotators, right, minlength=n_annotators)
        previous, accuracies = accuracies, (hits + 1) / (given + 2)
        if np.abs(accuracies - previous).max() <= _TOLERANCE:
            break
        right = ballots.of_entry(_likelihoods(ballots, accuracies))
    return accuracies


def _likelihoods(ballots: _Ballots, accuracies: np.ndarray) -> sp.csr_array:
    """Return the probability of each label that somebody gave; rows sum to at most one.

    Each annotator who gave a label multiplies its odds by ``q (m - 1) / (1 - q)``, compared with
    labels that nobody gave, which stay possible.
    """
    n_classes = len(ballots.labels)
    odds = np.log(accuracies * (n_classes - 1) / (1 - accuracies))
    said = ballots.sum(odds[ballots.annotators])
    counts, starts = np.diff(said.indptr), said.indptr[:-1][np.diff(said.indptr) > 0]
    top = np.zeros(ballots.n_items)
    top[counts > 0] = np.maximum(np.maximum.reduceat(said.data, starts), 0.0)
    said.data = np.exp(said.data - np.repeat(top, counts))
    total = said.sum(axis=1) + (n_classes - counts) * np.exp(-top)
    said.data /= np.repeat(total, counts)
    return said


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
