"""The measures, and their scorers."""

from __future__ import annotations

import warnings
from functools import partial
from numbers import Integral
from typing import Any

import numpy as np
import scipy.sparse as sp

from .._table import format_table, html_table
from ..candidates import candidate_counts, candidate_softmax, covers, is_clean
from ..candidates._grades import split_grades
from ..candidates._sets import candidate_log_mass
from ._predictions import disambiguate, predict_labels, predict_log_proba
from ._readers import check_weight, read_labels, read_proba
from ._scorer import Scorer

__all__ = [
    "approximated_accuracy",
    "approximated_accuracy_scorer",
    "balanced_truth_scorer",
    "candidate_log_loss",
    "candidate_log_loss_scorer",
    "candidate_report",
    "covering_rate",
    "covering_scorer",
    "disambiguation_accuracy",
    "disambiguation_scorer",
    "expected_calibration_error",
    "truth_scorer",
]


def covering_rate(y_candidates, y_pred, *, classes=None, sample_weight=None) -> float:
    """Compute the share of predictions that lie inside the candidate set.

    It bounds the accuracy from above, as the true label is always a candidate. Where every sample
    has a single candidate it is the accuracy.

    Parameters
    ----------
    y_candidates : array-like of shape (n_samples, n_classes) or (n_samples,)
        Candidates in any form that ``fit`` takes.
    y_pred : array-like of shape (n_samples,)
        Predicted labels.
    classes : array-like of shape (n_classes,), default=None
        The labels that the columns of a candidate matrix stand for, such as ``classes_``. If None,
        the names of a DataFrame's columns, or 0, 1, 2, …
    sample_weight : array-like of shape (n_samples,), default=None
        Sample weights.

    Returns
    -------
    rate : float
        Between 0 and 1; higher is better.

    Examples
    --------
    >>> from sklearn_cleanse.metrics import covering_rate
    >>> covering_rate([{"cat", "dog"}, {"cat"}, {"cow", "dog"}], ["dog", "dog", "cow"])
    0.6666666666666666
    """
    _, candidates, (columns,) = read_labels(y_candidates, classes, y_pred=y_pred)
    return _average(covers(candidates, columns), sample_weight)


def approximated_accuracy(
    y_candidates, y_proba, *, log=False, classes=None, sample_weight=None
) -> float:
    """Compute the accuracy to be expected if the confidences among the candidates are right.

    A prediction outside the candidate set counts 0. One inside counts its share of the
    probability that the classifier gives to the candidates. Introduced by PLENCH (ICLR 2025) for
    choosing a model without true labels.

    Parameters
    ----------
    y_candidates : array-like of shape (n_samples, n_classes) or (n_samples,)
        Candidates in any form that ``fit`` takes.
    y_proba : array-like of shape (n_samples, n_classes)
        Predicted probabilities, or their logarithms if ``log`` is True.
    log : bool, default=False
        Whether ``y_proba`` holds logarithms, up to a constant per row, so that logits do too.
    classes : array-like of shape (n_classes,), default=None
        The labels that the columns of ``y_proba`` stand for, such as ``classes_``. If None, those
        that occur in ``y_candidates``.
    sample_weight : array-like of shape (n_samples,), default=None
        Sample weights.

    Returns
    -------
    accuracy : float
        Between 0 and the covering rate; higher is better.

    Examples
    --------
    >>> from sklearn_cleanse.metrics import approximated_accuracy
    >>> S = [[1, 1, 0], [0, 1, 1]]
    >>> round(approximated_accuracy(S, [[0.6, 0.2, 0.2], [0.5, 0.3, 0.2]]), 4)  # (0.75 + 0) / 2
    0.375
    """
    candidates, log_proba, _ = read_proba(y_candidates, y_proba, log, classes)
    # DEVIATES: PLENCH's code computes 1 - risk with 1e-12 in the denominator, so that a confident
    # prediction outside the candidates scores 1 where the candidates' mass underflows.
    rows, top = np.arange(len(log_proba)), log_proba.argmax(axis=1)
    return _average(candidate_softmax(log_proba, candidates)[rows, top], sample_weight)


