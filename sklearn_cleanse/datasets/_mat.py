"""Any partial-label ``.mat`` file: which layout it has, and what it says.

The field stores the same three things under many names. Each layout is a record below; one
function reads them all.
"""

from __future__ import annotations

import os
from dataclasses import astuple, dataclass
from itertools import islice
from numbers import Integral
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..candidates import check_candidates
from ._bunch import make_bunch
from ._mat5 import read_level5
from ._mat73 import read_level73
from ._variables import Budget

__all__ = ["read_mat"]


@dataclass(frozen=True)
class _Layout:
    name: str
    data: str
    candidates: str
    truth: str
    test_data: str = ""
    test_truth: str = ""


_LAYOUTS = (
    _Layout("PALM", "data", "partial_target", "target"),
    _Layout("five-fold", "features", "p_labels", "logitlabels"),
    _Layout("online", "X", "Y_P", "Y"),
    _Layout(
        "pre-split", "train_data", "train_p_target", "train_target", "test_data", "test_target"
    ),
)
_FOLDS = (("tr", "te"), ("tr_idx", "te_idx"))  # beside any layout; the latter is the mask form

_IMPOSTORS = {
    b"<": "a web page saved as .mat; download the raw file instead",
    b"\x80": "a Python pickle, which could run code and is never loaded",
    b"version https://git-lfs": "a Git LFS pointer; fetch the file it points to (git lfs pull)",
    b"\x1f\x8b": "a gzip archive; unpack it first",
    b"PK": "a zip archive; unpack it first",
}


