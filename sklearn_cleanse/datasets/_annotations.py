"""Several annotators' labels, turned into candidates."""

from dataclasses import replace
from numbers import Integral
from typing import Any

import numpy as np
import pandas as pd

from ._annotation_forms import Answers, read_answers
from ._labels import check_output

# "count" is the default: "accuracy" got no more rows right, and 4 % fewer if mistakes are shared.
_WEIGHTS, _FILLS = ("auto", "count", "accuracy", None), ("raise", "all")

#: Rounds of the estimation, at most, and the change of an accuracy at which it ends.
_ROUNDS, _TOLERANCE = 200, 1e-6
_LEAST_WEIGHT = 1e-9  # what an annotator chose stays a candidate, however unlikely


def candidates_from_annotations(
    annotations: Any,
    *,
    weights: str | None = "auto",
    min_annotators: Any = 1,
    unlabeled: str = "raise",
    missing: Any = None,
    classes: Any = None,
    index: Any = None,
    item: Any = None,
    annotator: Any = None,
    label: Any = None,
    from_name: str | None = None,
    predictions: bool = False,
) -> Any:
    """Turn several annotators' labels into candidates.

    Parameters
    ----------
    annotations : DataFrame, Series, array-like or list
        The answers, in one of these forms:

        - wide: a DataFrame or 2-D array of shape (n_items, n_annotators), a column per annotator,
          rule or model. A cell may hold a list of labels.
        - long: a DataFrame with a row per answer, recognized by its columns: task, item or id;
          worker, annotator, performer or rater; and label, answer, response or annotation. Names
          may end in ``_id``. Name others by ``item``, ``annotator`` and ``label``. Several rows of
          one annotator for one item are one answer with several labels; exact repeats count once.
        - scored: per item a dict from label to score, a list of (label, score) pairs, or a list of
          ``{"label": …, "score": …}``, as classifiers and language models return them.
        - pooled: per item a list of labels, without annotators.
        - the parsed JSON list of a Label Studio export, with choices. Cancelled annotations are
          left out. Tasks with the same id are one item.

        Missing values (None, NaN, masked) are missing answers. The items of a list or an array are
        named 0, 1, 2, …; those of a Series or a wide DataFrame by its index.
    weights : {"auto", "count", "accuracy"} or None, default="auto"
        What to keep of the answers as prior weights, which estimators take:

        - "count": the proportion of the item's answers that give the label.
        - "accuracy": how likely the label is if accurate annotators count more, by
          `annotator_quality`. It takes at least three annotators who share items, and who must not
          make the same mistakes: where items are hard for all of them, "count" is safer.
        - None: nothing; all candidates of an item count alike.
        - "auto": "count", or, for scored annotations, the scores.
    min_annotators : int, default=1
        A label is a candidate if at least so many annotators gave it, or, for an item where all
        labels have fewer, if it has the most.
    unlabeled : {"raise", "all"}, default="raise"
        What to do with an item without an answer: raise an error that names it, or take all labels
        as its candidates, of equal weight.
    missing : scalar, default=None
        A value that stands for a missing answer, such as -1 in Snorkel's label matrices.
    classes : array-like of shape (n_classes,), default=None
        The labels there are, to fix their order or to add some that were never given. If None, the
        labels given, sorted.
    index : array-like of shape (n_items,), default=None
        The items to return, in this order, such as ``X.index``. Items that are not in it raise. If
        None, the items in the order of their first appearance.
    item, annotator, label : column name, default=None
        The columns of a long table.
    from_name : str, default=None
        The choice tag of a Label Studio export; needed if it has several.
    predictions : bool, default=False
        Whether each model version in a Label Studio export is an annotator as well, named
        "model" and the version.

    Returns
    -------
    S : DataFrame of shape (n_items, n_classes)
        The candidates: prior weights that sum to one for each item, or bool with weights=None.
        Columns are the labels. Pass it to ``fit`` as y.

    See Also
    --------
    annotator_quality : Estimates how accurate each annotator is.

    Examples
    --------
    >>> import pandas as pd
    >>> from sklearn_cleanse.datasets import candidates_from_annotations
    >>> wide = pd.DataFrame({
    ...     "ann": ["cat", "dog", None], "bob": ["cat", "cat", "dog"], "cy": ["dog", "dog", "dog"]
    ... }, index=["a", "b", "c"])
    >>> candidates_from_annotations(wide).round(2)
        cat   dog
    a  0.67  0.33
    b  0.33  0.67
    c  0.00  1.00
    >>> long = pd.DataFrame({
    ...     "task": ["a", "a", "b"], "worker": ["ann", "bob", "ann"], "label": ["cat", "dog", "dog"]
    ... })
    >>> candidates_from_annotations(long, weights=None)
            cat   dog
    task
    a      True  True
    b     False  True
    >>> scored = [{"cat": 0.9, "dog": 0.1}, [("dog", 0.5)], [{"label": "cat", "score": 0.7}]]
    >>> candidates_from_annotations(scored)
       cat  dog
    0  0.9  0.1
    1  0.0  1.0
    2  1.0  0.0
    >>> candidates_from_annotations([["cat", "dog"], ["dog"]])  # pooled
       cat  dog
    0  0.5  0.5
    1  0.0  1.0
    >>> task = {"id": 7, "annotations": [
    ...     {"completed_by": 1, "result": [
    ...         {"from_name": "pet", "type": "choices", "value": {"choices": ["cat"]}}]},
    ...     {"completed_by": 2, "result": [
    ...         {"from_name": "pet", "type": "choices", "value": {"choices": ["dog"]}}]}]}
    >>> candidates_from_annotations([task])  # a Label Studio export
       cat  dog
    7  0.5  0.5
    """
    for name, value, allowed in (("weights", weights, _WEIGHTS), ("unlabeled", unlabeled, _FILLS)):
        if value not in allowed:
            raise ValueError(f"`{name}` must be one of {allowed}, got {value!r}.")
    if not isinstance(min_annotators, Integral) or min_annotators < 1:
        raise ValueError(f"`min_annotators` must be a positive integer, got {min_annotators!r}.")
    named = {"item": item, "annotator": annotator, "label": label}
    export = {"from_name": from_name, "predictions": predictions}
    answers = read_answers(annotations, missing, classes, named, export, index)
    for name, given, usual in (("weights", weights, "auto"), ("min_annotators", min_annotators, 1)):
        if answers.is_scored and given != usual:
            raise ValueError(f"Scored annotations must come without `{name}`, got {given!r}.")
    n_items, n_classes = shape = len(answers.index), len(answers.classes)
    check_output(n_items, n_classes, sparse_output=False, as_frame=True)
    is_empty = np.bincount(answers.entries["item"], minlength=n_items) == 0
    if unlabeled == "raise" and is_empty.any():
        item = answers.index[is_empty].tolist()[0]
        found = f"none for item {item!r} ({is_empty.sum()} such items)"
        remedy = 'Leave such rows out of X and `annotations`, or pass unlabeled="all"'
        raise ValueError(f"Every item must have a label, got {found}. {remedy}.")
    cells, of_cell = answers.cells
    rows, counts = cells // n_classes, np.bincount(of_cell)
    most = pd.Series(counts).groupby(rows).transform("max")
    values = np.bincount(of_cell, answers.entries["score"])
    if weights == "accuracy":
        accuracies = np.array([]) if answers.names is None else _accuracies(answers)
        if (n_known := np.isfinite(accuracies).sum()) < 3:
            need = 'weights="accuracy" needs three annotators who share items'
            remedy = 'With fewer, nothing shows who is right. Pass weights="count".'
            raise ValueError(f"{need}, got {n_known}. {remedy}")
        values = _posterior(answers, np.nan_to_num(accuracies, nan=0.5))  # 0.5: any serves alone
    values[counts < np.minimum(most, int(min_annotators))] = 0
    S: Any = np.zeros(shape)
    S.flat[cells] = values
    S[is_empty] = 1
    S = S > 0 if weights is None else S / S.sum(axis=1, keepdims=True)
    return pd.DataFrame(S, answers.index, pd.Index(answers.classes, tupleize_cols=False))


