"""How likely a label count is to lie in an interval, and the losses built on it.

The number of rows with label j is a sum of independent Bernoulli variables (a Poisson-binomial
variable). :func:`interval_log_prob` gives the log-probability that it lies between two bounds,
exactly, for all classes at once; it needs nothing else of this package.

The method is a product tree over the rows' polynomials ``(1 - p) + p x``, cut at the largest count
that matters. Only non-negative numbers are added and multiplied, so nothing cancels, and underflow
is the one danger. Exponential tilting averts it: when all logits of a class are shifted by
``theta``, the probability of the count k changes by a known factor, ``exp(theta k - c(theta))``.
The shift is chosen to put the tilted count inside the interval, so that what the tree computes is
of ordinary size however far out in the tail the interval lies; the factor is added in logs.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from types import ModuleType
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

__all__ = ["COUNT_LOSSES", "estimate_proportions", "interval_log_prob", "one_vs_rest_logits"]

# The kernels are written once for numpy and torch (`xp`): on the CPU numpy's calls cost a third of
# torch's, which decides at the size of a training step. Only polynomial products differ. In numpy
# they are einsums over a strided view; in torch, up to this many multiplications, one product with
# a fixed 0/1 matrix (few calls), and beyond it a loop over coefficients (no wasted work).
_MATMUL_MAX_WORK = 250_000
# The sort-based tilt leaves at least 2^-n of probability; with more rows than this it is refined.
_MAX_UNREFINED = {torch.float64: 256, torch.float32: 16}
# Added to every coefficient, so that products stay out of the denormals, which are slow; 1e-150
# beside the 2^-256 that the tilt guarantees is nothing.
_FLOOR = {torch.float64: 1e-150, torch.float32: 1e-18}


@lru_cache(maxsize=512)
def _range(size: int, xp: ModuleType, device: torch.device | None) -> Any:
    return np.arange(size) if xp is np else torch.arange(size, device=device)


@lru_cache(maxsize=512)
def _pair_matrix(
    rows: int, left: int, right: int, sign: int, dtype: torch.dtype, device: torch.device
) -> Tensor:
    """0/1 matrix (rows, left * right): one where row = i + sign * j."""
    row, i, j = (torch.arange(size, device=device) for size in (rows, left, right))
    hits = row[:, None, None] == i[:, None] + sign * j
    return hits.view(rows, left * right).to(dtype)


def _clip(xp: ModuleType, x: Any, low: float | None, high: float) -> Any:
    # ndarray.clip is several times slower than the two ufuncs
    if xp is np:
        return np.minimum(x if low is None else np.maximum(x, low), high)
    return x.clamp(low, high)


class _Tree:
    """Product tree over rows; the nodes of a level are columns, classes innermost."""

    def __init__(self, xp: ModuleType, dtype: torch.dtype, device: torch.device | None) -> None:
        self.xp, self.dtype, self.device, self.floor = xp, dtype, device, _FLOOR[dtype]

    def _zeros(self, *shape: int) -> Any:
        if self.xp is np:
            return np.zeros(shape)
        return torch.zeros(shape, dtype=self.dtype, device=self.device)

    def _swap(self, pair: Any) -> Any:
        return pair[:, ::-1] if self.xp is np else pair.flip(1)

    def product(self, a: Any, b: Any, size_out: int) -> Any:
        """First size_out coefficients of a(x) b(x), columnwise; a and b are (size, cols)."""
        size, cols = a.shape
        if self.xp is np:  # out[k] = sum_j a[k - j] b[j]
            padded = np.zeros((size - 1 + max(size, size_out), cols))
            padded[size - 1 : 2 * size - 1] = a
            row, item = padded.strides
            shape, start = (size_out, size, cols), (size - 1) * row
            shifted: Any = np.ndarray(shape, float, padded, start, (row, -row, item))
            out = np.einsum("kjc,jc->kc", shifted, b)
        elif size * size * size_out * cols <= _MATMUL_MAX_WORK:
            outer = (a[:, None] * b).reshape(size * size, cols)
            out = _pair_matrix(size_out, size, size, 1, self.dtype, self.device) @ outer
        else:
            out = self._zeros(size_out, cols)
            for j in range(min(size, size_out)):
                stop = min(size, size_out - j)
                out[j : j + stop].addcmul_(a[:stop], b[j])
        out += self.floor
        return out

    def adjoint(self, above: Any, pair: Any) -> Any:
        """Derivative by both factors of `pair` (size, 2, cols), given that by their product."""
        size, _, cols = pair.shape
        size_above = above.shape[0]
        if self.xp is np:  # out[i] = sum_j above[i + j] sibling[j]
            padded = np.zeros((2 * size - 1, cols))
            padded[:size_above] = above
            row, item = padded.strides
            shifted: Any = np.ndarray((size, size, cols), float, padded, 0, (row, row, item))
            out = np.empty((size, 2, cols))
            np.einsum("ijc,jc->ic", shifted, pair[:, 1], out=out[:, 0])
            np.einsum("ijc,jc->ic", shifted, pair[:, 0], out=out[:, 1])
        elif 2 * size * size * size_above * cols <= _MATMUL_MAX_WORK:
            outer = (above[:, None, None] * pair.flip(1)).view(size_above * size, 2 * cols)
            out = _pair_matrix(size, size_above, size, -1, self.dtype, self.device) @ outer
        else:
            out, sibling, above = self._zeros(size, 2, cols), pair.flip(1), above[:, None]
            for j in range(min(size, size_above)):
                stop = min(size, size_above - j)
                out[:stop].addcmul_(above[j : j + stop], sibling[j])
        out += self.floor
        return out.reshape(size, 2 * cols)

    def grow(self, leaves: Any, n: int, m: int, size_max: int) -> tuple[Any, list[Any]]:
        """From leaves (2, n * m) to each class's product (size, m), and the levels between."""
        levels, nodes, current = [], n, leaves
        while nodes > 1:
            size = current.shape[0]
            if nodes % 2:  # the constant polynomial one makes the number even
                one = self._zeros(size, m)
                one[0] = 1.0
                current = self.xp.concatenate((current, one), 1)
                nodes += 1
            nodes //= 2
            pair = current.reshape(size, 2, nodes * m)
            levels.append(pair)
            current = self.product(pair[:, 0], pair[:, 1], min(2 * size - 1, size_max))
        return current[:size_max], levels

    def others(self, weights: Any, levels: list[Any], n: int, m: int) -> Any:
        """For each leaf the weighted coefficients of the product of all others: (n, m)."""
        if not levels:
            return weights[:1]
        for pair in levels[:0:-1]:
            weights = self.adjoint(weights[:, : pair.shape[2]], pair)
        cols, size = levels[0].shape[2], min(2, weights.shape[0])
        products = weights[:size, None, :cols] * self._swap(levels[0])[:size]
        return products.sum(0).reshape(-1, m)[:n]


