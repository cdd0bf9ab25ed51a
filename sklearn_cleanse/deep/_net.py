"""The one training loop: a skorch net that trains on candidates, votes and counts.

Algorithm 1 of the paper, in skorch's frame. A step (`CleanSENet.get_loss`) is the base loss under
the weights of Eq. (4) plus λ times the count loss of Eq. (10). Before an epoch neighbours
are found among all rows and their votes taken. What the history tells is measured on the way.
Nothing in a step waits for the device.
"""

from __future__ import annotations

import time
import warnings
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
import torch
from skorch import NeuralNet
from skorch.callbacks import Callback, EarlyStopping
from skorch.utils import TeeGenerator
from torch import Tensor
from tqdm.auto import tqdm

from ..counts import COUNT_LOSSES
from ..losses import calibrate, candidate_confidences, pooled
from ..votes import cosine_directions, hard_votes, nearest, restrict, soft_votes
from ._modules import per_member, split_output
from ._optimizer import one_cycle
from ._training_rows import Batch, TrainingRows, as_tensor

#: Largest number of values in one block of a search or a prediction.
BLOCK_VALUES = 2**21

#: Names of the callbacks that belong to one call of `train` and are forgotten after it.
OWN_CALLBACKS = ("schedule", "progress", "validation", "early_stopping")

#: Epochs from the first search for neighbours to the second; then three times as many, and so on.
#: Votes are taken anew every epoch; who is near changes ever more slowly, and searching costs most.
FIRST_GAP = 3


class Calibration(NamedTuple):
    """The parameters of CleanSE, as the estimator documents them."""

    temperature: float = 1.0
    count_weight: float = 0.0
    n_neighbors: int = 10
    neighbors_from: str = "dataset"
    neighbor_space: str = "representation"
    soft: bool = True
    count_loss: str = "interval"
    proportions: Tensor | None = None
    vote_start: float = 0.0

    @property
    def votes(self) -> bool:
        return self.temperature > 1