def annotator_quality(
    annotations: Any,
    *,
    missing: Any = None,
    classes: Any = None,
    item: Any = None,
    annotator: Any = None,
    label: Any = None,
    from_name: str | None = None,
    predictions: bool = False,
) -> Any:
    """Estimate how accurate each annotator is, from how they agree.

    The model of Dawid and Skene [1]_ in its simplest form: annotator a gives the true label with
    probability q_a, and else any other one, whatever the item. Labels and accuracies are estimated
    in turn, by expectation maximization, until they settle: a label is the likelier the more
    accurate those are who gave it, and who gives likely labels is accurate. All labels are taken
    to be equally frequent, as an estimator itself learns how frequent they are; one right and one
    wrong answer are added to those of each annotator, so that few answers are not taken for
    perfect ones.

    Accuracies are estimated from the items that two annotators or more answered. It takes at least
    three annotators who share items; with fewer all accuracies are NaN. The accuracy of an
    annotator who shares none is NaN. Annotators who make the same mistakes look more accurate than
    they are.

    Parameters
    ----------
    annotations : DataFrame, array-like or list
        The answers, in one of the forms of `candidates_from_annotations` that names annotators:
        wide, long, or a Label Studio export.
    missing : scalar, default=None
        A value that stands for a missing answer.
    classes : array-like of shape (n_classes,), default=None
        The labels there are. If None, those given.
    item, annotator, label : column name, default=None
        The columns of a long table.
    from_name : str, default=None
        The choice tag of a Label Studio export; needed if it has several.
    predictions : bool, default=False
        Whether each model version in a Label Studio export is an annotator as well, named
        "model" and the version.

    Returns
    -------
    quality : DataFrame of shape (n_annotators, 3)
        A row per annotator: "answers", the number of items answered; "agreement", the proportion of
        the other annotators' answers for the same items that are the same; "accuracy", the estimate
        of q_a, or NaN.

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
    >>> annotations = pd.DataFrame({
    ...     name: np.where(rng.uniform(size=500) < right, y, (y + rng.randint(1, 4, 500)) % 4)
    ...     for name, right in [("ann", 0.95), ("bob", 0.8), ("cy", 0.5)]
    ... })
    >>> annotator_quality(annotations).round(2)
         answers  agreement  accuracy
    ann      500 ...
    bob      500 ...
    cy       500 ...
    """
    named = {"item": item, "annotator": annotator, "label": label}
    export = {"from_name": from_name, "predictions": predictions}
    answers = read_answers(annotations, missing, classes, named, export)
    if answers.names is None:
        raise ValueError("`annotations` must name annotators, got a list. Pass a table.")
    (of_item, of_label), score = _entry_sums(answers), answers.entries["score"]
    given, agreeing, possible = (
        np.bincount(answers.entries["annotator"], score * values, len(answers.names))
        for values in (1, of_label - score, of_item - 1)
    )
    possible[possible < 1e-9], accuracies = np.nan, _accuracies(answers)
    columns = {
        "answers": given.round().astype(int),
        "agreement": agreeing / possible,
        "accuracy": accuracies if np.isfinite(accuracies).sum() > 2 else np.nan,
    }
    return pd.DataFrame(columns, index=answers.names)