def _tilt(xp: ModuleType, z: Any, lower: Any, upper: Any, dtype: torch.dtype) -> Any:
    """Shift of each class's logits, (m,), that brings its count into the interval.

    With the shift ``-z_(l)``, z_(l) the l-th largest logit, the l largest are at least even odds
    and the others at most, so the count l keeps a probability of 2^-n; likewise at the upper end.
    """
    n, m = z.shape
    ordered = np.sort(z, axis=0) if xp is np else torch.sort(z, dim=0).values
    column = _range(m, xp, None if xp is np else z.device)
    at_least = -ordered[_clip(xp, n - lower, 0, n - 1), column]
    at_most = -ordered[_clip(xp, n - 1 - upper, 0, n - 1), column]
    theta = xp.where((lower > 0) & (at_least > 0.0), at_least, 0.0)
    theta = xp.where((upper < n) & (at_most < 0.0), at_most, theta)
    bound = 1.0 / _FLOOR[dtype]  # infinite logits: certain rows, which no shift can move
    theta = _clip(xp, theta, -bound, bound)
    if n > _MAX_UNREFINED[dtype]:
        # Bisection for a tilted mean inside the interval. It starts where one row more or less
        # decides, and from there a solution is at most about log(n) + 1 away.
        step = math.log(n) + 1.0
        for _ in range(8):
            step /= 2.0
            mean = (1.0 / (1.0 + xp.exp(-_clip(xp, z + theta, -40.0, 40.0)))).sum(0)
            inside = xp.minimum(xp.maximum(mean, lower), upper)
            theta = theta + step * xp.sign(inside - mean)
    return theta


