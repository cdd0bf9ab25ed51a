"""The kernel behind `sklearn_cleanse.counts`, written once for numpy and torch.

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
import torch
from torch import Tensor

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
        # Bisection for a tilted mean at the end of the interval that anchors the sum: further
        # inside, what the anchor adds would be lost beside the rest. It starts where one row more
        # or less decides, and from there a solution is at most about log(n) + 1 away. A shift that
        # would change sign was not needed at all.
        start, goal = theta, xp.where(theta < 0.0, upper, lower)
        step = math.log(n) + 1.0
        for _ in range(12):
            step /= 2.0
            mean = (1.0 / (1.0 + xp.exp(-_clip(xp, z + theta, -40.0, 40.0)))).sum(0)
            theta = theta + step * xp.sign(goal - mean)
            theta = xp.where(theta * start > 0.0, theta, 0.0)
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
    fade = xp.exp(_clip(xp, (anchor - k) * theta, -limit, 0.0))
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
