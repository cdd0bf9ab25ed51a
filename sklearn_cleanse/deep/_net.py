"""The one training loop: Algorithm 1 of the paper, in skorch's frame.

`CleanSENet.train` is the loop, `step_loss` the loss of a step. What CleanSE adds, the votes before
an epoch and the count term of a step, is in `sklearn_cleanse.calibration`; without calibration the
same loop trains on the base loss alone. Nothing in a step waits for the device.
"""

from __future__ import annotations

import dis
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
import torch
from skorch import NeuralNet
from skorch.callbacks import Callback as SkorchCallback
from skorch.callbacks import EarlyStopping
from skorch.utils import TeeGenerator
from torch import Tensor
from tqdm import tqdm  # tqdm.auto warns in notebooks without ipywidgets

from .. import losses
from .._device import as_tensor
from .._ranks import AgreedStop
from ..calibration import Calibration, Calibrator, Voters
from ..losses import Loss, average_members, candidate_confidences
from ..votes import cosine_directions
from ._modules import MLP, MODULES, check_output, per_member, split_output
from ._optimizer import one_cycle
from ._random import OwnRandom
from ._shared_norm import release_norms, share_norms
from ._threads import step_threads
from ._training_rows import Batch, TrainingRows, rows_per_block

#: Names of the callbacks that belong to one call of `train` and are dropped after it.
OWN_CALLBACKS = ("schedule", "progress", "validation", "early_stopping")


@dataclass(frozen=True)
class Training:
    """What one call of `fit` or `partial_fit` asks of the loop.

    ``calibration`` is None for the base loss alone; ``weight_decay`` is that of the optimiser.
    """

    loss: Loss
    loss_params: Mapping[str, Any]
    calibration: Calibration | None
    epochs: int
    batch_size: int
    lr: float
    schedule: str
    weight_decay: float

    @property
    def count_every(self) -> int:
        """Steps from one count term to the next; 0 if there is none."""
        counts = self.calibration is not None and self.calibration.count_weight > 0
        return self.calibration.count_every if counts else 0


class Outcome(NamedTuple):
    """How a training ended, and who voted in it (None without calibration).

    An interrupted training has kept what it had learnt by then.
    """

    interrupted: bool
    voters: Voters | None


class StepLoss(NamedTuple):
    """The loss of one step and its parts, all scalars, and the members' mean logits."""

    total: Tensor
    base: Tensor
    count: Tensor
    covered: Tensor
    mean_logits: Tensor


def step_loss(training: Training, logits: Tensor, batch: Batch, weights: Tensor) -> StepLoss:
    """Compute the loss of a step: the reweighted base loss plus λ times the count term, Eq. (15).

    Parameters
    ----------
    training : Training
    logits : Tensor of shape (n_rows, n_classes) or (n_rows, n_members, n_classes)
        What the network says of the batch.
    batch : Batch
        The batch's candidates, label counts and sample weights.
    weights : Tensor of shape (n_rows, n_classes)
        Weights of the candidates.
    """
    rows = (batch.candidates, weights, batch.sample_weight)
    function, params = training.loss.function, training.loss_params
    if training.loss.by_row or logits.dim() == 2:
        base = function(*per_member(logits, *rows), **params)
    else:
        base = torch.stack([function(m, *rows, **params) for m in logits.unbind(1)]).mean()
    count, mean = torch.zeros_like(base), average_members(logits)
    total = base if batch.part is None else batch.part.share * base
    if batch.bounds is not None:
        everyone = mean if batch.part is None else batch.part.with_others(mean)
        count = training.calibration.count(everyone, batch.bounds, batch.max_count)
        total = total + training.calibration.count_weight * batch.counts_for * count
    covered = batch.candidates.gather(1, mean.argmax(dim=1, keepdim=True)).mean(dtype=base.dtype)
    return StepLoss(total, base, count, covered, mean)


