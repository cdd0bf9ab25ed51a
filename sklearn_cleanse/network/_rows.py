"""The training rows on the device, and the batches cut from them."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import Dataset

from .distributed import rank_and_size

#: Up to so many values, scaled features are kept; beyond, each batch is scaled when it is cut.
MAX_SCALED_VALUES = 2**25

#: Values in a block of predictions. Never few rows: products of a handful round differently.
BLOCK_VALUES, BLOCK_ROWS = 2**21, 64


class Batch(NamedTuple):
    """Some training rows: their numbers, candidates and weights."""

    source: "CandidateRows"
    rows: Tensor
    mask: Tensor
    weights: Tensor
    sample_weight: Tensor | None


class CandidateRows(Dataset):
    """Features, candidates, confidences and weights, indexed by many rows at once.

    Candidates, confidences, prior and present weights take 13 bytes per row and class.

    Parameters
    ----------
    X : ndarray of shape (n_rows, ...)
        Features, which are not copied as a whole.
    used : ndarray of shape (n_samples,), dtype int
        The rows of X to train on.
    candidates : Candidates
        Candidates of these.
    scaler : Scaling
        Scales features into the network's inputs.
    device : torch.device or str
    sample_weight : ndarray of shape (n_samples,), default=None
    sets : ndarray of shape (n_samples, n_classes), dtype bool, default=None
        The user's sets, where noise makes each label a candidate.
    """

    def __init__(self, X, used, candidates, scaler, device, sample_weight=None, sets=None):
        self.X, self.used, self.scaler, self.device = X, used, scaler, torch.device(device)
        self.mask = torch.from_numpy(candidates.mask).to(device)
        prior = torch.from_numpy(candidates.prior).to(device)
        self.even = prior / prior.amax(dim=1, keepdim=True)
        self.confidences, self.weights = prior.clone(), self.even
        self.sets = None if sets is None else torch.from_numpy(sets).to(device)
        self.sample_weight = None
        if sample_weight is not None:
            relative = torch.from_numpy(sample_weight / sample_weight.mean())
            self.sample_weight = relative.float().to(device)
        self._scaled = None
        if len(used) * self.inputs(torch.arange(1)).numel() <= MAX_SCALED_VALUES:
            parts = torch.arange(len(used)).split(block_size(X))
            self._scaled = torch.cat([self.inputs(rows) for rows in parts])

    def __len__(self) -> int:
        return len(self.used)

    def inputs(self, rows: Tensor) -> Tensor:
        """Return the network's inputs for some rows."""
        if self._scaled is not None:
            return self._scaled[rows.to(self.device)]
        return scale(self.scaler, self.X[self.used[rows.cpu().numpy()]], self.device)

    def __getitem__(self, rows: Tensor) -> tuple[Tensor, Batch]:
        inputs, rows = self.inputs(rows), rows.to(self.device)
        weight = None if self.sample_weight is None else self.sample_weight[rows]
        return inputs, Batch(self, rows, self.mask[rows], self.weights[rows], weight)

    def keep(self, rows: Tensor, confidences: Tensor) -> None:
        """Keep the confidences of some rows, times prior weights, for their next visit."""
        confidences = confidences * self.even[rows]
        total = confidences.sum(dim=1, keepdim=True)
        self.confidences[rows] = (confidences / total).to(self.confidences.dtype)


class Batches:
    """Cut the shuffled rows into batches of nearly equal size.

    A last batch of one row would break batch norm. All ranks shuffle alike, and each gets its own
    rows of a batch.
    """

    def __init__(self, dataset: CandidateRows, batch_size: int, generator: Any = None) -> None:
        self.dataset, self.generator = dataset, generator
        size = rank_and_size()[1]
        n_batches = round(len(dataset) / (batch_size * size))
        self.n_batches = max(1, min(n_batches, len(dataset) // (2 * size)))

    def __len__(self) -> int:
        return self.n_batches

    def __iter__(self) -> Iterator[tuple[Tensor, Batch]]:
        rank, size = rank_and_size()
        order = torch.randperm(len(self.dataset), generator=self.generator)
        for rows in order.tensor_split(self.n_batches):
            yield self.dataset[rows[rank::size]]


def block_size(X: np.ndarray, n_classes: int = 0) -> int:
    """Return how many rows of X to compute at a time."""
    return max(BLOCK_ROWS, BLOCK_VALUES // max(X[:1].size, n_classes, 1024))


def scale(scaler: nn.Module, X: np.ndarray, device: torch.device) -> Tensor:
    """Return the network's inputs for some features; these are copied if they are read-only."""
    X = X if X.flags.writeable and min(X.strides, default=0) >= 0 else X.copy()
    if device.type == "mps":  # without double precision
        return scaler(torch.from_numpy(X)).float().to(device)
    return scaler(torch.from_numpy(X).to(device)).float()
