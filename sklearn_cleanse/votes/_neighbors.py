"""Votes of neighbors while a network trains, Eq. (3): by label, or softly."""

from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
import torch
from sklearn.base import BaseEstimator
from sklearn.utils._param_validation import Interval, StrOptions
from torch import Tensor
from torch.nn import functional as F

#: All rows may vote while rows times voters stay below the first figure. Beyond, at least so many
#: of them may vote as the second gives, half of them clean, so that a search takes no longer.
MAX_PAIRS, MIN_VOTERS = 2**28, 2**12

#: Epochs from the first search for neighbors to the second; then three times as many, and so on.
#: Neighborhoods change more and more slowly, and the search costs most.
FIRST_GAP = 3


class NeighborVoter(BaseEstimator):
    """Let the nearest rows vote on a row's candidates while the network trains.

    It is consulted in each epoch or batch, and has no ``fit`` of its own: pass it as
    ``CleanSEClassifier(voter=NeighborVoter())``.

    Parameters
    ----------
    n_neighbors : int, default=10
        Number of neighbors that vote. More of them smooth the votes.
    hard : bool, default=False
        Whether the neighbors together name one candidate, as in Eq. (3) of the paper. Otherwise
        each spreads its present confidences over the candidates, weighted by similarity.
    within : {"dataset", "batch"}, default="dataset"
        Whether neighbors are searched among all training rows or in each mini-batch, as in
        Algorithm 1 of the paper.
    space : {"representation", "input"}, default="representation"
        Whether similarity (cosine) is that of the network's last hidden layer or that of the
        scaled features.
    scope : {"candidates", "all"}, default="candidates"
        Labels over which a hard vote is taken. With "all", a label outside the row's candidates
        may win, and the row's weights then stay as they are.
    start : float, default=0.0
        Proportion of the epochs that pass before votes count.
    end : float or None, default=1.0
        Proportion of the epochs at which ``temperature`` has fallen to 1, in a straight line from
        ``start``. None keeps it constant.

    See Also
    --------
    CleanSEKernelClassifier : The default voter, which votes once before training.

    Examples
    --------
    >>> from sklearn_cleanse import CleanSEClassifier, NeighborVoter
    >>> X = [[0.0], [0.1], [0.9], [1.0]]
    >>> S = [{"low"}, {"low", "high"}, {"low", "high"}, {"high"}]
    >>> clf = CleanSEClassifier(voter=NeighborVoter(n_neighbors=2), max_epochs=20, random_state=0)
    >>> clf.fit(X, S).predict([[0.05], [0.95]])
    array(['low', 'high'], dtype='<U4')
    """

    _parameter_constraints: ClassVar[dict] = {
        "n_neighbors": [Interval(Integral, 1, None, closed="left")],
        "hard": ["boolean"],
        "within": [StrOptions({"dataset", "batch"})],
        "space": [StrOptions({"representation", "input"})],
        "scope": [StrOptions({"candidates", "all"})],
        "start": [Interval(Real, 0, 1, closed="left")],
        "end": [Interval(Real, 0, 1, closed="right"), None],
    }

    def __init__(
        self,
        n_neighbors=10,
        *,
        hard=False,
        within="dataset",
        space="representation",
        scope="candidates",
        start=0.0,
        end=1.0,
    ):
        self.n_neighbors = n_neighbors
        self.hard = hard
        self.within = within
        self.space = space
        self.scope = scope
        self.start = start
        self.end = end

    def _validate_params(self):
        super()._validate_params()
        if self.end is not None and self.end <= self.start:
            raise ValueError(
                f"`end` must be above `start`, got end={self.end} and start={self.start}. Votes "
                "would never count; pass temperature=1 to switch them off."
            )


class NeighborVotes:
    """The votes of a `NeighborVoter` in one training."""

    def __init__(self, voter: NeighborVoter, pool: np.ndarray, one_epoch: bool) -> None:
        self.voter, self.hard = voter, voter.hard
        # A single epoch of `partial_fit` has full votes.
        self.start: float = 0.0 if one_epoch else voter.start
        self.end: float | None = None if one_epoch else voter.end
        self.pool = torch.from_numpy(pool)
        self._found: list[tuple[Tensor, Tensor]] | None = None
        self._search_in, self._gap = 0, FIRST_GAP

    @torch.no_grad()
    def of_epoch(self, net: Any, rows: Any) -> Tensor | None:
        """Return the votes on all rows, or None if they are taken in each batch."""
        if self.voter.within == "batch":
            return None
        pool = self.pool.to(rows.device)
        parts = torch.arange(len(rows), device=rows.device).split(1024)
        if self._search_in == 0:
            self._search(net, rows, pool, parts)
            self._search_in, self._gap = self._gap, 3 * self._gap
        self._search_in -= self.voter.space != "input"  # where nothing moves, one search will do
        ballots = rows.mask[pool], rows.confidences[pool]
        found = zip(parts, self._found or [], strict=True)
        return torch.cat([self._collect(*near, *ballots, rows.mask[part]) for part, near in found])

    @torch.no_grad()
    def of_batch(self, inputs: Tensor, representation: Tensor, batch: Any) -> Tensor | None:
        """Return the votes of a batch's rows on each other, or None if the epoch has votes."""
        if self.voter.within == "dataset":
            return None
        where = self._directions(inputs, representation)
        own = torch.arange(len(where), device=where.device)
        found = nearest(where, where, self.voter.n_neighbors, own)
        ballots = batch.weights / batch.weights.sum(dim=1, keepdim=True)
        return self._collect(*found, batch.mask, ballots, batch.mask)

    def _search(self, net: Any, rows: Any, pool: Tensor, parts: tuple[Tensor, ...]) -> None:
        where = torch.cat([self._directions(X, net.outputs(X)[1]) for X in map(rows.inputs, parts)])
        place = torch.full((len(rows),), -1, device=rows.device)
        place[pool] = torch.arange(len(pool), device=rows.device)
        size = self.voter.n_neighbors
        self._found = [nearest(where[part], where[pool], size, place[part]) for part in parts]

    def _directions(self, inputs: Tensor, representation: Tensor) -> Tensor:
        where = inputs if self.voter.space == "input" else representation
        if where.dim() == 3 and where is representation:  # networks count alike
            where = cosine_directions(where)
        return cosine_directions(where.detach().float().flatten(start_dim=1))

    def _collect(
        self, neighbors: Tensor, similarity: Tensor, masks: Tensor, ballots: Tensor, own: Tensor
    ) -> Tensor:
        if self.hard:
            votes = hard_votes(neighbors, similarity, masks, own, self.voter.scope)
        else:
            votes = candidate_proportions(soft_votes(neighbors, similarity, ballots), own)
        # The enhanced label of a clean row is its only candidate, whatever its neighbors are.
        return torch.where(own.sum(dim=1, keepdim=True) == 1, own.to(votes.dtype), votes)