class CleanSENet(NeuralNet):
    """Net that trains a module on `TrainingRows`.

    Parameters
    ----------
    n_classes : int
        Number of classes.
    *args, **kwargs
        As for `skorch.NeuralNet`.
    """

    def __init__(self, *args, n_classes=None, **kwargs):
        self.n_classes = n_classes
        super().__init__(*args, **kwargs)

    @property
    def _default_callbacks(self):
        return []

    def initialize(self):
        super().initialize()
        self.module = type(self.module_)  # a pickle holds the weights once
        return self

    # -- training ----------------------------------------------------------------------------

    def train(
        self,
        rows: TrainingRows,
        training: Training,
        callbacks: list,
        rng: np.random.RandomState,
        own_random: OwnRandom,
    ) -> Outcome:
        """Train on some rows, from wherever the weights are now.

        Parameters
        ----------
        rows : TrainingRows
        training : Training
            What to do.
        callbacks : list of skorch callbacks
        rng : numpy.random.RandomState
            Draws the voters, then shuffles the rows before each epoch.
        own_random : OwnRandom
            Draws all that the module and the loss draw.

        Returns
        -------
        outcome : Outcome
        """
        self._set_up(training, callbacks, len(rows.batch_sizes(training.batch_size)))
        share_norms(self.module_, rows.ranks)
        calibrator, keeps = None, training.loss.confidences is not None
        if training.calibration is not None:
            space = training.calibration.neighbor_space
            calibrator = Calibrator(
                training.calibration,
                rows,
                keeps,
                lambda which: self._directions_of(rows, which, space),
                rng,
            )
        interrupted = False
        network, training = self._own_draws(rows, training, own_random)
        self.notify("on_train_begin", X=rows, y=None)
        try:
            for epoch in range(training.epochs):
                began = time.perf_counter()
                self.notify("on_epoch_begin", dataset_train=rows, dataset_valid=None)
                done = epoch / training.epochs
                if calibrator is not None:
                    weights = calibrator.epoch_weights(done)
                else:
                    weights = rows.confidences if keeps else rows.even_weights()
                means = self._train_epoch(rows, training, calibrator, weights, done, rng, network)
                self._record(means, training, calibrator, began)
                with rows.ranks.stop_together(_asked_by_callback):
                    self.notify("on_epoch_end", dataset_train=rows, dataset_valid=None)
        except KeyboardInterrupt as stop:
            if rows.ranks.several and not isinstance(stop, AgreedStop):
                raise  # the others may be at another step
            interrupted = not _asked_by_callback(stop)
        if type(network) is MLP:
            network.draw_from(None)
        release_norms(self.module_, rows.ranks)
        rows.ranks.take_first(self.module_)  # buffers that a module keeps by its own rows
        with rows.ranks.stop_together(_asked_by_callback):
            self.notify("on_train_end", X=rows, y=None)
        rows.ranks.take_first(self.module_)  # early stopping has gone back to its best epoch
        kept = [(name, callback) for name, callback in self.callbacks_ if name not in OWN_CALLBACKS]
        self.callbacks = self.callbacks_ = kept
        return Outcome(interrupted, None if calibrator is None else calibrator.voters())

    def _own_draws(self, rows: TrainingRows, training: Training, own_random: OwnRandom):
        """Let network and loss draw from generators of this training; return both.

        Those of this package are left as they are: they draw nothing, or from what they are given.
        """
        network, loss = self.module_.network, training.loss
        if type(network) is MLP:
            network.draw_from(own_random.generator(rows.device))
        elif type(network) not in MODULES.values():
            network = own_random.wrap(network)
            self._set_training(False)
            check_output(network, rows.inputs(torch.arange(min(2, len(rows)))), self.n_classes)
        if getattr(loss.function, "__module__", None) != losses.__name__:
            loss = replace(loss, function=own_random.wrap(loss.function))
        return network, replace(training, loss=loss)

    def _set_up(self, training: Training, callbacks: list, n_batches: int) -> None:
        for group in self.optimizer_.param_groups:
            group.update(betas=(0.9, 0.999), lr=training.lr, weight_decay=training.weight_decay)
        self.max_epochs, self.batch_size = training.epochs, training.batch_size
        self.callbacks = list(callbacks)
        if training.schedule == "onecycle":
            self.callbacks.append(("schedule", OneCycle(training.epochs * n_batches)))
        self.initialize_callbacks()

    def _train_epoch(
        self, rows, training, calibrator, weights, done, rng, network
    ) -> tuple[float, float, float]:
        """Visit each row once; return the mean base loss, count loss and covering rate of all."""
        self._set_training(True)
        self.history.new_batch()  # one stands for all: the history keeps epochs, not batches
        sums = torch.zeros(3, device=rows.device)
        voting = calibrator is not None and training.calibration.temperature_after(done) > 1
        voters = calibrator if voting and calibrator.votes_in_batches else None
        if type(network) is MLP:
            network.forget_draws()
        largest = max(rows.batch_sizes(training.batch_size)) // rows.ranks.size
        counted = 0.0  # share of the rows whose batch is counted
        with step_threads(network, rows.device, largest):
            for batch in rows.epoch(training.batch_size, rng, weights, training.count_every):
                whole = {"batch": (batch.inputs, batch), "training": True}
                self.notify("on_batch_begin", **whole)
                output, loss = self.train_step(network, rows, training, batch, voters, done)
                share = batch.shape[0] / rows.n_total
                sums.add_(torch.stack(loss[1:4]).detach(), alpha=share)
                counted += 0.0 if batch.bounds is None else share
                self.notify("on_batch_end", **whole, loss=loss.total, y_pred=output)
        base, count, covered, counted = rows.ranks.add_(
            torch.cat([sums, sums.new_tensor([counted])])
        ).tolist()
        return base, count / counted if counted else 0.0, covered

    def train_step(
        self, network, rows, training, batch, voters=None, done=0.0
    ) -> tuple[Any, StepLoss]:
        """Do one step of the optimiser; return the network's output and the loss.

        ``network`` maps scaled inputs to the module's output; ``voters`` is the `Calibrator` if the
        rows of the batch vote for each other, else None.
        """
        if not self.module_.training:  # a callback has predicted
            self._set_training(True)
        self.optimizer_.zero_grad()
        X, weights = batch.inputs, batch.weights
        output = network(X)  # the rows are scaled already
        logits, representation = split_output(output)
        if voters is not None:
            near = _directions(X, representation, training.calibration.neighbor_space)
            weights = voters.batch_weights(near, batch.candidates, weights, done)
        loss = step_loss(training, logits, batch, weights)
        loss.total.backward()
        rows.ranks.add_gradients(self.module_)
        self.notify(
            "on_grad_computed",
            named_parameters=TeeGenerator(self.module_.named_parameters()),
            batch=(X, batch),
            training=True,
        )
        self.optimizer_.step()
        if training.loss.confidences is not None:
            with torch.no_grad():
                if training.loss.second_pass:
                    logits = split_output(network(X))[0]
                elif training.loss.confidences is candidate_confidences:
                    logits = loss.mean_logits  # averaged already
                rows.set_confidences(batch, training.loss.confidences(logits, batch.candidates))
        return output, loss

    def on_batch_begin(self, net, batch=None, training=False, **kwargs):
        pass  # skorch would open a new batch in the history

    def _record(self, means, training: Training, calibrator, began: float) -> None:
        base, count, covered = means
        total = base + (training.calibration.count_weight * count if training.count_every else 0.0)
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
        if calibrator is not None and calibrator.searches:
            measured["clean_voter_share"] = calibrator.clean_voter_share()
        measured["seconds"] = time.perf_counter() - began
        for key, value in measured.items():
            self.history.record(key, value)

    # -- prediction --------------------------------------------------------------------------

    def log_proba(self, X: np.ndarray) -> np.ndarray:
        """Return the log-probability of each class, of shape (n_samples, n_classes)."""
        found = self._by_block(X, self._log_proba_of)
        _refuse_failed(np.isfinite(found).all(axis=1))
        return found

    def most_likely(self, X: np.ndarray) -> np.ndarray:
        """Return the column of the most likely class, of shape (n_samples,)."""

        def choose(block: Tensor) -> Tensor:
            log_proba = self._log_proba_of(block)
            return log_proba.argmax(dim=1).where(log_proba.isfinite().all(dim=1), -1)

        found = self._by_block(X, choose)
        _refuse_failed(found >= 0)
        return found

    def directions(self, X: np.ndarray, space: str) -> np.ndarray:
        """Return where rows lie in the neighbour space, of shape (n_samples, n_dimensions)."""

        def place(block: Tensor) -> Tensor:
            scaled = self.module_.scaling(block)
            return self._directions_of_inputs(scaled, space).cpu()

        return self._by_block(X, place)

    @torch.no_grad()
    def confidences(
        self, X: np.ndarray, candidates: sp.csr_array, function: Callable = candidate_confidences
    ) -> sp.csr_array:
        """Return the confidence in each candidate of the given rows, by a loss's own rule."""
        self._set_training(False)
        values = np.empty(candidates.nnz, dtype=np.float32)
        size = rows_per_block(self.n_classes, int(np.prod(X.shape[1:])))
        for start in range(0, len(X), size):
            part = candidates[start : start + size]
            logits, _ = split_output(self.module_(as_tensor(X[start : start + size], self.device)))
            own = torch.from_numpy(part.toarray()).to(logits.device)
            first, last = candidates.indptr[[start, start + part.shape[0]]]
            values[first:last] = function(logits, own)[own].cpu().numpy()
        return sp.csr_array((values, candidates.indices, candidates.indptr), shape=candidates.shape)

    @torch.no_grad()
    def _by_block(self, X: np.ndarray, function: Callable[[Tensor], Tensor]) -> np.ndarray:
        self._set_training(False)
        found = None
        size = rows_per_block(self.n_classes, int(np.prod(X.shape[1:])))
        for start in range(0, len(X), size):
            part = function(as_tensor(X[start : start + size], self.device))
            if found is None:
                found = part.new_empty(len(X), *part.shape[1:])
            found[start : start + size] = part
        return found.numpy()

    def _log_proba_of(self, X: Tensor) -> Tensor:
        logits, _ = split_output(self.module_(X))
        return average_members(logits.cpu().double()).log_softmax(dim=1)

    @torch.no_grad()
    def _directions_of(self, rows: TrainingRows, which: Any, space: str) -> Tensor:
        """Return the directions of training rows, given by number, block by block."""
        self._set_training(False)
        size = rows_per_block(self.n_classes, rows.input_shape.numel())
        parts = [rows.inputs(which[i : i + size]) for i in range(0, len(which), size)]
        return torch.cat([self._directions_of_inputs(X, space) for X in parts])

    def _directions_of_inputs(self, X: Tensor, space: str) -> Tensor:
        representation = None if space == "input" else split_output(self.module_.network(X))[1]
        return _directions(X, representation, space)