def read_mat(
    path,
    *,
    class_axis=None,
    allow_noise=False,
    return_X_S_y=False,
    as_frame=False,
    sparse_output=False,
    max_bytes=None,
):
    """Read a partial-label data set from a MATLAB file.

    Known layouts, each dense or sparse, label matrices transposed or not, at the top of the file
    or in one struct, saved as level 5 or (with h5py) v7.3:

    - PALM: ``data``, ``partial_target``, ``target``
    - five-fold: ``features``, ``p_labels``, ``logitlabels``
    - online: ``X``, ``Y_P``, ``Y``
    - pre-split: ``train_data``, ``train_p_target``, ``train_target``, ``test_data``,
      ``test_target``

    The truth (third) may be missing. Folds may lie beside any of them: ``tr`` and ``te``, or
    ``tr_idx`` and ``te_idx``, cells of row numbers counted from 1 or of 0/1 masks.

    Parameters
    ----------
    path : str or path-like
        The file.
    class_axis : {0, 1}, default=None
        The axis of the label matrices along which the classes run: 0 for classes × samples, as
        PALM's files have it, 1 for samples × classes. Found from the shapes if None; needed only
        where there are as many classes as samples.
    allow_noise : bool, default=False
        Whether a sample's true label may lie outside its candidates.
    return_X_S_y : bool, default=False
        Whether to return ``(data, candidates, target)`` instead of a Bunch.
    as_frame : bool, default=False
        Whether data, candidates and target are pandas objects, and ``frame`` holds them all.
    sparse_output : bool, default=False
        Whether the candidates are a csr_array.
    max_bytes : int, default=None
        The most memory that the unpacked content may take, eight bytes for each number. If None,
        64 MiB, or fifty times the size of the file if that is more. While it is read, a file takes
        up to about six times as much. A file may hold 20,000 variables, cells and fields.

    Returns
    -------
    dataset : :class:`~sklearn.utils.Bunch`
        With these entries, or, if ``return_X_S_y`` is True, the first three as a tuple:

        data : {ndarray, csr_array, DataFrame} of shape (n_samples, n_features)
            The features, in the file's scale; sparse where the file has them sparse.
        candidates : {ndarray, csr_array, DataFrame} of shape (n_samples, n_classes), dtype bool
            The candidates. The file's label matrix says how many classes there are, so those
            that never occur are kept.
        target : {ndarray, Series} of shape (n_samples,) or None
            True labels, 0 to n_classes − 1; None where the file has none.
        frame : DataFrame or None
            Everything in one table; only if ``as_frame`` is True.
        cv : list of (train, test) index arrays, or None
            Stored folds, for use as ``cv=`` in scikit-learn. A pre-split file gives one. Its test
            rows, which have no candidates of their own, have their true label as the only one.
        feature_names, target_names : list of str, ndarray of str
            Names of the columns of data and candidates.
        layout : str
            The layout found.
        filename, DESCR : str
            The file's path, and what is known of it.

    Raises
    ------
    ValueError
        If the file is damaged, is no MATLAB file, has no known layout, or holds labels that
        contradict each other, or if its content takes more than ``max_bytes``. Nothing in the file
        is ever executed, and no other file is opened.
    OSError
        If there is no such file or it cannot be opened.

    Examples
    --------
    >>> import numpy as np, os, scipy.io, tempfile
    >>> from sklearn_cleanse.datasets import read_mat
    >>> path = os.path.join(tempfile.mkdtemp(), "toy.mat")
    >>> scipy.io.savemat(path, {
    ...     "data": np.eye(3), "partial_target": [[1, 1, 0], [0, 1, 1]],
    ...     "target": [[1, 0, 0], [0, 1, 1]]})
    >>> X, S, y = read_mat(path, return_X_S_y=True)
    >>> S
    array([[ True, False],
           [ True,  True],
           [False,  True]])
    >>> y
    array([0, 1, 1])
    """
    if class_axis not in (None, 0, 1):
        raise ValueError(f"class_axis is {class_axis!r}; expected 0, 1 or None")
    if max_bytes is not None and (not isinstance(max_bytes, Integral) or max_bytes < 1):
        raise ValueError(f"max_bytes is {max_bytes!r}; expected a positive integer or None")
    path = Path(path)
    budget = Budget(max_bytes, path.stat().st_size)
    try:
        layout, variables = _find_layout(_read_variables(path, budget))
        X, classes, candidates, target, cv = _interpret(variables, layout, class_axis, allow_noise)
        _count_output(budget, X, candidates, as_frame, sparse_output)
        bunch = make_bunch(
            X,
            classes,
            candidates,
            target,
            sparse_output=sparse_output,
            as_frame=as_frame,
            cv=cv,
            layout=layout.name,
            filename=os.fspath(path),
            DESCR=f"{path.name}: {X.shape[0]} samples, {X.shape[1]} features, "
            f"{len(classes)} classes, read from a MATLAB file of {layout.name} layout.",
        )
    except (ValueError, MemoryError) as error:
        raise ValueError(f"cannot read {os.fspath(path)!r}: {error}") from error
    return (bunch.data, bunch.candidates, bunch.target) if return_X_S_y else bunch


def _read_variables(path: Path, budget: Budget) -> dict[str, Any]:
    with open(path, "rb") as file:
        head = file.read(520)
        if b"\x89HDF\r\n\x1a\n" in (head[:8], head[512:]):
            return read_level73(path, budget)
        for start, what in _IMPOSTORS.items():
            if head.lstrip().startswith(start):
                raise ValueError(f"this is {what}")
        if len(head) < 128 or head[126:128] not in (b"IM", b"MI"):
            raise ValueError(
                "this is no MATLAB file of level 5 or v7.3 (wrong header); if MATLAB opens it, "
                "save it again with save(…, '-v7')"
            )
        return read_level5(head + file.read(), budget)


def _count_output(budget: Budget, X: Any, S: Any, as_frame: bool, sparse_output: bool) -> None:
    """Raise ValueError if dense results or names would take more than the file may."""
    budget.spend(64 * (X.shape[1] + S.shape[1]), "the list of feature and class names")
    if not sparse_output:
        budget.spend(S.shape[0] * S.shape[1], "the dense matrix of candidates")
    if as_frame and sp.issparse(X):
        budget.spend(8 * X.shape[0] * X.shape[1], "the dense frame of features")


