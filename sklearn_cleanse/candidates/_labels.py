"""Labels and the columns they stand in: the one look-up of the package."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from itertools import pairwise
from typing import Any, NoReturn

import numpy as np

_REMEDY = "use strings throughout or integers (of 64 bits) throughout"


def order_labels(
    labels: np.ndarray | list[Any], counts: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Return the labels that occur, sorted, and the position of each among them.

    ``counts`` says how many of the labels each row has, so that a refusal can name the row.
    """
    if isinstance(labels, np.ndarray) and labels.dtype != object:
        return np.unique(labels, return_inverse=True)
    try:
        ordered = sorted(set(labels))
        # Sorting does not notice if only some labels compare, as sets of labels do.
        unordered = next(((a, b) for a, b in pairwise(ordered) if not a < b), None)
    except TypeError:
        unordered = labels[0], next((b for b in labels if not _compare(labels[0], b)), labels[-1])
    if unordered:
        _refuse_order(*unordered, labels, counts)
    classes = label_array(ordered, labels, counts)
    if isinstance(labels, np.ndarray) and classes.dtype.kind == "U":
        classes = classes.astype(object)  # predictions in the type of the labels
    return classes, find_columns(labels, classes)


def join_classes(parts: Sequence[np.ndarray]) -> np.ndarray:
    """Return the labels of several arrays of classes, sorted, each once."""
    kinds = {part.dtype.kind for part in parts}
    if len(kinds) == 1 and "O" not in kinds:
        return np.unique(np.concatenate(parts))
    labels: Any = [label for part in parts for label in part.tolist()]
    if "O" in kinds:
        array = np.empty(len(labels), dtype=object)
        array[:] = labels
        labels = array
    return order_labels(labels)[0]


def find_columns(labels: np.ndarray | Iterable[Any], classes: np.ndarray) -> np.ndarray:
    """Return the position of each label among the classes, -1 where it is none of them."""
    position = {label: column for column, label in enumerate(classes.tolist())}
    values = labels.tolist() if isinstance(labels, np.ndarray) else labels
    return np.array([position.get(label, -1) for label in values], dtype=np.int64)


def label_array(
    labels: Sequence[Any], found_in: Iterable[Any] = (), counts: np.ndarray | None = None
) -> np.ndarray:
    """Return a 1-D array that holds the labels as they are, or refuse those that it would change.

    ``found_in`` and ``counts`` are all labels and their number in each row, to name one.
    """
    array = np.asarray(labels) if not any(isinstance(b, tuple) for b in labels) else None
    if array is None or array.ndim != 1:  # numpy would make a pair two labels
        array = np.empty(len(labels), dtype=object)
        array[:] = labels
    if array.dtype == object:
        return array
    for held, label in zip(array.tolist(), map(_plain, labels), strict=True):
        if held == label or held != held or array.dtype.kind in "mM":
            continue
        if array.dtype.kind in "US" and not isinstance(label, type(held)):
            text = next(other for other in labels if isinstance(other, type(held)))
            _refuse_order(text, label, found_in, counts)
        raise ValueError(
            f"{_describe(label, found_in, counts)} would become {held!r} in an array with the "
            "other labels, and perhaps equal another; "
            + ("remove the NUL at its end" if isinstance(label, (str, bytes)) else _REMEDY)
        )
    return array


def check_classes(classes: Any) -> np.ndarray:
    """Return the classes that a caller names, as an array of distinct labels."""
    if isinstance(classes, (str, bytes, Mapping, Set)) or not isinstance(classes, Iterable):
        raise ValueError(f"classes is {classes!r}; expected a list of labels in a fixed order")
    array = np.asarray(classes) if hasattr(classes, "__array__") else label_array(list(classes))
    if array.ndim != 1:
        raise ValueError(f"classes has shape {array.shape}; expected one label per class, 1-D")
    seen: set[Any] = set()
    for label in array.tolist():
        if label in seen:
            raise ValueError(f"classes holds {label!r} twice; name each class once")
        seen.add(label)
    return array


def is_missing(value: Any) -> bool:
    """Return whether a label is None, NaN or what pandas has for them."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(value, float) and value != value


def shorten(classes: np.ndarray) -> str:
    """Return the first classes, for a message."""
    shown = ", ".join(repr(label) for label in classes[:8].tolist())
    return shown + (", …" if len(classes) > 8 else "")


def _compare(a: Any, b: Any) -> bool:
    try:
        return isinstance(a < b, (bool, np.bool_))
    except TypeError:
        return False


def _refuse_order(a: Any, b: Any, found_in: Iterable[Any], counts: np.ndarray | None) -> NoReturn:
    kinds = "labels" if type(a) is type(b) else "labels of different types"
    one, other = (_describe(label, found_in, counts) for label in (a, b))
    raise ValueError(f"{kinds} cannot be ordered: {one} and {other}; {_REMEDY}")


def _describe(label: Any, found_in: Iterable[Any], counts: np.ndarray | None) -> str:
    label = _plain(label)
    text = f"the label {label!r} ({type(label).__name__})"
    if counts is None:
        return text
    at = next(i for i, other in enumerate(found_in) if other == label)
    return f"{text} of row {np.searchsorted(np.cumsum(counts), at, side='right')}"


def _plain(label: Any) -> Any:
    # numpy's own scalars compare by rounding: uint64(2**63 + 1) equals float(2**63)
    return label.item() if isinstance(label, np.generic) else label