def _directions(X: Tensor, representation: Tensor | None, space: str) -> Tensor:
    """Return directions of length one in the neighbour space, for rows of scaled features."""
    if space == "input":
        representation = X if X.dim() == 3 else X.flatten(start_dim=1)
    if representation.dim() == 3:  # members, or views: each has an equal say
        representation = cosine_directions(representation)
    # single precision, as confidences are, whatever the module computes in
    return cosine_directions(representation.detach().float().flatten(start_dim=1))


def _refuse_failed(is_finite: np.ndarray) -> None:
    if not is_finite.all():
        raise ValueError(
            f"the network's output for row {np.argmin(is_finite)} of X is not finite: the row may "
            "be far outside the range of the training rows (check its units), or the module fails"
        )


def check_callbacks(callbacks: Any) -> None:
    """Refuse what skorch cannot call, by its place in the list."""
    for i, given in enumerate(callbacks or []):
        named = isinstance(given, tuple) and len(given) == 2 and isinstance(given[0], str)
        callback = given[1] if named else given
        kind = callback if isinstance(callback, type) else type(callback)
        if not issubclass(kind, SkorchCallback) and not (named and callback is None):
            raise ValueError(
                f"callbacks[{i}] is {given!r}; it must be a skorch.callbacks.Callback, or a pair "
                "of a name and one"
            )


