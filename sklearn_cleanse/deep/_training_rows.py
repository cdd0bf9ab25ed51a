"""The training rows on the device, and the batches cut from them.

What belongs to a candidate (its confidence, its vote) lives in flat tensors, in the order of the
candidate matrix's entries, so that memory follows the candidates and not rows times classes. The
index arithmetic is done on the host, for many batches at once; a batch is slices and one scatter.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

#: Most pairs of a row and a voter that a search may compare: all rows vote up to the square root.
MOST_PAIRS = 2**28

#: So many rows may vote in any case.
FEWEST_VOTERS = 2**12

#: For so many rows at a time batches are cut.
ROWS_AT_ONCE = 2**14

#: Up to so many values, scaled features are kept; beyond, they are made for each batch.
MOST_SCALED_VALUES = 2**25


@dataclass(eq=False)
class Batch:
    """Some rows' candidates, as the training step needs them.

    ``entries`` are the candidates' positions in the flat tables, ``cells`` the same candidates'
    positions in the flattened (rows × classes) block, ``bounds`` the lower and upper label counts
    of Eq. (9), and ``max_count`` the largest upper bound, known on the host.
    """

    rows: Tensor
    entries: Tensor
    cells: Tensor
    shape: tuple[int, int]
    bounds: Tensor | None = None
    max_count: int | None = None

    def dense(self, values: Tensor) -> Tensor:
        """Lay values of the candidates out as a (rows × classes) block, zero elsewhere."""
        block = values.new_zeros(self.shape[0] * self.shape[1])
        return block.scatter_(0, self.cells, values).view(self.shape)

    @cached_property
    def candidates(self) -> Tensor:
        block = torch.zeros(
            self.shape[0] * self.shape[1], dtype=torch.bool, device=self.rows.device
        )
        return block.index_fill_(0, self.cells, True).view(self.shape)


class TrainingRows(torch.utils.data.Dataset):
    """Features, candidates, confidences and votes of the rows a network is trained on.

    Parameters
    ----------
    X : ndarray of shape (n_rows, ...)
        Features, used without a copy where the device allows.
    candidates : csr_array of shape (n_samples, n_classes), dtype bool
        Candidates of the training rows.
    sample_weight : ndarray of shape (n_samples,) or None
    device : torch.device
    rank : ndarray of shape (n_samples,), dtype int64
        What decides the order of the rows before they are shuffled, see `content_rank`.
    used : ndarray of shape (n_samples,), dtype int64, default=None
        Which rows of X the training rows are; one may occur several times. None if they are X.
    """

    def __init__(self, X, candidates: sp.csr_array, sample_weight, device, rank, used=None):
        self.X = as_tensor(X, device)
        self.device = self.X.device
        self.used = None if used is None else self._to_device(used)
        self.indptr = candidates.indptr.astype(np.int64)
        self.indices = candidates.indices.astype(np.int64)
        self.n_classes = candidates.shape[1]
        self.counts = np.diff(self.indptr)
        self.sample_weight = None
        if sample_weight is not None:
            weight = np.asarray(sample_weight, dtype=np.float32)
            self.sample_weight = torch.tensor(weight, device=self.device)
        even = np.repeat(1.0 / self.counts, self.counts).astype(np.float32)
        self.confidences = torch.tensor(even, device=self.device)
        self.weights = self.confidences  # what the loss makes of each candidate in this epoch
        self.by_content = np.argsort(rank, kind="stable")

    def __len__(self) -> int:
        return len(self.counts)

    @torch.no_grad()
    def scale(self, scaling) -> None:
        """Scale the network's inputs so: once and for all, unless that takes too much room."""
        self.scaling, self.scaled = scaling, None
        first = scaling(self.X[:1])
        self.input_shape = first.shape[1:]
        if len(self) * first.numel() <= MOST_SCALED_VALUES:
            self.scaled = torch.empty(len(self), *self.input_shape, device=self.device)
            size = max(1, 2**22 // first.numel())
            for start in range(0, len(self), size):
                part = slice(start, start + size)
                self.scaled[part] = scaling(self._features(part))

    def inputs(self, rows: Tensor) -> Tensor:
        """Return the network's inputs for some rows."""
        return self.scaling(self._features(rows)) if self.scaled is None else self.scaled[rows]

    def _features(self, rows: Tensor | slice) -> Tensor:
        return self.X[rows if self.used is None else self.used[rows]]

    def shuffled(self, order) -> np.ndarray:
        """Shuffle the rows, from an order that does not depend on how they came."""
        return self.by_content[order.permutation(len(self))]

    def choose_pool(self, order) -> None:
        """Choose the rows that may vote: all, or clean rows and a sample where there are many."""
        pool = self.by_content  # so that equally near voters do not depend on how rows came
        size = max(MOST_PAIRS // len(self), FEWEST_VOTERS)
        if len(self) > size:
            shuffled = self.shuffled(order)
            clean = shuffled[self.counts[shuffled] == 1][: size // 2]
            others = shuffled[~np.isin(shuffled, clean)][: size - len(clean)]
            pool = np.concatenate([clean, others])
        position = np.full(len(self), -1)
        position[pool] = np.arange(len(pool))
        self.pool, self.pool_position = pool, self._to_device(position)

    def block(self, rows: np.ndarray) -> Batch:
        """Cut out the given rows, in the given order."""
        return next(self.batches(rows, [len(rows)]))

    def blocks(self, size: int, rows: np.ndarray | None = None) -> Iterator[Batch]:
        """Cut rows (all if None), in their own order, into blocks of at most ``size`` rows."""
        rows = np.arange(len(self)) if rows is None else rows
        n = len(rows)
        return self.batches(rows, [size] * (n // size) + ([n % size] if n % size else []))

    def batches(self, order: np.ndarray, sizes: list[int], bounds: bool = False) -> Iterator[Batch]:
        """Cut rows, in the given order, into batches of the given sizes.

        The index arithmetic is done for some thousand rows at a time, so that it never takes much.
        """
        start = first = 0
        for i, end in enumerate(np.cumsum(sizes).tolist(), start=1):
            if end - start >= ROWS_AT_ONCE or i == len(sizes):
                yield from self._cut(order[start:end], sizes[first:i], bounds)
                start, first = end, i

    def _cut(self, order: np.ndarray, sizes: list[int], bounds: bool) -> Iterator[Batch]:
        ends = np.cumsum(sizes)
        starts = ends - sizes
        counts = self.counts[order]
        entry_ends = np.cumsum(counts)
        within = np.arange(counts.sum()) - np.repeat(entry_ends - counts, counts)
        entries = np.repeat(self.indptr[order], counts) + within
        columns = self.indices[entries]
        batch_of_row = np.repeat(np.arange(len(sizes)), sizes)
        local_row = np.arange(len(order)) - starts[batch_of_row]
        cells = np.repeat(local_row, counts) * self.n_classes + columns
        widths = np.diff(entry_ends[ends - 1], prepend=0).tolist()
        limits = highest = [None] * len(sizes)
        if bounds:
            batch_of_entry = np.repeat(batch_of_row, counts)
            limits, highest = self._bounds(batch_of_entry, columns, counts, len(sizes))
        parts = (
            self._to_device(order).split(sizes),
            self._to_device(entries).split(widths),
            self._to_device(cells).split(widths),
            [(size, self.n_classes) for size in sizes],
            limits,
            highest,
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
        limits = np.stack([lower, upper]).reshape(2, n_batches, self.n_classes)
        return self._to_device(limits.transpose(1, 0, 2)).unbind(), limits[1].max(axis=1).tolist()

    def _to_device(self, values: np.ndarray) -> Tensor:
        return torch.from_numpy(np.ascontiguousarray(values)).to(self.device)

    def confidence_matrix(self) -> sp.csr_array:
        values = self.confidences.cpu().numpy()
        shape = (len(self), self.n_classes)
        return sp.csr_array((values, self.indices, self.indptr), shape=shape)


def content_rank(X: np.ndarray, candidates: sp.csr_array) -> np.ndarray:
    """Rank rows by what they hold.

    Shuffling from this order makes training independent of the order in which rows come. The
    order itself means nothing.
    """
    flat = np.ascontiguousarray(X).reshape(len(X), -1)
    rows = flat.view(np.dtype((np.void, flat.dtype.itemsize * flat.shape[1]))).ravel()
    order = np.argsort(rows, kind="stable")
    new = np.ones(len(X), dtype=bool)
    for start in range(0, len(X) - 1, 2**14):  # block by block, as this copies rows
        block = rows[order[start : start + 2**14 + 1]]
        new[start + 1 : start + len(block)] = block[1:] != block[:-1]
    rank = np.empty(len(X), dtype=np.int64)
    rank[order] = np.cumsum(new)
    if not new.all():  # equal features: the candidates decide, by a number that stands for the set
        key = candidates @ np.random.RandomState(0).uniform(size=candidates.shape[1])
        rank[np.lexsort((key, rank))] = np.arange(len(X))
    return rank


def as_tensor(X: np.ndarray, device) -> Tensor:
    """Put features on the device, sharing memory where possible.

    Floats keep their precision until they are scaled (single precision would lose, say, time
    stamps); only a device without double precision gets single.
    """
    device = torch.device(device)
    if X.dtype == np.float64 and device.type == "mps":
        X = X.astype(np.float32)
    if any(stride < 0 for stride in X.strides) or not X.dtype.isnative:
        X = np.ascontiguousarray(X, dtype=X.dtype.newbyteorder("="))
    with warnings.catch_warnings():
        # A memmap opened for reading is not writable; torch fears that we might write to it.
        warnings.filterwarnings("ignore", "The given NumPy array is not writable")
        return torch.from_numpy(X).to(device)


def choose_device(device: str) -> str:
    """Turn "auto" into the best device there is: CUDA, then MPS, then CPU."""
    if device != "auto":
        try:
            return str(torch.zeros(0, device=device).device)
        except (RuntimeError, AssertionError) as error:
            raise ValueError(
                f"device={device!r} cannot be used here ({error}); use 'auto' or 'cpu'"
            ) from error
    if torch.cuda.is_available():
        return "cuda"
    return "mps" if torch.backends.mps.is_available() else "cpu"
