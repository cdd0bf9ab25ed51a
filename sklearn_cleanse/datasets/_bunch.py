"""What the loaders return: matrices, frames, and the Bunch of a data set."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp
from sklearn.utils import Bunch

_MAX_DENSE = 2**31  # cells


def check_output(n_samples: int, n_classes: int, sparse_output: bool, as_frame: bool) -> None:
    """Raise ValueError if candidates cannot be returned in the form asked for."""
    if sparse_output and as_frame:
        raise ValueError("`sparse_output` must be False if `as_frame` is True, got True for both.")
    if n_samples * n_classes > _MAX_DENSE and not sparse_output:
        found = f"{n_samples} rows and {n_classes} classes"
        raise ValueError(f"Dense candidates must have at most {_MAX_DENSE} cells, got {found}.")


def output_candidates(
    candidates: Any, classes: Any, *, sparse_output: bool = False, as_frame: bool, index: Any = None
) -> Any:
    """Return candidates as a dense array, a csr_array, or a DataFrame named by class."""
    if sparse_output:
        return sp.csr_array(candidates)
    if as_frame:
        columns = pd.Index(list(classes), tupleize_cols=False)
        return pd.DataFrame(candidates, index=index, columns=columns)
    return candidates


def make_bunch(
    data: Any,
    candidates: np.ndarray,
    target: np.ndarray | None,
    sparse_output: bool,
    as_frame: bool,
    more: dict[str, Any],
) -> Bunch:
    """Return a data set in scikit-learn's form; ``more`` holds DESCR and other entries."""
    names = {"feature_names": [f"x{j}" for j in range(data.shape[1])]}
    classes, frame = range(candidates.shape[1]), None
    S = output_candidates(candidates, classes, sparse_output=sparse_output, as_frame=as_frame)
    if as_frame:
        data = data.toarray() if sp.issparse(data) else data
        data = pd.DataFrame(data, columns=names["feature_names"])
        target = None if target is None else pd.Series(target, name="target")
        parts = [data, S.add_prefix("class_"), target]
        frame = pd.concat([part for part in parts if part is not None], axis=1)
    more |= names | {"target_names": np.array([f"class_{label}" for label in classes])}
    return Bunch(data=data, candidates=S, target=target, frame=frame, **more)
