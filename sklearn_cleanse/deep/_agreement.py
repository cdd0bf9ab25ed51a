"""What must be the same on all ranks: parameters, the form of the rows, the classes."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
from collections.abc import Mapping
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch

from .._ranks import Ranks
from .._rows import SparseRows, row_keys
from .._warn import warn_caller
from ..candidates._grades import find_classes
from ..candidates._labels import join_classes

#: Parameters that may differ: those of rank 0, or each rank's own, are used.
_OWN = {"random_state", "callbacks", "verbose", "device"}


def check_agreement(ranks: Ranks, estimator: Any, X: Any, classes: Any, call: dict) -> None:
    """Refuse, on all ranks, parameters and rows that do not belong to one model; warn of copies.

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
    some = X[np.arange(min(100, len(X)))]
    keys = row_keys(some.matrix if isinstance(some, SparseRows) else some)
    rows = ranks.gather((len(X), hashlib.sha1(b"".join(keys), usedforsecurity=False).digest()))
    for other in range(ranks.size):
        if rows.index(rows[other]) < other:
            warn_caller(
                f"ranks {rows.index(rows[other])} and {other} have the same rows; each rank should "
                "pass rows of its own, such as X[rank::size], or they count twice"
            )
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


def fingerprint(net: Any) -> str:
    """Return a digest of a net's weights and of what its optimiser goes on from."""
    found = hashlib.sha1(usedforsecurity=False)
    for state in (net.module_.state_dict(), *net.optimizer_.state.values()):
        for name, value in state.items():
            found.update(f"{name}\0".encode())
            found.update(torch.as_tensor(value).detach().cpu().contiguous().numpy().tobytes())
    return found.hexdigest()[:12]


def rows_of_all(ranks: Ranks, candidates: sp.csr_array, weight: np.ndarray | None) -> tuple:
    """Return the candidates, and the weights if there are any, of all ranks' rows."""
    if not ranks.several:
        return candidates, weight
    candidates = sp.vstack(ranks.gather(candidates), format="csr")
    return candidates, None if weight is None else np.concatenate(ranks.gather(weight))


def _describe(value: Any) -> Any:
    """Return something that is equal in two processes where the value is."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        value = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if isinstance(value, functools.partial):
        value = {"function": value.func, "args": value.args, "keywords": value.keywords}
    if hasattr(value, "to_dict"):  # a Series
        value = value.to_dict()
    if isinstance(value, Mapping):
        return {name: _describe(part) for name, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_describe(part) for part in value]
    if hasattr(value, "tolist"):
        return value.tolist()
    if value is None or isinstance(value, (str, int, float)):
        return value
    kind = value if hasattr(value, "__qualname__") else type(value)
    return f"{kind.__module__}.{kind.__qualname__}"
