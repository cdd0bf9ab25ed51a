"""Kinds of candidates that rows share: those of a bag, and those of a type in a dictionary.

A kind numbers the groups of rows, 0, 1, 2, … without a gap; one function makes their sets.
"""

from __future__ import annotations

from collections.abc import Callable
from numbers import Integral
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.metrics import pairwise_distances_argmin
from sklearn.preprocessing import StandardScaler
from sklearn.utils import check_array

from ._by_row import cut_blocks, draw_flips

__all__ = ["BY_GROUP"]

_LABELS_PER_SCENE = 3
_ROWS_PER_TYPE = 10


def _bag(
    columns: np.ndarray,
    classes: np.ndarray,
    is_clean: np.ndarray,
    partial: bool,
    rng: np.random.Generator,
    *,
    bag_size: Any,
    scenes: float,
    groups: Any,
    **_: Any,
) -> tuple[Callable, np.ndarray]:
    if groups is None:
        members = _draw_bags(columns, is_clean, partial, rng, bag_size=bag_size, scenes=scenes)
    else:
        members = _check_groups(groups, len(columns))
    return _share(columns, classes, is_clean, partial, rng, members=members, flip_proba=0.0)


def _dictionary(
    columns: np.ndarray,
    classes: np.ndarray,
    is_clean: np.ndarray,
    partial: bool,
    rng: np.random.Generator,
    *,
    flip_proba: float,
    X: Any,
    n_types: Any,
    groups: Any,
    **_: Any,
) -> tuple[Callable, np.ndarray]:
    if groups is None:
        members = _find_types(X, n_types, len(columns), rng)
    else:
        members = _check_groups(groups, len(columns))
    return _share(columns, classes, is_clean, partial, rng, members=members, flip_proba=flip_proba)


BY_GROUP = {"bag": _bag, "dictionary": _dictionary}


def _share(
    columns: np.ndarray,
    classes: np.ndarray,
    is_clean: np.ndarray,
    partial: bool,
    rng: np.random.Generator,
    *,
    members: np.ndarray,
    flip_proba: float,
) -> tuple[Callable, np.ndarray]:
    """Give each group the labels of its rows, and each other label with probability `flip_proba`.

    Return a function that looks up the sets of rows, and the mask of clean rows.
    """
    shape = (members.max() + 1, len(classes))
    own = sp.csr_array((np.ones(len(columns), dtype=np.int64), (members, columns)), shape=shape)
    is_single = np.diff(own.indptr) == 1
    sets = own.astype(bool)
    if flip_proba > 0:
        sets = _add_wrong(sets, is_single & partial, classes, flip_proba, rng)
    elif partial:
        is_clean = _prefer_single(is_clean, is_single[members], rng)
    return lambda rows, *_: sets[members[rows]].toarray(), is_clean


def _add_wrong(
    sets: sp.csr_array,
    needs_one: np.ndarray,
    classes: np.ndarray,
    flip_proba: float,
    rng: np.random.Generator,
) -> sp.csr_array:
    """Add wrong labels to the sets, at least one where ``needs_one``."""
    table = np.full((len(classes), len(classes)), float(flip_proba))
    draw = draw_flips(sets.indices[sets.indptr[:-1]], classes, table, by_class=True)
    blocks = []
    for block in cut_blocks(*sets.shape):
        S = sets[block].toarray()
        for some, at_least_one in ((~needs_one[block], False), (needs_one[block], True)):
            if some.any():
                S[some] |= draw(block[some], at_least_one, rng)
        blocks.append(sp.csr_array(S))
    return sp.vstack(blocks, format="csr")


