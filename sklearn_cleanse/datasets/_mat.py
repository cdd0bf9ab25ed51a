"""Any partial-label ``.mat`` file: which layout it has, and what it holds.

The field stores the same three things under many names. Each layout is a record below; one
function reads them all.
"""

import math
import os
from itertools import islice
from numbers import Integral
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp
from sklearn.utils import Bunch

from ._labels import check_output
from ._mat5 import read_level5
from ._mat73 import read_level73
from ._variables import Budget

#: Names of the variables by layout: data, candidates and truth; data and truth of a test part.
_LAYOUTS = {
    "PALM": ("data", "partial_target", "target"),
    "five-fold": ("features", "p_labels", "logitlabels"),
    "online": ("X", "Y_P", "Y"),
    "pre-split": ("train_data", "train_p_target", "train_target", "test_data", "test_target"),
}
_FOLDS = (("tr", "te"), ("tr_idx", "te_idx"))  # beside any layout; the latter is the mask form

_IMPOSTORS = {
    b"<": "a web page saved as .mat. Download the raw file instead",
    b"\x80": "a Python pickle, which could run code and is never loaded",
    b"version https://git-lfs": "a Git LFS pointer. Fetch the file it points to (git lfs pull)",
    b"\x1f\x8b": "a gzip archive. Unpack it first",
    b"PK": "a zip archive. Unpack it first",
}

_Folds = list[tuple[np.ndarray, np.ndarray]]


def read_mat(
    path: str | os.PathLike[str],
    *,
    class_axis: int | None = None,
    allow_noise: bool = False,
    return_X_S_y: bool = False,
    as_frame: bool = False,
    sparse_output: bool = False,
    max_bytes: Any = 2**31,
) -> Any:
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
    max_bytes : int, default=2147483648
        The most memory that the unpacked content may take, eight bytes for each number and one
        for each cell of the candidates. It is counted before anything is allocated. A file may
        hold 20,000 variables, cells and fields.

    Returns
    -------
    dataset : :class:`~sklearn.utils.Bunch`
        With these entries, or, if ``return_X_S_y`` is True, the first three as a tuple:

        data : {ndarray, csr_array, DataFrame} of shape (n_samples, n_features)
            The features, in the file's scale; sparse where the file has them sparse.
        candidates : {ndarray, csr_array, DataFrame} of shape (n_samples, n_classes), dtype bool
            The candidates. The file's label matrix fixes the number of classes, so those that
            never occur are kept.
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
        If the file is damaged, is not a MATLAB file, has an unknown layout, or holds labels that
        contradict each other, or if its content takes more than ``max_bytes``. Nothing in the file
        is ever executed, and other files are never opened.
    OSError
        If the file does not exist or cannot be opened.

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
        raise ValueError(f"`class_axis` must be 0, 1 or None, got {class_axis!r}.")
    if not isinstance(max_bytes, Integral) or max_bytes < 1:
        raise ValueError(f"`max_bytes` must be a positive integer, got {max_bytes!r}.")
    check_output(0, 0, sparse_output, as_frame)
    path = Path(path)
    budget = Budget(int(max_bytes))
    try:
        layout, variables = _find_layout(_read_variables(path, budget))
        X, S, y, cv = _interpret(variables, layout, class_axis, allow_noise, budget)
        (n_samples, n_classes), n_features = S.shape, X.shape[1]
        budget.spend(64 * (n_features + n_classes), "the list of feature and class names")
        features = [f"x{j}" for j in range(n_features)]
        labels = [f"class_{j}" for j in range(n_classes)]
        frame = None
        if as_frame:
            if sp.issparse(X):
                budget.spend(8 * math.prod(X.shape), "the dense frame of features")
                X = X.toarray()
            X, S = pd.DataFrame(X, columns=features), pd.DataFrame(S)
            y = None if y is None else pd.Series(y, name="target")
            frame = pd.concat([X, S.set_axis(labels, axis=1), y], axis=1)
        elif sparse_output:
            S = sp.csr_array(S)
    except (ValueError, MemoryError) as error:
        raise ValueError(f"Cannot read {os.fspath(path)!r}: {error}.") from error
    if return_X_S_y:
        return X, S, y
    shape = f"{n_samples} samples, {n_features} features, {n_classes} classes"
    about = f"{path.name}: {shape}, read from a MATLAB file of {layout} layout."
    names = {"feature_names": features, "target_names": np.array(labels), "layout": layout}
    more = {"cv": cv, "filename": os.fspath(path), "DESCR": about}
    return Bunch(data=X, candidates=S, target=y, frame=frame, **names, **more)