def choose_pool(is_clean: np.ndarray, rng: np.random.RandomState) -> np.ndarray:
    """Choose the rows that may vote: all, or clean rows and a sample if there are many."""
    n_rows = len(is_clean)
    size = max(MAX_PAIRS // n_rows, MIN_VOTERS)
    if n_rows <= size:
        return np.arange(n_rows)
    shuffled = rng.permutation(n_rows)
    clean = shuffled[is_clean[shuffled]][: size // 2]
    others = shuffled[~np.isin(shuffled, clean)][: size - len(clean)]
    return np.concatenate([clean, others])


def cosine_directions(rows: Tensor) -> Tensor:
    """Scale rows to length one; inner products are then cosine similarities."""
    # F.normalize takes ten times as long
    length = rows.square().sum(dim=-1, keepdim=True).sqrt()
    return rows / length.clamp(min=1e-12)


def nearest(
    queries: Tensor, voters: Tensor, n_neighbors: int, own: Tensor
) -> tuple[Tensor, Tensor]:
    """Return positions and cosine similarities of the most similar voters of each query.

    ``own`` is each query's own position among the voters, which is left out, or -1. Places that
    stay empty have a similarity of -inf.
    """
    similarity = queries @ voters.T
    place = own.clamp(min=0)[:, None]
    kept = similarity.gather(1, place).masked_fill(own[:, None] >= 0, -torch.inf)
    similarity.scatter_(1, place, kept)
    top = similarity.topk(min(n_neighbors, len(voters) - 1), dim=1)
    return top.indices, top.values


def soft_votes(neighbors: Tensor, similarity: Tensor, ballots: Tensor) -> Tensor:
    """Sum the neighbors' confidences, weighted by similarity; dissimilar ones do not vote."""
    return _tally(neighbors, similarity.clamp(min=0.0), ballots)


def hard_votes(
    neighbors: Tensor, similarity: Tensor, masks: Tensor, own: Tensor, scope: str = "candidates"
) -> Tensor:
    """Choose the enhanced label of Eq. (3): one at that label, zero elsewhere.

    Clean neighbors whose label is a candidate of the row decide: the label with most of them, then
    the nearest. Without any, each neighbor votes for all of its candidates, and the winner among
    the row's candidates is chosen; with ``scope="all"`` the winner among all labels, which
    enhances nothing if it is not a candidate.
    """
    k = neighbors.shape[1]
    # Bonuses that sum to less than one vote break ties by nearness and have no other effect.
    dtype = torch.float32 if neighbors.device.type == "mps" else torch.float64
    bonus = torch.pow(0.5, torch.arange(1, k + 1, device=neighbors.device, dtype=dtype))
    weights = (1 + bonus) * (similarity > -torch.inf)
    ballots = masks.to(dtype)
    clean = ballots * (masks.sum(dim=1, keepdim=True) == 1)
    clean_score = _tally(neighbors, weights, clean) * own
    score = _tally(neighbors, weights, ballots)
    if scope == "candidates":
        score = score * own
    score = torch.where((clean_score > 0).any(dim=1, keepdim=True), clean_score, score)
    best, winner = score.max(dim=1, keepdim=True)
    votes = torch.zeros_like(score, dtype=similarity.dtype)
    allowed = (best > 0) & own.gather(1, winner)
    return votes.scatter_(1, winner, allowed.to(votes.dtype))


def candidate_proportions(votes: Tensor, own: Tensor) -> Tensor:
    """Keep the votes for a row's own candidates, as proportions of all votes on the row.

    A row sums to the proportion of its votes that are for its candidates, so that neighbors which
    mostly vote for other labels are trusted less.
    """
    total = votes.sum(dim=1, keepdim=True)
    return votes * own / total.where(total > 0, 1.0)


def _tally(neighbors: Tensor, weights: Tensor, ballots: Tensor) -> Tensor:
    """Sum the neighbors' weighted ballots without holding them side by side."""
    return F.embedding_bag(neighbors, ballots, per_sample_weights=weights, mode="sum")