class CleanSENet(NeuralNet):
    """Net that trains a module on `TrainingRows`.

    Parameters
    ----------
    loss : Loss
        The base loss.
    loss_params : dict
        Its parameters.
    calibration : Calibration
        What CleanSE adds.
    order : numpy.random.RandomState
        Shuffles the rows before each epoch.
    *args, **kwargs
        As for `skorch.NeuralNet`.
    """

    def __init__(self, *args, loss=None, loss_params=None, calibration=None, order=None, **kwargs):
        self.loss = loss
        self.loss_params = loss_params
        self.calibration = calibration
        self.order = order
        super().__init__(*args, **kwargs)

    @property
    def _default_callbacks(self):
        return []

    def train(self, rows: TrainingRows, epochs: int, schedule: str, callbacks: list, **adam):
        """Train for some epochs, from wherever the weights are now."""
        for group in self.optimizer_.param_groups:
            group.update(betas=(0.9, 0.999), **adam)
        self.max_epochs = epochs
        self.callbacks = list(callbacks)
        if schedule == "onecycle":
            self.callbacks.append(("schedule", OneCycle(epochs * len(self.get_iterator(rows)))))
        self.initialize_callbacks()
        self.n_classes_ = rows.n_classes
        rows.choose_pool(self.order)
        rows.scale(self.module_.scaling)
        self.partial_fit(rows)
        begun = self.history[self.start_ :]
        done = sum("seconds" in epoch for epoch in begun)
        if done < len(begun):  # skorch has caught a KeyboardInterrupt
            warnings.warn(
                f"training was interrupted in epoch {done + 1} of {epochs}; the model keeps what "
                "it has learnt so far",
                stacklevel=4,
            )

    # -- one epoch ---------------------------------------------------------------------------

    def get_iterator(self, dataset, training=False):
        if not isinstance(dataset, TrainingRows):  # somebody uses skorch's own predict
            return super().get_iterator(dataset, training=training)
        return _Epoch(dataset, self.batch_size, self.order, bool(self.calibration.count_weight))

    def on_train_begin(self, net, X=None, y=None, **kwargs):
        self.rows_ = X
        self.start_ = len(self.history)
        self.voting_ = False
        self.neighbors_ = None
        self.search_in_, self.gap_ = 0, FIRST_GAP

    def on_epoch_begin(self, net, dataset_train=None, dataset_valid=None, **kwargs):
        super().on_epoch_begin(net, dataset_train=dataset_train, dataset_valid=dataset_valid)
        self.history.new_batch()  # one stands for all: the history keeps epochs, not batches
        self._began = time.perf_counter()
        done = (len(self.history) - 1 - self.start_) / self.max_epochs
        self.voting_ = self.calibration.votes and done >= self.calibration.vote_start
        some_partial = self.rows_.counts.max() > 1  # clean rows need no votes
        if self.voting_ and some_partial and self.calibration.neighbors_from == "dataset":
            self._keep_up_neighbors()
        self._weigh()
        self._sums = torch.zeros(3, device=self.rows_.device)

    def on_batch_begin(self, net, batch=None, training=False, **kwargs):
        pass

    def run_single_epoch(self, iterator, training, prefix, step_fn, **fit_params):
        if iterator is None:
            return
        self._set_training(training)
        for batch in iterator:
            self.notify("on_batch_begin", batch=batch, training=training)
            step = step_fn(batch, **fit_params)
            self.notify("on_batch_end", batch=batch, training=training, **step)
        self.history.record(prefix + "_batch_count", len(iterator))

    def train_step(self, batch, **fit_params):
        """Do one optimiser step: skorch's own, less the closure no optimiser here needs."""
        X, y = batch
        if not self.module_.training:  # a callback has predicted
            self._set_training(True)
        self.optimizer_.zero_grad()
        y_pred = self.module_.network(X)  # the rows are scaled already
        loss = self.get_loss(y_pred, y, X=X, training=True)
        loss.backward()
        self.notify(
            "on_grad_computed",
            named_parameters=TeeGenerator(self.module_.named_parameters()),
            batch=batch,
            training=True,
        )
        self.optimizer_.step()
        if self.loss.confidences is not None:
            with torch.no_grad():
                output = self.module_.network(X) if self.loss.second_pass else self._said
                self._renew(split_output(output)[0], y)
        return {"loss": loss, "y_pred": y_pred}

    def get_loss(self, y_pred, y_true: Batch, X=None, training=False) -> Tensor:
        """Eq. (15): the reweighted base loss plus λ times the count loss."""
        logits, representation = split_output(y_pred)
        batch, rows, calibration = y_true, self.rows_, self.calibration
        candidates, weights = batch.candidates, batch.dense(rows.weights[batch.entries])
        if self.voting_ and calibration.neighbors_from == "batch":
            weights = self._batch_weights(X, representation, candidates, weights)
        sample_weight = None if rows.sample_weight is None else rows.sample_weight[batch.rows]
        base = self._base_loss(logits, candidates, weights, sample_weight)
        total, count = base, torch.zeros_like(base)
        mean = pooled(logits)
        if calibration.count_weight:
            count = COUNT_LOSSES[calibration.count_loss](
                mean, *batch.bounds, calibration.proportions, max_count=batch.max_count
            )
            total = base + calibration.count_weight * count
        covered = candidates.gather(1, mean.argmax(dim=1, keepdim=True)).to(base.dtype).mean()
        measured = torch.stack([base, count, covered]).detach()
        self._sums.add_(measured, alpha=batch.shape[0] / len(rows))
        # Confidences that ask for the mean prediction need not take the mean again.
        self._said = (mean if self.loss.confidences is candidate_confidences else logits).detach()
        return total

    def _base_loss(self, logits: Tensor, *others) -> Tensor:
        """Mean loss of the ensemble's members."""
        if self.loss.by_row or logits.dim() == 2:
            return self.loss.function(*per_member(logits, *others), **self.loss_params)
        members = [self.loss.function(m, *others, **self.loss_params) for m in logits.unbind(1)]
        return torch.stack(members).mean()

    def on_epoch_end(self, net, dataset_train=None, dataset_valid=None, **kwargs):
        base, count, covered = self._sums.tolist()
        total = base + self.calibration.count_weight * count
        if not np.isfinite(total):
            raise FloatingPointError(
                f"the training loss became {total} in epoch {len(self.history)}; lower lr or "
                "scale the features"
            )
        measured = {
            "loss": total,
            "base_loss": base,
            "count_loss": count,
            "covering_rate": covered,
            "loss_best": all(total < epoch.get("loss", np.inf) for epoch in self.history[:-1]),
        }
        if self.calibration.votes and self.calibration.neighbors_from == "dataset":
            measured["clean_voter_share"] = self._clean_voter_share()
        measured["seconds"] = time.perf_counter() - self._began
        for key, value in measured.items():
            self.history.record(key, value)

    # -- between epochs ----------------------------------------------------------------------

    def _renew(self, logits: Tensor, batch: Batch) -> None:
        """Replace the confidences of a batch's rows by what the logits say."""
        renewed = self.loss.confidences(logits, batch.candidates)
        confidences = self.rows_.confidences
        confidences[batch.entries] = renewed.flatten()[batch.cells].to(confidences.dtype)

    def _keep_up_neighbors(self) -> None:
        """Search for neighbours if it is time; in the input, where nothing moves, but once."""
        if self.search_in_ == 0:
            self._find_neighbors()
            self.search_in_ = self.gap_
            self.gap_ *= 3
        if self.calibration.neighbor_space != "input":
            self.search_in_ -= 1

    @torch.no_grad()
    def _find_neighbors(self) -> None:
        """Look up the voters of each partial row; clean rows need none."""
        self._set_training(False)
        rows = self.rows_
        voters = self._directions_of(rows.pool)
        partial = np.flatnonzero(rows.counts > 1)
        size = block_rows(len(voters))
        self.neighbors_ = None
        for start, batch in enumerate(rows.blocks(size, partial)):
            own = rows.pool_position[batch.rows]
            everyone = len(voters) == len(rows)
            queries = voters[own] if everyone else self._directions_of(batch.rows)
            found = nearest(queries, voters, self.calibration.n_neighbors, own=own)
            # What is kept has its place beforehand: small tensors left among large ones that come
            # and go would tear holes into the memory, gigabytes for a million rows.
            if self.neighbors_ is None:
                self.neighbors_ = [part.new_empty(len(partial), part.shape[1]) for part in found]
            for kept, part in zip(self.neighbors_, found, strict=True):
                kept[start * size : (start + 1) * size] = part

    @torch.no_grad()
    def _weigh(self) -> None:
        """Set the candidates' weights for one epoch; each row is visited once in it."""
        rows, calibration = self.rows_, self.calibration
        keeps = self.loss.confidences is not None
        rows.weights = rows.confidences if keeps else torch.ones_like(rows.confidences)
        if not self.voting_ or calibration.neighbors_from == "batch":
            return
        # A clean row's enhanced label is its only candidate; nobody need vote on it.
        rows.weights = rows.weights * (1 if keeps else calibration.temperature)
        if self.neighbors_ is None:
            return
        pool = rows.block(rows.pool)
        ballots = pool.dense(rows.confidences[pool.entries])
        partial = np.flatnonzero(rows.counts > 1)
        size = block_rows(rows.n_classes)
        for start, batch in enumerate(rows.blocks(size, partial)):
            found = [part[start * size : (start + 1) * size] for part in self.neighbors_]
            confidences = batch.dense(rows.confidences[batch.entries]) if keeps else None
            weights = self._vote(*found, pool.candidates, ballots, batch.candidates, confidences)
            rows.weights[batch.entries] = weights.flatten()[batch.cells]

    def _vote(self, neighbors, similarity, candidates, ballots, own, confidences) -> Tensor:
        """Turn the votes of the neighbours into weights of a block's own candidates."""
        calibration = self.calibration
        if calibration.soft:
            votes = restrict(soft_votes(neighbors, similarity, ballots), own)
        else:
            votes = hard_votes(neighbors, similarity, candidates, own)
        # A clean row's enhanced label is its only candidate, whoever its neighbours are.
        votes = torch.where(own.sum(dim=1, keepdim=True) == 1, own.to(votes.dtype), votes)
        return calibrate(confidences, own, votes, calibration.temperature, calibration.soft)

    def _clean_voter_share(self) -> float:
        """Tell which share of the partial rows have a clean voter."""
        if self.neighbors_ is None:
            return float("nan")
        clean = torch.from_numpy(self.rows_.counts[self.rows_.pool] == 1).to(self.rows_.device)
        return clean[self.neighbors_[0]].any(dim=1).float().mean().item()

    def _directions_of(self, which) -> Tensor:
        """Directions of the given rows, block by block."""
        size = self._block_rows()
        parts = []
        for start in range(0, len(which), size):
            X = self.rows_.inputs(which[start : start + size])
            parts.append(self._directions(X))
        return torch.cat(parts)

    @torch.no_grad()
    def _batch_weights(self, X, representation, candidates, weights) -> Tensor:
        """Let the rows of one batch vote for each other, as Algorithm 1 prints it."""
        directions = self._directions(X, representation)
        own = torch.arange(len(directions), device=directions.device)
        found = nearest(directions, directions, self.calibration.n_neighbors, own=own)
        ballots = weights / weights.sum(dim=1, keepdim=True)
        confidences = None if self.loss.confidences is None else weights
        return self._vote(*found, candidates, ballots, candidates, confidences)

    def _directions(self, X: Tensor, representation: Tensor | None = None) -> Tensor:
        """Directions, in the neighbour space, of rows given as scaled features."""
        if self.calibration.neighbor_space == "input":
            representation = X if X.dim() == 3 else X.flatten(start_dim=1)
        elif representation is None:
            representation = split_output(self.module_.network(X))[1]
        if representation.dim() == 3:  # members, or views: each has an equal say
            representation = cosine_directions(representation)
        # single precision, as confidences are, whatever the module computes in
        return cosine_directions(representation.detach().float().flatten(start_dim=1))

    def _block_rows(self) -> int:
        return block_rows(self.rows_.n_classes, self.rows_.input_shape.numel())

    # -- prediction --------------------------------------------------------------------------

    @torch.no_grad()
    def infer_blocks(self, X: np.ndarray, directions=False, best=False) -> np.ndarray:
        """Return log-probabilities of all rows, or directions, or the most likely class's place."""
        self._set_training(False)
        found = None
        size = block_rows(self.n_classes_, X[0].size)
        for start in range(0, len(X), size):
            block = as_tensor(X[start : start + size], self.device)
            if directions:
                part = self._directions(self.module_.scaling(block)).cpu()
            else:
                logits, _ = split_output(self.module_(block))
                part = pooled(logits.cpu().double()).log_softmax(dim=1)
                part = part.argmax(dim=1) if best else part
            if found is None:
                found = part.new_empty(len(X), *part.shape[1:])
            found[start : start + size] = part
        return found.numpy()

    @torch.no_grad()
    def voters(self) -> np.ndarray:
        """Return the directions of the rows that may vote."""
        self._set_training(False)
        return self._directions_of(self.rows_.pool).cpu().numpy()

    def finish(self) -> None:
        """Forget the training rows."""
        # Nothing that lives on the device stays but the module, which skorch moves when unpickled.
        self.rows_ = self.neighbors_ = self.loss_params = self._sums = self._said = None
        self.module = type(self.module_)
        kept = [(name, cb) for name, cb in self.callbacks_ if name not in OWN_CALLBACKS]
        self.callbacks = self.callbacks_ = kept
        self.calibration = self.calibration._replace(proportions=None)

    @torch.no_grad()
    def believe(self, X: np.ndarray, candidates: sp.csr_array, confidences=None) -> sp.csr_array:
        """Return the confidence in each candidate of the given rows: the softmax, or as told."""
        confidences = confidences or candidate_confidences
        self._set_training(False)
        values = np.empty(candidates.nnz, dtype=np.float32)
        size = block_rows(self.n_classes_, X[0].size)
        for start in range(0, len(X), size):
            part = candidates[start : start + size]
            logits, _ = split_output(self.module_(as_tensor(X[start : start + size], self.device)))
            own = torch.from_numpy(part.toarray()).to(logits.device)
            first, last = candidates.indptr[[start, start + part.shape[0]]]
            values[first:last] = confidences(logits, own)[own].cpu().numpy()
        return sp.csr_array((values, candidates.indices, candidates.indptr), shape=candidates.shape)


