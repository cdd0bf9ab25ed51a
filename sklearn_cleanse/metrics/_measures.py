"""The measures: functions of candidates and predictions, and a report of them class by class."""

from typing import Any, cast

import numpy as np
from scipy.special import logsumexp

from ..candidates import candidate_softmax
from ._readers import check_weight, read_labels, read_proba


def covering_rate(
    y_candidates: Any, y_pred: Any, *, classes: Any = None, sample_weight: Any = None
) -> float:
    """Compute the proportion of predictions that are candidates.

    It is an upper bound of the accuracy where the true label is always a candidate. If every sample
    has a single candidate, it is the accuracy.

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
        Sample weights: 0, or between 1e-18 and 1e18.

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
    candidates, (predicted,) = read_labels(y_candidates, classes, y_pred=y_pred)
    return _average(at_columns(candidates.mask, predicted), y_candidates, sample_weight)


def approximated_accuracy(
    y_candidates: Any,
    y_proba: Any,
    *,
    log: bool = False,
    classes: Any = None,
    sample_weight: Any = None,
) -> float:
    """Compute the expected accuracy if the probabilities among the candidates are right.

    A prediction that is not a candidate counts 0. Otherwise it counts its probability, divided by
    that of all candidates. Introduced by PLENCH (ICLR 2025) for choosing a model without true
    labels.

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
        Sample weights: 0, or between 1e-18 and 1e18.

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
    proba = candidate_softmax(log_proba, candidates.mask)
    return _average(at_columns(proba, log_proba.argmax(axis=1)), y_candidates, sample_weight)


def candidate_log_loss(
    y_candidates: Any,
    y_proba: Any,
    *,
    log: bool = False,
    classes: Any = None,
    sample_weight: Any = None,
) -> float:
    """Compute the mean negative logarithm of the probability of the candidate set.

    If every sample has a single candidate, it is the log loss.

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
        Sample weights: 0, or between 1e-18 and 1e18.

    Returns
    -------
    loss : float
        At least 0; lower is better. Infinite if all candidates of a sample have probability 0, as
        nothing is clipped. Only ``candidate_log_loss_scorer`` leaves out, with a warning, samples
        without any candidate in the estimator's ``classes_``: their infinite loss would be the
        same for every setting of a search.

    Examples
    --------
    >>> from sklearn_cleanse.metrics import candidate_log_loss
    >>> S = [[1, 1, 0], [1, 1, 1]]
    >>> round(candidate_log_loss(S, [[0.3, 0.2, 0.5], [0.5, 0.3, 0.2]]), 4)  # (log 2 + log 1) / 2
    0.3466
    """
    candidates, log_proba, _ = read_proba(y_candidates, y_proba, log, classes)
    mass = logsumexp(np.where(candidates.mask, log_proba, -np.inf), axis=1)
    return _average(np.maximum(-mass, 0.0), y_candidates, sample_weight)


