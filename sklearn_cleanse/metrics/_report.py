"""A report class by class."""

from __future__ import annotations

from typing import Any

import numpy as np

from ._measures import at_columns
from ._readers import read_labels


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
        return report.to_dict("index")
    style = {"float_format": f"{{:.{digits}f}}".format, "na_rep": "-"}
    text = Report(report.to_string(**style))
    text.html = report.to_html(**style)
    return text


class Report(str):
    """A report as text, which notebooks show as a table."""

    html: str = ""

    def _repr_html_(self) -> str:
        return self.html
