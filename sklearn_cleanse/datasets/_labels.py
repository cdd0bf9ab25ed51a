"""Labels, the columns that they stand in, and how large a matrix of candidates may be."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..candidates._labels import check_classes, find_columns, order_labels

_MAX_DENSE = 2**31  # cells


def check_output(n_samples: int, n_classes: int, sparse_output: bool, as_frame: bool) -> None:
    """Raise ValueError if candidates cannot be returned in the form asked for."""
    if sparse_output and as_frame:
        raise ValueError("`sparse_output` must be False if `as_frame` is True, got True for both.")
    if n_samples * n_classes > _MAX_DENSE and not sparse_output:
        found = f"{n_samples} rows and {n_classes} classes"
        raise ValueError(f"Dense candidates must have at most {_MAX_DENSE} cells, got {found}.")


def encode_labels(
    labels: Sequence[Any], classes: Any, name: str, place: Callable[[int], str]
) -> tuple[list[Any], np.ndarray]:
    """Return the classes, by default the sorted labels, and the position of each label among them.

    ``place`` describes where the label of a position stands, for messages.
    """
    for i, label in enumerate(labels):
        if type(label).__hash__ is None:
            raise ValueError(f"`{name}` must hold single labels, got {label!r} {place(i)}.")
    if classes is None:
        known, columns = order_labels(list(labels))
    else:
        known = check_classes(classes)
        columns = find_columns(labels, known)
    if len(known) < 2:
        raise ValueError(f"`{name}` must have two labels, got {known.tolist()}. Pass `classes`.")
    for i in np.flatnonzero(columns < 0)[:1]:
        label, where = labels[i], place(int(i))
        is_gap = name != "y" and isinstance(label, (int, float)) and label == -1
        remedy = "Pass missing=-1 if it means no answer." if is_gap else "Correct it."
        raise ValueError(f"`{name}` must hold labels of `classes`, got {label!r} {where}. {remedy}")
    return known.tolist(), columns