def disambiguation_accuracy(
    y_candidates: Any,
    y_proba: Any,
    truth: Any,
    *,
    log: bool = False,
    classes: Any = None,
    sample_weight: Any = None,
) -> float:
    """Compute the proportion of samples whose most likely candidate is the true label.

    Samples with a single candidate are always right; ``sample_weight=~candidates.is_clean`` leaves
    them out. A sample whose true label is not a candidate is always wrong.

    Parameters
    ----------
    y_candidates : array-like of shape (n_samples, n_classes) or (n_samples,)
        Candidates in any form that ``fit`` takes. Prior weights only mark candidates here.
    y_proba : array-like of shape (n_samples, n_classes)
        Predicted probabilities, or their logarithms if ``log`` is True. Probabilities among the
        candidates, such as ``candidate_proba_``, give the same.
    truth : array-like of shape (n_samples,)
        True labels.
    log : bool, default=False
        Whether ``y_proba`` holds logarithms, up to a constant per row, so that logits do too.
    classes : array-like of shape (n_classes,), default=None
        The labels that the columns of ``y_proba`` stand for, such as ``classes_``. If None, those
        that occur in ``y_candidates``.
    sample_weight : array-like of shape (n_samples,), default=None
        Sample weights: 0, or between 1e-18 and 1e18.

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
    candidates, log_proba, (true,) = read_proba(y_candidates, y_proba, log, classes, truth=truth)
    top = candidate_softmax(log_proba, candidates.mask).argmax(axis=1)
    return _average(top == true, y_candidates, sample_weight)


def expected_calibration_error(
    y_candidates: Any,
    y_proba: Any,
    truth: Any = None,
    *,
    restrict: bool = False,
    n_bins: Any = 10,
    log: bool = False,
    classes: Any = None,
    sample_weight: Any = None,
) -> float:
    """Compute the mean distance between confidence and accuracy, over bins of equal width.

    The confidence is the probability of the prediction. With ``truth``, or where every sample has a
    single candidate, this is the usual measure: a model that is always right, with probability 0.7,
    has an error of 0.3. Otherwise the covering rate takes the place of the accuracy. As it is an
    upper bound of the accuracy, only bins with more confidence than covering count then, and the
    result is a lower bound of the error.

    Parameters
    ----------
    y_candidates : array-like of shape (n_samples, n_classes) or (n_samples,)
        Candidates in any form that ``fit`` takes.
    y_proba : array-like of shape (n_samples, n_classes)
        Predicted probabilities, or their logarithms if ``log`` is True.
    truth : array-like of shape (n_samples,), default=None
        True labels.
    restrict : bool, default=False
        Whether to use the most likely *candidate*, with its probability among the candidates,
        instead of the prediction. Needs ``truth``. A sample with a single candidate is then right
        with confidence one; ``sample_weight=~candidates.is_clean`` leaves such samples out.
    n_bins : int, default=10
        Number of bins between 0 and 1, at most a million. Empty ones do not count.
    log : bool, default=False
        Whether ``y_proba`` holds logarithms, up to a constant per row, so that logits do too.
    classes : array-like of shape (n_classes,), default=None
        The labels that the columns of ``y_proba`` stand for, such as ``classes_``. If None, those
        that occur in ``y_candidates``.
    sample_weight : array-like of shape (n_samples,), default=None
        Sample weights: 0, or between 1e-18 and 1e18.

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
    >>> proba = [[0.6, 0.2, 0.2], [0.2, 0.6, 0.2]]  # twice 0.75 among the candidates
    >>> round(expected_calibration_error(S, proba, truth=[0, 2]), 4)  # right once of two
    0.1
    >>> round(expected_calibration_error(S, proba, truth=[0, 2], restrict=True), 4)
    0.25
    """
    if restrict and truth is None:
        raise ValueError("`restrict=True` needs `truth`: the best candidate is always a candidate.")
    if type(n_bins) is bool or not isinstance(n_bins, (int, np.integer)) or not 0 < n_bins <= 10**6:
        raise ValueError(f"`n_bins` must be an integer from 1 to a million, got {n_bins!r:.80}.")
    labels = {} if truth is None else {"truth": truth}
    candidates, log_proba, columns = read_proba(y_candidates, y_proba, log, classes, **labels)
    mask = candidates.mask if restrict else np.ones_like(candidates.mask)
    proba = candidate_softmax(log_proba, mask)
    confidence, top = proba.max(axis=1), proba.argmax(axis=1)
    right = at_columns(candidates.mask, top) if truth is None else top == columns[0]
    weight = check_weight(y_candidates, sample_weight, len(right))
    place = np.minimum((confidence * n_bins).astype(int), n_bins - 1)
    # In each bin, the error times its weight: no bin is divided by.
    gap = np.bincount(place, weight * (confidence - right))
    bounded = truth is None and not candidates.is_clean.all()
    return float((gap.clip(0) if bounded else np.abs(gap)).sum() / weight.sum())


def true_accuracy(
    y_candidates: Any, y_pred: Any, truth: Any, *, classes: Any = None, sample_weight: Any = None
) -> float:
    """Compute the accuracy of predictions in the labels of the candidates."""
    _, (predicted, true) = read_labels(y_candidates, classes, y_pred=y_pred, truth=truth)
    return _average(predicted == true, y_candidates, sample_weight)


def balanced_true_accuracy(
    y_candidates: Any, y_pred: Any, truth: Any, *, classes: Any = None, sample_weight: Any = None
) -> float:
    """Compute the mean recall over the classes that occur."""
    _, (predicted, true) = read_labels(y_candidates, classes, y_pred=y_pred, truth=truth)
    weight = check_weight(y_candidates, sample_weight, len(true))
    support, hits = np.bincount(true, weight), np.bincount(true, weight * (predicted == true))
    return float((hits[support > 0] / support[support > 0]).mean())


def candidate_report(
    y_candidates: Any,
    y_pred: Any,
    truth: Any = None,
    *,
    classes: Any = None,
    digits: int = 2,
    output_dict: bool = False,
) -> str | dict[str, dict[str, float]]:
    """Summarize predictions class by class, with or without true labels.

    Parameters
    ----------
    y_candidates : array-like of shape (n_samples, n_classes) or (n_samples,)
        Candidates in any form that ``fit`` takes.
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
        named "all" ("(all)" if a class has that name): the number of samples in which the class is
        a candidate, the only candidate (clean), and predicted; and the proportion of the samples
        predicted to be of the class in which it is a candidate (covering). The true number lies
        between clean and candidates where the true label is always a candidate. A rate over no
        samples is NaN, and a dash in the text. "all" counts samples, and with truth has the means
        over classes that occur.

    Examples
    --------
    >>> from sklearn_cleanse.metrics import candidate_report
    >>> print(candidate_report([{"cat", "dog"}, {"cat"}, {"dog"}], ["dog", "dog", "dog"]))
         candidates  clean  predicted covering
    cat           2      1          0        -
    dog           2      1          3     0.67
    all           3      2          3     0.67
    """
    import pandas as pd

    labels = {"y_pred": y_pred} if truth is None else {"y_pred": y_pred, "truth": truth}
    candidates, columns = read_labels(y_candidates, classes, **labels)
    predicted, mask, is_clean = columns[0], candidates.mask, candidates.is_clean
    is_covered, n_samples = at_columns(mask, predicted), len(mask)
    names = [str(label) for label in candidates.classes]
    last = "all"
    while last in names:
        last = f"({last})"

    def count(column: np.ndarray) -> pd.Series:
        return pd.Series(np.bincount(column, minlength=len(names)))

    table = {
        "candidates": [*mask.sum(axis=0), n_samples],
        "clean": [*mask[is_clean].sum(axis=0), is_clean.sum()],
        "predicted": [*count(predicted), n_samples],
        "covering": [*count(predicted[is_covered]) / count(predicted), is_covered.mean()],
    }
    if truth is not None:
        hits, support = count(predicted[predicted == columns[1]]), count(columns[1])
        occurs = support + count(predicted) > 0
        for name, total in (("precision", count(predicted)), ("recall", support)):
            # A class that is never predicted has no precision, and counts 0 in the mean.
            table[name] = [*hits / total, (hits / total)[occurs].fillna(0.0).mean()]
        table["support"] = [*support, n_samples]
    report = pd.DataFrame(table, index=[*names, last])
    if output_dict:
        return cast(dict[str, dict[str, float]], report.to_dict("index"))
    style = {"float_format": f"{{:.{digits}f}}".format, "na_rep": "-"}
    text = Report(report.to_string(**style))
    text.html = report.to_html(**style)
    return text


class Report(str):
    """A report as text, which notebooks show as a table."""

    html: str = ""

    def _repr_html_(self) -> str:
        return self.html


def at_columns(values: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Return one entry of each row."""
    return np.take_along_axis(values, columns[:, None], axis=1)[:, 0]


def _average(values: np.ndarray, y: Any, sample_weight: Any) -> float:
    weight = check_weight(y, sample_weight, len(values))
    counts = weight > 0  # an infinite loss of weight 0 is not NaN
    return float(np.average(values[counts], weights=weight[counts]))
