"""The count functions of torch, on top of `_poisson_binomial` alone."""

from __future__ import annotations

import math
from collections.abc import Callable
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from ._poisson_binomial import _clip, _one_vs_rest, _solve, _solve_host

__all__ = [
    "COUNT_LOSSES",
    "entropy_loss",
    "interval_log_prob",
    "interval_loss",
    "one_vs_rest_logits",
    "proportion_loss",
]


_INTEGERS = {torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64}


def _enter(logits: Tensor) -> tuple[ModuleType, Any, torch.dtype]:
    """Backend, array and dtype to compute in: float64 wherever the device has it."""
    if logits.is_cpu:
        return np, logits.detach().double().numpy(), torch.float64
    dtype = torch.float32 if logits.is_mps else torch.float64
    return torch, logits.detach().to(dtype), dtype


def _leave(array: Any, dtype: torch.dtype) -> Tensor:
    if isinstance(array, Tensor):
        return array.to(dtype)
    # numpy converts small arrays in less time than torch, but knows fewer dtypes
    known = np.float32 if dtype is torch.float32 else None
    return torch.from_numpy(np.asarray(array, dtype=known)).to(dtype)


class _Bounds(NamedTuple):
    """Bounds (m,) within [0, n + 1] and [-1, n], and the largest count that matters.

    ``sign`` (m,) is -1 where a class's zeros are counted instead of its ones; None if nowhere.
    """

    lower: Tensor
    upper: Tensor
    max_count: int
    sign: Tensor | None = None


def _interval(xp: ModuleType, z: Any, bounds: _Bounds, dtype: Any, grad: bool) -> tuple[Any, Any]:
    lower, upper, max_count, sign = bounds
    mirror: Any = sign.numpy() if xp is np and sign is not None else sign
    if mirror is not None:
        z = z * mirror
    if xp is np:
        log_prob, slope = _solve_host(z, lower.numpy(), upper.numpy(), max_count, grad)
    else:
        log_prob, slope = _solve(z, lower, upper, max_count, grad, torch, dtype)
    return log_prob, slope * mirror if grad and mirror is not None else slope


def _quiet() -> np.errstate:
    # log(0) is -inf and exp(-z) of a huge -z is inf: both are meant
    return np.errstate(divide="ignore", over="ignore", invalid="ignore")


class _Once(torch.autograd.Function):
    """Identity on a gradient that refuses to be differentiated, rather than seem constant."""

    @staticmethod
    def forward(ctx: Any, gradient: Tensor, *inputs: Tensor) -> Tensor:
        return gradient.view_as(gradient)

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> None:
        raise RuntimeError("the count functions are differentiable once, not twice")


def _once(gradient: Tensor, *inputs: Tensor) -> Any:
    return _Once.apply(gradient, *inputs) if torch.is_grad_enabled() else gradient


class _KeptGradient(torch.autograd.Function):
    """Functions of the logits whose gradient is computed with the value and kept, (n, m)."""

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> Any:
        gradient, logits = ctx.saved_tensors
        others = [None] * (len(ctx.needs_input_grad) - 1)
        return _once(gradient * grad_output, grad_output, logits), *others


class _IntervalLogProb(_KeptGradient):
    @staticmethod
    def forward(ctx: Any, logits: Tensor, bounds: _Bounds, grad: bool) -> Tensor:
        xp, z, dtype = _enter(logits)
        with _quiet():
            log_prob, slope = _interval(xp, z, bounds, dtype, grad)
        if grad:
            ctx.save_for_backward(_leave(slope, logits.dtype), logits)
        return _leave(log_prob, logits.dtype)


class _OneVsRest(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, logits: Tensor) -> Tensor:
        xp, z, _ = _enter(logits)
        with _quiet():
            log_odds, ctx.pull_back = _one_vs_rest(xp, z)
        ctx.save_for_backward(logits)
        return _leave(log_odds, logits.dtype)

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> Any:
        _, g, _ = _enter(grad_output)
        with _quiet():
            gradient = _leave(ctx.pull_back(g), grad_output.dtype)
        return _once(gradient, grad_output, *ctx.saved_tensors)