def _prefer_single(
    is_clean: np.ndarray, is_single: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """Let the rows of groups with a single label replace as many others among the clean rows."""
    n_more = np.count_nonzero(is_single & ~is_clean)
    others = np.flatnonzero(is_clean & ~is_single)
    if n_more > len(others):
        share = np.ceil(1e4 * is_single.mean()) / 1e4  # rounded up, so that the advice holds
        raise ValueError(
            f"clean_rate cannot be met: {np.count_nonzero(is_single)} of {len(is_single)} rows are "
            f"in groups with a single label, and so clean; use clean_rate >= {share:g}"
        )
    is_clean = is_clean | is_single
    is_clean[rng.permutation(others)[:n_more]] = False
    return is_clean


def _check_groups(groups: Any, n_samples: int) -> np.ndarray:
    """Return the number of each row's group."""
    groups = np.asarray(groups)
    if groups.shape != (n_samples,):
        raise ValueError(
            f"groups has shape {groups.shape}; expected ({n_samples},), the group of each row of y"
        )
    try:
        missing = np.flatnonzero(groups != groups)  # only NaN and its like differ from themselves
        members = np.unique(groups, return_inverse=True)[1]
    except TypeError as error:
        raise ValueError(
            "groups holds ids that cannot be sorted, such as numbers beside strings or None; "
            "make them all numbers or all strings"
        ) from error
    if len(missing):
        raise ValueError(
            f"groups[{missing[0]}] is {groups[missing[0]]}; every row needs a group, "
            "if only one of its own"
        )
    return members


def _draw_bags(
    columns: np.ndarray,
    is_clean: np.ndarray,
    partial: bool,
    rng: np.random.Generator,
    *,
    bag_size: Any,
    scenes: float,
) -> np.ndarray:
    """Draw the bag of each row; a clean row has one of its own.

    If ``partial``, the bags of the other rows hold at least two labels.
    """
    low, high = _check_bag_size(bag_size)
    if partial:
        if high < 2 and not is_clean.all():
            raise ValueError(
                f"bag_size is {bag_size!r}, but with clean_rate the bags of the other rows need "
                "two labels; use 2 or more"
            )
        low, high = max(low, 2), max(high, 2)
    members = np.full(len(columns), -1)
    n_bags = 0
    lone: np.ndarray = np.array([], dtype=np.int64)
    for rows in _order_by_scene(columns, np.flatnonzero(~is_clean), scenes, rng):
        rows = np.concatenate([lone, rows])
        if partial and np.ptp(columns[rows]) == 0:
            lone = rows  # no bag of these rows has two labels: merge them with the next scene
            continue
        bags = n_bags + _cut(columns[rows], low, high, partial, rng)
        members[rows] = bags
        n_bags, lone = bags[-1] + 1, lone[:0]
    if len(lone) and n_bags == 0:
        raise ValueError(
            f"clean_rate cannot be met: the rows that are not clean ({len(lone)}) have a single "
            "label, and their bags need two; lower clean_rate"
        )
    members[lone] = n_bags - 1
    members[is_clean] = n_bags + np.arange(is_clean.sum())
    return members


def _find_types(X: Any, n_types: Any, n_samples: int, rng: np.random.Generator) -> np.ndarray:
    """Return the type of each row: the nearest of ``n_types`` rows drawn at random."""
    if X is None:
        raise ValueError(
            'X is None; kind="dictionary" needs the features to find similar rows, or their groups'
        )
    X = check_array(X, accept_sparse="csr", dtype=[np.float64, np.float32], input_name="X")
    if X.shape[0] != n_samples:
        raise ValueError(f"X has {X.shape[0]} rows but y has {n_samples}")
    if n_types is None:
        n_types = max(1, n_samples // _ROWS_PER_TYPE)
    elif not isinstance(n_types, Integral) or not 1 <= n_types <= n_samples:
        raise ValueError(
            f"n_types is {n_types!r}; expected a whole number from 1 to the number of rows, "
            f"{n_samples}"
        )
    X = StandardScaler(with_mean=False).fit_transform(X)  # distances do not depend on the mean
    entries = rng.permutation(n_samples)[:n_types]
    nearest = pairwise_distances_argmin(X, X[entries])
    return np.unique(nearest, return_inverse=True)[1]


def _check_bag_size(bag_size: Any) -> tuple[int, int]:
    pair = (bag_size, bag_size) if isinstance(bag_size, Integral) else bag_size
    try:
        low, high = pair
    except (TypeError, ValueError):
        low = high = 0
    if not (isinstance(low, Integral) and isinstance(high, Integral) and 1 <= low <= high):
        raise ValueError(
            f"bag_size is {bag_size!r}; expected a number of rows of at least 1, or the pair "
            "(smallest, largest) of such numbers"
        )
    return int(low), int(high)


def _order_by_scene(
    columns: np.ndarray, rows: np.ndarray, scenes: float, rng: np.random.Generator
) -> list[np.ndarray]:
    """Return the rows in the bags of each scene, shuffled."""
    rows = rng.permutation(rows)
    labels, label_of = np.unique(columns[rows], return_inverse=True)
    if scenes == 0 or len(labels) <= _LABELS_PER_SCENE:
        return [rows] if len(rows) else []
    n_scenes = -(-len(labels) // _LABELS_PER_SCENE)
    scene = rng.permutation(np.arange(len(labels)) % n_scenes)[label_of]
    # Rows that stray swap scenes among each other, so that scenes keep their sizes.
    strays = rng.random(len(rows)) >= scenes
    scene[strays] = rng.permutation(scene[strays])
    order = np.argsort(scene, kind="stable")
    return np.split(rows[order], np.cumsum(np.bincount(scene))[:-1])


def _cut(
    labels: np.ndarray, low: int, high: int, partial: bool, rng: np.random.Generator
) -> np.ndarray:
    """Cut a sequence of labels into bags; if ``partial``, merge bags until each has two labels."""
    sizes = rng.integers(low, high + 1, size=len(labels) // low + 1)
    bags = np.repeat(np.arange(len(sizes)), sizes)[: len(labels)]
    if not partial:
        return bags
    starts = np.flatnonzero(np.diff(bags, prepend=-1))
    smallest = np.minimum.reduceat(labels, starts)
    largest = np.maximum.reduceat(labels, starts)
    joined = np.empty(len(starts), dtype=np.int64)
    current, seen = 0, set()
    for bag, pair in enumerate(zip(smallest.tolist(), largest.tolist(), strict=True)):
        joined[bag] = current
        seen.update(pair)
        if len(seen) > 1:
            current, seen = current + 1, set()
    # A remainder with a single label goes to the last complete bag.
    return np.minimum(joined, current - 1)[bags]
