"""The training rows on the device, and the batches cut from them.

What belongs to a candidate (its confidence, its weight) lives in flat tensors, in the order of the
candidate matrix's entries, so that memory follows the candidates and not rows times classes. The
index arithmetic is done on the host, and inputs, candidates and weights are gathered, for many
batches at once; a batch is slices of that.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from .._device import as_tensor
from .._ranks import ALONE, Ranks, RowsOfAll
from .._rows import SparseRows

#: Largest number of values in one block of a search or a prediction.
BLOCK_VALUES = 2**21

#: Rows, at most, that batches are cut from at a time.
INDEX_ROWS = 2**14

#: Up to so many values, scaled features are kept; beyond, each batch is scaled when it is cut.
MAX_SCALED_VALUES = 2**25


def rows_per_block(*widths: int) -> int:
    """Return how many rows go into a block, given the numbers of values that each row needs.

    Never few: products of a handful of rows are rounded differently from those of many.
    """
    return max(64, BLOCK_VALUES // max(*widths, 1024))


@dataclass(frozen=True)
class Part:
    """A rank's rows within the batch of all ranks.

    ``share`` is the part that the mean over these rows has in the mean over all; they begin at
    ``start`` of all ``n_rows``.
    """

    ranks: Ranks
    start: int
    n_rows: int
    share: float

    def with_others(self, values: Tensor) -> Tensor:
        """Return a row of values for each row of all ranks, from those of this rank's rows."""
        return RowsOfAll.apply(values, self.start, self.n_rows, self.ranks)


@dataclass(eq=False)
class Batch:
    """The candidates of some rows, as the training step needs them.

    ``entries`` are the candidates' positions in the flat tables, ``cells`` the same candidates'
    positions in the flattened (rows × classes) block, ``bounds`` the lower and upper label counts
    of Eq. (9), ``max_count`` the largest upper bound, known on the host, and ``counts_for`` the
    number of steps that a count term of this batch stands for. The batches of an epoch also have
    the network's ``inputs``, the candidates' ``weights`` (rows × classes) and those of the rows, if
    there are any. Where several ranks train, ``part`` tells which part of their batch these rows
    are, and bounds are those of all.
    """

    rows: Tensor
    entries: Tensor
    cells: Tensor
    candidates: Tensor
    bounds: Tensor | None = None
    max_count: int | None = None
    inputs: Tensor | None = None
    weights: Tensor | None = None
    sample_weight: Tensor | None = None
    part: Part | None = None
    counts_for: float = 1.0

    @property
    def shape(self) -> torch.Size:
        return self.candidates.shape

    def dense(self, values: Tensor) -> Tensor:
        """Lay values of the candidates out as a (rows × classes) block, zero elsewhere."""
        return _dense(values, self.cells, self.shape)


def _dense(values: Tensor, cells: Tensor, shape: tuple[int, ...]) -> Tensor:
    return values.new_zeros(math.prod(shape)).scatter_(0, cells, values).view(shape)