class _SoftmaxCountLoss(_KeptGradient):
    """One-vs-rest, interval and sum in one: in a training step the calls saved are noticeable."""

    @staticmethod
    def forward(ctx: Any, logits: Tensor, bounds: _Bounds, entropy: bool, grad: bool) -> Tensor:
        xp, z, dtype = _enter(logits)
        with _quiet():
            log_odds, pull_back = _one_vs_rest(xp, z)
            log_prob, slope = _interval(xp, log_odds, bounds, dtype, grad)
            if entropy:
                log_prob = _clip(xp, log_prob, -1e4, 0.0)  # exp is zero there, and 0 * inf is not
                weight = xp.exp(log_prob)
                loss = -(weight * log_prob).sum()
                outer = -weight * (1.0 + log_prob)
            else:
                loss, outer = -log_prob.sum(), -1.0
            if grad:
                gradient = pull_back(slope * outer)
                ctx.save_for_backward(_leave(gradient, logits.dtype), logits)
        return _leave(loss, logits.dtype)


def _wants_gradient(logits: Tensor) -> bool:
    # Asked before `apply`: in forward gradients are off, and needs_input_grad ignores no_grad.
    return logits.requires_grad and torch.is_grad_enabled()


def _check_logits(logits: Tensor) -> tuple[int, int]:
    if logits.ndim != 2:
        raise ValueError(f"logits must have shape (n, m); got {tuple(logits.shape)}")
    if not logits.is_floating_point():
        raise TypeError(f"logits must be floating point; got {logits.dtype}; call .float() first")
    n, m = logits.shape
    return n, m


def _check_bounds(logits: Tensor, lower: Any, upper: Any, max_count: int | None) -> _Bounds:
    n, m = _check_logits(logits)
    if max_count is not None and max_count < 0:
        raise ValueError(
            f"max_count must not be negative; got {max_count}; pass the largest upper bound"
        )
    checked = []
    for name, bound, least in (("lower", lower, 0), ("upper", upper, -1)):
        bound = torch.as_tensor(bound)
        if bound.dtype not in _INTEGERS:
            raise TypeError(f"{name} must hold integers; got {bound.dtype}")
        if bound.shape not in ((m,), ()):
            raise ValueError(
                f"{name} must have shape ({m},), one bound per column of logits; "
                f"got {tuple(bound.shape)}"
            )
        # a bound further out means the same, but n minus it might overflow
        bound = bound.long().clamp(least, least + n + 1)
        checked.append(bound if bound.ndim else bound.expand(m))
    bounds = _Bounds(checked[0], checked[1], n if max_count is None else max_count)
    if max_count is None and bounds.lower.is_cpu and bounds.upper.is_cpu:
        bounds = _read_bounds(bounds.lower, bounds.upper, n)
    low, high, largest, sign = bounds
    device = logits.device
    return _Bounds(
        low.to(device), high.to(device), largest, None if sign is None else sign.to(device)
    )


def _read_bounds(lower: Tensor, upper: Tensor, n: int) -> _Bounds:
    """Largest count that matters; zeros are counted instead of ones if that halves the tables."""
    low, high = lower.numpy(), upper.numpy()
    limited = (low > 0) | (high < n)
    most_ones = int(high[limited].max(initial=0))
    most_either = int(np.minimum(high, n - low)[limited].max(initial=0))
    if 2 * most_either >= most_ones:
        return _Bounds(lower, upper, most_ones)
    flip = n - lower < upper
    lower, upper = torch.where(flip, n - upper, lower), torch.where(flip, n - lower, upper)
    return _Bounds(lower, upper, most_either, 1 - 2 * flip.long())


