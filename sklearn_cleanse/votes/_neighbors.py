"""Who votes for what: neighbour search and the votes of Eq. (3).

Pure functions on tensors. A *pool* of voters holds representations and ballots; every query looks
up its nearest voters by cosine similarity and collects what they say.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

__all__ = ["candidate_shares", "cosine_directions", "hard_votes", "nearest", "soft_votes"]


def cosine_directions(representation: Tensor) -> Tensor:
    """Scale each row to length one, so that inner products are cosine similarities.

    Parameters
    ----------
    representation : Tensor of shape (..., n_dimensions)

    Returns
    -------
    directions : Tensor of shape (..., n_dimensions)
        A row of zeros stays one: it is similar to nobody.

    Examples
    --------
    >>> import torch
    >>> from sklearn_cleanse.votes import cosine_directions
    >>> cosine_directions(torch.tensor([[3.0, 4.0], [0.0, 0.0]]))
    tensor([[0.6000, 0.8000],
            [0.0000, 0.0000]])
    """
    # F.normalize takes ten times as long
    length = representation.square().sum(dim=-1, keepdim=True).sqrt()
    return representation / length.clamp(min=1e-12)


def nearest(
    queries: Tensor, voters: Tensor, n_neighbors: int, own: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Find the most similar voters of each query, itself excepted.

    Parameters
    ----------
    queries : Tensor of shape (n_queries, n_dimensions)
        Directions of length one (`cosine_directions`).
    voters : Tensor of shape (n_voters, n_dimensions)
        Directions of length one.
    n_neighbors : int
        Neighbours per query; all voters if there are fewer.
    own : Tensor of shape (n_queries,), dtype int64, default=None
        Each query's own position among the voters, -1 if it is none. None if no query is one.

    Returns
    -------
    neighbors : Tensor of shape (n_queries, k), dtype int64
        Positions among the voters, most similar first.
    similarity : Tensor of shape (n_queries, k)
        Cosine similarities, -inf for places that stay empty.

    Examples
    --------
    >>> import torch
    >>> from sklearn_cleanse.votes import nearest
    >>> voters = torch.tensor([[1.0, 0.0], [0.8, 0.6], [0.0, 1.0]])
    >>> neighbors, similarity = nearest(voters, voters, 1, own=torch.arange(3))
    >>> neighbors.ravel()
    tensor([1, 0, 1])
    >>> similarity.ravel()
    tensor([0.8000, 0.8000, 0.6000])
    """
    similarity = queries @ voters.T
    if own is not None:
        place = own.clamp(min=0)[:, None]
        kept = similarity.gather(1, place).masked_fill(own[:, None] >= 0, -torch.inf)
        similarity.scatter_(1, place, kept)
    n_neighbors = min(n_neighbors, voters.shape[0] - (own is not None))
    top = similarity.topk(n_neighbors, dim=1)
    return top.indices, top.values


def soft_votes(neighbors: Tensor, similarity: Tensor, ballots: Tensor) -> Tensor:
    """Let each neighbour spread one vote over labels, weighted by its similarity.

    Parameters
    ----------
    neighbors, similarity : Tensor of shape (n_queries, k)
        As `nearest` returns them.
    ballots : Tensor of shape (n_voters, n_classes)
        Each voter's confidences: all on its label for a clean one.

    Returns
    -------
    votes : Tensor of shape (n_queries, n_classes)
        Not yet restricted to the queries' candidates. Dissimilar neighbours (similarity below
        zero) have no vote.

    Examples
    --------
    >>> import torch
    >>> from sklearn_cleanse.votes import soft_votes
    >>> ballots = torch.tensor([[1.0, 0.0], [0.5, 0.5]])
    >>> soft_votes(torch.tensor([[0, 1]]), torch.tensor([[0.9, 0.5]]), ballots)
    tensor([[1.1500, 0.2500]])
    """
    return _tally(neighbors, similarity.clamp(min=0.0), ballots)