def _solve(
    xp: ModuleType, z: Any, lower: Any, upper: Any, max_count: int, dtype: torch.dtype, grad: bool
) -> tuple[Any, Any]:
    """Log-probabilities (m,) and, if asked for, their derivatives by the logits (n, m)."""
    n, m = z.shape
    tree = _Tree(xp, dtype, None if xp is np else z.device)
    certain = (lower <= 0) & (upper >= n)
    if max_count < n:
        upper = xp.where(certain, n, _clip(xp, upper, -1, max_count))
    theta = _tilt(xp, z, lower, upper, dtype)
    from_above = theta < 0.0
    anchor = xp.where(from_above, upper, lower)

    limit = -math.log(tree.floor)
    both = _clip(xp, xp.concatenate((z, z + theta)).reshape(2, n, m), -limit, limit)
    odds = xp.exp(-both)
    positive = 1.0 / (1.0 + odds)  # of each row, before and after the tilt
    negative = odds * positive
    leaves = xp.concatenate((negative[1], positive[1])).reshape(2, n * m)
    root, levels = tree.grow(leaves, n, m, min(max_count, n) + 1)

    k = _range(root.shape[0], xp, tree.device)[:, None]
    fade = xp.exp(_clip(xp, (anchor - k) * theta, -2.0 * limit, 0.0))
    total = (root * fade * ((k >= lower) & (k <= upper))).sum(0)
    # The tilt's factor is sum(softplus(z + theta) - softplus(z)) - theta * anchor. What is linear
    # in theta is taken out row by row, where a row is tilted to one, so that nothing cancels.
    ones = both[1] > 0.0
    against = _clip(xp, xp.where(ones, z, -z), None, 0.0)
    larger = xp.maximum(positive, negative)
    scale = (against + xp.log(larger[0] / larger[1])).sum(0)
    log_prob = xp.log(total) + scale + theta * (ones.sum(0) - anchor)
    log_prob = xp.where(certain | (log_prob > 0.0), 0.0, log_prob)
    # only certain rows, whose logits are infinite, can want a shift as large as _tilt allows
    log_prob = xp.where(log_prob < -0.5 / tree.floor, -math.inf, log_prob)
    if not grad:
        return log_prob, None

    # dP/dp telescopes to L(lower - 1) - L(upper), L(k) the probability of k among the other rows.
    decay = _clip(xp, (upper - lower + 1) * theta, -limit, limit)
    weights = (k == lower - 1) * xp.exp(decay * from_above)
    weights = weights - (k == upper) * xp.exp(-decay * ~from_above)
    inverse = xp.where((total > 0.0) & ~certain, 1.0 / total, 0.0)
    slope = xp.where(from_above, negative[1] * positive[0], positive[1] * negative[0])
    return log_prob, tree.others(weights, levels, n, m) * (slope * inverse)


def _solve_host(z: Any, lower: Any, upper: Any, max_count: int, grad: bool) -> tuple[Any, Any]:
    """`_solve` in numpy, sparing the tree the classes that need none: the bounds can be read."""
    n, m = z.shape
    needed = (lower != 0) | ((upper > 0) & (upper < n))
    if 4 * np.count_nonzero(needed) > 3 * m:
        return _solve(np, z, lower, upper, max_count, torch.float64, grad)
    # what is left has lower = 0: a count of zero at most (or a negative one), or any count
    log_prob = np.where(upper < 0, -math.inf, 0.0)
    none = upper == 0 if n else np.zeros(m, dtype=bool)
    log_prob[none] = -np.logaddexp(0.0, z[:, none]).sum(0)
    slope = np.zeros((n, m)) if grad else None
    if slope is not None:
        slope[:, none] = -1.0 / (1.0 + np.exp(-z[:, none]))
    if needed.any():
        bounds = lower[needed], upper[needed]
        inner = _solve(np, z[:, needed], *bounds, max_count, torch.float64, grad)
        log_prob[needed] = inner[0]
        if slope is not None:
            slope[:, needed] = inner[1]
    return log_prob, slope