def candidate_log_loss(
    y_candidates, y_proba, *, log=False, classes=None, sample_weight=None
) -> float:
    """Compute the mean negative logarithm of the probability given to the candidate set.

    Where every sample has a single candidate this is the log loss.

    Parameters
    ----------
    y_candidates : array-like of shape (n_samples, n_classes) or (n_samples,)
        Candidates in any form that ``fit`` takes.
    y_proba : array-like of shape (n_samples, n_classes)
        Predicted probabilities, or their logarithms if ``log`` is True.
    log : bool, default=False
        Whether ``y_proba`` holds logarithms, up to a constant per row, so that logits do too.
    classes : array-like of shape (n_classes,), default=None
        The labels that the columns of ``y_proba`` stand for, such as ``classes_``. If None, those
        that occur in ``y_candidates``.
    sample_weight : array-like of shape (n_samples,), default=None
        Sample weights.

    Returns
    -------
    loss : float
        At least 0; lower is better. Infinite if all candidates of a sample have probability 0:
        nothing is clipped. Only ``candidate_log_loss_scorer`` leaves out, with a warning, samples
        none of whose candidates is in the estimator's ``classes_``: they cost every setting of a
        search infinity, and would leave nothing to choose by.

    Examples
    --------
    >>> from sklearn_cleanse.metrics import candidate_log_loss
    >>> S = [[1, 1, 0], [1, 1, 1]]
    >>> round(candidate_log_loss(S, [[0.3, 0.2, 0.5], [0.5, 0.3, 0.2]]), 4)  # (log 2 + log 1) / 2
    0.3466
    """
    candidates, log_proba, _ = read_proba(y_candidates, y_proba, log, classes)
    return _average(_log_losses(candidates, log_proba), sample_weight)


def disambiguation_accuracy(
    y_candidates, y_proba, truth, *, log=False, classes=None, sample_weight=None
) -> float:
    """Compute the share of samples whose most likely candidate is the true label.

    Clean samples are always right. ``sample_weight=~clean`` leaves them out. A sample whose true
    label is not among its candidates is always wrong.

    Parameters
    ----------
    y_candidates : array-like of shape (n_samples, n_classes) or (n_samples,)
        Candidates in any form that ``fit`` takes.
    y_proba : array-like of shape (n_samples, n_classes)
        Predicted probabilities, or their logarithms if ``log`` is True. Confidences among the
        candidates, such as ``candidate_proba_``, give the same.
    truth : array-like of shape (n_samples,)
        True labels.
    log : bool, default=False
        Whether ``y_proba`` holds logarithms, up to a constant per row, so that logits do too.
    classes : array-like of shape (n_classes,), default=None
        The labels that the columns of ``y_proba`` stand for, such as ``classes_``. If None, those
        that occur in ``y_candidates``.
    sample_weight : array-like of shape (n_samples,), default=None
        Sample weights.

    Returns
    -------
    accuracy : float
        Between 0 and 1; higher is better.

    Examples
    --------
    >>> from sklearn_cleanse.metrics import disambiguation_accuracy
    >>> S = [[1, 1, 0], [0, 1, 1]]
    >>> disambiguation_accuracy(S, [[0.6, 0.2, 0.2], [0.5, 0.3, 0.2]], [0, 2])
    0.5
    """
    _, right, _ = _top_confidence(y_candidates, y_proba, truth, log, classes, restrict=True)
    return _average(right, sample_weight)


