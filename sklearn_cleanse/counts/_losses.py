"""The functions of logits and count bounds, with their own gradients."""

import math
from collections.abc import Callable
from typing import Any, cast

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from ._poisson_binomial import solve

_Bounds = tuple[Tensor, Tensor, int]  # lower and upper (m,), and the largest count that matters
_INTEGERS = {torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64}


def _widened(logits: Tensor) -> Tensor:
    """The logits in the dtype to compute in: float64 wherever the device has it."""
    return logits if logits.is_mps else logits.double()


class _KeptGradient(torch.autograd.Function):
    """Functions of the logits whose gradient (n, m) is computed with the value and kept."""

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_output: Tensor) -> Any:
        (gradient,) = ctx.saved_tensors
        return gradient * grad_output, *[None] * (len(ctx.needs_input_grad) - 1)


class _IntervalLogProb(_KeptGradient):
    @staticmethod
    def forward(ctx: Any, logits: Tensor, bounds: _Bounds, grad: bool) -> Tensor:
        log_prob, slope = solve(_widened(logits), *bounds, grad)
        if slope is not None:
            ctx.save_for_backward(slope.to(logits.dtype))
        return log_prob.to(logits.dtype)


class _CountLoss(_KeptGradient):
    """One-vs-rest, interval and sum in one, which takes a quarter less time in a small step."""

    @staticmethod
    def forward(ctx: Any, logits: Tensor, bounds: _Bounds, entropy: bool, grad: bool) -> Tensor:
        log_odds, pull_back = _one_vs_rest(_widened(logits))
        log_prob, slope = solve(log_odds, *bounds, grad)
        outer: Tensor | float = -1.0
        if entropy:
            log_prob = log_prob.clamp(min=-1e4)  # exp is zero there, and 0 * inf is not
            weight = log_prob.exp()
            outer, log_prob = -weight * (1.0 + log_prob), weight * log_prob
        if slope is not None:
            ctx.save_for_backward(pull_back(slope * outer).to(logits.dtype))
        return -log_prob.sum().to(logits.dtype)


class _OneVsRest(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, logits: Tensor) -> Tensor:
        log_odds, ctx.pull_back = _one_vs_rest(_widened(logits))
        return log_odds.to(logits.dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_output: Tensor) -> Tensor:
        return cast(Tensor, ctx.pull_back(_widened(grad_output)).to(grad_output.dtype))


def _one_vs_rest(z: Tensor) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
    """Log-odds of each class under the softmax (n, m), and the product with their Jacobian."""
    log_p = z.log_softmax(1)
    # The top class needs the others' sum on its own; of any other class p is at most a half, so
    # that subtracting it from one costs no accuracy.
    top = log_p.argmax(1, keepdim=True)
    others = log_p.scatter(1, top, -math.inf).logsumexp(1, keepdim=True)
    p = log_p.exp()
    log_rest = torch.log1p(-p).scatter_(1, top, others)

    def pull_back(g: Tensor) -> Tensor:
        # The derivative of the log-odds of j by z_k is 1 for k = j, otherwise -p_k / (1 - p_j).
        by_top = (log_p - others.clamp(min=-1e30)).exp_().scatter_(1, top, 0.0)
        scaled = (g / (1.0 - p)).scatter_(1, top, 0.0)
        rest = scaled.sum(1, keepdim=True) - scaled
        return g - p * rest - by_top * g.gather(1, top)

    return log_p - log_rest, pull_back


def _wants_gradient(logits: Tensor) -> bool:
    # Asked before `apply`: in `forward` gradients are off, and needs_input_grad ignores no_grad.
    return logits.requires_grad and torch.is_grad_enabled()


def _check_logits(logits: Tensor) -> tuple[int, int]:
    """Shape of the logits."""
    if logits.ndim != 2:
        raise ValueError(f"`logits` must have shape (n, m), got {tuple(logits.shape)}.")
    if not logits.is_floating_point():
        raise TypeError(f"`logits` must be floating point, got {logits.dtype}. Call .float().")
    return len(logits), logits.shape[1]