def _one_vs_rest(xp: ModuleType, z: Any) -> tuple[Any, Callable[[Any], Any]]:
    """Log-odds of each class under the softmax (n, m), and the product with their Jacobian."""
    column = _range(z.shape[1], xp, None if xp is np else z.device)
    is_top = z.argmax(1)[:, None] == column
    centred = z - xp.amax(z, axis=1, keepdims=True)
    parts = xp.exp(centred)
    # The top class needs the others' sum on its own; for any other class the top is in the sum,
    # so that subtracting the class from the total costs no accuracy.
    below = xp.where(is_top, -math.inf, centred)
    second = _clip(xp, xp.amax(below, axis=1, keepdims=True), -1e30, 0.0)
    shares = xp.exp(below - second)
    mass = shares.sum(1, keepdims=True)
    rest = second + xp.log(mass)
    between = xp.exp(rest) - parts
    log_odds = centred - xp.where(is_top, rest, xp.log1p(between))

    def pull_back(g: Any) -> Any:
        h = xp.where(is_top, 0.0, g / (1.0 + between))
        top = xp.where(is_top, g, 0.0).sum(1, keepdims=True) / _clip(xp, mass, 1.0, math.inf)
        return g - top * shares - parts * (h.sum(1, keepdims=True) - h)

    return log_odds, pull_back


def _enter(logits: Tensor) -> tuple[ModuleType, Any, torch.dtype]:
    """Backend, array and dtype to compute in: float64 wherever the device has it."""
    dtype = torch.float32 if logits.device.type == "mps" else torch.float64
    z = logits.detach().to(dtype)
    return (np, z.numpy(), dtype) if z.device.type == "cpu" else (torch, z, dtype)


def _leave(array: Any, dtype: torch.dtype) -> Tensor:
    return torch.as_tensor(array).to(dtype)


def _interval(
    xp: ModuleType, z: Any, lower: Tensor, upper: Tensor, max_count: int, dtype: Any, grad: bool
) -> tuple[Any, Any]:
    if xp is np:
        return _solve_host(z, lower.numpy(), upper.numpy(), max_count, grad)
    return _solve(torch, z, lower, upper, max_count, dtype, grad)


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


class _IntervalLogProb(torch.autograd.Function):
    """The gradient is made along with the value: between the passes only it is kept, (n, m)."""

    @staticmethod
    def forward(ctx: Any, logits: Tensor, lower: Tensor, upper: Tensor, max_count: int) -> Tensor:
        xp, z, dtype = _enter(logits)
        grad = ctx.needs_input_grad[0]
        with _quiet():
            log_prob, slope = _interval(xp, z, lower, upper, max_count, dtype, grad)
        if grad:
            ctx.save_for_backward(_leave(slope, logits.dtype), logits)
        return _leave(log_prob, logits.dtype)

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor, None, None, None]:
        slope, logits = ctx.saved_tensors
        return _once(slope * grad_output, grad_output, logits), None, None, None


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


class _SoftmaxCountLoss(torch.autograd.Function):
    """One-vs-rest, interval and sum in one: in a training step each call saved can be felt."""

    @staticmethod
    def forward(
        ctx: Any, logits: Tensor, lower: Tensor, upper: Tensor, max_count: int, entropy: bool
    ) -> Tensor:
        xp, z, dtype = _enter(logits)
        grad = ctx.needs_input_grad[0]
        with _quiet():
            log_odds, pull_back = _one_vs_rest(xp, z)
            log_prob, slope = _interval(xp, log_odds, lower, upper, max_count, dtype, grad)
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

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor, None, None, None, None]:
        gradient, logits = ctx.saved_tensors
        return _once(gradient * grad_output, grad_output, logits), None, None, None, None