def hard_votes(
    neighbors: Tensor,
    similarity: Tensor,
    candidates: Tensor,
    own_candidates: Tensor,
    scope: str = "candidates",
) -> Tensor:
    """Choose the enhanced label of Eq. (3).

    Clean neighbours whose label is a candidate of the query decide: the label with most of them,
    then the nearest. Where there is none, each neighbour votes for all of its candidates, and the
    winner among the query's own candidates is chosen, ties again by nearness.

    Parameters
    ----------
    neighbors, similarity : Tensor of shape (n_queries, k)
        As `nearest` returns them.
    candidates : Tensor of shape (n_voters, n_classes), dtype bool
        The voters' candidates.
    own_candidates : Tensor of shape (n_queries, n_classes), dtype bool
        The queries' candidates.
    scope : {"candidates", "all"}, default="candidates"
        Where clean neighbours do not decide: with "all", the vote is over all classes, and a
        winner that is no candidate of the query enhances nothing.

    Returns
    -------
    votes : Tensor of shape (n_queries, n_classes)
        One at the enhanced label, zero elsewhere; a row of zeros where nobody votes for any of
        the query's candidates, or another label wins.

    Examples
    --------
    >>> import torch
    >>> from sklearn_cleanse.votes import hard_votes
    >>> voters = torch.tensor([[1, 1, 0], [1, 1, 0], [0, 1, 0]], dtype=torch.bool)
    >>> own = torch.tensor([[1, 1, 0], [1, 0, 1]], dtype=torch.bool)
    >>> neighbors = torch.tensor([[0, 1, 2], [0, 1, 2]])
    >>> hard_votes(neighbors, torch.ones(2, 3), voters, own)
    tensor([[0., 1., 0.],
            [1., 0., 0.]])
    """
    k = neighbors.shape[1]
    # Halving bonuses that sum to less than one vote: they break ties by nearness, nothing else.
    # Double precision tells them apart among the nearest fifty; beyond that nobody is near.
    dtype = torch.float32 if neighbors.device.type == "mps" else torch.float64
    bonus = torch.pow(0.5, torch.arange(1, k + 1, device=neighbors.device, dtype=dtype))
    weights = (1 + bonus) * (similarity > -torch.inf)
    ballots = candidates.to(weights.dtype)
    clean = ballots * (candidates.sum(dim=1, keepdim=True) == 1)
    clean_score = _tally(neighbors, weights, clean) * own_candidates
    score = _tally(neighbors, weights, ballots)
    if scope == "candidates":
        score = score * own_candidates
    decided = (clean_score > 0).any(dim=1, keepdim=True)
    score = torch.where(decided, clean_score, score)
    best, winner = score.max(dim=1, keepdim=True)
    votes = torch.zeros_like(score, dtype=similarity.dtype)
    allowed = (best > 0) & own_candidates.gather(1, winner)
    return votes.scatter_(1, winner, allowed.to(votes.dtype))


def candidate_shares(votes: Tensor, candidates: Tensor) -> Tensor:
    """Keep the votes for a row's own candidates, as shares of all its votes.

    Votes for labels that cannot be right are lost, so that a row sums to the share of its votes
    that were for its own candidates. Neighbours who mostly speak of other labels are thereby
    believed less.

    Parameters
    ----------
    votes : Tensor of shape (n_queries, n_classes)
    candidates : Tensor of shape (n_queries, n_classes), dtype bool

    Returns
    -------
    votes : Tensor of shape (n_queries, n_classes)
        Rows sum to at most one; a row of zeros where none of the votes was for a candidate.

    Examples
    --------
    >>> import torch
    >>> from sklearn_cleanse.votes import candidate_shares
    >>> candidate_shares(torch.tensor([[1.0, 3.0, 4.0]]), torch.tensor([[True, True, False]]))
    tensor([[0.1250, 0.3750, 0.0000]])
    """
    total = votes.sum(dim=1, keepdim=True)
    return votes * candidates / total.where(total > 0, 1.0)


def _tally(neighbors: Tensor, weights: Tensor, ballots: Tensor) -> Tensor:
    """Sum the neighbours' weighted ballots without ever holding them side by side."""
    return F.embedding_bag(neighbors, ballots, per_sample_weights=weights, mode="sum")