def _read_variables(path: Path, budget: Budget) -> dict[str, Any]:
    with open(path, "rb") as file:
        head = file.read(520)
        if b"\x89HDF\r\n\x1a\n" in (head[:8], head[512:]):
            return read_level73(path, budget)
        for start, what in _IMPOSTORS.items():
            if head.lstrip().startswith(start):
                raise ValueError(f"it is {what}")
        if len(head) < 128 or head[126:128] not in (b"IM", b"MI"):
            remedy = "If MATLAB opens it, save it again with save(…, '-v7')"
            raise ValueError(f"it is not a MATLAB file of level 5 or v7.3. {remedy}")
        file.seek(0)
        return read_level5(file.read(), budget)


def _find_layout(variables: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    for scope in (variables, *(v for v in variables.values() if isinstance(v, dict))):
        for layout, (data, candidates, *_) in _LAYOUTS.items():
            if data in scope and candidates in scope:
                return layout, scope
    found = _list_shapes(variables) or "no variables"
    known = "; ".join(f"{layout}: {', '.join(names)}" for layout, names in _LAYOUTS.items())
    raise ValueError(
        f"its layout is unknown. Found: {found}. Known: {known}; or these as the fields of a "
        "struct. Rename the variables, or pass the arrays to an estimator directly"
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


def _interpret(
    scope: dict[str, Any], layout: str, axis: int | None, allow_noise: bool, budget: Budget
) -> tuple[Any, np.ndarray, np.ndarray | None, _Folds | None]:
    """Turn a layout's variables into features, candidates, true labels and folds."""
    data, candidates, truth, *test = _LAYOUTS[layout]
    X, S, y, axis = _read_part(scope, data, candidates, truth, axis, budget)
    cv = _stored_folds(scope, X.shape[0])
    if test and test[0] in scope:
        # The only candidate of a test row is its true label.
        X_test, S_test, y_test, _ = _read_part(scope, test[0], test[1], test[1], axis, budget)
        if y is None or y_test is None:
            raise ValueError(f"{truth} is missing")
        if X_test.shape[1] != X.shape[1] or S_test.shape[1] != S.shape[1]:
            raise ValueError("the training and the test part differ in features or classes")
        n_train, parts = X.shape[0], [X, X_test]
        is_sparse = any(map(sp.issparse, parts))
        X = sp.vstack([*map(sp.csr_array, parts)], "csr") if is_sparse else np.vstack(parts)
        S, y = np.vstack([S, S_test]), np.concatenate([y, y_test])
        cv = [(np.arange(n_train), np.arange(n_train, X.shape[0]))]
    for row in np.flatnonzero(~S.any(axis=1))[:1]:
        raise ValueError(f"every row must have a candidate, got none in row {row}")
    if y is not None and not allow_noise:
        outside = np.flatnonzero(~S[np.arange(len(S)), y])
        if len(outside):
            raise ValueError(
                f"the true label must be a candidate, got {y[outside[0]]} in row {outside[0]} "
                f"({len(outside)} such rows). Pass allow_noise=True if that is meant"
            )
    return X, S, y, cv


def _read_part(
    scope: dict[str, Any], data: str, candidates: str, truth: str, axis: int | None, budget: Budget
) -> tuple[Any, np.ndarray, np.ndarray | None, int]:
    """Orient one part's matrices: rows are samples, columns features or classes."""
    X, S = _matrix(scope, data), _matrix(scope, candidates)
    if X.shape[0] not in S.shape and X.shape[1] in S.shape:
        X = X.T  # stored as features × samples
    n_samples = X.shape[0]
    if axis is None and S.shape == (n_samples, n_samples):
        raise ValueError(
            f"{candidates} is {n_samples} × {n_samples}, which may be read in two ways. Pass "
            "class_axis=0 if it is classes × samples (PALM), 1 if it is samples × classes"
        )
    axis = int(S.shape[0] == n_samples) if axis is None else axis
    if S.shape[1 - axis] != n_samples:
        found = f"{data} is {_shape_of(X)} and {candidates} {_shape_of(S)}"
        raise ValueError(f"{found}: no common number of samples with class_axis={axis}")
    y = None
    if truth in scope:
        Y = _matrix(scope, truth)
        if Y.shape != S.shape:
            raise ValueError(f"{candidates} is {_shape_of(S)}, but {truth} is {_shape_of(Y)}")
        Y = _labels(Y if axis else Y.T, truth, budget)
        bad = np.flatnonzero(Y.sum(axis=1) != 1)
        if len(bad):
            found = f"{Y[bad[0]].sum()} in row {bad[0]} ({len(bad)} such rows)"
            raise ValueError(f"{truth} must hold one true label per sample, got {found}")
        y = Y.argmax(axis=1)
    S = _labels(S if axis else S.T, candidates, budget)
    X = sp.csr_array(X, dtype=float) if sp.issparse(X) else np.array(X, dtype=float, order="C")
    return X, S, y, axis


def _matrix(scope: dict[str, Any], name: str) -> Any:
    if name not in scope:
        raise ValueError(f"{name} is missing")
    value = scope[name]
    is_matrix = isinstance(value, np.ndarray) or sp.issparse(value)
    if not is_matrix or len(value.shape) != 2 or 0 in value.shape:
        raise ValueError(f"{name} must be a matrix of numbers and not empty, is {_shape_of(value)}")
    return value


def _labels(matrix: Any, name: str, budget: Budget) -> np.ndarray:
    """Return a label matrix as a dense array of bool; every value must be 0 or 1."""
    budget.spend(math.prod(matrix.shape), f"the dense matrix of {name}")
    marks = matrix.astype(bool)
    for row, column in np.transpose((matrix != marks).nonzero())[:1]:
        found = f"{matrix[row, column]!s} in row {row}, column {column}"
        raise ValueError(f"{name} must hold only 0 and 1, got {found}")
    return marks.toarray() if sp.issparse(marks) else np.ascontiguousarray(marks)


def _stored_folds(scope: dict[str, Any], n_samples: int) -> _Folds | None:
    for names in _FOLDS:
        if all(name in scope for name in names):
            train, test = (_fold_rows(scope[name], name, n_samples) for name in names)
            if len(train) != len(test):
                raise ValueError(f"{names[0]} holds {len(train)} folds, but {names[1]} {len(test)}")
            for fold, sides in enumerate(zip(train, test, strict=True)):
                if len(shared := np.intersect1d(*sides)):
                    raise ValueError(f"fold {fold} has row {shared[0]} in both of its parts")
            return list(zip(train, test, strict=True))
    return None


def _fold_rows(cell: Any, name: str, n_samples: int) -> list[np.ndarray]:
    rows = []
    for fold, value in enumerate(cell if isinstance(cell, list) else [cell]):
        if sp.issparse(value) and math.prod(value.shape) == n_samples:
            value = value.toarray()
        if not isinstance(value, np.ndarray) or value.size == 0:
            raise ValueError(f"{name} must hold row numbers, is {_shape_of(value)} in fold {fold}")
        value = value.ravel()
        if len(value) == n_samples > 1 and np.isin(value, (0, 1)).all():
            rows.append(np.flatnonzero(value))
            continue
        for wrong in value[(value != np.floor(value)) | (value < 1) | (value > n_samples)][:1]:
            raise ValueError(
                f"{name} must hold row numbers from 1 to {n_samples}, or 0/1 masks of {n_samples} "
                f"rows, got {wrong!s} in fold {fold}"
            )
        rows.append(value.astype(np.int64) - 1)
    return rows
