"""Run votes, weights and training steps on a device that does not exist.

Fake tensors know their shape and device, but have no values: whatever reads one, or mixes devices,
raises. ``python tests/fake_device.py`` prints, as JSON, the error (or null) of each case and the
number of operations that its last step dispatches.
"""

import itertools
import json
import traceback

import numpy as np
import scipy.sparse as sp
import torch
from torch._subclasses import FakeTensorMode
from torch.utils import backend_registration
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from sklearn_cleanse import CleanSEClassifier, PartialLabelClassifier
from sklearn_cleanse.calibration import Calibrator
from sklearn_cleanse.counts import COUNT_LOSSES
from sklearn_cleanse.deep._build import build_net
from sklearn_cleanse.deep._optimizer import FusedAdam
from sklearn_cleanse.deep._random import OwnRandom
from sklearn_cleanse.deep._training_rows import TrainingRows
from sklearn_cleanse.losses import LOSSES, check_loss_params
from sklearn_cleanse.scaling import fit_scaling
from sklearn_cleanse.votes import ExactRidge, LandmarkRidge, MeanKernel
from sklearn_cleanse.votes._kernel_votes import _log_rates, _log_shares, votes_from_scores

N_ROWS, N_CLASSES, BATCH = 128, 16, 64


def register_device() -> str:
    """Return the name of a device that torch takes for a backend of its own."""
    set_up = getattr(backend_registration, "_setup_privateuseone_for_python_backend", None)
    if set_up is None:  # before torch 2.10
        return "meta"
    set_up("nowhere")
    return "nowhere:0"


class Guard(TorchDispatchMode):
    """Refuses copies between devices and counts operations.

    A number of no dimension may live on the host: torch passes it along like a Python number.
    """

    def __init__(self, device: str):
        super().__init__()
        self.device, self.n_operations = torch.device(device), 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.n_operations += func.namespace == "aten"  # not asking for a device
        result = func(*args, **(kwargs or {}))
        for value in tree_leaves((args, kwargs, result)):
            if isinstance(value, torch.Tensor) and value.device != self.device and value.dim():
                raise AssertionError(f"{func} has a tensor on {value.device}")
        if func is torch.ops.aten._to_copy.default and result.device != args[0].device:
            raise AssertionError(f"{func} copies from {args[0].device} to {result.device}")
        return result


def data():
    rng = np.random.RandomState(0)
    S = rng.uniform(size=(N_ROWS, N_CLASSES)) < 0.2
    S[np.arange(N_ROWS), rng.randint(N_CLASSES, size=N_ROWS)] = True
    return rng.normal(size=(N_ROWS, 8)).astype(np.float32), sp.csr_array(S), rng


class Dropping(torch.nn.Sequential):
    def __init__(self, n_features, n_classes):
        super().__init__(torch.nn.Linear(n_features, n_classes), torch.nn.Dropout(0.2))


def move(module: torch.nn.Module, device: str) -> None:
    """Put fake tensors in the place of all that a module has; its own ``to`` would not do."""
    for part in module.modules():
        for tensors in (part._parameters, part._buffers):
            for name, value in tensors.items():
                if value is not None:
                    fake = torch.empty(value.shape, dtype=value.dtype, device=device)
                    is_parameter = isinstance(value, torch.nn.Parameter)
                    tensors[name] = torch.nn.Parameter(fake) if is_parameter else fake


def train(estimator, device: str, weighted: bool = False) -> int:
    """Do one epoch of two steps; return the number of operations of the last."""
    X, candidates, rng = data()
    estimator.set_params(scaling="standard", batch_size=BATCH, hidden_layer_sizes=(32, 32))
    net, _ = build_net(estimator, X, candidates, "cpu", np.arange(N_ROWS), OwnRandom(0))
    with FakeTensorMode():
        return train_fake(estimator, net, X, candidates, weighted, rng, device)


