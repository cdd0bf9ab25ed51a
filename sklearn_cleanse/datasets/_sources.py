"""Sources of wrong candidates.

Sources in `BY_ROW` draw each row by itself. Each but "uniform" is a table of probabilities with
which wrong labels join a sample's set; one sampler serves them all.

Those in `BY_GROUP`, bags and the types of a lexicon, number the groups of rows that share a set, 0,
1, 2, … without a gap; one function makes the sets.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.stats import binom
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import pairwise_distances_argmin
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import check_array

from ..candidates._labels import find_columns

_BLOCK = 1 << 22  # entries drawn at once, so that a million rows need no gigabytes
_LABELS_PER_SCENE = 3
_ROWS_PER_TYPE = 10

#: Rows, and whether a wrong label must join, to their sets.
Draw = Callable[[np.ndarray, bool], np.ndarray]

Rng = np.random.Generator


@dataclass(frozen=True)
class Request:
    """What a call of `make_candidates` asks for; ``partial``: with a clean rate."""

    columns: np.ndarray
    classes: list[Any]
    is_clean: np.ndarray
    partial: bool
    rng: Rng
    flip_proba: float = 0.1
    confusion: Any = None
    estimator: Any = None
    X: Any = None
    bag_size: Any = (1, 5)
    scenes: float = 0.0
    n_types: Any = None
    groups: Any = None


def cut_blocks(n_samples: int, n_classes: int) -> list[np.ndarray]:
    """Cut the rows into blocks that are drawn at once."""
    step = max(1, _BLOCK // n_classes)
    return [np.arange(i, min(i + step, n_samples)) for i in range(0, n_samples, step)]


def _uniform(request: Request) -> Draw:
    n_classes, rng = len(request.classes), request.rng
    sizes = np.arange(1, n_classes)
    # C(m, j) / (2^m − 2) is Binomial(m, 1/2) given that it is neither 0 nor m.
    proba = binom.pmf(sizes, n_classes, 0.5)

    def draw(rows: np.ndarray, partial: bool) -> np.ndarray:
        weights = np.where(sizes > 1, proba, 0.0) if partial else proba
        if weights.sum() == 0:
            raise ValueError('`source` must not be "uniform" with two classes and a `clean_rate`.')
        n_wrong = rng.choice(sizes, size=len(rows), p=weights / weights.sum()) - 1
        scores = rng.random((len(rows), n_classes))
        scores[np.arange(len(rows)), request.columns[rows]] = -1.0  # the truth comes first
        last = np.sort(scores, axis=1)[np.arange(len(rows)), n_wrong]
        return np.asarray(scores <= last[:, None])

    return draw


def draw_flips(request: Request, table: np.ndarray, by_class: bool = True) -> Draw:
    """Let each wrong label join by its own probability, found by class or by sample."""
    columns = request.columns

    def draw(rows: np.ndarray, partial: bool) -> np.ndarray:
        proba = table[columns[rows] if by_class else rows]
        proba[np.arange(len(rows)), columns[rows]] = 0.0
        joins: np.ndarray = request.rng.random(proba.shape) < proba
        if not partial:
            return joins
        # Given that one joins at least: draw which is the first to join, exclude those before it,
        # and leave those after it as they are. This is exact, and needs no rejected draws.
        reached = 1 - np.cumprod(1 - proba, axis=1)
        for row in rows[reached[:, -1] <= 0][:1]:
            raise ValueError(
                "`clean_rate` needs wrong labels of positive probability, got 0 in row "
                f"{row}. Raise `flip_proba` or change `confusion`."
            )
        level = request.rng.random(len(rows)) * reached[:, -1]
        level = np.minimum(level, np.nextafter(reached[:, -1], 0))  # against rounding up
        first = (reached <= level[:, None]).sum(axis=1)
        order = np.arange(proba.shape[1])
        return np.asarray((joins & (order > first[:, None])) | (order == first[:, None]))

    return draw


def _flip(request: Request) -> Draw:
    return draw_flips(request, np.full((len(request.classes),) * 2, float(request.flip_proba)))


def _class_dependent(request: Request) -> Draw:
    m = len(request.classes)
    table = np.roll(np.eye(m), 1, axis=1) * request.flip_proba
    if request.confusion is not None:
        table = np.asarray(request.confusion, dtype=float)
        if table.shape != (m, m):
            raise ValueError(f"`confusion` must have shape ({m}, {m}), got {table.shape}.")
        wrong = ~((table >= 0) & (table <= 1)) & ~np.eye(m, dtype=bool)
        for row, column in np.argwhere(wrong)[:1]:
            found = f"{table[row, column]} in row {row}, column {column}"
            raise ValueError(f"`confusion` must hold probabilities, got {found}.")
    return draw_flips(request, table)


def _instance_dependent(request: Request) -> Draw:
    columns, classes, estimator = request.columns, request.classes, request.estimator
    if estimator is None:
        estimator = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
        estimator.fit(request.X, np.asarray(classes)[columns])
    if not hasattr(estimator, "predict_proba") or not hasattr(estimator, "classes_"):
        raise ValueError(f"`estimator` must be a fitted probabilistic classifier, got {estimator}.")
    known = find_columns(estimator.classes_, np.asarray(classes))
    if (known < 0).any():
        odd = estimator.classes_.tolist()[known.argmin()]
        raise ValueError(f"`classes` must hold those of `estimator`, got one without {odd!r}.")
    table = np.zeros((len(columns), len(classes)))
    table[:, known] = estimator.predict_proba(request.X)
    table[np.arange(len(columns)), columns] = 0.0
    # A classifier that is sure of the truth still has its least unlikely mistakes.
    mean = table.sum(axis=1, keepdims=True) / (len(classes) - 1)
    table = np.divide(table, mean, out=np.ones_like(table), where=mean > 0)
    return draw_flips(request, np.minimum(request.flip_proba * table, 1.0), by_class=False)


BY_ROW = {
    "uniform": _uniform,
    "flip": _flip,
    "class-dependent": _class_dependent,
    "instance-dependent": _instance_dependent,
}


def share_sets(source: str, request: Request) -> tuple[Draw, np.ndarray]:
    """Give each group the labels of its rows; in a lexicon, wrong labels join as by "flip".

    Return a function that looks up the sets of rows, and the mask of clean rows.
    """
    members = BY_GROUP[source](request) if request.groups is None else _check_groups(request)
    shape = (members.max() + 1, len(request.classes))
    own = sp.csr_array((np.ones_like(members), (members, request.columns)), shape=shape)
    is_single = np.diff(own.indptr) == 1
    sets, is_clean = own.astype(bool), request.is_clean
    if source == "lexicon" and request.flip_proba > 0:
        sets = _add_wrong(sets, is_single & request.partial, request)
    elif request.partial:
        is_clean = _prefer_single(is_clean, is_single[members], request.rng)
    return lambda rows, _: sets[members[rows]].toarray(), is_clean


def _add_wrong(sets: sp.csr_array, needs_one: np.ndarray, request: Request) -> sp.csr_array:
    """Add wrong labels to the sets, at least one where ``needs_one``."""
    draw = _flip(replace(request, columns=sets.indices[sets.indptr[:-1]]))
    blocks = []
    for block in cut_blocks(*sets.shape):
        S = sets[block].toarray()
        for some, at_least_one in ((~needs_one[block], False), (needs_one[block], True)):
            S[some] |= draw(block[some], at_least_one)
        blocks.append(sp.csr_array(S))
    return sp.vstack(blocks, format="csr")


def _prefer_single(is_clean: np.ndarray, is_single: np.ndarray, rng: Rng) -> np.ndarray:
    """Let the rows of groups with a single label replace as many others among the clean rows."""
    n_more = np.count_nonzero(is_single & ~is_clean)
    others = np.flatnonzero(is_clean & ~is_single)
    if n_more > len(others):
        least = np.ceil(1e4 * is_single.mean()) / 1e4  # rounded up, so that the advice holds
        raise ValueError(
            f"`clean_rate` must be at least {least:g}, as {np.count_nonzero(is_single)} of "
            f"{len(is_single)} rows are in groups with a single label."
        )
    is_clean = is_clean | is_single
    is_clean[rng.permutation(others)[:n_more]] = False
    return is_clean


def _check_groups(request: Request) -> np.ndarray:
    """Return the number of each row's group."""
    groups, n_samples = np.asarray(request.groups), len(request.columns)
    if groups.shape != (n_samples,):
        raise ValueError(f"`groups` must have shape ({n_samples},), got {groups.shape}.")
    try:
        missing = np.flatnonzero(groups != groups)  # only NaN and its like differ from themselves
        members = np.unique(groups, return_inverse=True)[1]
    except TypeError as error:
        raise ValueError("`groups` must be all numbers or all strings, got both.") from error
    if len(missing):
        raise ValueError(f"`groups` must hold a group for every row, got NaN in row {missing[0]}.")
    return members