def _asked_by_callback(stop: KeyboardInterrupt) -> bool:
    """Return whether a skorch callback raised it, which is how skorch's callbacks end a training.

    An interrupt by the user can arrive in such a callback, too, but then not at a raise statement.
    """
    if isinstance(stop, AgreedStop):
        return True
    last = stop.__traceback__
    while last.tb_next is not None:
        last = last.tb_next
    module = last.tb_frame.f_globals.get("__name__", "")
    raising = last.tb_frame.f_code.co_code[last.tb_lasti] == dis.opmap["RAISE_VARARGS"]
    return raising and module.startswith("skorch.callbacks")


def probabilities(logits: Tensor) -> Tensor:
    """Return the probabilities that the logits of one network or several mean."""
    return average_members(logits).softmax(dim=1)


class OneCycle(SkorchCallback):
    """The one-cycle schedule over the steps of one call; the optimiser's lr is the peak."""

    def __init__(self, n_steps: int):
        self.n_steps = n_steps

    def on_train_begin(self, net, **kwargs):
        self.step_, self.peak_ = 0, net.optimizer_.param_groups[0]["lr"]

    def on_batch_begin(self, net, training=False, **kwargs):
        # One step more than are taken: the last one of the schedule has a rate of nearly zero.
        lr, beta1 = one_cycle(self.step_, self.n_steps + 1, self.peak_)
        for group in net.optimizer_.param_groups:
            group.update(lr=lr, betas=(beta1, 0.999))
        self.step_ += 1


class Progress(SkorchCallback):
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


class ValidationScore(SkorchCallback):
    """Record the approximated accuracy on held-out rows: no true label is needed."""

    def __init__(self, X, candidates):
        self.X, self.candidates = X, candidates

    def on_epoch_end(self, net, dataset_train=None, **kwargs):
        best = net.most_likely(self.X)
        believed = net.confidences(self.X, self.candidates)
        predicted = believed.indices == np.repeat(best, np.diff(believed.indptr))
        sums = np.array([believed.data[predicted].sum(dtype=np.float64), len(best)])
        total, n_rows = dataset_train.ranks.total(sums).tolist()
        score = total / n_rows
        net.history.record("validation_score", score)


def early_stopping(X: np.ndarray, candidates, patience: int) -> list[tuple[str, SkorchCallback]]:
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