def interval_log_prob(
    logits: Tensor, lower: Any, upper: Any, *, max_count: int | None = None
) -> Tensor:
    """Log-probability that a sum of independent Bernoulli variables lies in an interval.

    For each column j, ``log P(lower_j <= y_1j + ... + y_nj <= upper_j)`` where y_ij is one with
    probability ``sigmoid(logits_ij)``. Exact to rounding, in any tail, and differentiable once by
    the logits (a second derivative raises RuntimeError, and so does ``torch.func.grad``, which is
    not supported). Computed in float64 whatever the dtype of the logits; on MPS, which has none,
    in float32: up to a thousand rows the logarithm is then right to about 1e-5 of its size, and
    near P = 1, where it is small, to about 3e-5 absolute.

    Parameters
    ----------
    logits : Tensor of shape (n, m)
        Log-odds, ``log p - log(1 - p)``: both tails of p are resolved. From softmax logits make
        them by :func:`one_vs_rest_logits`. If they come from elsewhere, it is the caller's part
        that their own gradients are finite; a log-probability that has rounded to 0 cannot be
        turned into log-odds any more. Infinite logits are certain outcomes.
    lower, upper : integer Tensor of shape (m,), or int
        Bounds, inclusive. ``[0, n]`` gives exactly 0. An interval that holds no count between
        0 and n, or that infinite logits rule out, gives -inf with a zero gradient.
    max_count : int or None, default=None
        Cuts the tables, and any interval that ends above it except ``[0, n]``, at this count: the
        largest upper bound, when the caller knows it. If None, it is read from the bounds if these
        are in the host's memory, and zeros are counted instead of ones where they are fewer.
        From an accelerator nothing is read, and the tables have full length. With logits and
        bounds on the device the call is designed for CUDA-graph capture; this is tested by a
        dispatch filter and on the meta device, not on CUDA.

    Returns
    -------
    Tensor of shape (m,)
        Never above 0, with the dtype and device of the logits.

    Examples
    --------
    >>> import torch
    >>> from sklearn_cleanse.counts import interval_log_prob
    >>> logits = torch.tensor([0.2, 0.5, 0.7, 0.9], dtype=torch.float64).logit()[:, None]
    >>> interval_log_prob(logits, 2, 2).exp()
    tensor([0.4250], dtype=torch.float64)
    >>> interval_log_prob(logits - 1e4, 2, 3)
    tensor([-19996.4328], dtype=torch.float64)
    """
    bounds = _check_bounds(logits, lower, upper, max_count)
    if logits.numel() == 0:
        impossible = (bounds.lower > 0) | (bounds.upper < 0)
        return logits.sum(0).masked_fill(impossible, -math.inf)
    return _IntervalLogProb.apply(logits, bounds, _wants_gradient(logits))


def one_vs_rest_logits(logits: Tensor) -> Tensor:
    """Log-odds ``log p_j - log(1 - p_j)`` of each class under the softmax of the logits.

    The sum over the other classes is never formed by subtraction from one, so the log-odds are
    accurate however close p_j is to 0 or 1. Differentiable once.

    Parameters
    ----------
    logits : Tensor of shape (n, m)
        Softmax logits; log-probabilities are such too.

    Returns
    -------
    Tensor of shape (n, m)
        Infinite where a class has no rival (m = 1, or all others at -inf).

    Examples
    --------
    >>> import torch
    >>> from sklearn_cleanse.counts import one_vs_rest_logits
    >>> one_vs_rest_logits(torch.tensor([[1e4, 0.0, 0.0]]))
    tensor([[  9999.3066, -10000.0000, -10000.0000]])
    """
    _check_logits(logits)
    return _OneVsRest.apply(logits) if logits.numel() else logits.clone()


def _softmax_count_loss(
    logits: Tensor, lower: Any, upper: Any, max_count: int | None, entropy: bool
) -> Tensor:
    if logits.numel() == 0:
        log_prob = interval_log_prob(logits, lower, upper, max_count=max_count)
        return (torch.special.entr(log_prob.exp()) if entropy else -log_prob).sum()
    bounds = _check_bounds(logits, lower, upper, max_count)
    return _SoftmaxCountLoss.apply(logits, bounds, entropy, _wants_gradient(logits))


def interval_loss(
    logits: Tensor, lower: Any, upper: Any, proportions: Any = None, *, max_count: int | None = None
) -> Tensor:
    """Minus the log-probability that each class's count keeps its bounds, summed over classes.

    Parameters
    ----------
    logits : Tensor of shape (n, m)
        Softmax logits of a batch, over all classes (not only the candidates).
    lower : integer Tensor of shape (m,)
        Rows of the batch whose only candidate is the class.
    upper : integer Tensor of shape (m,)
        Rows of the batch that have the class among their candidates.
    proportions : ignored
        Present so that all count losses are called alike.
    max_count : int or None, default=None
        The largest upper bound, see :func:`interval_log_prob`.

    Returns
    -------
    Tensor of shape ()

    Examples
    --------
    >>> import torch
    >>> from sklearn_cleanse.counts import interval_loss
    >>> logits = torch.zeros(4, 2, dtype=torch.float64)
    >>> interval_loss(logits, torch.tensor([2, 0]), torch.tensor([2, 4])).neg().exp()  # 6 / 16
    tensor(0.3750, dtype=torch.float64)
    """
    return _softmax_count_loss(logits, lower, upper, max_count, entropy=False)


