"""From an estimator's parameters to the net it trains."""

from __future__ import annotations

import itertools

import numpy as np
import torch
from torch import nn

from ..scaling import SCALINGS, ScaledNetwork, Views, fit_scaling
from ..votes import choose_scaling
from ._modules import MODULES
from ._net import CleanSENet, probabilities
from ._optimizer import FusedAdam

#: Rows, at most, on which the scaling is chosen.
_SCALING_ROWS = 1000

#: Rows, at most, from which means, ranges and quantiles are taken.
_STATISTICS_ROWS = 20_000


def build_net(estimator, X, candidates, device, shuffled, own_random):
    """Build the network and a scaling fitted to the training rows.

    Parameters
    ----------
    estimator : PartialLabelClassifier
        Has the parameters.
    X : ndarray of shape (n_samples, ...), or SparseRows
        Features.
    candidates : csr_array of shape (n_samples, n_classes), dtype bool
    device : str
    shuffled : ndarray of shape (n_rows,), dtype int
        The training rows, in random order.
    own_random : OwnRandom
        Draws the initial weights.

    Returns
    -------
    net : CleanSENet
        Initialised.
    scaling : str, list or None
        The scaling in use.
    """
    kind = estimator.scaling
    if kind == "auto":
        some = shuffled[:_SCALING_ROWS]
        kind = choose_scaling(X[some], candidates[some])
    scaling = _fit_scalings(estimator, X[shuffled[:_STATISTICS_ROWS]], kind)
    with own_random:
        module = _build_module(estimator, X, scaling.n_added, candidates.shape[1])
    network = ScaledNetwork(scaling, module)
    return make_net(network, candidates.shape[1], device, estimator.lr), kind


def make_net(network: ScaledNetwork, n_classes: int, device: str, lr: float) -> CleanSENet:
    """Return an initialised net that trains and predicts by the given network."""
    if torch.device(device).type == "mps":  # it has no double precision
        network = network.float()
    net = CleanSENet(
        network,
        n_classes=n_classes,
        criterion=nn.Identity,  # losses here are functions
        optimizer=FusedAdam if torch.device(device).type in ("cpu", "cuda") else torch.optim.Adam,
        lr=lr,
        train_split=None,
        predict_nonlinearity=probabilities,
        device=device,
        verbose=0,
    )
    return net.initialize()


def _build_module(estimator, X, n_added: int, n_classes: int) -> nn.Module:
    module, params = estimator.module, dict(estimator.module_params or {})
    n_inputs = X.shape[1] + n_added
    if module == "mlp":
        sizes = tuple(np.ravel(estimator.hidden_layer_sizes).tolist())
        if not all(isinstance(size, int) and size > 0 for size in sizes):
            raise ValueError(
                f"hidden_layer_sizes is {estimator.hidden_layer_sizes!r}; it must hold whole "
                "numbers above zero, such as (300, 300)"
            )
        params = {
            "hidden_layer_sizes": sizes,
            "batch_norm": estimator.batch_norm,
            "dropout": estimator.dropout,
            "n_members": estimator.n_members,
            **params,
        }
        n_inputs = int(np.prod(X.shape[1:])) + n_added
    elif X.ndim != 4 and module == "resnet34":
        raise ValueError(
            f"module='resnet34' needs images of shape (n_samples, channels, height, width), "
            f"but X has shape {X.shape}; "
            + ("add the channels' axis by X[:, None]" if X.ndim == 3 else "reshape X")
            + ", or use module='mlp'"
        )
    try:
        built = MODULES.get(module, module)(n_inputs, n_classes, **params)
    except TypeError as error:
        raise TypeError(
            f"module={module!r} cannot be called with {n_inputs} (features or channels), "
            f"{n_classes} (classes) and module_params={params}: {error}"
        ) from error
    if not isinstance(built, nn.Module) or not any(p.requires_grad for p in built.parameters()):
        raise ValueError(
            f"module={module!r} gives {type(built).__name__} without parameters to train; pass a "
            "subclass of torch.nn.Module that has some"
        )
    return built


def _fit_scalings(estimator, X, kind) -> nn.Module:
    """Fit a scaling, or one for each member if several are named."""
    if not isinstance(kind, (list, tuple)):
        return fit_scaling(X, kind)
    kinds = list(kind)
    if not kinds or any(name not in (*SCALINGS, None) for name in kinds):
        raise ValueError(f"scaling={kind!r} must name one or more of {', '.join(SCALINGS)}")
    if estimator.module != "mlp":
        raise ValueError(
            f"scaling={kind!r} is a list, one for each member of an 'mlp'; name a single scaling "
            f"for module={estimator.module!r}"
        )
    kinds = itertools.islice(itertools.cycle(kinds), estimator.n_members)
    return Views([fit_scaling(X, name) for name in kinds])