class TrainingRows(torch.utils.data.Dataset):
    """Features, candidates and confidences of the rows a network is trained on.

    Parameters
    ----------
    X : ndarray of shape (n_rows, ...), or SparseRows
        Features, used without a copy where the device allows. Of sparse ones a batch is dense.
    candidates : csr_array of shape (n_samples, n_classes), dtype bool
        Candidates of the training rows.
    sample_weight : ndarray of shape (n_samples,) or None
    device : torch.device
    rank : ndarray of shape (n_samples,), dtype int64
        Decides the order of the rows before they are shuffled, see `content_rank`.
    scaling : callable
        Scales features, given as a tensor, into the network's inputs.
    used : ndarray of shape (n_samples,), dtype int64, default=None
        Which rows of X the training rows are; one may occur several times. None if they are X.
    confidences : ndarray of shape (n_candidates,), default=None
        Confidence in each candidate to begin with, in the order of the candidate matrix's entries.
        Even odds if None.
    votes : ndarray of shape (n_candidates,), default=None
        Votes of all other rows for each candidate, in the same order, if they have voted.
    grades : ndarray of shape (n_candidates,), default=None
        Odds of each candidate beforehand, in the same order, 1 for the best of a row. Even odds if
        None.
    ranks : Ranks, default=ALONE
        Those that train together, each on rows of its own.
    """

    def __init__(
        self,
        X,
        candidates: sp.csr_array,
        sample_weight,
        device,
        rank,
        scaling,
        used=None,
        confidences=None,
        votes=None,
        grades=None,
        ranks=ALONE,
    ):
        self.X = X if isinstance(X, SparseRows) else as_tensor(X, device)
        self.device = torch.empty(0, device=device).device
        self.used = None if used is None else self._to_device(used)
        self.indptr = candidates.indptr.astype(np.int64)
        self.indices = candidates.indices.astype(np.int64)
        self.n_classes = candidates.shape[1]
        self.counts = np.diff(self.indptr)
        self.sample_weight = None
        if sample_weight is not None:
            weight = np.asarray(sample_weight, dtype=np.float32)
            self.sample_weight = torch.tensor(weight, device=self.device)
        if confidences is None and grades is None:
            confidences = np.repeat(1.0 / self.counts, self.counts)
        elif confidences is None:
            total = np.add.reduceat(grades, self.indptr[:-1])
            confidences = grades / np.repeat(total, self.counts)
        self.confidences = torch.tensor(confidences, dtype=torch.float32, device=self.device)
        self.grades = None
        if grades is not None:
            self.grades = torch.tensor(grades, dtype=torch.float32, device=self.device)
        self.votes = None
        if votes is not None:
            self.votes = torch.tensor(votes, dtype=torch.float32, device=self.device)
        self.by_content = np.argsort(rank, kind="stable")
        self.scaling = scaling
        self.ranks = ranks
        self.n_by_rank = ranks.gather(len(self))
        self.n_total = sum(self.n_by_rank)
        self.input_shape, self._scaled = self._scale()

    def __len__(self) -> int:
        return len(self.counts)

    @torch.no_grad()
    def _scale(self) -> tuple[torch.Size, Tensor | None]:
        """Return the shape of a network's input, and all of them unless they take too much room."""
        first = self.scaling(self._features(slice(0, 1)))
        shape = first.shape[1:]
        if isinstance(self.X, SparseRows) or len(self) * first.numel() > MAX_SCALED_VALUES:
            return shape, None
        scaled = torch.empty(len(self), *shape, device=self.device)
        size = max(1, 2**22 // first.numel())
        for start in range(0, len(self), size):
            part = slice(start, start + size)
            scaled[part] = self.scaling(self._features(part))
        return shape, scaled

    def inputs(self, rows: Tensor) -> Tensor:
        """Return the network's inputs for some rows."""
        return self.scaling(self._features(rows)) if self._scaled is None else self._scaled[rows]

    def even_weights(self) -> Tensor:
        """Return the weight of each candidate for a loss that keeps no confidences."""
        return torch.ones_like(self.confidences) if self.grades is None else self.grades

    @torch.no_grad()
    def set_confidences(self, batch: Batch, confidences: Tensor) -> None:
        """Replace the confidences of a batch's rows, given as a (rows × classes) block."""
        if self.grades is not None:
            confidences = confidences * batch.dense(self.grades[batch.entries])
            confidences = confidences / confidences.sum(dim=1, keepdim=True)
        renewed = confidences.flatten()[batch.cells].to(self.confidences.dtype)
        self.confidences[batch.entries] = renewed

    def _features(self, rows: Tensor | slice) -> Tensor:
        which = rows if self.used is None else self.used[rows]
        if isinstance(self.X, SparseRows):
            host = which.cpu().numpy() if isinstance(which, Tensor) else which
            return as_tensor(self.X[host], self.device)
        return self.X[which]

    def shuffled(self, rng: np.random.RandomState) -> np.ndarray:
        """Return all row numbers shuffled, from an order that does not depend on how they came."""
        return self.by_content[rng.permutation(len(self))]

    def block(self, rows: np.ndarray) -> Batch:
        """Cut out the given rows, in the given order."""
        return next(self.batches(rows, [len(rows)]))

    def blocks(self, *widths: int, rows: np.ndarray) -> Iterator[Batch]:
        """Cut rows, in the given order, into blocks; a row needs so many values on the way."""
        n, size = len(rows), rows_per_block(*widths)
        return self.batches(rows, [size] * (n // size) + ([n % size] if n % size else []))

    def epoch(
        self, batch_size: int, rng: np.random.RandomState, weights: Tensor, count_every: int
    ) -> Iterator[Batch]:
        """Shuffle the rows and cut them into the batches of one epoch, ready for training.

        ``weights`` has one number for each candidate. A row is visited once, so that its weights
        are what they are when its batch is cut, though a step before may change others. The first
        of each ``count_every`` batches has bounds; 0: none has.
        """
        order, sizes, counts = self.shuffled(rng), self.batch_sizes(batch_size), count_every > 0
        if self.ranks.several:
            batches = self._parts(order, self._sizes_by_rank(batch_size), counts, weights)
        else:
            batches = self.batches(order, sizes, counts, weights)
        counted = range(0, len(sizes), count_every or 1)
        for number, batch in enumerate(batches):
            if number not in counted:
                batch.bounds = batch.max_count = None
            batch.counts_for = len(sizes) / len(counted)
            yield batch

    def batch_sizes(self, batch_size: int) -> list[int]:
        """Return the size of each batch of an epoch, which several ranks share."""
        n = self.n_total
        size = min(batch_size, n)
        sizes = [size] * (n // size)
        # Batch norm needs two rows: a last batch of one joins the batch before it.
        if n % size == 1 and n > 1:
            sizes[-1] += 1
        elif n % size:
            sizes.append(n % size)
        return sizes

    def _sizes_by_rank(self, batch_size: int) -> np.ndarray:
        """Return how many rows each rank has in each batch, of shape (n_ranks, n_batches).

        Each rank spreads its rows over as many batches as one process would make of all rows.
        """
        n_batches = len(self.batch_sizes(batch_size))
        rank = int(np.argmin(self.n_by_rank))
        if self.n_by_rank[rank] < n_batches:
            raise ValueError(
                f"rank {rank} has {self.n_by_rank[rank]} rows, fewer than the {n_batches} steps of "
                f"an epoch; spread the rows more evenly, or raise batch_size (now {batch_size})"
            )
        ends = np.outer(self.n_by_rank, np.arange(n_batches + 1)) // n_batches
        return np.diff(ends, axis=1)

    def _parts(
        self, order: np.ndarray, sizes: np.ndarray, bounds: bool, weights: Tensor
    ) -> Iterator[Batch]:
        """Cut this rank's part of each batch."""
        own, n_rows, starts = sizes[self.ranks.rank], sizes.sum(axis=0), sizes.cumsum(axis=0)
        starts = starts[self.ranks.rank] - own
        shares = own / n_rows
        if self.sample_weight is not None:
            weight = self.sample_weight.cpu().numpy().astype(np.float64)[order]
            weight = np.add.reduceat(weight, np.cumsum(own) - own)
            shares = weight / self.ranks.total(weight)
        batches = self.batches(order, own.tolist(), bounds, weights, int(sizes.max()))
        parts = zip(starts.tolist(), n_rows.tolist(), shares.tolist(), strict=True)
        for batch, part in zip(batches, parts, strict=True):
            batch.part = Part(self.ranks, *part)
            yield batch

    def batches(
        self,
        order: np.ndarray,
        sizes: list[int],
        bounds: bool = False,
        weights: Tensor | None = None,
        largest: int | None = None,
    ) -> Iterator[Batch]:
        """Cut rows, in the given order, into batches of the given sizes.

        With ``bounds``, each batch carries its label counts, and with ``weights``, one for each
        candidate, all that a step needs. This is done for some thousand rows at a time, so that it
        never takes much memory; ``largest`` is the size of the largest batch, on any rank, so that
        all ranks do it for the same batches.
        """
        widths = self.n_classes, 0 if weights is None else self.input_shape.numel()
        n_rows = min(INDEX_ROWS, rows_per_block(*widths))
        at_once = -(-n_rows // (largest or max(sizes, default=1)))
        ends = np.cumsum([0, *sizes])
        for first in range(0, len(sizes), at_once):
            some = sizes[first : first + at_once]
            part = order[ends[first] : ends[first + len(some)]]
            yield from self._cut(part, some, bounds, weights)

    def _cut(
        self, order: np.ndarray, sizes: list[int], bounds: bool, weights: Tensor | None
    ) -> Iterator[Batch]:
        ends = np.cumsum(sizes)
        counts = self.counts[order]
        entry_ends = np.cumsum(counts)
        within = np.arange(counts.sum()) - np.repeat(entry_ends - counts, counts)
        entries = np.repeat(self.indptr[order], counts) + within
        columns = self.indices[entries]
        batch_of_row = np.repeat(np.arange(len(sizes)), sizes)
        row = np.arange(len(order))
        local_row = row - (ends - sizes)[batch_of_row]
        all_cells = self._to_device(np.repeat(row, counts) * self.n_classes + columns)
        cells = self._to_device(np.repeat(local_row, counts) * self.n_classes + columns)
        widths = np.diff(entry_ends[ends - 1], prepend=0).tolist()
        nothing = [None] * len(sizes)
        limits = highest = inputs = weighed = sample_weight = nothing
        if bounds:
            batch_of_entry = np.repeat(batch_of_row, counts)
            limits, highest = self._bounds(batch_of_entry, columns, counts, len(sizes))
        rows, flat = self._to_device(order), self._to_device(entries)
        shape = len(order), self.n_classes
        is_candidate = torch.zeros(math.prod(shape), dtype=torch.bool, device=self.device)
        is_candidate = is_candidate.index_fill_(0, all_cells, True).view(shape)
        if weights is not None:
            inputs = self.inputs(rows).split(sizes)
            weighed = _dense(weights[flat], all_cells, shape).split(sizes)
            if self.sample_weight is not None:
                sample_weight = self.sample_weight[rows].split(sizes)
        parts = (
            rows.split(sizes),
            flat.split(widths),
            cells.split(widths),
            is_candidate.split(sizes),
            limits,
            highest,
            inputs,
            weighed,
            sample_weight,
        )
        for part in zip(*parts, strict=True):
            yield Batch(*part)

    def _bounds(self, batch_of_entry, columns, counts, n_batches):
        """Count clean rows and candidates of each class in each batch: Eq. (9)."""
        place = batch_of_entry * self.n_classes + columns
        size = n_batches * self.n_classes
        clean = np.repeat(counts == 1, counts)
        lower = np.bincount(place[clean], minlength=size)
        upper = np.bincount(place, minlength=size)
        limits = self.ranks.total(np.stack([lower, upper])).reshape(2, n_batches, self.n_classes)
        return self._to_device(limits.transpose(1, 0, 2)).unbind(), limits[1].max(axis=1).tolist()

    def _to_device(self, values: np.ndarray) -> Tensor:
        return torch.from_numpy(np.ascontiguousarray(values)).to(self.device)

    def confidence_matrix(self, rows: np.ndarray) -> sp.csr_array:
        """Return the confidences of some rows, with an entry for each candidate."""
        values = self.confidences.cpu().numpy()
        shape = (len(self), self.n_classes)
        return sp.csr_array((values, self.indices, self.indptr), shape=shape)[rows]