def _check_bounds(logits: Tensor, lower: Any, upper: Any, max_count: int | None) -> _Bounds:
    """Bounds within [0, n + 1] and [-1, n] on the logits' device, and the largest that matters."""
    n, m = _check_logits(logits)
    if max_count is not None and max_count < 0:
        raise ValueError(
            f"`max_count` must be 0 or more, got {max_count}. Pass the largest upper bound."
        )
    low = _check_bound("lower", lower, 0, n, m)
    high = _check_bound("upper", upper, -1, n, m)
    if max_count is None and low.is_cpu and high.is_cpu:
        max_count = max([0, *high.masked_fill((low <= 0) & (high >= n), 0).tolist()])
    max_count = n if max_count is None else max_count
    return low.to(logits.device), high.to(logits.device), max_count


def _check_bound(name: str, bound: Any, least: int, n: int, m: int) -> Tensor:
    """Bound as an int64 tensor (m,) where it was given."""
    bound = torch.as_tensor(bound)
    if bound.dtype not in _INTEGERS:
        raise TypeError(f"`{name}` must hold integers, got {bound.dtype}.")
    if bound.shape not in ((m,), ()):
        raise ValueError(
            f"`{name}` must have shape ({m},), one bound per column of logits, "
            f"got {tuple(bound.shape)}."
        )
    # A bound further out means the same, but n minus it might overflow.
    bound = bound.long().clamp(least, least + n + 1)
    return cast(Tensor, bound if bound.ndim else bound.expand(m))