def _find_layout(variables: dict[str, Any]) -> tuple[_Layout, dict[str, Any]]:
    for scope in (variables, *(v for v in variables.values() if isinstance(v, dict))):
        for layout in _LAYOUTS:
            if layout.data in scope and layout.candidates in scope:
                return layout, scope
    found = _list_shapes(variables)
    known = "; ".join(f"{x.name}: {', '.join(filter(None, astuple(x)[1:]))}" for x in _LAYOUTS)
    raise ValueError(
        f"its layout is unknown. Found: {found or 'no variables'}. Known: {known}; or these as the "
        "fields of a struct. Rename the variables, or pass the arrays to an estimator directly"
    )


def _list_shapes(values: dict[str, Any]) -> str:
    first = [f"{name} {_shape_of(value)}" for name, value in islice(values.items(), 20)]
    return ", ".join(first + ["…"] * (len(values) > 20))


def _shape_of(value: Any) -> str:
    if isinstance(value, dict):
        return f"struct({_list_shapes(value)})"
    if isinstance(value, list):
        return f"cell({len(value)})"
    return "×".join(map(str, value.shape))


def _interpret(scope: dict[str, Any], layout: _Layout, class_axis: int | None, allow_noise: bool):
    """Turn a layout's variables into features, classes, candidates, true labels and folds."""
    X, S, y, axis = _part(scope, layout.data, layout.candidates, layout.truth, class_axis)
    cv = _stored_folds(scope, X.shape[0])
    if layout.test_data and layout.test_data in scope:
        test = (layout.test_data, layout.test_truth)
        if layout.test_truth not in scope:
            raise ValueError(f"{test[0]} is there but {test[1]}, its true labels, is not")
        if y is None:
            raise ValueError(f"{test[1]} is there but {layout.truth}, for the other rows, is not")
        X_test, S_test, y_test, _ = _part(scope, *test, test[1], class_axis, fallback=axis)
        if X_test.shape[1] != X.shape[1] or S_test.shape[1] != S.shape[1]:
            raise ValueError(
                f"the test part has {X_test.shape[1]} features and {S_test.shape[1]} classes, the "
                f"training part {X.shape[1]} and {S.shape[1]}"
            )
        n_train, n = X.shape[0], X.shape[0] + X_test.shape[0]
        stack = sp.vstack if sp.issparse(X) and sp.issparse(X_test) else _dense_stack
        X, S, y = stack([X, X_test]), sp.vstack([S, S_test]), np.concatenate([y, y_test])
        cv = [(np.arange(n_train), np.arange(n_train, n))]
    classes, S = check_candidates(S)
    if y is not None and not allow_noise:
        outside = np.flatnonzero(~np.asarray(S[np.arange(len(y)), y]).ravel())
        if len(outside):
            raise ValueError(
                f"row {outside[0]}: the true label {y[outside[0]]} is not among the candidates "
                f"({len(outside)} such row(s)); pass allow_noise=True if that is meant"
            )
    return X, classes, S, y, cv


def _dense_stack(parts: list[Any]) -> np.ndarray:
    return np.vstack([part.toarray() if sp.issparse(part) else part for part in parts])


def _class_axis(shape: tuple[int, ...], n_samples: int, name: str, fallback: int | None) -> int:
    if shape != (n_samples, n_samples):
        return 1 if shape[0] == n_samples else 0
    if fallback is None:
        raise ValueError(
            f"{name} is {n_samples} × {n_samples}, so that samples and classes cannot be told "
            "apart; pass class_axis=0 if it is classes × samples (PALM), 1 if the other way round"
        )
    return fallback


