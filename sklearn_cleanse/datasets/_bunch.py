"""What the loaders return: matrices, frames, and the Bunch of a data set."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils import Bunch

__all__ = ["check_columns", "import_pandas", "make_bunch", "output_candidates"]

_MAX_DENSE = 2**31


def import_pandas() -> Any:
    """Return the pandas module, or raise an error that says how to install it."""
    try:
        import pandas
    except ImportError as error:
        raise ImportError(
            'as_frame=True needs pandas: pip install "sklearn-cleanse[data]"'
        ) from error
    return pandas


def check_columns(classes: np.ndarray, as_frame: bool) -> None:
    """Raise ValueError if the labels are not the column numbers of a plain matrix."""
    if as_frame or np.array_equal(classes, np.arange(len(classes))):
        return
    remedy = "pass as_frame=True to have them as column names, or classes=… to fix the columns"
    if classes.dtype.kind in "iu" and classes[0] >= 0:
        gap = np.flatnonzero(np.diff(classes, prepend=-1) > 1)[0]
        raise ValueError(
            f"the labels run up to {classes[-1]} but {classes[gap] - 1} never occurs, so that the "
            f"columns of a plain matrix would not be the labels; {remedy}, such as "
            f"classes=range({classes[-1] + 1})"
        )
    raise ValueError(
        f"the labels are {', '.join(map(repr, classes[:5].tolist()))}"
        f"{', …' if len(classes) > 5 else ''}, which the columns of a plain matrix cannot name; "
        + remedy
    )


def output_candidates(
    classes: np.ndarray,
    candidates: sp.csr_array,
    *,
    sparse_output: bool,
    as_frame: bool,
    index: Any = None,
) -> Any:
    """Return a candidate matrix as a dense array, a csr_array, or a DataFrame named by class."""
    if sparse_output and as_frame:
        raise ValueError("sparse_output=True and as_frame=True exclude each other; choose one")
    if sparse_output:
        return candidates
    if candidates.shape[0] * candidates.shape[1] > _MAX_DENSE:
        raise ValueError(
            f"a dense matrix of {candidates.shape[0]} × {candidates.shape[1]} candidates would "
            "take more than 2 GB; pass sparse_output=True"
        )
    if as_frame:
        return import_pandas().DataFrame(candidates.toarray(), index=index, columns=classes)
    return candidates.toarray()


def make_bunch(
    data: Any,
    classes: np.ndarray,
    candidates: sp.csr_array,
    target: np.ndarray | None,
    *,
    sparse_output: bool,
    as_frame: bool,
    **more: Any,
) -> Bunch:
    """Return a data set in scikit-learn's form; ``more`` holds DESCR and other entries."""
    feature_names = [f"x{j}" for j in range(data.shape[1])]
    target_names = np.array([f"class_{label}" for label in classes])
    S = output_candidates(classes, candidates, sparse_output=sparse_output, as_frame=as_frame)
    frame = None
    if as_frame:
        pandas = import_pandas()
        dense = data.toarray() if sp.issparse(data) else data
        data = pandas.DataFrame(dense, columns=feature_names)
        parts = [data, S.add_prefix("class_")]
        if target is not None:
            target = pandas.Series(target, name="target")
            parts.append(target)
        frame = pandas.concat(parts, axis=1)
    return Bunch(
        data=data,
        candidates=S,
        target=target,
        frame=frame,
        feature_names=feature_names,
        target_names=target_names,
        **more,
    )