def _check_bounds(logits: Tensor, lower: Any, upper: Any) -> tuple[Tensor, Tensor]:
    if logits.ndim != 2:
        raise ValueError(f"logits must have shape (n, m); got {tuple(logits.shape)}")
    m = logits.shape[1]
    bounds = []
    for name, bound in (("lower", lower), ("upper", upper)):
        bound = torch.as_tensor(bound)
        if bound.is_floating_point() or bound.is_complex() or bound.dtype == torch.bool:
            raise TypeError(f"{name} must hold integers; got {bound.dtype}")
        if bound.ndim > 1 or (bound.ndim == 1 and len(bound) != m):
            raise ValueError(
                f"{name} must have shape ({m},), one bound per column of logits; "
                f"got {tuple(bound.shape)}"
            )
        bounds.append(bound if bound.ndim else bound.expand(m))
    return bounds[0], bounds[1]


def _largest_count(lower: Tensor, upper: Tensor, n: int) -> int:
    """Largest count that matters, if the bounds are in the host's memory; n otherwise."""
    if lower.device.type != "cpu" or upper.device.type != "cpu":
        return n
    low, high = lower.numpy(), upper.numpy()
    return int(high[(low > 0) | (high < n)].max(initial=0).clip(0, n))


def interval_log_prob(
    logits: Tensor, lower: Any, upper: Any, *, max_count: int | None = None
) -> Tensor:
    """Log-probability that a sum of independent Bernoulli variables lies in an interval.

    For each column j, ``log P(lower_j <= y_1j + ... + y_nj <= upper_j)`` where y_ij is one with
    probability ``sigmoid(logits_ij)``. Exact to rounding, in any tail, and differentiable once by
    the logits (a second derivative raises RuntimeError). Computed in float64 whatever the dtype
    of the logits (on MPS, which has none, in float32).

    Parameters
    ----------
    logits : Tensor of shape (n, m)
        Log-odds, ``log p - log(1 - p)``: both tails of p are resolved. If you hold
        log-probabilities, pass ``log_p - torch.log(-torch.expm1(log_p))``. Infinite logits are
        certain outcomes.
    lower, upper : integer Tensor of shape (m,), or int
        Bounds, inclusive. ``[0, n]`` gives exactly 0. An interval that holds no count between
        0 and n gives -inf with a zero gradient.
    max_count : int, optional
        Cuts the tables, and any interval that ends above it except ``[0, n]``, at this count: the
        largest upper bound, when the caller knows it. By default it is read from the bounds if
        these are in the host's memory; from an accelerator nothing is read, so that the call can
        be captured in a CUDA graph, and the tables have full length.

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
    lower, upper = _check_bounds(logits, lower, upper)
    n = logits.shape[0]
    if n == 0:
        return logits.sum(0).masked_fill(((lower > 0) | (upper < 0)).to(logits.device), -math.inf)
    if max_count is None:
        max_count = _largest_count(lower, upper, n)
        # Few zeros are as good as few ones: where that is narrower, count zeros.
        mirrored = torch.minimum(n - lower, upper)
        if lower.device.type == "cpu" and 2 * _largest_count(lower, mirrored, n) < max_count:
            flip = n - lower < upper
            lower, upper = torch.where(flip, n - upper, lower), torch.where(flip, n - lower, upper)
            max_count = _largest_count(lower, upper, n)
            logits = logits * torch.where(flip, -1.0, 1.0).to(logits)
    lower, upper = lower.to(logits.device), upper.to(logits.device)
    return _IntervalLogProb.apply(logits, lower, upper, max_count)


def one_vs_rest_logits(logits: Tensor) -> Tensor:
    """Log-odds ``log p_j - log(1 - p_j)`` of each class under the softmax of the logits.

    The sum over the other classes is never formed by subtraction from one, so the log-odds are
    accurate however close p_j is to 0 or 1. Differentiable once.

    Parameters
    ----------
    logits : Tensor of shape (n, m)

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
    return _OneVsRest.apply(logits)


def _softmax_count_loss(
    logits: Tensor, lower: Any, upper: Any, max_count: int | None, entropy: bool
) -> Tensor:
    lower, upper = _check_bounds(logits, lower, upper)
    if max_count is None:
        max_count = _largest_count(lower, upper, logits.shape[0])
    lower, upper = lower.to(logits.device), upper.to(logits.device)
    return _SoftmaxCountLoss.apply(logits, lower, upper, max_count, entropy)


