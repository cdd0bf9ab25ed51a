"""What a file keeps of a trained network, and the network made from it again."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from .._device import choose_device
from .._model_file import ModelFile
from ..calibration import Calibration, Voters
from ..losses import Loss, check_loss
from ..scaling import SCALINGS, ScaledNetwork, Scaling, Views
from ..votes import KernelModel
from ._build import make_net
from ._modules import MLP, ResNet34, check_output
from ._net import CleanSENet
from ._random import OwnRandom

#: Values, at most, of a sample that a file may claim its model was trained on.
_MOST_VALUES = 2**24


def loss_to_save(loss):
    """Return a loss in a form that a file can keep: a record as a dict of its fields."""
    return dict(vars(loss)) if isinstance(loss, Loss) else loss


def loss_from_file(loss):
    """Return the loss that was saved."""
    loss = Loss(**loss) if isinstance(loss, dict) else loss
    check_loss(loss)
    return loss


def network_state(estimator) -> dict:
    """Take a trained network apart.

    Parameters
    ----------
    estimator : PartialLabelClassifier
        Fitted.

    Returns
    -------
    state : dict
        Its scaling and its weights.
    """
    network = estimator.net_.module_
    views = isinstance(network.scaling, Views)
    scalings = network.scaling.scalings if views else [network.scaling]
    module, weights = network.network, network.network.state_dict()
    own = {MLP: "mlp", ResNet34: "resnet34"}.get(type(module))
    if own is None and type(module) is not estimator.module:
        raise ValueError(
            f"the network is a {type(module).__name__}, but module={estimator.module!r}: it was "
            "changed after fit; set it back, or fit again"
        )
    for name, value in weights.items():
        if not isinstance(value, Tensor):
            raise ValueError(
                f"the module's state has {name!r} of type {type(value).__name__}, which save does "
                "not keep; pickle the estimator"
            )
    return {
        "n_views": len(scalings) if views else None,
        "scalings": {str(i): scaling._state() for i, scaling in enumerate(scalings)},
        "module": own,
        "dropout": module.dropout if own == "mlp" else None,
        "weights": weights,
    }


def network_from_file(estimator, file: ModelFile, sample_shape: tuple[int, ...]) -> CleanSENet:
    """Build the net of a file, on the device that the estimator names, or on the CPU.

    Parameters
    ----------
    estimator : PartialLabelClassifier
        Has the parameters, and classes.
    file : ModelFile
    sample_shape : tuple of int
        Shape of a sample.

    Returns
    -------
    net : CleanSENet
        Initialised.
    """
    n_classes = len(estimator.classes_)
    first = Scaling._restored(file, "network.scalings.0", sample_shape)
    n_inputs = int(np.prod(sample_shape)) + first.n_added
    n_channels = sample_shape[0] + first.n_added
    module = _build(estimator, file, n_channels, n_classes)
    if isinstance(module, MLP) and module.n_features != n_inputs:
        raise ValueError(f"the network does not take samples of shape {sample_shape}")
    n_views = file.value("network.n_views", int, type(None))
    if n_views not in (None, getattr(module, "n_members", None)):
        raise ValueError(f"the network has no {n_views} members, one for each scaling")
    places = [f"network.scalings.{i}" for i in range(1, 1 if n_views is None else n_views)]
    scalings = [first, *(Scaling._restored(file, place, sample_shape) for place in places)]
    network = ScaledNetwork(scalings[0] if n_views is None else Views(scalings), module)
    # A file may name a size of images that it has never seen; ours take any.
    probe = [min(n, 8) for n in sample_shape] if type(module) is ResNet34 else sample_shape
    network.eval()
    check_output(network, torch.zeros(2, *probe), n_classes)
    try:
        device = choose_device(estimator.device)
    except ValueError:  # where it was trained there was another
        device = "cpu"
    if device == "meta":
        raise ValueError("device='meta' computes nothing")
    return make_net(network, n_classes, device, estimator.lr)


def _build(estimator, file: ModelFile, n_channels: int, n_classes: int) -> nn.Module:
    own = file.value("network.module", str, type(None))
    dropout = file.value("network.dropout", float, type(None))
    weights = {name: torch.tensor(value) for name, value in file.group("network.weights").items()}
    if own is None and isinstance(estimator.module, type):
        if not issubclass(estimator.module, nn.Module):
            raise ValueError(f"module={estimator.module!r} is no torch.nn.Module")
        with OwnRandom(0):
            module = estimator.module(n_channels, n_classes, **estimator.module_params or {})
    else:  # of the size of its weights, and without memory until these are known to fit
        with torch.device("meta"):
            module = _sized(own, weights, dropout)
    expected = {name: (value.shape, value.dtype) for name, value in module.state_dict().items()}
    found = {name: (value.shape, value.dtype) for name, value in weights.items()}
    if found != expected:
        wrong = sorted(name for name, _ in found.items() ^ expected.items())
        raise ValueError(f"the weights {', '.join(wrong[:3])} do not fit the network")
    module.load_state_dict(weights, assign=own is not None)
    return module


def _sized(own: str | None, weights: dict[str, Tensor], dropout: float | None) -> nn.Module:
    """Return one of our networks, of the size of the given weights."""
    try:
        if own == "mlp" and dropout is not None and 0 <= dropout < 1:
            n_hidden = sum(name.endswith(".weight") and name.count(".") == 2 for name in weights)
            layers = [weights[f"body.{i}.weight"] for i in range(n_hidden)]
            n_members, n_classes, _ = weights["head.weight"].shape
            n_features = [*layers, weights["head.weight"]][0].shape[2]
            sizes = tuple(layer.shape[1] for layer in layers)
            batch_norm = not sizes or "body.0.norm.weight" in weights
            return MLP(n_features, n_classes, sizes, dropout, n_members, batch_norm)
        if own == "resnet34":
            n_classes = len(weights["head.bias"])
            width, n_channels, *_ = weights["body.0.weight"].shape
            return ResNet34(n_channels, n_classes, width)
    except (KeyError, ValueError, IndexError, RuntimeError) as error:
        raise ValueError(f"the weights are not those of module={own!r} ({error})") from error
    raise ValueError(f"module={own!r:.40} with dropout={dropout} is not known")


def training_state(estimator) -> dict:
    """Return what a file keeps of a network estimator, beside what all estimators have.

    Parameters
    ----------
    estimator : PartialLabelClassifier
        Fitted.

    Returns
    -------
    state : dict
    """
    return {
        "network": network_state(estimator),
        "sample_shape": estimator._sample_shape,
        "scaling": estimator.scaling_,
        "candidate_proba": estimator._candidate_proba,
        "sparse_candidates": estimator._sparse_candidates,
        "history": estimator.history_,
        "interrupted": estimator.interrupted_,
        "noise": float(estimator._noise),
    }


def training_from_file(estimator, file: ModelFile) -> dict:
    """Return the attributes that a file keeps of a network estimator.

    Parameters
    ----------
    estimator : PartialLabelClassifier
        Has its parameters and classes.
    file : ModelFile

    Returns
    -------
    attributes : dict
    """
    sample_shape = _sample_shape(file, estimator.n_features_in_)
    net = network_from_file(estimator, file, sample_shape)
    scaling = file.value("scaling", str, list, type(None))
    kinds = scaling if isinstance(scaling, list) else [scaling]
    if any(kind not in (*SCALINGS, None) for kind in kinds):
        raise ValueError(f"scaling is {scaling!r:.80}")
    proba = None
    if file.has("candidate_proba"):
        proba = file.sparse("candidate_proba", None, len(estimator.classes_))
    noise = file.value("noise", float)
    if not 0 <= noise < 1:
        raise ValueError(f"noise is {noise}")
    history = file.value("history", list)
    if not all(isinstance(epoch, dict) for epoch in history):
        raise ValueError("history is no list of epochs")
    net.history.extend(dict(epoch) for epoch in history)  # the next seeds depend on its length
    return {
        "net_": net,
        "scaling_": scaling,
        "history_": history,
        "n_iter_": len(history),
        "interrupted_": file.value("interrupted", bool),
        "_noise": noise,
        "_sample_shape": sample_shape,
        "_candidate_proba": proba,
        "_sparse_candidates": file.value("sparse_candidates", bool),
        "_calibration_": None,
        "_voters": None,
        "_kernel": None,
    }


def _sample_shape(file: ModelFile, n_features_in: int) -> tuple[int, ...]:
    shape = file.value("sample_shape", tuple)
    if not shape or any(type(n) is not int or n < 1 for n in shape) or shape[0] != n_features_in:
        raise ValueError(f"sample_shape is {shape!r:.80}")
    if len(shape) > 8 or np.prod(shape, dtype=float) > _MOST_VALUES:
        raise ValueError(f"sample_shape is {shape!r:.80}, which is too large")
    return shape


def votes_state(estimator) -> dict:
    """Return what a file keeps of the votes of a `CleanSEClassifier`.

    Parameters
    ----------
    estimator : CleanSEClassifier
        Fitted.

    Returns
    -------
    state : dict
    """
    parts = (estimator._calibration_, estimator._voters, estimator._kernel)
    names = ("calibration", "voters", "kernel")
    return {name: part and part._state() for name, part in zip(names, parts, strict=True)}


def votes_from_file(estimator, file: ModelFile) -> dict:
    """Return the attributes that a file keeps of the votes of a `CleanSEClassifier`.

    Parameters
    ----------
    estimator : CleanSEClassifier
        Has its network already.
    file : ModelFile

    Returns
    -------
    attributes : dict
    """
    n_classes, shape = len(estimator.classes_), estimator._sample_shape
    calibration = Calibration._restored(file, "calibration", n_classes)
    voters = kernel = None
    if file.has("voters"):
        somewhere = estimator.net_.directions(np.zeros((2, *shape)), calibration.neighbor_space)
        voters = Voters._restored(file, "voters", calibration, somewhere.shape[1], n_classes)
    if file.has("kernel"):
        kernel = KernelModel._restored(file, "kernel", shape, n_classes)
    return {"_calibration_": calibration, "_voters": voters, "_kernel": kernel}
