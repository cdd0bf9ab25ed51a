"""From an estimator's parameters to the net it trains."""

from __future__ import annotations

import itertools

import numpy as np
import torch

from ..scaling import SCALINGS, ScaledNetwork, Views, choose_scaling, fit_scaling
from ._modules import MODULES
from ._net import CleanSENet, probabilities
from ._optimizer import FusedAdam

#: On so many rows, at most, the scaling is chosen.
_SCALING_ROWS = 1000

#: From so many rows, at most, means, ranges and quantiles are taken.
_STATISTICS_ROWS = 20_000


def build_net(estimator, X, candidates, device, shuffled) -> CleanSENet:
    """Make the network, and a scaling fitted to the training rows, given in any order."""
    estimator.scaling_ = estimator.scaling
    sample = X[shuffled[:_STATISTICS_ROWS]]
    if estimator.scaling == "auto":
        some = shuffled[:_SCALING_ROWS]
        estimator.scaling_ = choose_scaling(X[some], candidates[some])
    if isinstance(estimator.scaling_, (list, tuple)):
        kinds = itertools.islice(itertools.cycle(_check_views(estimator)), estimator.n_members)
        scaling = Views([fit_scaling(sample, kind) for kind in kinds])
    else:
        scaling = fit_scaling(sample, estimator.scaling_)
    module, params, n_inputs = estimator.module, dict(estimator.module_params or {}), X.shape[1]
    if module == "mlp":
        sizes = tuple(np.ravel(estimator.hidden_layer_sizes).tolist())
        if not all(isinstance(size, int) and size > 0 for size in sizes):
            raise ValueError(
                f"hidden_layer_sizes is {estimator.hidden_layer_sizes!r}; it must hold whole "
                "numbers above zero, such as (300, 300)"
            )
        params = {
            "hidden_layer_sizes": sizes,
            "dropout": estimator.dropout,
            "n_members": estimator.n_members,
            **params,
        }
        n_inputs = int(np.prod(X.shape[1:]))
    elif X.ndim != 4 and module == "resnet34":
        raise ValueError(
            f"module='resnet34' needs images of shape (n_samples, channels, height, width), "
            f"but X has shape {X.shape}; reshape X, or use module='mlp'"
        )
    network = MODULES.get(module, module)(n_inputs, candidates.shape[1], **params)
    network = ScaledNetwork(scaling, network)
    if torch.device(device).type == "mps":  # it has no double precision
        network = network.float()
    return CleanSENet(
        network,
        criterion=torch.nn.Identity,  # losses here are functions
        optimizer=FusedAdam if torch.device(device).type in ("cpu", "cuda") else torch.optim.Adam,
        lr=estimator.lr,
        train_split=None,
        predict_nonlinearity=probabilities,
        device=device,
        verbose=0,
    ).initialize()


def _check_views(estimator) -> list:
    """Return the scalings that the members shall take in turn."""
    kinds = list(estimator.scaling)
    unknown = [kind for kind in kinds if kind not in (*SCALINGS, None)]
    if unknown or not kinds:
        raise ValueError(
            f"scaling={estimator.scaling!r} must name one or more of {', '.join(SCALINGS)}"
        )
    if estimator.module != "mlp":
        raise ValueError(
            f"scaling={estimator.scaling!r} is a list, one for each member of an 'mlp'; name a "
            f"single scaling for module={estimator.module!r}"
        )
    return kinds