def expected_calibration_error(
    y_candidates,
    y_proba,
    truth=None,
    *,
    restrict=False,
    n_bins=10,
    log=False,
    classes=None,
    sample_weight=None,
) -> float:
    """Compute the mean distance between confidence and accuracy, over bins of equal width.

    The confidence is the probability of the prediction. With ``truth``, or where every sample has a
    single candidate, as plain labels have, the result is what is usually called so: a model that
    is always right and says 0.7 has an error of 0.3. Otherwise the covering rate stands in for the
    accuracy. As it bounds the accuracy from above, only bins with more confidence than covering
    count then, and the result is a lower bound on the error.

    With ``restrict``, a clean sample has confidence one and is always right, so that many of them
    hide how the others fare. ``sample_weight=~clean`` leaves them out.

    Parameters
    ----------
    y_candidates : array-like of shape (n_samples, n_classes) or (n_samples,)
        Candidates in any form that ``fit`` takes.
    y_proba : array-like of shape (n_samples, n_classes)
        Predicted probabilities, or their logarithms if ``log`` is True.
    truth : array-like of shape (n_samples,), default=None
        True labels.
    restrict : bool, default=False
        Whether to look at the most likely *candidate*, with its confidence among the candidates,
        as `disambiguate` gives it, instead of the prediction. Needs ``truth``.
    n_bins : int, default=10
        Number of bins between 0 and 1. Empty ones do not count.
    log : bool, default=False
        Whether ``y_proba`` holds logarithms, up to a constant per row, so that logits do too.
    classes : array-like of shape (n_classes,), default=None
        The labels that the columns of ``y_proba`` stand for, such as ``classes_``. If None, those
        that occur in ``y_candidates``.
    sample_weight : array-like of shape (n_samples,), default=None
        Sample weights.

    Returns
    -------
    error : float
        Between 0 and 1; lower is better.

    Examples
    --------
    >>> from sklearn_cleanse.metrics import expected_calibration_error
    >>> round(expected_calibration_error([0, 1], [[0.7, 0.3], [0.3, 0.7]]), 4)
    0.3
    >>> S = [[1, 1, 0], [0, 1, 1]]
    >>> proba = [[0.6, 0.2, 0.2], [0.2, 0.6, 0.2]]  # 0.75 sure among the candidates, twice
    >>> round(expected_calibration_error(S, proba, truth=[0, 2]), 4)  # right once of two
    0.1
    >>> round(expected_calibration_error(S, proba, truth=[0, 2], restrict=True), 4)
    0.25
    """
    confidence, right, exact = _top_confidence(y_candidates, y_proba, truth, log, classes, restrict)
    mean, rate, weight = _bin(confidence, right, n_bins, sample_weight)
    gap = np.abs(mean - rate) if exact else np.maximum(mean - rate, 0.0)
    return _average(gap, weight)