class _Epoch:
    """The batches of one epoch, shuffled anew each time it is iterated over."""

    def __init__(self, rows: TrainingRows, batch_size: int, order, bounds: bool):
        self.rows, self.order, self.bounds = rows, order, bounds
        n, size = len(rows), min(batch_size, len(rows))
        self.sizes = [size] * (n // size)
        # Batch norm needs two rows: a last batch of one joins the batch before it.
        if n % size == 1 and n > 1:
            self.sizes[-1] += 1
        elif n % size:
            self.sizes.append(n % size)

    def __len__(self) -> int:
        return len(self.sizes)

    def __iter__(self):
        order = self.rows.shuffled(self.order)
        for batch in self.rows.batches(order, self.sizes, self.bounds):
            yield self.rows.inputs(batch.rows), batch


def block_rows(*widths: int) -> int:
    """Tell how many rows go into a block, given numbers of values that each has on the way.

    Never few: products of a handful of rows are rounded differently from those of many.
    """
    return max(64, BLOCK_VALUES // max(*widths, 1024))


def probabilities(logits: Tensor) -> Tensor:
    """Tell the probabilities that logits of one network or several mean."""
    return pooled(logits).softmax(dim=1)


class OneCycle(Callback):
    """The one-cycle schedule over the steps of one call; the optimiser's lr is the peak."""

    def __init__(self, n_steps: int):
        self.n_steps = n_steps

    def on_train_begin(self, net, **kwargs):
        self.step_, self.peak_ = 0, net.optimizer_.param_groups[0]["lr"]

    def on_batch_begin(self, net, training=False, **kwargs):
        # The schedule has a step more than there are: it ends where nothing is left to learn.
        lr, beta1 = one_cycle(self.step_, self.n_steps + 1, self.peak_)
        for group in net.optimizer_.param_groups:
            group.update(lr=lr, betas=(beta1, 0.999))
        self.step_ += 1


class Progress(Callback):
    """One bar over the epochs, with the losses beside it."""

    def on_train_begin(self, net, **kwargs):
        self.bar_ = tqdm(total=net.max_epochs, unit="epoch")

    def on_epoch_end(self, net, **kwargs):
        last = net.history[-1]
        shown = {key: f"{last[key]:.4g}" for key in ("loss", "base_loss", "count_loss")}
        self.bar_.set_postfix(**shown, covered=f"{last['covering_rate']:.1%}", refresh=False)
        self.bar_.update()

    def on_train_end(self, net, **kwargs):
        self.bar_.close()
        self.bar_ = None


class ValidationScore(Callback):
    """Record the approximated accuracy on held-out rows: no true label is needed."""

    def __init__(self, X, candidates):
        self.X, self.candidates = X, candidates

    def on_epoch_end(self, net, **kwargs):
        best = net.infer_blocks(self.X, best=True)
        believed = net.believe(self.X, self.candidates)
        predicted = believed.indices == np.repeat(best, np.diff(believed.indptr))
        score = float(believed.data[predicted].sum(dtype=np.float64)) / len(best)
        net.history.record("validation_score", score)


def early_stopping(X: np.ndarray, candidates, patience: int) -> list[tuple[str, Callback]]:
    """Score held-out rows after each epoch, stop when that no longer helps, keep the best."""
    stop = EarlyStopping(
        monitor="validation_score",
        lower_is_better=False,
        patience=patience,
        threshold=0.0,
        load_best=True,
        sink=_silent,
    )
    return [("validation", ValidationScore(X, candidates)), ("early_stopping", stop)]


def _silent(*args, **kwargs):
    pass