def interval_loss(
    logits: Tensor, lower: Any, upper: Any, proportions: Any = None, *, max_count: Any = None
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
    max_count : int, optional
        The largest upper bound, see :func:`interval_log_prob`.

    Returns
    -------
    Tensor, a scalar
    """
    return _softmax_count_loss(logits, lower, upper, max_count, entropy=False)


def entropy_loss(
    logits: Tensor, lower: Any, upper: Any, proportions: Any = None, *, max_count: Any = None
) -> Tensor:
    """``-P log P`` summed over classes, Eq. (10) as printed; parameters of `interval_loss`.

    It vanishes at P = 0 too: below P = 1/e its gradient drives counts out of their interval.
    """
    return _softmax_count_loss(logits, lower, upper, max_count, entropy=True)


def proportion_loss(
    logits: Tensor, lower: Any, upper: Any, proportions: Any = None, *, max_count: Any = None
) -> Tensor:
    """Kullback-Leibler divergence of the batch's mean prediction from given class proportions.

    ``sum_j pi_j (log pi_j - log mean_i p_ij)``: the form for large data, linear in n and m.
    Parameters of `interval_loss`, of which the bounds go unused; `proportions` (m,), for instance
    from :func:`estimate_proportions`, is required.
    """
    if proportions is None:
        raise ValueError("the proportion loss needs proportions; see estimate_proportions")
    mean = torch.logsumexp(torch.log_softmax(logits, 1), 0) - math.log(logits.shape[0])
    pi = proportions.to(logits)
    # xlogy is 0 where pi is; a class of proportion 0 must not multiply its -inf either
    return (torch.xlogy(pi, pi) - pi * mean.masked_fill(pi == 0, 0.0)).sum()


#: Name to loss; all are called ``loss(logits, lower, upper, proportions, *, max_count)``.
COUNT_LOSSES: dict[str, Callable[..., Tensor]] = {
    "interval": interval_loss,
    "entropy": entropy_loss,
    "proportion": proportion_loss,
}


def estimate_proportions(candidates: Any, *, max_iter: int = 2000, tol: float = 1e-7) -> np.ndarray:
    """Class proportions from candidate sets alone.

    Maximises ``sum_i log sum_{j in S_i} pi_j`` over the simplex, by expectation maximisation:
    each row spreads one vote over its candidates in the present proportions. This is the maximum
    likelihood if a candidate set is equally likely under each of its labels, as when distractors
    are drawn without regard to the true label. The objective is concave; where it has several
    maxima (labels that always occur together) their mass is shared evenly.

    Parameters
    ----------
    candidates : sparse array, or ndarray, of shape (n, m)
        Nonzero where a label is a candidate of a row.
    max_iter : int, default=2000
        Most iterations.
    tol : float, default=1e-7
        Stop when no proportion moves by more.

    Returns
    -------
    ndarray of shape (m,)
        Non-negative, summing to one; zero for labels no row has.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_cleanse.counts import estimate_proportions
    >>> estimate_proportions(np.array([[1, 0, 0], [1, 1, 0], [0, 1, 1], [0, 1, 0]])).round(3)
    array([0.333, 0.667, 0.   ])
    """
    sets = sp.csr_array(candidates, dtype=np.float64)
    sets.data = (sets.data != 0).astype(np.float64)
    sets.eliminate_zeros()
    n, m = sets.shape
    empty = np.flatnonzero(np.diff(sets.indptr) == 0)
    if n == 0 or len(empty):
        what = f"row {empty[0]} has no candidate label" if n else "there are no rows"
        raise ValueError(f"{what}; every sample needs at least one candidate")
    votes = sets.T.tocsr()
    pi = np.full(m, 1.0 / m)
    for _ in range(max_iter):
        previous, pi = pi, pi * (votes @ (1.0 / (sets @ pi))) / n
        if np.abs(pi - previous).max() <= tol:
            break
    return np.asarray(pi / pi.sum())