def candidate_report(
    y_candidates, y_pred, truth=None, *, classes=None, digits=2, output_dict=False
) -> str | dict[str, dict[str, float]]:
    """Summarise predictions class by class, with or without true labels.

    Parameters
    ----------
    y_candidates : array-like of shape (n_samples, n_classes) or (n_samples,)
        Candidates in any form that ``fit`` takes, graded or not.
    y_pred : array-like of shape (n_samples,)
        Predicted labels.
    truth : array-like of shape (n_samples,), default=None
        True labels. Adds precision, recall and the number of samples of each class.
    classes : array-like of shape (n_classes,), default=None
        The labels that the columns of a candidate matrix stand for, such as ``classes_``.
    digits : int, default=2
        Number of digits of the rates in the text.
    output_dict : bool, default=False
        Whether to return a dict instead of text.

    Returns
    -------
    report : str or dict
        Text, which a notebook shows as a table, or a dict. One entry per class and a last one
        named "all" ("(all)" if a class is called so): in how many samples the class is a
        candidate, the only candidate (clean), and predicted; and in what share of the samples
        predicted to be of the class it is a candidate (covering). The true number lies between
        clean and candidates, so a number predicted outside these is wrong for certain. A rate over
        no samples is NaN, and a dash in the text. "all" counts samples, and with truth has the
        means over classes that occur.

    Examples
    --------
    >>> from sklearn_cleanse.metrics import candidate_report
    >>> print(candidate_report([{"cat", "dog"}, {"cat"}, {"dog"}], ["dog", "dog", "dog"]))
         candidates  clean  predicted  covering
    cat           2      1          0         -
    dog           2      1          3      0.67
    all           3      2          3      0.67
    """
    labels = {"y_pred": y_pred} if truth is None else {"y_pred": y_pred, "truth": truth}
    classes, candidates, columns = read_labels(split_grades(y_candidates)[0], classes, **labels)
    n_samples, n_classes = candidates.shape
    predicted, covered = columns[0], covers(candidates, columns[0])

    def count(at, where=slice(None)):
        return np.bincount(at[where], minlength=n_classes)

    clean, possible = candidate_counts(candidates)
    table = {"candidates": possible, "clean": clean, "predicted": count(predicted)}
    table["covering"] = _ratio(count(predicted, covered), table["predicted"])
    overall = [n_samples, clean.sum(), n_samples, covered.mean()]
    if truth is not None:
        hits, support = count(predicted, predicted == columns[1]), count(columns[1])
        table["precision"] = _ratio(hits, table["predicted"])
        table["recall"] = _ratio(hits, support)
        table["support"] = support
        occurs = (support > 0) | (table["predicted"] > 0)
        # A class that is never predicted has no precision; in the mean it counts 0.
        macro = [np.nan_to_num(table[name][occurs]).mean() for name in ("precision", "recall")]
        overall += [*macro, n_samples]
    report = {
        str(name): {key: values[i].item() for key, values in table.items()}
        for i, name in enumerate(classes)
    }
    name = "all"
    while name in report:  # as a class may be called
        name = f"({name})"
    report[name] = {key: np.asarray(v).item() for key, v in zip(table, overall, strict=True)}
    return report if output_dict else Report(_cells(report, digits))


class Report(str):
    """A report as text, which notebooks show as a table."""

    _rows: list[list[str]]

    def __new__(cls, rows: list[list[str]]) -> Report:
        report = super().__new__(cls, format_table(rows))
        report._rows = rows
        return report

    def __reduce__(self) -> tuple[type[Report], tuple[list[list[str]]]]:
        return Report, (self._rows,)

    def _repr_html_(self) -> str:
        head, *rows = self._rows
        return html_table(head, rows)


def _cells(report: dict[str, dict[str, float]], digits: int) -> list[list[str]]:
    def cell(value: float) -> str:
        if isinstance(value, float):
            return "-" if np.isnan(value) else f"{value:.{digits}f}"
        return str(value)

    head = ["", *next(iter(report.values()))]
    return [head, *([name, *map(cell, row.values())] for name, row in report.items())]


def _ratio(part: np.ndarray, whole: np.ndarray) -> np.ndarray:
    return np.divide(part, whole, out=np.full(len(part), np.nan), where=whole > 0)


def _average(values: np.ndarray, sample_weight: Any) -> float:
    weight = check_weight(sample_weight, len(values))
    counts = weight > 0  # an infinite loss of no weight is nothing, and not NaN
    return float(np.average(values[counts], weights=weight[counts]))