def entropy_loss(
    logits: Tensor, lower: Any, upper: Any, proportions: Any = None, *, max_count: int | None = None
) -> Tensor:
    """``-P log P`` summed over classes, equation (10) as printed.

    It vanishes at P = 0 too: below P = 1/e its gradient drives counts out of their interval.

    Parameters
    ----------
    logits : Tensor of shape (n, m)
        Softmax logits of a batch, over all classes (not only the candidates).
    lower, upper : integer Tensor of shape (m,)
        Bounds, inclusive, as for :func:`interval_loss`.
    proportions : ignored
        Present so that all count losses are called alike.
    max_count : int or None, default=None
        The largest upper bound, see :func:`interval_log_prob`.

    Returns
    -------
    Tensor of shape ()

    Examples
    --------
    >>> import torch
    >>> from sklearn_cleanse.counts import entropy_loss
    >>> logits = torch.zeros(4, 2, dtype=torch.float64)
    >>> entropy_loss(logits, torch.tensor([2, 0]), torch.tensor([2, 4]))  # -(6/16) log(6/16)
    tensor(0.3678, dtype=torch.float64)
    """
    return _softmax_count_loss(logits, lower, upper, max_count, entropy=True)


def proportion_loss(
    logits: Tensor, lower: Any, upper: Any, proportions: Any = None, *, max_count: int | None = None
) -> Tensor:
    """Kullback-Leibler divergence of the batch's mean prediction from given class proportions.

    ``sum_j pi_j (log pi_j - log mean_i p_ij)``: the form for large data, linear in n and m.

    Parameters
    ----------
    logits : Tensor of shape (n, m)
        Softmax logits of a batch of at least one row, over all classes.
    lower, upper : ignored
        Present so that all count losses are called alike.
    proportions : array-like of shape (m,)
        Share of each class, none negative; for instance from
        :func:`sklearn_cleanse.candidates.estimate_proportions`.
        Required. The signs are checked in the host's memory only.
    max_count : ignored
        Present so that all count losses are called alike.

    Returns
    -------
    Tensor of shape ()

    Examples
    --------
    >>> import torch
    >>> from sklearn_cleanse.counts import proportion_loss
    >>> proportion_loss(torch.zeros(4, 2), None, None, [1.0, 0.0])  # log 2
    tensor(0.6931)
    """
    if proportions is None:
        raise ValueError(
            "the proportion loss needs proportions; see candidates.estimate_proportions"
        )
    n, m = _check_logits(logits)
    if n == 0:
        raise ValueError(
            f"logits of shape {(n, m)} has no rows; the mean prediction needs at least one"
        )
    pi = torch.as_tensor(proportions)
    if pi.shape != (m,):
        raise ValueError(
            f"proportions must have shape ({m},), one per column of logits; got {tuple(pi.shape)}"
        )
    if pi.is_cpu and not bool((pi >= 0).all()):
        raise ValueError(
            f"proportions must be 0 or more; got {pi.tolist()}; see candidates.estimate_proportions"
        )
    mean = torch.logsumexp(torch.log_softmax(logits, 1), 0) - math.log(n)
    pi = pi.to(logits)
    # xlogy is 0 where pi is; a class of proportion 0 must not multiply its -inf either
    return (torch.xlogy(pi, pi) - pi * mean.masked_fill(pi == 0, 0.0)).sum()


#: Name to loss; all are called ``loss(logits, lower, upper, proportions, *, max_count)``.
COUNT_LOSSES: dict[str, Callable[..., Tensor]] = {
    "interval": interval_loss,
    "entropy": entropy_loss,
    "proportion": proportion_loss,
}
