"""CleanSE: what the paper adds to a base loss, in one file.

::

    votes of other rows, Eq. (3)   ->  weights K, Eq. (4)  ->  what the base loss trains on, Eq. (2)
    label counts, Eq. (9)          ->  count term, Eq. (10)-(12)
    reweighted loss + λ count term                                                       Eq. (15)

`Calibration` holds the parameters of the method and its formulas, as functions of tensors.
`Calibrator` applies them to the rows of one training: it turns votes into weights, those of all
other rows (`sklearn_cleanse.votes.kernel_votes`, taken before training) or those of neighbours,
which it finds and has vote. `Voters` is what remains of these: explanations are votes of the same
rows by the same formulas. None of them knows the network; a function gives the directions in which
neighbours are sought.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from ._model_file import ModelFile
from .counts import COUNT_LOSSES
from .votes import candidate_shares, hard_votes, nearest, soft_votes

__all__ = ["Calibration", "Calibrator", "Voters"]


def __dir__() -> list[str]:
    return __all__  # without the imports of this file


#: Most pairs of a row and a voter that one search compares: all rows vote up to the square root.
MAX_PAIRS = 2**28

#: At least so many rows may vote, however many there are.
MIN_VOTERS = 2**12

#: Epochs from the first search for neighbours to the second; then three times as many, and so on.
#: Votes are taken every epoch, but who is near changes ever more slowly, and searching costs most.
FIRST_GAP = 3


@dataclass(frozen=True)
class Calibration:
    """The parameters of CleanSE and its formulas.

    Parameters
    ----------
    temperature : float, default=3.0
        T of Eq. (4). T = 1 switches the votes off.
    vote : {"kernel", "soft", "hard"}, default="kernel"
        Who votes: all other rows, by kernel regression, before training; or neighbours while the
        network is trained, with their confidences or by Eq. (3).
    vote_scope : {"candidates", "all"}, default="candidates"
        Which labels a hard vote is taken over; one outside the row's candidates enhances nothing.
    n_neighbors : int, default=10
        Voters of each row.
    neighbors_from : {"dataset", "batch"}, default="dataset"
        Where voters are sought.
    neighbor_space : {"representation", "input"}, default="representation"
        In which space they are near.
    max_voters : int or "auto", default="auto"
        Rows, at most, that may vote as neighbours. "auto": all up to 16,384 rows, then 2**28
        divided by the number of rows, at least 4,096.
    vote_start : float, default=0.0
        Share of the epochs after which votes begin.
    vote_end : float or None, default=1.0
        Share of the epochs at which T has fallen to 1, in a straight line from ``vote_start``,
        which it exceeds. None keeps it constant.
    count_weight : float, default=1e-3
        λ of Eq. (15). Zero switches the count term off.
    count_every : int, default=4
        Steps from one count term to the next, which stands for those in between.
    count_loss : {"interval", "entropy", "proportion"}, default="interval"
        The count term; a key of `sklearn_cleanse.counts.COUNT_LOSSES`.
    proportions : Tensor of shape (n_classes,), default=None
        Class proportions for ``count_loss="proportion"``.

    Examples
    --------
    >>> import torch
    >>> from sklearn_cleanse.calibration import Calibration
    >>> candidates = torch.tensor([[True, True, False]])
    >>> votes = torch.tensor([[1.0, 0.0, 0.0]])
    >>> Calibration(temperature=3.0, vote="hard").weigh(None, candidates, votes)  # K of Eq. (4)
    tensor([[3., 1., 0.]])
    """

    temperature: float = 3.0
    vote: str = "kernel"
    vote_scope: str = "candidates"
    n_neighbors: int = 10
    neighbors_from: str = "dataset"
    neighbor_space: str = "representation"
    max_voters: int | str = "auto"
    vote_start: float = 0.0
    vote_end: float | None = 1.0
    count_weight: float = 1e-3
    count_every: int = 4
    count_loss: str = "interval"
    proportions: Tensor | None = None

    def temperature_after(self, done: float) -> float:
        """Return T once a share ``done`` of the epochs has passed; 1 means that votes are off.

        Parameters
        ----------
        done : float
            From 0, before the first epoch, to 1.

        Returns
        -------
        temperature : float
        """
        if done < self.vote_start:
            return 1.0
        if self.vote_end is None:
            return self.temperature
        left = (self.vote_end - done) / (self.vote_end - self.vote_start)
        return 1 + (self.temperature - 1) * max(0.0, left)

    def collect(
        self,
        neighbors: Tensor,
        similarity: Tensor,
        candidates: Tensor,
        ballots: Tensor,
        own: Tensor,
    ) -> Tensor:
        """Let neighbours vote on rows: the enhanced label of equation (3), or its soft form.

        Parameters
        ----------
        neighbors, similarity : Tensor of shape (n_rows, k)
            The voters of each row, as `sklearn_cleanse.votes.nearest` returns them.
        candidates : Tensor of shape (n_voters, n_classes), dtype bool
            The voters' candidates, which count in a hard vote.
        ballots : Tensor of shape (n_voters, n_classes)
            The voters' confidences, which count in a soft vote.
        own : Tensor of shape (n_rows, n_classes), dtype bool
            The rows' own candidates.

        Returns
        -------
        votes : Tensor of shape (n_rows, n_classes)
            Zero outside the rows' candidates. A row sums to how far its vote is trusted: one for
            full trust, zero for no vote.
        """
        if self.vote == "soft":
            votes = candidate_shares(soft_votes(neighbors, similarity, ballots), own)
        else:
            votes = hard_votes(neighbors, similarity, candidates, own, scope=self.vote_scope)
        # A clean row's enhanced label is its only candidate, whoever its neighbours are.
        return torch.where(own.sum(dim=1, keepdim=True) == 1, own.to(votes.dtype), votes)

    def weigh(
        self,
        confidences: Tensor | None,
        candidates: Tensor,
        votes: Tensor,
        temperature: float | None = None,
    ) -> Tensor:
        """Turn votes into the weights that a base loss trains on: equation (2) and (4).

        Eq. (4) gives the candidate that the votes name the weight T, the others 1. With K so
        defined, a loss that keeps confidences is trained on K times confidence, normalised. Soft
        votes spread over several candidates, and there the average ``(confidence + (T - 1) vote) /
        T`` of both opinions works better than their product: a vote can raise a candidate that the
        network has given up. Either way T = 1 is no calibration at all.

        Parameters
        ----------
        confidences : Tensor of shape (n_rows, n_classes) or None
            Present confidences, zero outside the candidates; None for a loss that keeps none.
        candidates : Tensor of shape (n_rows, n_classes)
            The rows' candidates, or their grades.
        votes : Tensor of shape (n_rows, n_classes)
            As `collect` returns them, or those of all other rows.
        temperature : float, default=None
            T; by default that of the record.

        Returns
        -------
        weights : Tensor of shape (n_rows, n_classes)
            Zero outside the candidates; rows sum to one where confidences are given.
        """
        T = self.temperature if temperature is None else temperature
        if confidences is None:
            return candidates + (T - 1) * votes
        if self.vote == "kernel":  # both sum to one, row by row
            return (confidences + (T - 1) * votes) / T
        if self.vote == "hard":
            weights = confidences * (1 + (T - 1) * votes)
        else:
            weights = confidences + (T - 1) * votes
        return weights / weights.sum(dim=1, keepdim=True)

    def count(self, logits: Tensor, bounds: Tensor, max_count: int | None = None) -> Tensor:
        """Compute the count term of a batch, R_g of equations (10) to (12), without its weight λ.

        Parameters
        ----------
        logits : Tensor of shape (n_rows, n_classes)
            Softmax logits over all classes.
        bounds : integer Tensor of shape (2, n_classes)
            Clean rows and candidates of each class in the batch: Eq. (9).
        max_count : int, default=None
            The largest upper bound, if known.

        Returns
        -------
        loss : Tensor of shape ()
        """
        loss = COUNT_LOSSES[self.count_loss]
        return loss(logits, *bounds, self.proportions, max_count=max_count)

    def _state(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @classmethod
    def _restored(cls, file: ModelFile, place: str, n_classes: int) -> Calibration:
        kept: dict[str, Any] = {"proportions": None}
        for name in ("temperature", "vote_start", "count_weight"):
            kept[name] = file.value(f"{place}.{name}", float)
        for name in ("vote", "neighbors_from", "neighbor_space", "vote_scope", "count_loss"):
            kept[name] = file.value(f"{place}.{name}", str)
        for name in ("n_neighbors", "count_every"):
            kept[name] = file.value(f"{place}.{name}", int)
        kept["max_voters"] = file.value(f"{place}.max_voters", int, str)
        kept["vote_end"] = file.value(f"{place}.vote_end", float, type(None))
        if file.has(f"{place}.proportions"):
            shares = file.array(f"{place}.proportions", "f", (n_classes,))
            kept["proportions"] = torch.tensor(shares)
        if min(kept["n_neighbors"], kept["count_every"], kept["temperature"]) < 1:
            raise ValueError(f"{place} has neighbours, steps to count in or a temperature below 1")
        return cls(**kept)


class Calibrator:
    """The votes of one training.

    Parameters
    ----------
    calibration : Calibration
        The method.
    rows : TrainingRows
        The rows, their candidates and present confidences, and for ``vote="kernel"`` the votes.
    keeps_confidences : bool
        Whether the base loss keeps confidences.
    directions_of : callable
        ``directions_of(rows) -> Tensor of shape (n_rows, n_dimensions)``, of length one: where
        rows, given by number, lie in the space in which neighbours are sought.
    rng : numpy.random.RandomState
        Draws the voters where not all rows can be.

    Attributes
    ----------
    pool : ndarray of shape (n_voters,), dtype int, or None
        The rows that may vote as neighbours; None if all rows have voted already.
    """

    def __init__(
        self,
        calibration: Calibration,
        rows: Any,
        keeps_confidences: bool,
        directions_of: Callable[[Any], Tensor],
        rng: np.random.RandomState,
    ) -> None:
        self.calibration, self.rows = calibration, rows
        self.pool = (
            None
            if calibration.vote == "kernel"
            else choose_voters(rows, calibration.max_voters, rng)
        )
        self._keeps_confidences = keeps_confidences
        self._directions_of = directions_of
        self._partial = np.flatnonzero(rows.counts > 1)  # clean rows need no vote
        self._neighbors: list[Tensor] | None = None
        self._search_in, self._gap = 0, FIRST_GAP

    @torch.no_grad()
    def epoch_weights(self, done: float) -> Tensor:
        """Return the weight of each candidate for one epoch.

        Parameters
        ----------
        done : float
            Share of the epochs that have passed.

        Returns
        -------
        weights : Tensor of shape (n_candidates,)
            In the order of ``rows.confidences``; these confidences themselves if nobody votes.
        """
        rows, T = self.rows, self.calibration.temperature_after(done)
        even = rows.even_weights()
        weights = rows.confidences if self._keeps_confidences else even
        if T == 1 or self.votes_in_batches:
            return weights
        if self.calibration.vote == "kernel":
            confidences = weights if self._keeps_confidences else None
            return self.calibration.weigh(confidences, even, rows.votes, T)
        # The enhanced label of a clean row is its only candidate: T · 1, or T · c normalised.
        weights = weights * (1 if self._keeps_confidences else T)
        if len(self._partial):
            self._renew_neighbors()
            self._count_votes(weights, T)
        return weights

    @torch.no_grad()
    def batch_weights(
        self, directions: Tensor, candidates: Tensor, weights: Tensor, done: float
    ) -> Tensor:
        """Let the rows of one batch vote for each other, as Algorithm 1 prints it.

        Parameters
        ----------
        directions : Tensor of shape (n_rows, n_dimensions)
            Where the rows are, of length one.
        candidates : Tensor of shape (n_rows, n_classes), dtype bool
            Their candidates.
        weights : Tensor of shape (n_rows, n_classes)
            Their weights so far, which are also what they believe.
        done : float
            Share of the epochs that have passed.

        Returns
        -------
        weights : Tensor of shape (n_rows, n_classes)
        """
        myself = torch.arange(len(directions), device=directions.device)
        found = nearest(directions, directions, self.calibration.n_neighbors, own=myself)
        ballots = weights / weights.sum(dim=1, keepdim=True)
        votes = self.calibration.collect(*found, candidates, ballots, candidates)
        confidences = weights if self._keeps_confidences else None
        T = self.calibration.temperature_after(done)
        # without confidences the weights so far are the candidates', graded or not
        return self.calibration.weigh(confidences, weights, votes, T)

    @property
    def votes_in_batches(self) -> bool:
        """Whether the rows of a batch vote for each other."""
        return self.calibration.vote != "kernel" and self.calibration.neighbors_from == "batch"

    @property
    def searches(self) -> bool:
        """Whether neighbours are sought among all rows."""
        voting = self.calibration.vote != "kernel" and self.calibration.temperature > 1
        return voting and self.calibration.neighbors_from == "dataset"

    def clean_voter_share(self) -> float:
        """Return the share of partial rows that have a clean voter, NaN if there are none."""
        if self._neighbors is None:
            return float("nan")
        is_clean = torch.from_numpy(self.rows.counts[self.pool] == 1).to(self.rows.device)
        return is_clean[self._neighbors[0]].any(dim=1).float().mean().item()

    def voters(self) -> Voters | None:
        """Return the neighbours that may vote as they are now; None for kernel votes."""
        if self.pool is None:
            return None
        return Voters(
            self.calibration,
            self.pool,
            self._directions_of(self.pool).cpu(),
            self.rows.confidence_matrix(self.pool),
        )

    def _renew_neighbors(self) -> None:
        """Search if it is time; in the input space, where nothing moves, only once."""
        if self._search_in == 0:
            self._search()
            self._search_in, self._gap = self._gap, 3 * self._gap
        if self.calibration.neighbor_space != "input":
            self._search_in -= 1

    def _search(self) -> None:
        """Find the voters of each partial row."""
        rows, n_partial = self.rows, len(self._partial)
        voters = self._directions_of(self.pool)
        everyone_votes = len(voters) == len(rows)
        position = np.full(len(rows), -1)
        position[self.pool] = np.arange(len(self.pool))
        position = torch.from_numpy(position).to(voters.device)
        self._neighbors, start = None, 0
        for block in rows.blocks(len(voters), rows=self._partial):
            myself = position[block.rows]
            queries = voters[myself] if everyone_votes else self._directions_of(block.rows)
            found = nearest(queries, voters, self.calibration.n_neighbors, own=myself)
            # Preallocate the result: small tensors between large temporary ones fragment the heap
            # (2.9 GB at a million rows).
            if self._neighbors is None:
                self._neighbors = [part.new_empty(n_partial, part.shape[1]) for part in found]
            for kept, part in zip(self._neighbors, found, strict=True):
                kept[start : start + len(part)] = part
            start += len(block.rows)

    def _count_votes(self, weights: Tensor, temperature: float) -> None:
        """Put the weights of partial rows into place."""
        rows, start = self.rows, 0
        pool = rows.block(self.pool)
        ballots = pool.dense(rows.confidences[pool.entries])
        for block in rows.blocks(rows.n_classes, rows=self._partial):
            found = [part[start : start + len(block.rows)] for part in self._neighbors]
            start += len(block.rows)
            own = block.candidates
            votes = self.calibration.collect(*found, pool.candidates, ballots, own)
            confidences, even = None, own
            if self._keeps_confidences:
                confidences = block.dense(rows.confidences[block.entries])
            elif rows.grades is not None:
                even = block.dense(rows.grades[block.entries])
            renewed = self.calibration.weigh(confidences, even, votes, temperature)
            weights[block.entries] = renewed.flatten()[block.cells]


@dataclass(frozen=True)
class Voters:
    """The rows that may vote, after training, ready to vote on any row.

    Attributes
    ----------
    calibration : Calibration
        The method they were trained by.
    rows : ndarray of shape (n_voters,), dtype int
        Their row numbers.
    directions : Tensor of shape (n_voters, n_dimensions)
        Where they are.
    confidences : csr_array of shape (n_voters, n_classes)
        What they believe, with an entry for each candidate.
    """

    calibration: Calibration
    rows: np.ndarray
    directions: Tensor
    confidences: sp.csr_array

    @property
    def is_clean(self) -> np.ndarray:
        return np.diff(self.confidences.indptr) == 1

    def _state(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in ("rows", "directions", "confidences")}

    @classmethod
    def _restored(
        cls,
        file: ModelFile,
        place: str,
        calibration: Calibration,
        n_dimensions: int,
        n_classes: int,
    ) -> Voters:
        rows = file.array(f"{place}.rows", "i", (None,))
        directions = file.array(f"{place}.directions", "f", (len(rows), n_dimensions))
        confidences = file.sparse(f"{place}.confidences", len(rows), n_classes)
        if not len(rows) or directions.dtype != np.float32:
            raise ValueError(f"{place} has no rows, or directions in another precision")
        return cls(calibration, rows, torch.tensor(directions), confidences)

    def vote_on(self, directions: Tensor, own: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Vote on rows as in training.

        Parameters
        ----------
        directions : Tensor of shape (n_rows, n_dimensions)
            Where the rows are.
        own : Tensor of shape (n_rows, n_classes), dtype bool
            Their candidates.

        Returns
        -------
        neighbors, similarity : Tensor of shape (n_rows, k)
            Who votes on each row, by position, and how similar they are. A row does not vote on
            itself.
        votes : Tensor of shape (n_rows, n_classes)
        """
        belief = self.confidences
        # A candidate is an entry, also where the confidence in it has become zero.
        entries = (np.ones(belief.nnz, dtype=bool), belief.indices, belief.indptr)
        candidates = torch.from_numpy(sp.csr_array(entries, shape=belief.shape).toarray())
        myself = self._find(directions, candidates, own)
        found = nearest(directions, self.directions, self.calibration.n_neighbors, own=myself)
        ballots = torch.from_numpy(belief.toarray())
        return *found, self.calibration.collect(*found, candidates, ballots, own)

    def _find(self, directions: Tensor, candidates: Tensor, own: Tensor) -> Tensor:
        """Find rows among the voters: same direction, same candidates; -1 if it is none."""
        similarity, position = (directions @ self.directions.T).max(dim=1)
        same = (candidates[position] == own).all(dim=1)
        return torch.where((similarity > 1 - 1e-6) & same, position, -1)


def choose_voters(rows: Any, max_voters: int | str, rng: np.random.RandomState) -> np.ndarray:
    """Choose the rows that may vote: all, or clean rows and a sample where there are many.

    Parameters
    ----------
    rows : TrainingRows
        The training rows.
    max_voters : int or "auto"
        How many, at most, as for `Calibration`.
    rng : numpy.random.RandomState
        Draws the sample.

    Returns
    -------
    voters : ndarray of shape (n_voters,), dtype int
        Row numbers, in an order that does not depend on that of the rows.
    """
    size = max(MAX_PAIRS // len(rows), MIN_VOTERS) if max_voters == "auto" else int(max_voters)
    if len(rows) <= size:
        return rows.by_content
    shuffled = rows.shuffled(rng)
    clean = shuffled[rows.counts[shuffled] == 1][: size // 2]
    others = shuffled[~np.isin(shuffled, clean)][: size - len(clean)]
    return np.concatenate([clean, others])