def draw_bags(request: Request) -> np.ndarray:
    """Draw the bag of each row; a clean row has one of its own.

    With a clean rate, the bags of the other rows hold at least two labels.
    """
    columns, is_clean, partial = request.columns, request.is_clean, request.partial
    sizes = np.ravel(request.bag_size)
    if sizes.dtype.kind not in "iu" or len(sizes) not in (1, 2) or not 1 <= sizes[0] <= sizes[-1]:
        raise ValueError(f"`bag_size` must be a positive integer or two, got {request.bag_size!r}.")
    low, high = int(sizes[0]), int(sizes[-1])
    if partial:
        if high < 2 and not is_clean.all():
            raise ValueError("`bag_size` must be at least 2 with a `clean_rate`, got 1.")
        low, high = max(low, 2), max(high, 2)
    members = np.full(len(columns), -1)
    n_bags = 0
    lone: np.ndarray = np.array([], dtype=np.int64)
    for scene in _order_by_scene(request):
        rows = np.concatenate([lone, scene])
        if partial and np.ptp(columns[rows]) == 0:
            lone = rows  # bags of these rows cannot have two labels: merge with the next scene
            continue
        bags = n_bags + _cut(columns[rows], low, high, partial, request.rng)
        members[rows] = bags
        n_bags, lone = bags[-1] + 1, lone[:0]
    if len(lone) and n_bags == 0:
        raise ValueError(f"`clean_rate` must leave rows of two labels, got {len(lone)} of one.")
    members[lone] = n_bags - 1
    members[is_clean] = n_bags + np.arange(is_clean.sum())
    return members


