"""The characteristics of a data set, as papers tabulate them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from sklearn.utils import Bunch

from .._rows import row_keys
from .._table import format_table, html_table
from ..candidates import candidate_counts, check_candidates, check_graded, covers, is_clean

__all__ = ["Characteristics", "describe"]


@dataclass(frozen=True)
class Characteristics:
    """The characteristics of a partial-label data set, as `describe` computes them.

    Printed, or shown in a notebook, it is a row of the table of characteristics that papers have.

    Attributes
    ----------
    name : str
        What the set is called.
    n_samples : int
        Samples.
    n_features : int or None
        Features; None if the features were not given.
    n_classes : int
        Classes, those that never occur included.
    mean_candidates : float
        The mean size of the candidate sets.
    max_candidates : int
        The size of the largest one.
    n_clean : int
        Clean samples, that is, those with a single candidate.
    clean_rate : float
        Their share.
    n_classes_clean : int
        Classes with at least one clean sample.
    never_true : tuple of labels, or None
        Classes that are the true label of no sample; None if true labels were not given.
    noise_rate : float or None
        The share of samples whose true label is no candidate; None if true labels were not given.
    n_duplicates : int or None
        Samples with the same features as an earlier one; None if the features were not given.

    Examples
    --------
    >>> from sklearn_cleanse.datasets import describe
    >>> describe([{"cat", "dog"}, {"cat"}]).clean_rate
    0.5
    """

    name: str
    n_samples: int
    n_features: int | None
    n_classes: int
    mean_candidates: float
    max_candidates: int
    n_clean: int
    clean_rate: float
    n_classes_clean: int
    never_true: tuple | None
    noise_rate: float | None
    n_duplicates: int | None

    def _cells(self) -> dict[str, str]:
        return {
            "Data set": self.name or "-",
            "Instances": f"{self.n_samples:,}",
            "Features": "-" if self.n_features is None else f"{self.n_features:,}",
            "Classes": f"{self.n_classes:,}",
            "Avg. candidates": f"{self.mean_candidates:.4f}",
            "Clean rate": f"{self.clean_rate:.2%}",
            "Classes with a clean row": str(self.n_classes_clean),
            "Classes never true": "-" if self.never_true is None else str(len(self.never_true)),
            "Duplicates": "-" if self.n_duplicates is None else str(self.n_duplicates),
        }

    def __str__(self) -> str:
        cells = self._cells()
        rule = ["-" * max(len(head), len(cell)) for head, cell in cells.items()]
        return format_table([list(cells), rule, list(cells.values())])

    def _repr_html_(self) -> str:
        cells = self._cells()
        return html_table(list(cells), [list(cells.values())])


def describe(S, y=None, *, X=None, name=""):
    """Compute the characteristics of a partial-label data set.

    Parameters
    ----------
    S : array-like of shape (n_samples, n_classes), list of label collections, or Bunch
        The candidates, in any form that an estimator takes, graded or not; or what `fetch_pll` or
        `read_mat` returned, which brings its true labels and features along.
    y : array-like of shape (n_samples,), default=None
        True labels.
    X : {array-like, sparse matrix} of shape (n_samples, n_features), default=None
        Features, for their number and for duplicates.
    name : str, default=""
        What to call the set.

    Returns
    -------
    characteristics : Characteristics
        The figures. Printed, they are the paper's table of characteristics.

    Examples
    --------
    >>> from sklearn_cleanse.datasets import describe
    >>> print(describe([{0, 1}, {0}, {0, 2}], y=[1, 0, 0], name="toy"))
    Data set  Instances  Features  Classes  Avg. candidates  Clean rate  ...
    --------  ---------  --------  -------  ---------------  ----------  ...
    toy               3         -        3           1.6667      33.33%  ...
    """
    if isinstance(S, Bunch):
        y = S.target if y is None else y
        X = S.data if X is None else X
        name = name or S.DESCR.partition("\n")[0].partition(":")[0]
        S = S.candidates
    n_samples = None if X is None else np.shape(X)[0]
    classes, candidates, _ = check_graded(S, n_samples=n_samples)
    sizes = np.diff(candidates.indptr)
    clean = is_clean(candidates)
    never_true = noise_rate = None
    if y is not None:
        _, truth = check_candidates(y, n_samples=len(sizes), classes=classes)
        columns = truth.indices
        if len(columns) != len(sizes):
            raise ValueError("y holds several labels for a sample; expected true labels, one each")
        never_true = tuple(np.delete(classes, np.unique(columns)).tolist())
        noise_rate = float((~covers(candidates, columns)).mean())
    return Characteristics(
        name=name,
        n_samples=len(sizes),
        n_features=None if X is None else int(np.shape(X)[1]),
        n_classes=len(classes),
        mean_candidates=float(sizes.mean()),
        max_candidates=int(sizes.max()),
        n_clean=int(clean.sum()),
        clean_rate=float(clean.mean()),
        n_classes_clean=int((candidate_counts(candidates)[0] > 0).sum()),
        never_true=never_true,
        noise_rate=noise_rate,
        n_duplicates=None if X is None else len(sizes) - len(set(row_keys(X))),
    )
