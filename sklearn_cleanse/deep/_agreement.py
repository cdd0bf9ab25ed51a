"""What must be the same on all ranks: parameters, the form of the rows, the classes."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from .._ranks import Ranks
from .._rows import SparseRows
from ..candidates._grades import find_classes
from ..candidates._labels import join_classes

#: Parameters that may differ: those of rank 0, or each rank's own, are used.
_OWN = {"random_state", "callbacks", "verbose", "device"}


def check_agreement(ranks: Ranks, estimator: Any, X: Any, classes: Any, call: dict) -> None:
    """Refuse, on all ranks, parameters and rows that do not belong to one model.

    Parameters
    ----------
    ranks : Ranks
    estimator : PartialLabelClassifier
    X : ndarray of shape (n_samples, ...), or SparseRows
        Checked features.
    classes : array-like or None
        All classes, if they are known already.
    call : dict
        Further facts, by name.
    """
    if not ranks.several:
        return
    params = estimator.get_params(deep=False).items()
    names = getattr(estimator, "feature_names_in_", None)
    ranks.agree(
        {
            **{name: _describe(value) for name, value in params if name not in _OWN},
            "the shape of a sample": X.shape[1:],
            "the dtype of X": str(X.dtype),
            "whether X is sparse": isinstance(X, SparseRows),
            "the feature names": None if names is None else names.tolist(),
            "the classes": _describe(classes),
            **call,
        }
    )


def classes_of_all(ranks: Ranks, y: Any, graded: bool) -> np.ndarray:
    """Return the classes of all ranks' rows: the labels of any, or the columns, equal on all."""
    classes, are_columns = find_classes(y, graded=graded)
    ranks.agree({"whether y is a matrix": are_columns})
    if are_columns:
        ranks.agree({"the columns of y": classes.tolist()})
        return classes
    return join_classes(ranks.gather(classes))


def rows_of_all(ranks: Ranks, candidates: sp.csr_array, weight: np.ndarray | None) -> tuple:
    """Return the candidates, and the weights if there are any, of all ranks' rows."""
    if not ranks.several:
        return candidates, weight
    candidates = sp.vstack(ranks.gather(candidates), format="csr")
    return candidates, None if weight is None else np.concatenate(ranks.gather(weight))


def _describe(value: Any) -> Any:
    """Return something that is equal in two processes where the value is."""
    if isinstance(value, dict):
        return {name: _describe(part) for name, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_describe(part) for part in value]
    if hasattr(value, "tolist"):
        return value.tolist()
    if value is None or isinstance(value, (str, int, float)):
        return value
    kind = value if hasattr(value, "__qualname__") else type(value)
    return f"{kind.__module__}.{kind.__qualname__}"