def _entry_sums(answers: Answers) -> tuple[pd.Series, pd.Series]:
    """Return for each entry the scores given to its item, and to its label of its item."""
    of_item, of_label = (answers.entries.groupby(by)["score"] for by in ("item", ["item", "label"]))
    return of_item.transform("sum"), of_label.transform("sum")


def _accuracies(answers: Answers) -> np.ndarray:
    """Estimate how often each annotator is right; see `annotator_quality`."""
    of_item, of_label = _entry_sums(answers)
    is_shared = of_item > 1.5  # each annotator of an item gives one
    right = (of_label / of_item)[is_shared]  # at first by majority
    answers = replace(answers, entries=answers.entries[is_shared])
    n_annotators, (_, of_cell) = len(answers.names), answers.cells
    annotators, score = answers.entries["annotator"], answers.entries["score"]
    given = np.bincount(annotators, score, n_annotators)
    accuracies = np.full(n_annotators, np.inf)
    for _ in range(_ROUNDS):
        hits = np.bincount(annotators, score * right, n_annotators)
        previous, accuracies = accuracies, (hits + 1) / (given + 2)
        if np.abs(accuracies - previous).max() <= _TOLERANCE:
            break
        right = _posterior(answers, accuracies)[of_cell]
    return np.where(given > 0, accuracies, np.nan)


def _posterior(answers: Answers, accuracies: np.ndarray) -> Any:
    """Return the probability of each label given to an item, by cell.

    Each annotator who gave a label multiplies its odds by ``q (m - 1) / (1 - q)``, compared with
    the labels that were not given, which stay possible.
    """
    n_classes, (cells, of_cell) = len(answers.classes), answers.cells
    rows = cells // n_classes
    odds = np.log(accuracies * (n_classes - 1) / (1 - accuracies))
    evidence = np.bincount(of_cell, answers.entries["score"] * odds[answers.entries["annotator"]])
    top = np.zeros(len(answers.index))
    np.maximum.at(top, rows, evidence)
    proba, n_given = np.exp(evidence - top[rows]), np.bincount(rows, minlength=len(top))
    total = np.bincount(rows, proba, len(top)) + (n_classes - n_given) * np.exp(-top)
    return np.asarray(np.maximum(proba / total[rows], _LEAST_WEIGHT))
