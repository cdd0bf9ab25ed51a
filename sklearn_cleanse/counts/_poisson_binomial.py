"""The computation behind `sklearn_cleanse.counts`, in numpy on the CPU and in torch elsewhere.

The method is a product tree over the rows' polynomials ``(1 - p) + p x``, cut at the largest count
that matters. Only non-negative numbers are added and multiplied, so nothing cancels, and underflow
is the only danger. Exponential tilting averts it: when all logits of a class are shifted by
``theta``, the probability of the count k changes by a known factor, ``exp(theta k - c(theta))``.
The shift is chosen to put the tilted count inside the interval, so that what the tree computes is
of ordinary size however far out in the tail the interval lies; the factor is added in logs.

The functions take the array module as ``xp``. numpy serves the CPU because a call of numpy costs a
fraction of one of torch: with 64 rows and 16 classes the loss takes a quarter of the time. There
results can be read at no cost, too: the tree first runs without a tilt, and only classes whose
probability comes out too small to be trusted are tilted.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import torch

# Added to every coefficient, so that products stay out of the denormals, which are slow; 1e-150
# beside the 2^-256 that the tilt guarantees is nothing.
_FLOOR = {torch.float64: 1e-150, torch.float32: 1e-18}
# A probability above this is not affected by the floor, and needs no tilt.
_RELIABLE = 1e-130
# The sort-based tilt leaves at least 2^-n of probability; with more rows than this it is refined.
_MAX_UNREFINED = {torch.float64: 256, torch.float32: 16}
# Products that torch holds at a time (128 MiB in float64); numpy sums them without holding any.
_MAX_PRODUCTS = 2**24


def _range(xp: ModuleType, size: int, like: Any) -> Any:
    return np.arange(size) if xp is np else torch.arange(size, device=like.device)


def _clip(xp: ModuleType, x: Any, low: float | None, high: float) -> Any:
    # ndarray.clip is several times slower than the two ufuncs
    if xp is np:
        return np.minimum(x if low is None else np.maximum(x, low), high)
    return x.clamp(low, high)


def _zeros(xp: ModuleType, shape: tuple[int, ...], like: Any) -> Any:
    return np.zeros(shape) if xp is np else like.new_zeros(shape)


def _correlate(xp: ModuleType, padded: Any, factor: Any, size: int) -> Any:
    """``out[k] = sum_j padded[k + j] * factor[j]`` for k < size, column by column."""
    if xp is np:
        row, item = padded.strides
        windows: Any = np.ndarray((size, *factor.shape), float, padded, 0, (row, row, item))
        return np.einsum("kjc,jc->kc", windows, factor)
    if size > 1 and size * factor.numel() > _MAX_PRODUCTS:
        half = size // 2
        rest = _correlate(xp, padded[half:], factor, size - half)
        return torch.cat((_correlate(xp, padded, factor, half), rest))
    windows = padded.unfold(0, len(factor), 1)[:size]  # (k, c, j)
    return (windows * factor.T).sum(2)


def _multiply_up(
    xp: ModuleType, leaves: Any, size_max: int, floor: float
) -> tuple[Any, list[tuple[Any, Any]]]:
    """Coefficients of each class's product (size, m), and the factors on the way (size, cols).

    The nodes of a level are columns, classes innermost; `leaves` (2, n, m) are 1 - p and p.
    """
    _, nodes, m = leaves.shape
    level, pairs = leaves.reshape(2, nodes * m), []
    for _ in range(max(1, (nodes - 1).bit_length())):
        nodes = (nodes + 1) // 2
        (size, cols), half = level.shape, nodes * m
        size_out = min(2 * size - 1, size_max)
        padded = _zeros(xp, (size - 1 + max(size, size_out), half), level)
        left, right = level[:, :half], padded[size - 1 : 2 * size - 1]
        right[:, : cols - half] = level[:, half:]
        if cols < 2 * half:
            right[0, cols - half :] = 1.0  # the constant one makes the number of nodes even
        level = _correlate(xp, padded, xp.flipud(left), size_out)
        level += floor
        pairs.append((left, right))
    return level, pairs


def _sum_down(xp: ModuleType, weights: Any, pairs: list[tuple[Any, Any]], floor: float) -> Any:
    """For each leaf the weighted sum of the coefficients of all others' product, (n, m).

    `weights` (size, m) are for the coefficients that `_multiply_up` returns. If n is odd, rows of
    no meaning follow.
    """
    m = weights.shape[1]
    for i, (left, right) in reversed(list(enumerate(pairs))):
        size, half = left.shape
        weights = weights[:, :half]
        if (cut := 2 * size - 1 - len(weights)) > 0:
            weights = xp.concatenate((weights, _zeros(xp, (cut, half), left)))
        weights, siblings = xp.concatenate((weights, weights), 1), xp.concatenate((right, left), 1)
        weights = _correlate(xp, weights, siblings, size if i else 1)
        if i:
            weights += floor
    return weights.reshape(-1, m)


def _tilt(xp: ModuleType, z: Any, lower: Any, upper: Any, dtype: torch.dtype) -> Any:
    """Shift of each class's logits, (m,), that brings its mean count to the interval.

    With the shift ``-z_(l)``, z_(l) the l-th largest logit, the l largest are at least even odds
    and the others at most, so the count l keeps a probability of 2^-n; likewise at the upper end.
    """
    n, m = z.shape

    def mean(theta: Any) -> Any:
        return (1.0 / (1.0 + xp.exp(-_clip(xp, z + theta, -40.0, 40.0)))).sum(0)

    ordered = np.sort(z, axis=0) if xp is np else torch.sort(z, dim=0).values
    column = _range(xp, m, z)
    bound = 1.0 / _FLOOR[dtype]  # infinite logits: certain rows, which no shift can move
    at_least = _clip(xp, -ordered[_clip(xp, n - lower, 0, n - 1), column], 0.0, bound)
    at_most = _clip(xp, -ordered[_clip(xp, n - 1 - upper, 0, n - 1), column], -bound, 0.0)
    untilted = mean(0.0)
    up, down = untilted < lower, untilted > upper
    theta = xp.where(up, at_least, xp.where(down, at_most, 0.0))
    if n > _MAX_UNREFINED[dtype]:
        # Bisection for a tilted mean at the end of the interval that anchors the sum: further
        # inside, what the anchor adds would be lost beside the rest. It starts where one row more
        # or less decides, and from there a solution is at most about log(n) + 1 away.
        goal = xp.where(up, lower, upper)
        least, most = xp.where(down, -math.inf, 0.0), xp.where(up, math.inf, 0.0)
        step = math.log(n) + 1.0
        for _ in range(12):
            step /= 2.0
            theta = theta + step * xp.sign(goal - mean(theta))
            theta = xp.minimum(xp.maximum(theta, least), most)
    return theta


def _inside(xp: ModuleType, lower: Any, upper: Any, size: int) -> tuple[Any, Any]:
    """Column of the counts k = 0, ..., size, and one where k is in the interval."""
    k = _range(xp, size + 1, lower)[:, None]
    return k, ((k >= lower) & (k <= upper)) * 1.0


def _solve(
    z: Any,
    lower: Any,
    upper: Any,
    max_count: int,
    grad: bool,
    xp: ModuleType = np,
    dtype: torch.dtype = torch.float64,
) -> tuple[Any, Any]:
    """Log-probabilities (m,) and, if asked for, their derivatives by the logits (n, m)."""
    n, m = z.shape
    size = min(max_count, n) + 1
    floor = _FLOOR[dtype]
    certain = (lower <= 0) & (upper >= n)
    upper = _clip(xp, upper, None, max_count)
    theta = _tilt(xp, z, lower, upper, dtype)
    from_above = theta < 0.0
    anchor = xp.where(from_above, upper, lower)

    limit = -math.log(floor)
    both = _clip(xp, xp.concatenate((z, z + theta)).reshape(2, n, m), -limit, limit)
    odds = xp.exp(-both)
    positive = 1.0 / (1.0 + odds)  # of each row, before and after the tilt
    negative = odds * positive
    root, pairs = _multiply_up(xp, xp.stack((negative[1], positive[1])), size, floor)
    k, inside = _inside(xp, lower, upper, size)
    fade = xp.exp(_clip(xp, (anchor - k) * theta, -limit, 0.0))
    total = (root * (inside * fade)[:-1]).sum(0)

    # The tilt's factor is sum(softplus(z + theta) - softplus(z)) - theta * anchor. What is linear
    # in theta is taken out row by row, where a row is tilted to one, so that nothing cancels.
    ones = both[1] > 0.0
    against = _clip(xp, xp.where(ones, z, -z), None, 0.0)
    larger = xp.maximum(positive, negative)
    scale = (against + xp.log(larger[0] / larger[1])).sum(0)
    log_prob = xp.log(total) + scale + theta * (ones.sum(0) - anchor)
    log_prob = xp.where(certain | (log_prob > 0.0), 0.0, log_prob)
    # only certain rows, whose logits are infinite, can want a shift as large as _tilt allows
    log_prob = xp.where(log_prob < -0.5 / floor, -math.inf, log_prob)
    if not grad:
        return log_prob, None

    # dP/dp telescopes to L(lower - 1) - L(upper), L(k) the probability of k among the other rows.
    # Of p(1 - p) one factor is tilted, 1 - p from above and p from below: between the two lies
    # exp(theta), the ratio of neighbouring values of `fade`.
    weights = (inside[1:] - inside[:-1]) * xp.where(from_above, fade[:-1], fade[1:])
    slope = xp.where(from_above, negative[1] * positive[0], positive[1] * negative[0])
    inverse = xp.where((log_prob > -math.inf) & ~certain, 1.0 / total, 0.0)
    others = _sum_down(xp, weights, pairs, floor)[:n]
    return log_prob, others * (slope * inverse)


def _solve_untilted(
    z: Any, lower: Any, upper: Any, max_count: int, grad: bool
) -> tuple[Any, Any, Any]:
    """`_solve` without a tilt, in numpy, at half the cost; also the probabilities (m,)."""
    n, m = z.shape
    size, floor = min(max_count, n) + 1, _FLOOR[torch.float64]
    leaves = np.empty((2, n, m))  # 1 / (1 + exp(z)), 1 / (1 + exp(-z))
    np.exp(z, out=leaves[0])
    np.divide(1.0, leaves[0], out=leaves[1])
    leaves += 1.0
    np.divide(1.0, leaves, out=leaves)
    leaves += floor
    root, pairs = _multiply_up(np, leaves, size, floor)
    _, inside = _inside(np, lower, np.minimum(upper, max_count), size)
    total = np.einsum("kc,kc->c", root, inside[:-1])
    log_prob, slope = np.log(np.minimum(total, 1.0)), None
    if grad:
        slope = _sum_down(np, inside[1:] - inside[:-1], pairs, floor)[:n]
        slope *= leaves[0]
        slope *= leaves[1] / total
    return log_prob, slope, total


def _solve_host(z: Any, lower: Any, upper: Any, max_count: int, grad: bool) -> tuple[Any, Any]:
    """`_solve` in numpy, with a tree only where one is needed, and a tilt only in the tails."""
    n, m = z.shape
    never = (lower <= 0) & (upper == 0)
    certain = (lower <= 0) & (upper >= n)
    if np.count_nonzero(certain) or 4 * np.count_nonzero(never) > m:
        log_prob, slope = np.zeros(m), np.zeros((n, m)) if grad else None
        log_prob[never] = -np.logaddexp(0.0, z[:, never]).sum(0)
        if slope is not None:
            possible = log_prob[never] > -math.inf  # no row is certain to be one
            slope[:, never] = possible / (-1.0 - np.exp(-z[:, never]))
        rest, solve = ~(never | certain), _solve_host
    else:
        log_prob, slope, total = _solve_untilted(z, lower, upper, max_count, grad)
        rest, solve = total < _RELIABLE, _solve
    if np.count_nonzero(rest):
        inner = solve(z[:, rest], lower[rest], upper[rest], max_count, grad)
        log_prob[rest] = inner[0]
        if slope is not None:
            slope[:, rest] = inner[1]
    return log_prob, slope


def _one_vs_rest(xp: ModuleType, z: Any) -> tuple[Any, Callable[[Any], Any]]:
    """Log-odds of each class under the softmax (n, m), and the product with their Jacobian."""
    n = z.shape[0]
    top = _range(xp, n, z), z.argmax(1)  # where each row is largest
    first = z[top]
    below = z + 0.0
    below[top] = -math.inf
    second = _clip(xp, xp.amax(below, axis=1), -1e30, math.inf)
    # The top class needs the others' sum on its own; for any other class the top is in the sum,
    # so that subtracting the class from the total costs no accuracy.
    shares = xp.exp(below - second[:, None])
    mass = shares.sum(1)
    ratio = xp.exp(second - first)[:, None]
    between = ratio * (mass[:, None] - shares)
    log_odds = z - first[:, None] - xp.log1p(between)
    log_odds[top] = first - second - xp.log(mass)

    def pull_back(g: Any) -> Any:
        h = g / (1.0 + between)
        h[top] = 0.0
        total = h.sum(1)
        from_top = g[top] / _clip(xp, mass, 1.0, math.inf)
        out = g - shares * (from_top[:, None] + ratio * (total[:, None] - h))
        out[top] -= total
        return out

    return log_odds, pull_back
