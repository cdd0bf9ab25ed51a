"""Batch norm by the rows of all ranks, so that a step is that of one process on the whole batch."""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from .._ranks import Ranks
from ._modules import _Hidden


def share_norms(module: nn.Module, ranks: Ranks) -> None:
    """Let the batch norms of a module take their statistics from all ranks while it is trained.

    These are the ones of this package and torch's own, whatever the device.

    Parameters
    ----------
    module : torch.nn.Module
    ranks : Ranks
        Nothing is done if there is one only.
    """
    if not ranks.several:
        return
    for layer in module.modules():
        # The method of an instance hides that of its class.
        if isinstance(layer, _Hidden) and layer.norm is not None:
            shared = functools.partial(normalize, layer.norm, ranks=ranks, counting=False)
            vars(layer)["normalise"] = shared
        elif isinstance(layer, _BatchNorm) and not isinstance(layer, nn.SyncBatchNorm):
            vars(layer)["forward"] = functools.partial(normalize, layer, ranks=ranks)


def release_norms(module: nn.Module, ranks: Ranks) -> None:
    """Undo `share_norms`."""
    for layer in module.modules() if ranks.several else ():
        if isinstance(layer, _Hidden):
            vars(layer).pop("normalise", None)
        elif isinstance(layer, _BatchNorm):
            vars(layer).pop("forward", None)


def normalize(norm: Any, X: Tensor, ranks: Ranks, counting: bool = True) -> Tensor:
    """Normalise by the rows of all ranks, as ``norm`` does by those of one process.

    Parameters
    ----------
    norm : torch.nn.modules.batchnorm._BatchNorm
    X : Tensor of shape (n_rows, n_channels, ...)
    ranks : Ranks
    counting : bool, default=True
        Whether the norm counts its batches.

    Returns
    -------
    Y : Tensor of shape (n_rows, n_channels, ...)
    """
    if not norm.training:
        return type(norm).forward(norm, X)
    Y, mean, variance, n = _SharedNorm.apply(X, norm.weight, norm.bias, norm.eps, ranks)
    if norm.running_mean is not None:
        with torch.no_grad():
            if counting:
                norm.num_batches_tracked += 1
            momentum = norm.momentum
            if momentum is None:  # the mean over all batches
                momentum = 1.0 / float(norm.num_batches_tracked)
            norm.running_mean.lerp_(mean.to(norm.running_mean.dtype), momentum)
            unbiased = variance * (n / (n - 1))
            norm.running_var.lerp_(unbiased.to(norm.running_var.dtype), momentum)
    return Y


class _SharedNorm(torch.autograd.Function):
    """Batch norm with one message forward and one backward."""

    @staticmethod
    def forward(ctx: Any, X: Tensor, weight: Any, bias: Any, eps: float, ranks: Ranks) -> Any:
        dims = [0, *range(2, X.dim())]
        own_mean = X.mean(dim=dims)
        own_squares = (X - _wide(own_mean, X)).square().sum(dim=dims)
        own_n = own_mean.new_full((1,), X.numel() / X.shape[1])
        told = ranks.stack(torch.cat([own_mean, own_squares, own_n]))
        means, squares, counts = told.split([X.shape[1], X.shape[1], 1], dim=1)
        n = counts.sum()
        mean = (counts * means).sum(dim=0) / n
        # deviations from each rank's own mean, and of these from that of all: nothing cancels
        variance = (squares + counts * (means - mean).square()).sum(dim=0) / n
        inverse = (variance + eps).rsqrt()
        scale = inverse if weight is None else inverse * weight
        Y = (X - _wide(mean, X)) * _wide(scale, X)
        if bias is not None:
            Y = Y + _wide(bias, X)
        ctx.ranks, ctx.dims = ranks, dims
        ctx.save_for_backward(X, mean, inverse, scale, n)
        ctx.mark_non_differentiable(mean, variance, n)
        return Y, mean, variance, n

    @staticmethod
    def backward(ctx: Any, gradient: Tensor, *_: Any) -> Any:
        X, mean, inverse, scale, n = ctx.saved_tensors
        normal = (X - _wide(mean, X)) * _wide(inverse, X)
        own_bias = gradient.sum(dim=ctx.dims)
        own_weight = (gradient * normal).sum(dim=ctx.dims)
        by_bias, by_weight = ctx.ranks.add_(torch.stack([own_bias, own_weight])) / n
        centred = gradient - _wide(by_bias, X) - normal * _wide(by_weight, X)
        asked = ctx.needs_input_grad
        # those of the parameters are added up with all others, after the step
        return (
            centred * _wide(scale, X),
            own_weight if asked[1] else None,
            own_bias if asked[2] else None,
            None,
            None,
        )


def _wide(values: Tensor, X: Tensor) -> Tensor:
    """Give each channel its value, for all rows and places."""
    return values.view(1, -1, *[1] * (X.dim() - 2))
