"""Arguments of the measures, read into candidates, columns, log-probabilities and weights."""

from collections.abc import Hashable
from typing import Any

import numpy as np
from scipy.special import logsumexp

from ..candidates import Candidates, check_candidates, check_index
from ..candidates._labels import check_classes, find_columns, label_array, order_labels, shorten
from ..candidates._matrix import to_numbers
from ..candidates._read import encode, match_columns, read_form
from ..candidates._record import from_arrow

#: Other positive weights raise: sums of their products with losses may overflow or vanish.
LEAST_WEIGHT, MOST_WEIGHT = 1e-18, 1e18


def read_labels(y: Any, classes: Any, **labels: Any) -> tuple[Candidates, list[np.ndarray]]:
    """Return the candidates, and the column of each label of the named arrays.

    Where ``y`` holds labels, those that are not among ``classes`` become further classes.
    """
    for name, values in labels.items():
        check_index(y, values, name, "y_candidates")
    arrays = {name: _read_array(name, values) for name, values in labels.items()}
    if isinstance(y, Candidates):
        candidates = check_candidates(y, classes=classes)
    else:
        given = read_form(y)
        if given.matrix is None:
            named = [arrays[name] for name in arrays if name != "truth"]
            classes = _extend(classes, given.labels, *named)
        # Where all labels are the same, there is still a score.
        candidates = encode(given, classes, min_classes=1 if given.matrix is None else 2)
    return candidates, [_columns(name, array, candidates) for name, array in arrays.items()]


def _read_array(name: str, values: Any) -> np.ndarray:
    """Return an array of one label per sample."""
    array = np.asarray(values) if hasattr(values, "__array__") else None
    if array is not None and array.shape[1:] == (1,):
        array = array.ravel()
    rows = values if array is None else array.tolist()
    valid = isinstance(rows, (list, tuple)) and all(isinstance(row, Hashable) for row in rows)
    if not valid or isinstance(values, np.ma.MaskedArray):
        raise ValueError(f"`{name}` must be one label per sample, got {values!r:.100}.")
    return label_array(rows) if array is None else array


def _extend(classes: Any, *labels: Any) -> np.ndarray:
    """Append new labels to the classes; without classes, sort those that occur."""
    known = [] if classes is None else check_classes(classes).tolist()
    unknown = set().union(*(label_array(values).tolist() for values in labels)).difference(known)
    try:
        return label_array([*known, *order_labels(list(unknown))[0].tolist()])
    except ValueError as error:
        if not known:
            raise
        raise ValueError(
            f"Labels must be of the type of the classes, {shorten(check_classes(classes))}, "
            f"got {min(unknown, key=repr)!r}. Pass labels as `fit` got them."
        ) from error


def _columns(name: str, labels: np.ndarray, candidates: Candidates) -> np.ndarray:
    if len(labels) != len(candidates):
        raise ValueError(
            f"`{name}` must have a label per sample, got {len(labels)} labels for "
            f"{len(candidates)} rows of candidates."
        )
    columns = find_columns(labels, candidates.classes)
    for row in np.flatnonzero(columns < 0)[:1]:
        raise ValueError(
            f"`{name}` must hold labels among the {len(candidates.classes)} classes, "
            f"{shorten(candidates.classes)}, got {labels.tolist()[row]!r} in row {row}. Pass the "
            "labels themselves, and `classes=` if the columns stand for other labels."
        )
    return columns


def read_proba(
    y: Any, y_proba: Any, log: bool, classes: Any, **labels: Any
) -> tuple[Candidates, np.ndarray, list[np.ndarray]]:
    """Return candidates, normalized log-probabilities and columns of labels, or name the row."""
    check_index(y, y_proba, "y_proba", "y_candidates")
    y_proba = from_arrow(y_proba)
    values = to_numbers(y_proba).astype(float)
    if values.ndim != 2 or not values.size:
        raise ValueError(
            f"`y_proba` must be an array of shape (n_samples, n_classes), got {y_proba!r:.100}."
        )
    if log:
        valid = np.isfinite(values.max(axis=1))  # NaN if any is
        rule = "log-probabilities that are not NaN, and not -inf for every class"
    else:
        total = values.sum(axis=1)
        valid = (values >= 0).all(axis=1) & np.isclose(total, 1.0, rtol=0.0, atol=1e-3)
        rule = "probabilities that sum to 1 (log=True takes logarithms or logits)"
    for row in np.flatnonzero(~valid)[:1]:
        found = f"{np.asarray(y_proba, dtype=object)[row]!s:.200}"
        raise ValueError(f"`y_proba` must hold {rule}, got {found} in row {row}.")
    if not log:
        values = np.log(values, out=np.full_like(values, -np.inf), where=values > 0)
    log_proba = values - logsumexp(values, axis=1, keepdims=True)
    candidates, columns = read_labels(y, classes, **labels)
    n_samples, n_classes = candidates.mask.shape
    n_known = n_classes if classes is None else len(classes)
    if log_proba.shape != (n_samples, n_known):
        raise ValueError(
            f"`y_proba` must have shape {(n_samples, n_known)}, as there are {n_samples} samples "
            f"and {n_known} classes, got {log_proba.shape}. Pass `classes=` if some class is never "
            "a candidate here."
        )
    names, known = [*getattr(y_proba, "columns", ())], candidates.classes[:n_known]
    if names and (names != [*range(n_known)] or not {*known.tolist()}.isdisjoint(names)):
        match_columns(check_classes(names, "Columns of `y_proba`"), n_known, known)
    # Labels that the classifier was not trained on have probability 0.
    pad = ((0, 0), (0, n_classes - n_known))
    return candidates, np.pad(log_proba, pad, constant_values=-np.inf), columns


def check_weight(y: Any, sample_weight: Any, n_samples: int) -> np.ndarray:
    """Return sample weights, all ones if None, or raise an error that names the row."""
    if sample_weight is None:
        return np.ones(n_samples)
    check_index(y, sample_weight, "sample_weight", "y_candidates")
    weight = to_numbers(sample_weight).astype(float)
    weight = weight[:, 0] if weight.shape[1:] == (1,) else weight
    if weight.shape != (n_samples,):
        raise ValueError(
            f"`sample_weight` must be one number for each of {n_samples} samples, got "
            f"{sample_weight!r:.80}. Pass numbers."
        )
    valid = (weight == 0) | ((weight >= LEAST_WEIGHT) & (weight <= MOST_WEIGHT))
    for row in np.flatnonzero(~valid)[:1]:
        is_large = MOST_WEIGHT < weight[row] < np.inf
        remedy = "Divide all by their mean." if is_large else "Write 0 to leave the row out."
        raise ValueError(
            f"`sample_weight` must be 0 or between {LEAST_WEIGHT} and {MOST_WEIGHT}, got "
            f"{np.ravel(sample_weight).tolist()[row]!r:.80} in row {row}. {remedy}"
        )
    if not weight.any():
        raise ValueError("`sample_weight` must not be zero in every row. Pass a positive weight.")
    return weight
