"""One call of `fit` or `partial_fit`: the rows it was given, and the training drawn up for them."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import _check_sample_weight
from torch import Tensor

from .._ranks import Ranks
from .._rows import SparseRows
from ..losses import Loss
from ._net import CleanSENet, Training
from ._pool import Pool
from ._random import OwnRandom
from ._training_rows import TrainingRows

#: Features and weights must fit into single precision, with room for squares.
LARGEST = 1e18

#: Whole-number weights repeat rows unless that makes the data so many times larger.
_MOST_REPEATS = 10


@dataclass(frozen=True)
class Given:
    """What a call was given, checked.

    Attributes
    ----------
    X : ndarray of shape (n_rows, ...), or SparseRows
    classes : ndarray of shape (n_classes,)
    candidates : csr_array of shape (n_rows, n_classes), dtype bool
    grades : csr_array of shape (n_rows, n_classes) or None
    order : ndarray of shape (n_rows,), dtype int
        Place of each row in an order by content (`content_rank`).
    used : ndarray of shape (n_samples,), dtype int
        Rows to train on, repeated as often as weights ask for.
    held_out : ndarray of shape (n_held_out,), dtype int, or None
        Rows that early stopping looks at.
    row_weight : ndarray of shape (n_rows,)
        How much each row counts, one on average over what is trained on.
    weight : ndarray of shape (n_samples,) or None
        Weight of each of ``used`` in the base loss.
    loss : Loss
    device : str
    n_before : int
        Epochs trained before this call.
    random : numpy.random.RandomState
        The same on all ranks.
    own_draws : numpy.random.RandomState
        This rank's own.
    as_sparse : bool
        Whether candidates came as a sparse matrix.
    """

    X: np.ndarray | SparseRows
    classes: np.ndarray
    candidates: sp.csr_array
    grades: sp.csr_array | None
    order: np.ndarray
    used: np.ndarray
    held_out: np.ndarray | None
    row_weight: np.ndarray
    weight: np.ndarray | None
    loss: Loss
    device: str
    n_before: int
    random: np.random.RandomState
    own_draws: np.random.RandomState
    as_sparse: bool

    @functools.cached_property
    def uses_all(self) -> bool:
        """Whether each row is trained on once, in place."""
        return np.array_equal(self.used, np.arange(len(self.X)))

    def of_used(self, part: Any) -> Any:
        """Return what belongs to the rows to train on, of something that all rows have, or None."""
        return part if part is None or self.uses_all else part[self.used]

    def pool(self) -> Pool:
        """Return the rows to train on in random order; this draws."""
        sets, grades = self.of_used(self.candidates), self.of_used(self.grades)
        parts = self.X, self.candidates, self.used, sets, grades, self.order[self.used]
        return Pool.of(*parts, self.own_draws)


class Votes(NamedTuple):
    """What other rows say of each row to train on, and what to train it on in consequence.

    Attributes
    ----------
    candidates : csr_array of shape (n_samples, n_classes), dtype bool
    grades : csr_array of shape (n_samples, n_classes) or None
    by_candidate : ndarray of shape (n_candidates,) or None
        A vote for each candidate; None if nobody has voted before training.
    model : KernelModel or None
        The regression that voted.
    scores : Tensor of shape (n_samples, n_classes) or None
        Its scores.
    """

    candidates: sp.csr_array
    grades: sp.csr_array | None
    by_candidate: np.ndarray | None = None
    model: Any = None
    scores: Tensor | None = None


class Job(NamedTuple):
    """A training that is ready to begin.

    Attributes
    ----------
    net : CleanSENet
    scaling : str, list or None
        Its scaling.
    rows : TrainingRows
    training : Training
        What to do.
    callbacks : list of skorch callbacks
    rng : numpy.random.RandomState
        Draws voters and shuffles rows.
    own_random : OwnRandom
        Draws all that module and loss draw.
    votes : Votes
    """

    net: CleanSENet
    scaling: str | list | None
    rows: TrainingRows
    training: Training
    callbacks: list
    rng: np.random.RandomState
    own_random: OwnRandom
    votes: Votes


def use_weights(sample_weight: Any, X: Any, ranks: Ranks) -> tuple[np.ndarray, np.ndarray | None]:
    """Return which rows to train on, repeated as often as asked, and all rows' weights if any."""
    if sample_weight is None:
        return np.arange(len(X)), None
    weight = _check_sample_weight(sample_weight, X, ensure_non_negative=True)
    for row in np.flatnonzero((weight > LARGEST) | ((weight > 0) & (weight < 1 / LARGEST))):
        raise ValueError(
            f"sample_weight is {weight[row]:.3g} in row {row}; it must be 0, or lie between "
            f"{1 / LARGEST:.0e} and {LARGEST:.0e}. Only ratios count: multiply all weights "
            "by one number, and set to 0 what is then still too small"
        )
    whole = (weight == np.round(weight)).all() and weight.sum() <= _MOST_REPEATS * len(X)
    if all(ranks.gather(whole)):
        return np.repeat(np.arange(len(X)), weight.astype(np.int64)), None
    return np.flatnonzero(weight), weight


def hold_out(
    order: np.ndarray, used: np.ndarray, fraction: float, rng: np.random.RandomState
) -> tuple[np.ndarray, np.ndarray]:
    """Split rows for early stopping; all repetitions of a row fall on the same side."""
    rows = np.unique(used)
    n_out = max(1, round(fraction * len(rows)))
    if len(rows) - n_out < 2:
        raise ValueError(
            f"early_stopping holds out {n_out} of {len(rows)} rows and leaves too few to train "
            f"on; lower validation_fraction (now {fraction}) or switch it off"
        )
    shuffled = np.argsort(order[rows])[rng.permutation(len(rows))]
    out = rows[np.sort(shuffled[:n_out])]
    return used[~np.isin(used, out)], out