def _bin(
    confidence: np.ndarray, right: np.ndarray, n_bins: int, sample_weight: Any = None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return mean confidence, rate of right answers and weight of each bin that is not empty."""
    if not isinstance(n_bins, Integral) or isinstance(n_bins, bool) or n_bins < 1:
        raise ValueError(f"n_bins is {n_bins!r}; it must be an integer of at least 1")
    weight = check_weight(sample_weight, len(right))
    place = np.minimum((confidence * n_bins).astype(int), n_bins - 1)
    total = np.bincount(place, weight, minlength=n_bins)
    full = total > 0
    mean = np.bincount(place, weight * confidence, minlength=n_bins)[full] / total[full]
    rate = np.bincount(place, weight * right, minlength=n_bins)[full] / total[full]
    return mean, rate, total[full]


def _top_confidence(
    y: Any, y_proba: Any, truth: Any, log: bool, classes: Any, restrict: bool = False
) -> tuple[np.ndarray, np.ndarray, bool]:
    """Return confidence in the best class or candidate, whether it is right, and is that known.

    Without true labels right means covered, which is the same where all samples are clean.
    """
    if restrict and truth is None:
        raise ValueError("restrict=True needs truth: the best candidate is always a candidate")
    labels = {} if truth is None else {"truth": truth}
    candidates, log_proba, columns = read_proba(y, y_proba, log, classes, **labels)
    if restrict:
        return *_best_candidate(candidate_softmax(log_proba, candidates), columns[0]), True
    top, confidence = log_proba.argmax(axis=1), np.exp(log_proba.max(axis=1))
    if truth is not None:
        return confidence, top == columns[0], True
    return confidence, covers(candidates, top), bool(is_clean(candidates).all())


def _best_candidate(proba: sp.csr_array, true: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the confidence in each sample's most likely candidate, and whether it is true."""
    return proba.max(axis=1).toarray().ravel(), proba.argmax(axis=1) == true


def _log_losses(candidates: sp.csr_array, log_proba: np.ndarray) -> np.ndarray:
    return np.maximum(-candidate_log_mass(log_proba, candidates), 0.0)


def _log_loss_of_known(y: Any, log_proba: Any, classes: Any, sample_weight: Any) -> float:
    """Compute `candidate_log_loss` over the samples that have a candidate among the classes."""
    candidates, log_proba, _ = read_proba(y, log_proba, True, classes)
    known = candidates[:, : len(classes)].sum(axis=1) > 0
    if not known.all():
        row = int(np.flatnonzero(~known)[0])
        labels = read_labels(y, classes)[0][candidates[[row]].indices].tolist()
        found = (
            f"{np.sum(~known)} of {len(known)} rows have no candidate that the classifier was "
            f"trained on, such as row {row} with {labels}"
        )
        remedy = "pass S as a matrix, or merge rare labels, for every fold to know every class"
        if not known.any():
            raise ValueError(f"{found}; nothing is left to score: {remedy}")
        warnings.warn(
            f"{found}; they are left out of candidate_log_loss_scorer: {remedy}", stacklevel=2
        )
    weight = check_weight(sample_weight, len(known))
    return _average(_log_losses(candidates, log_proba)[known], weight[known])


def _accuracy(y: Any, y_pred: Any, truth: Any, classes: Any, sample_weight: Any) -> float:
    _, _, (predicted, true) = read_labels(y, classes, y_pred=y_pred, truth=truth)
    return _average(predicted == true, sample_weight)


def _balanced_accuracy(y: Any, y_pred: Any, truth: Any, classes: Any, sample_weight: Any) -> float:
    """Compute the mean recall over the classes that occur."""
    _, _, (predicted, true) = read_labels(y, classes, y_pred=y_pred, truth=truth)
    weight = check_weight(sample_weight, len(true))
    total = np.bincount(true, weight)
    recall = _ratio(np.bincount(true, weight * (predicted == true)), total)
    return float(recall[total > 0].mean())


covering_scorer = Scorer("covering_scorer", predict_labels, covering_rate)
approximated_accuracy_scorer = Scorer(
    "approximated_accuracy_scorer", predict_log_proba, partial(approximated_accuracy, log=True)
)
candidate_log_loss_scorer = Scorer(
    "candidate_log_loss_scorer", predict_log_proba, _log_loss_of_known, sign=-1
)
truth_scorer = Scorer("truth_scorer", predict_labels, _accuracy, needs_truth=True)
balanced_truth_scorer = Scorer(
    "balanced_truth_scorer", predict_labels, _balanced_accuracy, needs_truth=True
)
disambiguation_scorer = Scorer("disambiguation_scorer", disambiguate, _accuracy, needs_truth=True)