def find_types(request: Request) -> np.ndarray:
    """Return the type of each row: the nearest of ``n_types`` rows drawn at random."""
    n_samples, n_types = len(request.columns), request.n_types
    X = check_array(request.X, accept_sparse="csr", dtype=[np.float64, np.float32], input_name="X")
    if n_types is None:
        n_types = max(1, n_samples // _ROWS_PER_TYPE)
    elif not isinstance(n_types, Integral) or not 1 <= int(n_types) <= n_samples:
        raise ValueError(f"`n_types` must be an integer from 1 to {n_samples}, got {n_types!r}.")
    X = StandardScaler(with_mean=False).fit_transform(X)  # distances do not depend on the mean
    entries = request.rng.permutation(n_samples)[:n_types]
    return np.unique(pairwise_distances_argmin(X, X[entries]), return_inverse=True)[1]


def _order_by_scene(request: Request) -> list[np.ndarray]:
    """Return the rows that are not clean in the bags of each scene, shuffled."""
    rng = request.rng
    rows = rng.permutation(np.flatnonzero(~request.is_clean))
    labels, label_of = np.unique(request.columns[rows], return_inverse=True)
    if request.scenes == 0 or len(labels) <= _LABELS_PER_SCENE:
        return [rows] if len(rows) else []
    n_scenes = -(-len(labels) // _LABELS_PER_SCENE)
    scene = rng.permutation(np.arange(len(labels)) % n_scenes)[label_of]
    # Rows that stray swap scenes among each other, so that scenes keep their sizes.
    strays = rng.random(len(rows)) >= request.scenes
    scene[strays] = rng.permutation(scene[strays])
    order = np.argsort(scene, kind="stable")
    return np.split(rows[order], np.cumsum(np.bincount(scene))[:-1])


def _cut(labels: np.ndarray, low: int, high: int, partial: bool, rng: Rng) -> np.ndarray:
    """Cut a sequence of labels into bags; if ``partial``, merge bags until each has two labels."""
    sizes = rng.integers(low, high + 1, size=len(labels) // low + 1)
    bags = np.repeat(np.arange(len(sizes)), sizes)[: len(labels)]
    if not partial:
        return bags
    joined, current, seen = list[int](), 0, set[int]()
    for bag in np.split(labels, np.cumsum(sizes)):
        joined.append(current)
        seen.update(bag.tolist())
        if len(seen) > 1:
            current, seen = current + 1, set()
    # A remainder with a single label goes to the last complete bag.
    return np.minimum(joined, current - 1)[bags]


BY_GROUP = {"bag": draw_bags, "lexicon": find_types}
