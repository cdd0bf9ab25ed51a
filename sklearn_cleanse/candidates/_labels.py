"""Labels and the columns that stand for them."""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from ._memory import check_cells

_REMEDY = "Use strings (without NUL at their end) throughout, or integers (of 64 bits) throughout."


def order_labels(labels: Any, counts: Any = None) -> tuple[np.ndarray, np.ndarray]:
    """Return the distinct labels, sorted, and the position of each label among them.

    ``counts`` holds the number of labels of each row, so that an error can name the row.
    """
    if isinstance(labels, np.ndarray) and labels.dtype != object:
        return np.unique(labels, return_inverse=True)
    try:
        ordered = sorted(set(labels))
        # Sorting does not notice if only some labels compare, as sets of labels do.
        pair = next(((a, b) for a, b in pairwise(ordered) if not a < b), None)
    except TypeError:
        pair = labels[0], next((b for b in labels if type(b) is not type(labels[0])), labels[-1])
    if pair:
        found = " and ".join(_describe(label, labels, counts) for label in pair)
        raise ValueError(f"Labels must be comparable with each other, got {found}. {_REMEDY}")
    classes = label_array(ordered, labels, counts)
    if isinstance(labels, np.ndarray) and classes.dtype.kind == "U":
        classes = classes.astype(object)  # predictions in the type of the labels
    return classes, find_columns(labels, classes)


def mark_labels(labels: Any, counts: Any, classes: Any) -> tuple[np.ndarray, np.ndarray]:
    """Turn labels, so many per row, into classes and a mask."""
    if classes is None:
        classes, columns = order_labels(labels, counts)
    else:
        columns = find_columns(labels, classes)
        for i in np.flatnonzero(columns < 0)[:1]:
            label, row = plain(labels[i]), find_row(i, counts)
            raise ValueError(
                f"Labels must be among the classes, {shorten(classes)}, got {label!r} in row "
                f"{row}. Leave it out, or add it to the classes: fit again, or extend `classes`."
            )
    check_cells(len(counts), len(classes))
    mask = np.zeros((len(counts), len(classes)), dtype=bool)
    mask[np.repeat(np.arange(len(counts)), counts), columns] = True
    return classes, mask


def find_columns(labels: np.ndarray | Iterable[Any], classes: np.ndarray) -> np.ndarray:
    """Return the position of each label among the classes, -1 where it is not one of them."""
    position = {label: column for column, label in enumerate(classes.tolist())}
    values = labels.tolist() if isinstance(labels, np.ndarray) else map(plain, labels)
    return np.array([position.get(label, -1) for label in values], dtype=np.int64)


def label_array(labels: Any, found_in: Any = (), counts: Any = None) -> np.ndarray:
    """Return a 1-D array that holds the labels as they are, or raise where it would change one.

    ``found_in`` and ``counts`` are all labels and their number in each row, to name the row.
    """
    array = np.asarray(labels) if not any(isinstance(b, tuple) for b in labels) else None
    if array is None or array.ndim != 1:  # numpy would make two labels of a pair
        array = np.empty(len(labels), dtype=object)
        array[:] = labels
    if array.dtype.kind not in "OmM":
        for held, label in zip(array.tolist(), map(plain, labels), strict=True):
            if held != label and held == held:
                raise ValueError(
                    f"Labels must fit into one array, got {_describe(label, found_in, counts)}, "
                    f"which would become {held!r}. {_REMEDY}"
                )
    return array


def check_classes(classes: Any, name: str = "`classes`") -> np.ndarray:
    """Return class labels as an array of distinct labels, or raise."""
    is_list = isinstance(classes, Sequence) and not isinstance(classes, (str, bytes))
    array = label_array(classes) if is_list else np.asarray(classes)
    if array.ndim != 1 or getattr(classes, "nlevels", 1) > 1:
        raise ValueError(f"{name} must be a 1-D list, one label per class, got {classes!r:.200}.")
    seen: set[Any] = set()
    for column, label in enumerate(array.tolist()):
        if is_missing(label) or label in seen:
            raise ValueError(
                f"{name} must be distinct and not missing, got {label!r} in column {column}."
            )
        seen.add(label)
    return array


def is_missing(value: Any) -> bool:
    """Return whether a label is None, NaN or what pandas has for them."""
    is_nan = isinstance(value, float) and value != value
    return is_nan or type(value).__name__ in ("NoneType", "NAType", "NaTType")


def shorten(classes: np.ndarray) -> str:
    """Return the first classes, for a message."""
    return ", ".join(map(repr, classes[:8].tolist())) + (", …" if len(classes) > 8 else "")


def plain(label: Any) -> Any:
    """Return a label as Python's own: uint64(2**63 + 1) would equal float(2**63)."""
    return label.item() if isinstance(label, np.generic) else label


def _describe(label: Any, found_in: Iterable[Any], counts: np.ndarray | None) -> str:
    row = "" if counts is None else f" in row {find_row(list(found_in).index(label), counts)}"
    return f"{plain(label)!r} ({type(plain(label)).__name__}){row}"


def find_row(position: int, counts: np.ndarray) -> int:
    """Return the row of the label at a position, if each row has so many labels."""
    return int(np.searchsorted(np.cumsum(counts), position, side="right"))