def interval_log_prob(
    logits: Tensor, lower: Any, upper: Any, *, max_count: int | None = None
) -> Tensor:
    """Compute the log-probability that a sum of Bernoulli variables lies in an interval.

    For each column j, ``log P(lower_j <= y_1j + ... + y_nj <= upper_j)`` where the y_ij are
    independent and y_ij is one with probability ``sigmoid(logits_ij)``. Exact to rounding, in any
    tail, and differentiable once by the logits (a second derivative raises RuntimeError, and so
    does ``torch.func.grad``). Computed in float64 whatever the dtype of the logits; on MPS, which
    does not have it, in float32: up to a thousand rows the logarithm is then right to about 1e-5
    of its size, and near P = 1, where it is small, to about 3e-5 absolute.

    Parameters
    ----------
    logits : Tensor of shape (n, m)
        Log-odds, ``log p - log(1 - p)``: both tails of p are resolved. Make them from softmax
        logits by :func:`one_vs_rest_logits`; a log-probability that has rounded to 0 cannot be
        turned into log-odds. Infinite logits are certain outcomes.
    lower, upper : integer Tensor of shape (m,), or int
        Bounds, inclusive. ``[0, n]`` gives exactly 0. An interval that holds no count between
        0 and n, or that infinite logits rule out, gives -inf with a zero gradient.
    max_count : int or None, default=None
        Cuts the tables, and any interval that ends above it except ``[0, n]``, at this count: the
        largest upper bound, if it is known. If None, it is read from the bounds if these are in
        the host's memory; from another device nothing is read, and the tables have full length.

    Returns
    -------
    log_prob : Tensor of shape (m,)
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
    bounds = low, high, _ = _check_bounds(logits, lower, upper, max_count)
    if logits.numel() == 0:
        return logits.sum(0).masked_fill((low > 0) | (high < 0), -math.inf)
    return cast(Tensor, _IntervalLogProb.apply(logits, bounds, _wants_gradient(logits)))


def one_vs_rest_logits(logits: Tensor) -> Tensor:
    """Compute the log-odds ``log p_j - log(1 - p_j)`` of each class under the softmax.

    The probability of all other classes is never formed by subtracting from one a p_j close to
    one, so the log-odds are accurate however close p_j is to 0 or 1. Differentiable once.

    Parameters
    ----------
    logits : Tensor of shape (n, m)
        Softmax logits; log-probabilities are such too.

    Returns
    -------
    log_odds : Tensor of shape (n, m)
        Infinite where a class is certain (m = 1, or all others at -inf).

    Examples
    --------
    >>> import torch
    >>> from sklearn_cleanse.counts import one_vs_rest_logits
    >>> one_vs_rest_logits(torch.tensor([[1e4, 0.0, 0.0]]))
    tensor([[  9999.3066, -10000.0000, -10000.0000]])
    """
    _check_logits(logits)
    if logits.numel() == 0:
        return logits.clone()
    return cast(Tensor, _OneVsRest.apply(logits))


def _count_loss(
    logits: Tensor, lower: Any, upper: Any, max_count: int | None, entropy: bool
) -> Tensor:
    """Interval or entropy loss."""
    if logits.numel() == 0:
        log_prob = interval_log_prob(logits, lower, upper, max_count=max_count)
        return (torch.special.entr(log_prob.exp()) if entropy else -log_prob).sum()
    bounds = _check_bounds(logits, lower, upper, max_count)
    return cast(Tensor, _CountLoss.apply(logits, bounds, entropy, _wants_gradient(logits)))


def interval_loss(
    logits: Tensor, lower: Any, upper: Any, proportions: Any = None, max_count: int | None = None
) -> Tensor:
    """Compute minus the log-probability that each class's count keeps its bounds, and sum.

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
    loss : Tensor of shape ()

    Examples
    --------
    >>> import torch
    >>> from sklearn_cleanse.counts import interval_loss
    >>> logits = torch.zeros(4, 2, dtype=torch.float64)
    >>> interval_loss(logits, torch.tensor([2, 0]), torch.tensor([2, 4])).neg().exp()  # 6 / 16
    tensor(0.3750, dtype=torch.float64)
    """
    return _count_loss(logits, lower, upper, max_count, entropy=False)


def entropy_loss(
    logits: Tensor, lower: Any, upper: Any, proportions: Any = None, max_count: int | None = None
) -> Tensor:
    """Compute ``-P log P`` and sum over classes, equation (10) as printed.

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
    loss : Tensor of shape ()

    Examples
    --------
    >>> import torch
    >>> from sklearn_cleanse.counts import entropy_loss
    >>> logits = torch.zeros(4, 2, dtype=torch.float64)
    >>> entropy_loss(logits, torch.tensor([2, 0]), torch.tensor([2, 4]))  # -(6/16) log(6/16)
    tensor(0.3678, dtype=torch.float64)
    """
    return _count_loss(logits, lower, upper, max_count, entropy=True)


def proportion_loss(
    logits: Tensor, lower: Any, upper: Any, proportions: Any = None, max_count: int | None = None
) -> Tensor:
    """Compute the Kullback-Leibler divergence of the mean prediction from class proportions.

    ``sum_j pi_j (log pi_j - log mean_i p_ij)``: the form for large data, linear in n and m.

    Parameters
    ----------
    logits : Tensor of shape (n, m)
        Softmax logits of a batch of at least one row, over all classes.
    lower, upper : ignored
        Present so that all count losses are called alike.
    proportions : array-like of shape (m,)
        Proportion of each class, 0 or more; for instance from
        :func:`sklearn_cleanse.candidates.estimate_proportions`.
        Required. The signs are checked in the host's memory only.
    max_count : ignored
        Present so that all count losses are called alike.

    Returns
    -------
    loss : Tensor of shape ()

    Examples
    --------
    >>> import torch
    >>> from sklearn_cleanse.counts import proportion_loss
    >>> proportion_loss(torch.zeros(4, 2), None, None, [1.0, 0.0])  # log 2
    tensor(0.6931)
    """
    n, m = _check_logits(logits)
    if proportions is None:
        raise ValueError(
            "`proportions` must be given to the proportion loss, got None. "
            "Estimate them by candidates.estimate_proportions."
        )
    if n == 0:
        raise ValueError(f"`logits` must have at least one row, got shape {(n, m)}.")
    pi = torch.as_tensor(proportions)
    if pi.shape != (m,):
        raise ValueError(f"`proportions` must have shape ({m},), got {tuple(pi.shape)}.")
    if pi.is_cpu and not bool((pi >= 0).all()):
        raise ValueError(f"`proportions` must be 0 or more, got {pi.tolist()}.")
    mean = logits.log_softmax(1).logsumexp(0) - math.log(n)
    pi = pi.to(logits)
    # xlogy is 0 where pi is; a class of proportion 0 must not multiply its -inf either
    return (torch.xlogy(pi, pi) - pi * mean.masked_fill(pi == 0, 0.0)).sum()


#: Name to loss; all are called ``loss(logits, lower, upper, proportions=None, max_count=None)``.
COUNT_LOSSES: dict[str, Callable[..., Tensor]] = {
    "interval": interval_loss,
    "entropy": entropy_loss,
    "proportion": proportion_loss,
}
