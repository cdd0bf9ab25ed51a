"""The training: skorch's loop, with the reweighted loss plus λ times the count loss, Eq. (15)."""

import signal
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

import numpy as np
import torch
from skorch import NeuralNet
from skorch.callbacks import Callback, EarlyStopping, LRScheduler
from skorch.utils import noop
from torch import Tensor
from torch.optim.lr_scheduler import OneCycleLR
from tqdm import tqdm  # tqdm.auto warns in notebooks without ipywidgets

from ..base import limit_threads
from ..counts import COUNT_LOSSES
from ..losses import Loss, average_networks, candidate_confidences
from ..reweighting import temperature_at, weigh
from ._modules import MLP
from ._rows import Batch, Batches, CandidateRows
from .distributed import by_first


class ConstantVotes(NamedTuple):
    """Votes that a voter has taken before training."""

    proba: Tensor
    end: float | None
    start: float = 0.0
    hard: bool = False

    def of_epoch(self, net: Any, rows: CandidateRows) -> Tensor:
        return self.proba.to(rows.device)

    def of_batch(self, inputs: Tensor, representation: Tensor, batch: Batch) -> None:
        return None


@dataclass(frozen=True)
class Objective:
    """What one training minimizes.

    ``votes`` is None, or an object with ``start``, ``end``, ``hard``, ``of_epoch(net, rows)`` and
    ``of_batch(inputs, representation, batch)``, which return votes or None.
    """

    loss: Loss
    loss_params: Mapping[str, Any]
    votes: Any = None
    temperature: float = 1.0
    count_weight: float = 0.0
    count_loss: str = "interval"
    count_every: int = 1
    proportions: Tensor | None = None


