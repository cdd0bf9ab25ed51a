"""The characteristics of a data set, as papers tabulate them."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp
from sklearn.utils import Bunch

from ..candidates import check_candidates
from ..candidates._matrix import check_sparse


@dataclass(frozen=True)
class CandidateSummary:
    """The characteristics of a partial-label data set, as `describe_candidates` computes them.

    Printed, or shown in a notebook, it is a row of the table of characteristics that papers have.

    Attributes
    ----------
    name : str
        Name of the data set.
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
        The proportion of clean samples.
    n_classes_clean : int
        Classes with at least one clean sample.
    never_true : tuple of labels, or None
        Classes that are never the true label; None if true labels were not given.
    noise_rate : float or None
        The proportion of samples whose true label is not a candidate; None if true labels were not
        given.
    n_duplicates : int or None
        Samples with the same features as an earlier one; None if the features were not given.

    Examples
    --------
    >>> from sklearn_cleanse.datasets import describe_candidates
    >>> describe_candidates([{"cat", "dog"}, {"cat"}]).clean_rate
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
    never_true: tuple[Any, ...] | None
    noise_rate: float | None
    n_duplicates: int | None

    def _table(self) -> Any:
        cells = {
            "Data set": self.name,
            "Instances": f"{self.n_samples:,}",
            "Features": self.n_features,
            "Classes": self.n_classes,
            "Avg. candidates": f"{self.mean_candidates:.4f}",
            "Clean rate": f"{self.clean_rate:.2%}",
            "Classes with a clean row": self.n_classes_clean,
            "Classes never true": None if self.never_true is None else len(self.never_true),
            "Duplicates": self.n_duplicates,
        }
        return pd.DataFrame([{k: "-" if v in (None, "") else str(v) for k, v in cells.items()}])

    def __str__(self) -> str:
        return str(self._table().to_string(index=False))

    def _repr_html_(self) -> str:
        return str(self._table().to_html(index=False))


def describe_candidates(
    y: Any, truth: Any = None, *, X: Any = None, name: str = ""
) -> CandidateSummary:
    """Compute the characteristics of a partial-label data set.

    Parameters
    ----------
    y : array-like of shape (n_samples, n_classes), list of label collections, or Bunch
        The candidates, in any form that an estimator takes; or what `fetch_pll` or `read_mat`
        returned, which brings its true labels and features along.
    truth : array-like of shape (n_samples,), default=None
        True labels.
    X : {array-like, sparse matrix} of shape (n_samples, n_features), default=None
        Features, for their number and for duplicates.
    name : str, default=""
        Name of the data set.

    Returns
    -------
    summary : CandidateSummary
        The figures. Printed, they are the table of characteristics that papers have.

    Examples
    --------
    >>> from sklearn_cleanse.datasets import describe_candidates
    >>> print(describe_candidates([{0, 1}, {0}, {0, 2}], [1, 0, 0], name="toy"))
    Data set Instances Features Classes Avg. candidates Clean rate ...
         toy         3        -       3          1.6667     33.33% ...
    """
    if isinstance(y, Bunch):
        truth = y.target if truth is None else truth
        X = y.data if X is None else X
        name = name or y.DESCR.partition("\n")[0].partition(":")[0]
        y = y.candidates
    shape = None if X is None else np.shape(X)
    candidates = check_candidates(y, n_samples=None if shape is None else shape[0])
    sizes, is_clean = candidates.sizes, candidates.is_clean
    never_true = noise_rate = n_duplicates = None
    if truth is not None:
        truth = check_candidates(truth, n_samples=len(sizes), classes=candidates.classes)
        if not truth.is_clean.all():
            raise ValueError("`truth` must hold one label per sample, got several.")
        never_true = tuple(candidates.classes[~truth.mask.any(axis=0)].tolist())
        noise_rate = float(1 - candidates.mask[truth.mask].mean())
    if shape is not None:
        X = check_sparse(X, "X").toarray() if sp.issparse(X) else np.asarray(X)
        n_duplicates = int(pd.DataFrame(X.reshape(len(X), -1)).duplicated().sum())
    return CandidateSummary(
        name=name,
        n_samples=len(sizes),
        n_features=None if shape is None else int(np.prod(shape[1:])),
        n_classes=len(candidates.classes),
        mean_candidates=float(sizes.mean()),
        max_candidates=int(sizes.max()),
        n_clean=int(is_clean.sum()),
        clean_rate=float(is_clean.mean()),
        n_classes_clean=int(candidates.mask[is_clean].any(axis=0).sum()),
        never_true=never_true,
        noise_rate=noise_rate,
        n_duplicates=n_duplicates,
    )
