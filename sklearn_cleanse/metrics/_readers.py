"""What measures are given, read into candidates, columns and log-probabilities."""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Iterable, Mapping, Set
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.special import logsumexp
from sklearn.utils import column_or_1d

from ..candidates._labels import check_classes, find_columns, label_array, order_labels, shorten
from ..candidates._matrix import check_sparse_format
from ..candidates._read import encode, read_form


def read_labels(
    y: Any, classes: Any, *, n_samples: int | None = None, **labels: Any
) -> tuple[np.ndarray, sp.csr_array, list[np.ndarray]]:
    """Return classes, candidates, and the column of each of the named arrays of labels."""
    arrays = {name: _label_column(name, values) for name, values in labels.items()}
    given = read_form(y)
    if given.matrix is None:  # the labels themselves: all that are named are classes, save by truth
        predicted = [values for name, values in arrays.items() if name != "truth"]
        classes = _extend(classes, given.labels, *predicted)
    # Where all labels are the same there is nothing to learn, but nothing wrong with scoring.
    least = 1 if given.matrix is None else 2
    classes, candidates = encode(given, classes, n_samples=n_samples, min_classes=least)
    columns = []
    for name, values in arrays.items():
        if len(values) != candidates.shape[0]:
            raise ValueError(
                f"{name} has {len(values)} rows, but there are candidates for "
                f"{candidates.shape[0]}; pass one label per sample"
            )
        at = find_columns(values, classes)
        if (at < 0).any():
            row = int(np.flatnonzero(at < 0)[0])
            raise ValueError(
                f"row {row} of {name} is {values.tolist()[row]!r}, which is none of the "
                f"{len(classes)} classes: {shorten(classes)}; write the same labels as these, or "
                "pass classes= to say which label each column stands for"
            )
        columns.append(at)
    return classes, candidates, columns


def report_unknown(y: Any, classes: np.ndarray) -> None:
    """Warn of rows none of whose labels a classifier knows; refuse if there are no others."""
    given = read_form(y)
    labels, counts = given.labels, given.counts
    if labels is None or counts is None:  # a matrix, whose columns are checked elsewhere
        return
    row_of = np.repeat(np.arange(len(counts)), counts)
    known = np.bincount(row_of, find_columns(labels, classes) >= 0, minlength=len(counts))
    rows = np.flatnonzero((known == 0) & (counts > 0))
    if not len(rows):
        return
    label = labels[int(np.flatnonzero(row_of == rows[0])[0])]
    found = (
        f"{len(rows)} of {len(known)} rows have no label that was there in fit, such as row "
        f"{rows[0]} with {getattr(label, 'item', lambda: label)()!r}; the classes are "
        f"{shorten(classes)}"
    )
    if len(rows) == len(known):
        raise ValueError(f"{found}. Write labels as in fit, in the same type")
    warnings.warn(f"{found}. Their predictions count as wrong", stacklevel=3)


def _label_column(name: str, values: Any) -> np.ndarray:
    """Return one label per sample, as they are."""
    if not hasattr(values, "__array__"):
        if isinstance(values, (str, bytes, Mapping, Set)) or not isinstance(values, Iterable):
            raise ValueError(f"{name} is {values!r}; expected a list of labels, one per sample")
        rows = list(values)
        values = rows if any(isinstance(row, list) for row in rows) else label_array(rows)
    array = np.asarray(values)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array.ravel()
    if array.ndim != 1:
        raise ValueError(f"{name} has shape {array.shape}; expected one label per sample")
    for row, label in enumerate(array if array.dtype == object else ()):
        if not isinstance(label, Hashable):
            raise ValueError(f"row {row} of {name} is {label!r}; expected a single label")
    return array


def _extend(classes: Any, *labels: Any) -> np.ndarray:
    """Append to the classes the labels that are new; without classes, sort those that occur."""
    known = [] if classes is None else check_classes(classes).tolist()
    named = (values.tolist() if isinstance(values, np.ndarray) else values for values in labels)
    new, _ = order_labels(list(set().union(*named).difference(known)))
    return label_array([*known, *new.tolist()])


def read_proba(
    y: Any, y_proba: Any, log: bool, classes: Any, **labels: Any
) -> tuple[sp.csr_array, np.ndarray, list[np.ndarray]]:
    """Return candidates, normalised log-probabilities and columns of labels."""
    log_proba = log_probabilities(y_proba, log)
    n_known = None if classes is None else len(classes)
    _, candidates, columns = read_labels(y, classes, **labels)
    n_samples, n_classes = candidates.shape
    if n_known is None:
        n_known = n_classes
    if log_proba.shape != (n_samples, n_known):
        raise ValueError(
            f"y_proba has shape {log_proba.shape}, but there are {n_samples} samples and {n_known} "
            "classes; pass classes= if some class is no candidate here"
        )
    if n_classes > n_known:  # labels that the classifier never saw have probability 0
        unseen = np.full((n_samples, n_classes - n_known), -np.inf)
        log_proba = np.hstack([log_proba, unseen])
    return candidates, log_proba, columns


def log_probabilities(y_proba: Any, log: bool) -> np.ndarray:
    """Return normalised log-probabilities, or raise an error that names the row."""
    if sp.issparse(y_proba):
        check_sparse_format(y_proba, "y_proba")
        y_proba = y_proba.toarray()
    values = np.asarray(y_proba, dtype=float)
    if values.ndim != 2:
        raise ValueError(f"y_proba has shape {values.shape}; expected (n_samples, n_classes)")
    if log:
        bad = np.isnan(values).any(axis=1) | ~np.isfinite(values.max(axis=1))
        remedy = "log-probabilities may be -inf but not NaN, and not -inf throughout"
    else:
        total = values.sum(axis=1)
        bad = ~((values >= 0).all(axis=1) & np.isclose(total, 1.0, rtol=0.0, atol=1e-3))
        remedy = "probabilities are at least 0 and sum to 1; pass log=True for logarithms or logits"
    if bad.any():
        row = int(np.flatnonzero(bad)[0])
        raise ValueError(f"row {row} of y_proba is {values[row]}: {remedy}")
    if not log:
        with np.errstate(divide="ignore"):
            values = np.log(values)
    return values - logsumexp(values, axis=1, keepdims=True)


def check_weight(sample_weight: Any, n_samples: int) -> np.ndarray:
    """Return the weights, all ones if None, or raise an error that names the row."""
    if sample_weight is None:
        return np.ones(n_samples)
    weight = column_or_1d(sample_weight).astype(float)
    if len(weight) != n_samples:
        raise ValueError(
            f"sample_weight has {len(weight)} rows, but there are {n_samples} samples; pass one "
            "weight per sample"
        )
    bad = ~(np.isfinite(weight) & (weight >= 0))
    if bad.any():
        row = int(np.flatnonzero(bad)[0])
        raise ValueError(
            f"row {row} of sample_weight is {weight[row]}; weights are finite and at least 0"
        )
    if not weight.any():
        raise ValueError("sample_weight is 0 throughout; some sample must count")
    return weight