def train_fake(estimator, net, X, candidates, weighted, rng, device: str) -> int:
    order = np.arange(N_ROWS)
    move(net.module_, device)
    parameters = list(net.module_.parameters())
    fused = device != "meta"
    net.optimizer_ = (
        FusedAdam(parameters, lr=0.01) if fused else torch.optim.SGD(parameters, foreach=True)
    )
    weight = rng.uniform(size=N_ROWS) if weighted else None
    votes = rng.uniform(size=candidates.nnz)
    rows = TrainingRows(X, candidates, weight, device, order, net.module_.scaling, votes=votes)
    loss = LOSSES[estimator.loss]
    params = check_loss_params(estimator.loss, None, candidates, device)
    training = estimator._plan(loss, params, candidates, device, 2)
    calibrator, keeps = None, loss.confidences is not None
    weights = rows.confidences if keeps else torch.ones_like(rows.confidences)
    if training.calibration is not None:
        space = training.calibration.neighbor_space
        calibrator = Calibrator(
            training.calibration,
            rows,
            keeps,
            lambda which: net._directions_of(rows, which, space),
            rng,
        )
        weights = calibrator.epoch_weights(0.5)
    assert weights.device == torch.device(device)
    voters = calibrator if calibrator is not None and calibrator.votes_in_batches else None
    net._set_training(True)
    for batch in rows.epoch(BATCH, rng, weights, training.count_every):
        guard = Guard(device)
        with guard:
            _, found = net.train_step(net.module_.network, rows, training, batch, voters, 0.5)
        assert all(part.device == torch.device(device) for part in found)
    return guard.n_operations


def vote(landmarks: int | None, device: str) -> int:
    """Do one round of kernel votes."""
    with FakeTensorMode():
        return vote_fake(landmarks, device)


def vote_fake(landmarks: int | None, device: str) -> int:
    X, candidates, _ = data()
    kinds = ("standard", "minmax", "common")
    scalings = [fit_scaling(X, kind).to(device) for kind in kinds]
    kernel = MeanKernel(kinds, scalings, [(1.0, 2.0, 3.0)] * 3)
    if landmarks is None:
        ridge = ExactRidge(kernel, X)
    else:
        ridge = LandmarkRidge(kernel, X, np.arange(landmarks))
    S = torch.from_numpy(candidates.toarray()).to(device).to(ridge.dtype)
    guard = Guard(device)
    with guard:
        P = S / S.sum(dim=1, keepdim=True)
        Q = ridge.left_out(P)
        shares = _log_shares(P.mean(dim=0), P.mean(dim=0))
        P = votes_from_scores(Q, S, shares, _log_rates(S, Q), 0.5)
        assert ridge.coefficients(P).device == torch.device(device)
    return guard.n_operations


def read_a_value(device: str) -> int:
    with FakeTensorMode(), Guard(device):
        return int(torch.zeros(3, device=device).sum() > 0)


def mix_devices(device: str) -> int:
    with FakeTensorMode(), Guard(device):
        return len(torch.zeros(3, device=device) + torch.zeros(3))


def copy_to_the_host(device: str) -> int:
    with FakeTensorMode(), Guard(device):
        return len(torch.zeros(3, device=device).cpu())


def cases(device: str):
    """Yield the name of each case and a function that runs it."""
    for loss in LOSSES:
        yield f"plain-{loss}", lambda loss=loss: train(PartialLabelClassifier(loss), device)
        for vote_kind, source in [
            ("kernel", "dataset"),
            *itertools.product(("soft", "hard"), ("dataset", "batch")),
        ]:
            params = {"vote": vote_kind, "neighbors_from": source, "vote_end": None}
            clf = CleanSEClassifier(loss, count_every=1, **params)
            yield f"{vote_kind}-{source}-{loss}", lambda clf=clf: train(clf, device)
    for count_loss in COUNT_LOSSES:
        clf = CleanSEClassifier(count_loss=count_loss, count_every=1)
        yield f"count-{count_loss}", lambda clf=clf: train(clf, device, weighted=True)
    yield "between-counts", lambda: train(CleanSEClassifier(), device)  # the second of four
    own = PartialLabelClassifier(module=Dropping)
    yield "own-module", lambda: train(own, device)
    yield "votes-exact", lambda: vote(None, device)
    yield "votes-landmarks", lambda: vote(20, device)
    for control in (read_a_value, mix_devices, copy_to_the_host):
        yield f"control-{control.__name__}", lambda control=control: control(device)


def main() -> dict:
    device, results = register_device(), {}
    for name, run in cases(device):
        error = operations = None
        try:
            operations = run()
        except Exception:
            error = traceback.format_exc()
        results[name] = [error, operations]
    return results


if __name__ == "__main__":
    print(json.dumps(main()))  # noqa: T201
