"""Labels and the columns they stand in: the one look-up of the package."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np


def order_labels(labels: np.ndarray | list[Any]) -> tuple[np.ndarray, np.ndarray]:
    """Return the labels that occur, sorted, and the position of each among them."""
    if isinstance(labels, np.ndarray) and labels.dtype != object:
        return np.unique(labels, return_inverse=True)
    try:
        ordered = sorted(set(labels))
    except TypeError:
        raise ValueError(_mixed(labels)) from None
    classes = label_array(ordered)
    if isinstance(labels, np.ndarray) and classes.dtype.kind == "U":
        classes = classes.astype(object)  # predictions in the type of the labels
    return classes, find_columns(labels, classes)


def find_columns(labels: np.ndarray | Iterable[Any], classes: np.ndarray) -> np.ndarray:
    """Return the position of each label among the classes, -1 where it is none of them."""
    position = {label: column for column, label in enumerate(classes.tolist())}
    values = labels.tolist() if isinstance(labels, np.ndarray) else labels
    return np.array([position.get(label, -1) for label in values], dtype=np.int64)


def label_array(labels: Sequence[Any]) -> np.ndarray:
    """Return a 1-D array that holds the labels as they are."""
    if any(isinstance(label, tuple) for label in labels):  # numpy would make a pair two labels
        array = np.empty(len(labels), dtype=object)
        array[:] = labels
        return array
    strings = sum(isinstance(label, str) for label in labels)
    if 0 < strings < len(labels):  # numpy would quietly turn 1 into "1"
        raise ValueError(_mixed(labels))
    return np.asarray(labels)


def is_missing(value: Any) -> bool:
    """Return whether a label is None, NaN or what pandas has for them."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(value, float) and value != value


def shorten(classes: np.ndarray) -> str:
    """Return the first classes, for a message."""
    shown = ", ".join(repr(label) for label in classes[:8].tolist())
    return shown + (", …" if len(classes) > 8 else "")


def _mixed(labels: Iterable[Any]) -> str:
    kinds = sorted({type(label).__name__ for label in labels})
    return (
        f"labels of different types cannot be ordered: found {', '.join(kinds)}; use strings "
        "throughout or integers throughout"
    )