class PartialLabelNet(NeuralNet):
    """A skorch net that trains a module on `CandidateRows`."""

    @property
    def _default_callbacks(self):
        return []

    def check_built_from(self, estimator):
        """Raise if the estimator's parameters no longer describe the network."""
        for name, built in self.built_from_.items():
            if not np.array_equal(value := getattr(estimator, name), built):
                raise ValueError(
                    f"`{name}` must be as in the first fit, {built!r}, got {value!r}. Set it back, "
                    "or fit a new estimator."
                )

    def train(self, rows, objective, callbacks, *, epochs, batch_size, lr, weight_decay, generator):
        """Train from the present weights; objective and callbacks belong to this call alone."""
        self.objective_, self.callbacks, self.generator_ = objective, callbacks, generator
        self.max_epochs, self.batch_size, self.interrupted_ = epochs, batch_size, False
        self.n_before_, self.began_ = len(self.history), 0.0
        self.parts_, self.counts_ = list[Any](), list[Any]()
        for group in self.optimizer_.param_groups:
            group.update(lr=lr, betas=(0.9, 0.999), weight_decay=weight_decay)
        self.initialize_callbacks()
        if self.n_before_ and objective.loss.confidences is not None:  # better than prior weights
            for part in torch.arange(len(rows), device=rows.device).split(4096):
                logits, _ = self.outputs(rows.inputs(part))
                found = objective.loss.confidences(logits, rows.mask[part])
                rows.keep(part, found.to(rows.even.dtype))
        largest = -(-len(rows) // len(self.get_iterator(rows)))
        is_small = isinstance(self.module_, MLP) and rows.device.type == "cpu"
        work = sum(p.numel() for p in self.module_.parameters()) if is_small else np.inf
        with limit_threads(largest * work):
            self.partial_fit(rows)
        del self.objective_, self.generator_, self.parts_, self.counts_, self.began_
        if self.interrupted_ and not any("seconds" in e for e in self.history[self.n_before_ :]):
            raise KeyboardInterrupt("Training was interrupted before its first epoch ended.")
        self.callbacks_: list[Any] = [c for c in self.callbacks_ if c[0] not in OWN_CALLBACKS]
        self.callbacks = self.callbacks_

    # -- hooks of skorch ---------------------------------------------------------------------

    def fit_loop(self, X, y=None, epochs=None, **kwargs):
        with _note_interrupts() as pressed:
            try:
                return super().fit_loop(X, y, epochs, **kwargs)
            except KeyboardInterrupt:  # by which callbacks stop, too; skorch would end quietly
                self.interrupted_ = bool(pressed)
                return self

    def get_iterator(self, dataset, training=False):
        return Batches(dataset, self.batch_size, self.generator_)

    def run_single_epoch(self, iterator, training, prefix, step_fn, **fit_params):
        """Visit each batch; skorch's own form waits for the device in each step."""
        for self.step_, batch in enumerate(iterator or ()):
            self.n_steps_ = len(iterator)
            self.notify("on_batch_begin", batch=batch, training=training)
            step = step_fn(batch, **fit_params)
            self.notify("on_batch_end", batch=batch, training=training, **step)

    def infer(self, x, **fit_params):
        """Return logits (rows, networks, classes) and a representation, whatever the module."""
        output = super().infer(x, **fit_params)
        logits, representation = output if isinstance(output, tuple) else (output, output)
        return logits if logits.dim() == 3 else logits[:, None], representation

    def _set_training(self, training=True):
        if self.module_.training != training:  # skorch asks in each step, which takes 40 µs
            super()._set_training(training)

    def on_batch_begin(self, net, **kwargs):
        pass  # skorch would open a new batch in the history

    def on_epoch_begin(self, net, dataset_train=None, **kwargs):
        """Let the votes weigh the candidates; T falls over the epochs."""
        self.began_, self.parts_, self.counts_ = time.perf_counter(), [], []
        done = (len(self.history) - self.n_before_) / self.max_epochs
        super().on_epoch_begin(net, dataset_train=dataset_train, **kwargs)
        self.history.new_batch()  # one for all: the history keeps epochs
        rows, objective = dataset_train, self.objective_
        votes, self.temperature_ = None, 1.0
        if objective.votes is not None:
            when = objective.votes.start, objective.votes.end
            self.temperature_ = temperature_at(done, objective.temperature, *when)
        if self.temperature_ > 1:
            votes = objective.votes.of_epoch(self, rows)
        rows.weights = rows.even if objective.loss.confidences is None else rows.confidences
        if votes is not None:
            rows.weights = self._weigh(rows.weights, rows.even, votes)

    def _weigh(self, weights, even, votes):
        objective = self.objective_
        kept = None if objective.loss.confidences is None else weights
        return weigh(kept, even, votes.float(), self.temperature_, objective.votes.hard)

    def get_loss(self, y_pred, y_true, X=None, training=False):
        """Return the loss of a step, and add its parts to those of the epoch."""
        (logits, representation), batch, objective = y_pred, y_true, self.objective_
        weights = batch.weights
        if self.temperature_ > 1:
            votes = objective.votes.of_batch(X, representation, batch)
            weights = weights if votes is None else self._weigh(weights, weights, votes)
        loss = base = self._base_loss(logits, batch.mask, weights, batch.sample_weight)
        if base.dim():
            raise ValueError(
                f"`loss` must return a scalar, got shape {tuple(base.shape)}. Return its mean."
            )
        if objective.count_weight > 0 and self.step_ % objective.count_every == 0:
            count = self._count_loss(average_networks(logits), batch.mask)
            n_counted = -(-self.n_steps_ // objective.count_every)
            loss = base + objective.count_weight * self.n_steps_ / n_counted * count
            self.counts_.append((count.detach(), len(logits)))
        best = logits.detach().sum(dim=1).argmax(dim=1, keepdim=True)
        sets = batch.mask if batch.source.sets is None else batch.source.sets[batch.rows]
        self.parts_.append((base.detach(), sets.gather(1, best).sum(), len(logits)))
        return loss

    def _base_loss(self, logits, mask, weights, sample_weight):
        """Average the loss over networks; where it is a mean over rows, they stand as rows."""
        loss, params, n = self.objective_.loss, self.objective_.loss_params, logits.shape[1]
        rows = [mask, weights, sample_weight]
        if not loss.by_row:
            return torch.stack([loss.function(z, *rows, **params) for z in logits.unbind(1)]).mean()
        if n > 1:
            rows = [None if part is None else part.repeat_interleave(n, dim=0) for part in rows]
        return loss.function(logits.flatten(0, 1), *rows, **params)

    def _count_loss(self, mean, mask):
        """A label occurs at least as often as in clean rows, at most as often as a candidate."""
        is_clean = mask.sum(dim=1, keepdim=True) == 1
        lower, upper = (mask & is_clean).sum(dim=0), mask.sum(dim=0)
        loss, most = COUNT_LOSSES[self.objective_.count_loss], largest_bound(upper, len(mask))
        return loss(mean, lower, upper, self.objective_.proportions, max_count=most)

    @torch.no_grad()
    def on_batch_end(self, net, batch=None, training=False, y_pred=None, **kwargs):
        """Renew the confidences that some losses keep from visit to visit."""
        loss = self.objective_.loss
        if training and loss.confidences is not None:
            inputs, (source, rows, mask, *_) = batch
            logits = self.infer(inputs)[0] if loss.second_pass else y_pred[0]
            source.keep(rows, loss.confidences(logits, mask))

    def on_epoch_end(self, net, **kwargs):
        bases, covered, sizes = zip(*self.parts_, strict=True)
        base = float(np.average(torch.stack(bases).tolist(), weights=sizes))
        count = 0.0
        if self.counts_:
            counts, weights = zip(*self.counts_, strict=True)
            count = float(np.average(torch.stack(counts).tolist(), weights=weights))
        total = base + self.objective_.count_weight * count
        if not np.isfinite(total):
            raise FloatingPointError(
                f"The training loss must be finite, got {total} in epoch {len(self.history)}. "
                "Lower `lr` or scale the features."
            )
        measured = {"loss": total, "base_loss": base, "count_loss": count}
        measured["loss_best"] = all(total < e.get("loss", np.inf) for e in self.history[:-1])
        measured["covering_rate"] = float(torch.stack(covered).sum()) / sum(sizes)
        measured["seconds"] = time.perf_counter() - self.began_
        for name, value in measured.items():
            self.history.record(name, value)

    # -- prediction --------------------------------------------------------------------------

    @torch.no_grad()
    def outputs(self, inputs):
        """Return logits (rows, networks, classes) and a representation of scaled features."""
        self._set_training(False)
        return self.infer(inputs)


def largest_bound(upper: Tensor, n_rows: int) -> int:
    """Return the largest bound, or any larger number rather than wait for an accelerator."""
    return int(upper.max()) if upper.device.type == "cpu" else n_rows


@contextmanager
def _note_interrupts() -> Iterator[list]:
    """Give a list to which each Ctrl-C is added; Python delivers it to the main thread alone."""
    pressed, before = cast(Any, ([], signal.getsignal(signal.SIGINT)))
    watches = threading.current_thread() is threading.main_thread() and callable(before)
    if watches:
        signal.signal(signal.SIGINT, lambda *args: pressed.append(args) or before(*args))
    try:
        yield pressed
    finally:
        if watches:
            signal.signal(signal.SIGINT, before)


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
    """Record the approximated accuracy on held-out rows, which needs no true label."""

    def __init__(self, rows):
        self.rows = rows

    def on_epoch_end(self, net, **kwargs):
        total = torch.zeros((), device=self.rows.device)
        for rows in torch.arange(len(self.rows), device=self.rows.device).split(4096):
            inputs, batch = self.rows[rows]
            # by all ranks, as a forward pass synchronizes them
            mean = average_networks(net.outputs(inputs)[0])
            proba = candidate_confidences(mean, batch.mask)
            total += proba.gather(1, mean.argmax(dim=1, keepdim=True)).sum()
        net.history.record("validation_score", by_first(float, total) / len(self.rows))


def early_stopping(rows: CandidateRows, patience: int) -> list[tuple[str, Callback]]:
    """Score held-out rows after each epoch, stop without progress, and restore the best epoch."""
    stop = EarlyStopping(
        monitor="validation_score",
        lower_is_better=False,
        patience=patience,
        threshold=0.0,
        load_best=True,
        sink=noop,
    )
    return [("_validation", ValidationScore(rows)), ("_early_stopping", stop)]


def one_cycle(peak: float, n_steps: int) -> tuple[str, Callback]:
    """Let the learning rate rise to a peak and fall; of one step more, as the last has rate 0."""
    how = {"max_lr": peak, "total_steps": n_steps + 1, "last_epoch": -1}
    return "_schedule", LRScheduler(OneCycleLR, step_every="batch", event_name=None, **how)


#: Callbacks that belong to one call of `train`.
OWN_CALLBACKS = ("_schedule", "_progress", "_validation", "_early_stopping", "_distributed")