def _part(
    scope: dict[str, Any],
    data: str,
    candidates: str,
    truth: str,
    class_axis: int | None,
    fallback: int | None = None,
):
    """Orient one part's matrices: rows are samples, columns features or classes."""
    X, S = _matrix(scope, data), _matrix(scope, candidates)
    if X.shape[0] not in S.shape and X.shape[1] in S.shape:
        X = X.T  # stored as features × samples
    n_samples = X.shape[0]
    if class_axis is None:
        class_axis = _class_axis(S.shape, n_samples, candidates, fallback)
    if S.shape[1 - class_axis] != n_samples:
        raise ValueError(
            f"{data} is {_shape_of(X)} and {candidates} {_shape_of(S)}: no common number of "
            f"samples with class_axis={class_axis}"
        )
    y = None
    if truth in scope:
        Y = _matrix(scope, truth)
        if Y.shape != S.shape:
            raise ValueError(
                f"{candidates} is {_shape_of(S)} but {truth} is {_shape_of(Y)}; both need one row "
                "per sample and one column per class, or both the opposite"
            )
        y = _one_per_row(sp.csr_array(Y if class_axis else Y.T), truth)
    S = sp.csr_array(S if class_axis else S.T)
    if sp.issparse(X):
        return sp.csr_array(X, dtype=float), S, y, class_axis
    return np.ascontiguousarray(X, dtype=float), S, y, class_axis


def _matrix(scope: dict[str, Any], name: str) -> Any:
    value = scope[name]
    if not (isinstance(value, np.ndarray) or sp.issparse(value)) or len(value.shape) != 2:
        raise ValueError(f"{name} is {_shape_of(value)}; expected a matrix of numbers")
    if 0 in value.shape:
        raise ValueError(f"{name} is {_shape_of(value)}: empty")
    return value


def _one_per_row(truth: sp.csr_array, name: str) -> np.ndarray:
    truth.eliminate_zeros()
    bad = np.flatnonzero(np.diff(truth.indptr) != 1)
    if len(bad):
        count = np.diff(truth.indptr)[bad[0]]
        raise ValueError(
            f"row {bad[0]} has {count} true labels in {name} ({len(bad)} such row(s)); every "
            "sample has exactly one"
        )
    odd = np.flatnonzero(truth.data != 1)
    if len(odd):
        raise ValueError(
            f"row {odd[0]} of {name} holds {truth.data[odd[0]]!s}; only 0 and 1 are allowed"
        )
    return truth.indices.astype(np.int64)


def _stored_folds(scope: dict[str, Any], n_samples: int) -> list[tuple[np.ndarray, ...]] | None:
    for names in _FOLDS:
        if all(name in scope for name in names):
            sides = [_fold_rows(scope[name], name, n_samples) for name in names]
            if len(sides[0]) != len(sides[1]):
                raise ValueError(
                    f"{names[0]} holds {len(sides[0])} folds but {names[1]} {len(sides[1])}"
                )
            for fold, (train, test) in enumerate(zip(*sides, strict=True)):
                shared = np.intersect1d(train, test)
                if len(shared):
                    raise ValueError(f"fold {fold} has row {shared[0]} in both of its parts")
            return list(zip(*sides, strict=True))
    return None


def _fold_rows(cell: Any, name: str, n_samples: int) -> list[np.ndarray]:
    folds = cell if isinstance(cell, list) else [cell]
    rows = []
    for fold, value in enumerate(folds):
        value = value.toarray() if sp.issparse(value) else value
        if not isinstance(value, np.ndarray) or value.size == 0:
            raise ValueError(f"{name}, fold {fold}, is {_shape_of(value)}; expected row numbers")
        value = value.ravel()
        if len(value) == n_samples > 1 and np.isin(value, (0, 1)).all():
            rows.append(np.flatnonzero(value))
            continue
        if (value != np.floor(value)).any() or value.min() < 1 or value.max() > n_samples:
            bad = value[(value != np.floor(value)) | (value < 1) | (value > n_samples)][0]
            raise ValueError(
                f"{name}, fold {fold}, holds {bad!s}; expected row numbers from 1 to {n_samples}, "
                f"or a 0/1 mask of {n_samples} rows"
            )
        rows.append(value.astype(np.int64) - 1)
    return rows
