"""From an estimator's parameters to the net it trains."""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from skorch.callbacks import Callback
from torch import Tensor, nn

from ..candidates import check_memory
from ._modules import MODULES, ByteDropout
from ._net import PartialLabelNet

#: Parameters that a network is built from and keeps.
ARCHITECTURE = ("module", "hidden_layer_sizes", "n_networks")


def build_net(estimator: Any, X: np.ndarray, n_inputs: int, device: str, seed: int):
    """Return an initialized net; ``X`` are some rows of features, ``n_inputs`` their columns.

    Parameters
    ----------
    estimator : PartialLabelClassifier
        Has the parameters and ``classes_``.
    X : ndarray of shape (n_rows, ...)
    n_inputs : int
        Columns of a table after scaling, or channels of images.
    device : str
    seed : int
        Draws the initial weights.
    """
    module = _build_module(estimator, X, n_inputs, len(estimator.classes_), seed)
    net = PartialLabelNet(
        module,
        criterion=nn.Identity,  # losses are functions here
        optimizer=torch.optim.Adam,
        optimizer__fused=True if torch.device(device).type in ("cpu", "cuda") else None,
        train_split=None,
        device=device,
        verbose=0,
    ).initialize()
    net.module = type(module)  # a pickle holds the weights once
    net.built_from_ = {name: getattr(estimator, name) for name in ARCHITECTURE}
    return net


def _build_module(estimator, X, n_inputs, n_classes, seed) -> nn.Module:
    module, params = estimator.module, dict(estimator.module_params or {})
    for name in (params.keys() & ARCHITECTURE) if isinstance(module, str) else ():
        raise ValueError(
            f"`module_params` must not hold {name!r}, got {params}. Pass {name}= to the estimator."
        )
    if isinstance(module, str):
        params["generator"] = torch.Generator().manual_seed(seed)
    if module == "mlp":
        sizes = tuple(np.ravel(estimator.hidden_layer_sizes).tolist())
        if not all(type(size) is int and 0 < size <= 10**6 for size in sizes):
            raise ValueError(
                "`hidden_layer_sizes` must be whole numbers from 1 to a million, such as "
                f"(300, 300), got {estimator.hidden_layer_sizes!r}."
            )
        params |= {"hidden_layer_sizes": sizes, "n_networks": estimator.n_networks}
        n_inputs = n_inputs if X.ndim == 2 else int(np.prod(X.shape[1:]))
        n_weights = sum(a * b for a, b in pairwise([n_inputs, *sizes, n_classes]))
        n_bytes = 16 * estimator.n_networks * n_weights  # with gradients and two moments
        check_memory(n_bytes, "the network", "Pass smaller `hidden_layer_sizes`.")
    elif module == "resnet34" and X.ndim != 4:
        hint = "Add the axis of channels by X[:, None]." if X.ndim == 3 else "Use module='mlp'."
        raise ValueError(
            "module='resnet34' must get images of shape (n_samples, channels, height, width), got "
            f"X of shape {X.shape}. {hint}"
        )
    try:
        built = MODULES.get(module, module)(n_inputs, n_classes, **params)
    except TypeError as error:
        params.pop("generator", None)
        raise TypeError(
            f"module={module!r} must accept {n_inputs} (features or channels), {n_classes} "
            f"(classes) and module_params={params}, got: {error}"
        ) from error
    if not isinstance(built, nn.Module) or not any(p.requires_grad for p in built.parameters()):
        raise ValueError(
            f"module={module!r} must return a torch.nn.Module with parameters to train, got "
            f"{type(built).__name__}."
        )
    return built


@contextmanager
def own_random(estimator: Any, device: str, seed: int) -> Iterator[None]:
    """Seed torch's global generators for a user's module, and restore them afterwards.

    The built-in networks draw from generators of their own; only dropout on an accelerator does
    not. Users' modules in several threads share torch's global generators.
    """
    built_in = isinstance(estimator.module, str) and torch.device(device).type == "cpu"
    with torch.random.fork_rng(enabled=not built_in):
        if not built_in:
            torch.random.manual_seed(seed)
        yield


def give_generator(module: nn.Module, seed: int) -> None:
    """Let the dropout of a built-in network draw from a new generator."""
    generator = torch.Generator().manual_seed(seed)
    for part in module.modules():
        if isinstance(part, ByteDropout):
            part.generator = generator


def check_output(net: PartialLabelNet, inputs: Tensor, n_classes: int) -> None:
    """Raise if a module cannot be trained on such rows."""
    net.module_.eval()
    try:
        output = net.module_(inputs)
    except Exception as error:
        hint = " Images need an axis of channels, as in X[:, None]." if inputs.dim() == 3 else ""
        raise ValueError(
            f"The module must accept inputs of shape {tuple(inputs.shape)}, got "
            f"{type(error).__name__}: {error}.{hint}"
        ) from error
    is_pair = isinstance(output, tuple) and len(output) == 2
    logits, representation = output if is_pair else (output, output)
    if not isinstance(logits, Tensor) or not isinstance(representation, Tensor):
        raise ValueError(
            "The module must return logits, or a tuple of logits and a representation, got "
            f"{type(output).__name__}."
        )
    n_rows, shape = len(inputs), tuple(logits.shape)
    if len(shape) not in (2, 3) or (shape[0], shape[-1]) != (n_rows, n_classes):
        raise ValueError(
            f"The module must return logits of shape ({n_rows}, {n_classes}) or ({n_rows}, "
            f"n_networks, {n_classes}) for {n_rows} rows and {n_classes} classes, got {shape}."
        )
    if not (logits.is_floating_point() and logits.requires_grad):
        raise ValueError(
            f"The module's logits must pass gradients to its parameters, got {logits.dtype} "
            "without. Return floating-point logits without detach, argmax or no_grad."
        )
    if representation.dim() < 2 or len(representation) != n_rows:
        raise ValueError(
            f"The module's representation must have one row per sample ({n_rows}), got shape "
            f"{tuple(representation.shape)}."
        )


def check_callbacks(callbacks: Any) -> None:
    """Raise if skorch cannot call one of the callbacks."""
    for i, given in enumerate(callbacks or []):
        named = isinstance(given, tuple) and len(given) == 2 and isinstance(given[0], str)
        callback = given[1] if named else given
        kind = callback if isinstance(callback, type) else type(callback)
        if not issubclass(kind, Callback):
            raise ValueError(
                f"`callbacks[{i}]` must be a skorch.callbacks.Callback, or a pair of a name and "
                f"one, got {given!r}."
            )
