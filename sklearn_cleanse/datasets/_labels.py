"""Labels and the columns that they stand in."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..candidates._labels import check_classes, find_columns, order_labels


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
    unknown = np.flatnonzero(columns < 0)
    if len(unknown):
        label, where = labels[unknown[0]], place(int(unknown[0]))
        is_gap = name != "y" and isinstance(label, (int, float)) and label == -1
        remedy = "Pass missing=-1 if it means no answer." if is_gap else "Correct it."
        raise ValueError(f"`{name}` must hold labels of `classes`, got {label!r} {where}. {remedy}")
    return known.tolist(), columns
