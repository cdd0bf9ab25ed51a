"""The kernel behind `sklearn_cleanse.counts`, in numpy for the CPU and in torch for the rest.

The method is a product tree over the rows' polynomials ``(1 - p) + p x``, cut at the largest count
that matters. Only non-negative numbers are added and multiplied, so nothing cancels, and underflow
is the one danger. Exponential tilting averts it: when all logits of a class are shifted by
``theta``, the probability of the count k changes by a known factor, ``exp(theta k - c(theta))``.
The shift is chosen to put the tilted count inside the interval, so that what the tree computes is
of ordinary size however far out in the tail the interval lies; the factor is added in logs.

Where results can be read back for nothing, on the CPU, the tree is first run without a tilt, and
only classes whose probability comes out too small to be believed are tilted.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache, wraps
from types import ModuleType
from typing import Any

import numpy as np
import torch
from torch import Tensor

# Added to every coefficient, so that products stay out of the denormals, which are slow; 1e-150
# beside the 2^-256 that the tilt guarantees is nothing.
_FLOOR = {torch.float64: 1e-150, torch.float32: 1e-18}
# A probability above this owes nothing to the floor, and needs no tilt.
_RELIABLE = 1e-130
# The sort-based tilt leaves at least 2^-n of probability; with more rows than this it is refined.
_MAX_UNREFINED = {torch.float64: 256, torch.float32: 16}
# Trees of up to so many leaves are kept for the next call.
_MAX_KEPT_LEAVES = 2048
# Up to this many multiplications torch spends on a product if that saves calls.
_MATMUL_MAX_WORK = 250_000


def _recording(like: Tensor) -> bool:
    """Whether a trace (on fake tensors) or a CUDA graph is being made of this call."""
    return type(like) is not Tensor or (like.is_cuda and torch.cuda.is_current_stream_capturing())


def _keep(make: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Keep the tensors that ``make(*sizes, dtype, device)`` returns, asked for by ``like=``.

    Not in a recording: what is made in one holds no values yet, and what is kept here may be gone
    when it is replayed.
    """
    kept = lru_cache(maxsize=512)(make)

    @wraps(make)
    def get(*sizes: int, like: Tensor) -> Tensor:
        return (make if _recording(like) else kept)(*sizes, like.dtype, like.device)

    return get


@_keep
def _device_range(size: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    return torch.arange(size, device=device)  # an index, whatever the dtype


def _range(size: int, like: Any) -> Any:
    return np.arange(size) if isinstance(like, np.ndarray) else _device_range(size, like=like)


@_keep
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


class _HostTree:
    """Product tree over rows, in numpy; the nodes of a level are columns, classes innermost.

    Fill `leaves`, (1 - p, p) of each row, then call `grow`, then `others`. Every level lies in
    zeros, so that a product of polynomials is an einsum over a strided view. The views are laid
    out once for any number of uses: in a training step that would cost as much as the sums.
    """

    floor = _FLOOR[torch.float64]

    def __init__(self, n: int, m: int, size_max: int) -> None:
        buffer, level = self._level(2, size_max, n, m)
        self.leaves = level[:, : n * m].reshape(2, n, m)
        self.up: list[tuple[Any, ...]] = []
        pairs, nodes = [], n
        for _ in range(_depth(n)):
            nodes, size = (nodes + 1) // 2, len(level)
            pair = level.reshape(size, 2, nodes * m)
            row, item = buffer.strides
            shape, start = (min(2 * size - 1, size_max), size, nodes * m), (size - 1) * row
            left: Any = np.ndarray(shape, float, buffer, start, (row, -row, item))
            buffer, level = self._level(shape[0], size_max, nodes, m)
            self.up.append((left, pair[:, 1], level[:, : nodes * m]))
            pairs.append(pair)
        self.root = level[:, :m]

        buffer = np.zeros((2 * len(pairs[-1]) - 1, m))
        self.weights = buffer[: len(self.root)]
        self.down: list[tuple[Any, ...]] = []
        for pair, below in zip(pairs[:0:-1], pairs[-2::-1], strict=True):
            size, _, cols = pair.shape
            row, item = buffer.strides
            above: Any = np.ndarray((size, size, cols), float, buffer, 0, (row, row, item))
            buffer = np.zeros((2 * len(below) - 1, 2 * cols))
            out = buffer[:size].reshape(size, 2, cols)
            self.down.append((above, pair[:, 1], pair[:, 0], out[:, 0], out[:, 1], out))
        self.last = buffer[:2, : pairs[0].shape[2]], pairs[0][:, ::-1]

    @staticmethod
    def _level(size: int, size_max: int, nodes: int, m: int) -> tuple[Any, Any]:
        """Zeros for polynomials of `size` coefficients and shifts of them, and their place."""
        below = max(size, min(2 * size - 1, size_max))
        buffer = np.zeros((size - 1 + below, (nodes + nodes % 2) * m))
        buffer[size - 1, nodes * m :] = 1.0  # the constant one makes the number of nodes even
        return buffer, buffer[size - 1 : 2 * size - 1]

    def grow(self) -> Any:
        """Coefficients of each class's product, (size, m)."""
        for left, right, out in self.up:  # out[k] = sum_j left[k - j] right[j]
            np.einsum("kjc,jc->kc", left, right, out=out)
            out += self.floor
        return self.root

    def others(self, weights: Any) -> Any:
        """For each leaf the weighted sum (n, m) of the coefficients of all others' product."""
        self.weights[:] = weights
        for above, right, left, to_left, to_right, out in self.down:
            np.einsum("ijc,jc->ic", above, right, out=to_left)  # sum_j above[i + j] right[j]
            np.einsum("ijc,jc->ic", above, left, out=to_right)
            out += self.floor
        _, n, m = self.leaves.shape
        return np.einsum("ic,isc->sc", *self.last).reshape(-1, m)[:n]


class _DeviceTree:
    """The same in torch, where a product is one with a fixed 0/1 matrix (few calls), or, if that
    wastes too much work, a loop over coefficients.
    """

    def __init__(
        self, n: int, m: int, size_max: int, dtype: torch.dtype, device: torch.device
    ) -> None:
        self.size_max, self.dtype, self.device, self.floor = size_max, dtype, device, _FLOOR[dtype]
        self.leaves = self._zeros(2, n, m)
        self.pairs: list[Tensor] = []

    def _zeros(self, *shape: int) -> Tensor:
        return torch.zeros(shape, dtype=self.dtype, device=self.device)

    def _product(self, a: Tensor, b: Tensor, size_out: int) -> Tensor:
        """First size_out coefficients of a(x) b(x), columnwise; a and b are (size, cols)."""
        size, cols = a.shape
        if size * size * size_out * cols <= _MATMUL_MAX_WORK:
            outer = (a[:, None] * b).reshape(size * size, cols)
            out = _pair_matrix(size_out, size, size, 1, like=a) @ outer
        else:
            out = self._zeros(size_out, cols)
            for j in range(min(size, size_out)):
                stop = min(size, size_out - j)
                out[j : j + stop].addcmul_(a[:stop], b[j])
        out += self.floor
        return out

    def _adjoint(self, above: Tensor, pair: Tensor) -> Tensor:
        """Derivative by both factors of `pair` (size, 2, cols), given that by their product."""
        size, _, cols = pair.shape
        size_above, sibling = above.shape[0], pair.flip(1)
        if 2 * size * size * size_above * cols <= _MATMUL_MAX_WORK:
            outer = (above[:, None, None] * sibling).view(size_above * size, 2 * cols)
            out = _pair_matrix(size, size_above, size, -1, like=pair) @ outer
        else:
            out, above = self._zeros(size, 2, cols), above[:, None]
            for j in range(min(size, size_above)):
                stop = min(size, size_above - j)
                out[:stop].addcmul_(above[j : j + stop], sibling[j])
        out += self.floor
        return out.reshape(size, 2 * cols)

    def grow(self) -> Tensor:
        _, nodes, m = self.leaves.shape
        current = self.leaves.view(2, nodes * m)
        for _ in range(_depth(nodes)):
            size = len(current)
            if nodes % 2:
                one = self._zeros(size, m)
                one[0] = 1.0
                current = torch.cat((current, one), 1)
            nodes = (nodes + 1) // 2
            pair = current.reshape(size, 2, nodes * m)
            self.pairs.append(pair)
            current = self._product(pair[:, 0], pair[:, 1], min(2 * size - 1, self.size_max))
        return current

    def others(self, weights: Tensor) -> Tensor:
        _, n, m = self.leaves.shape
        for pair in self.pairs[:0:-1]:
            weights = self._adjoint(weights[:, : pair.shape[2]], pair)
        pair, size = self.pairs[0], min(2, len(weights))
        products = weights[:size, None, : pair.shape[2]] * pair.flip(1)[:size]
        return products.sum(0).reshape(-1, m)[:n]


def _depth(n: int) -> int:
    """Levels of a tree over n rows, one at least."""
    return max(1, (n - 1).bit_length())


@lru_cache(maxsize=32)
def _idle_trees(n: int, m: int, size_max: int) -> list[_HostTree]:
    """Trees of one shape at rest; a thread that takes one out has it to itself."""
    return []


def _tilt(xp: ModuleType, z: Any, lower: Any, upper: Any, dtype: torch.dtype) -> Any:
    """Shift of each class's logits, (m,), that brings its mean count to the interval.

    With the shift ``-z_(l)``, z_(l) the l-th largest logit, the l largest are at least even odds
    and the others at most, so the count l keeps a probability of 2^-n; likewise at the upper end.
    """
    n, m = z.shape

    def mean(theta: Any) -> Any:
        return (1.0 / (1.0 + xp.exp(-_clip(xp, z + theta, -40.0, 40.0)))).sum(0)

    ordered = np.sort(z, axis=0) if xp is np else torch.sort(z, dim=0).values
    column = _range(m, z)
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


def _inside(lower: Any, upper: Any, size: int) -> tuple[Any, Any]:
    """Column of the counts k = 0, ..., size, and one where k < size is in the interval."""
    k = _range(size + 1, lower)[:, None]
    inside = ((k >= lower) & (k <= upper)) * 1.0
    inside[-1] = 0.0
    return k, inside


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
    tree = _HostTree(n, m, size) if xp is np else _DeviceTree(n, m, size, dtype, z.device)
    certain = (lower <= 0) & (upper >= n)
    upper = _clip(xp, upper, None, max_count)
    theta = _tilt(xp, z, lower, upper, dtype)
    from_above = theta < 0.0
    anchor = xp.where(from_above, upper, lower)

    limit = -math.log(tree.floor)
    both = _clip(xp, xp.concatenate((z, z + theta)).reshape(2, n, m), -limit, limit)
    odds = xp.exp(-both)
    positive = 1.0 / (1.0 + odds)  # of each row, before and after the tilt
    negative = odds * positive
    tree.leaves[0], tree.leaves[1] = negative[1], positive[1]
    k, inside = _inside(lower, upper, size)
    fade = xp.exp(_clip(xp, (anchor - k) * theta, -limit, 0.0))
    total = (tree.grow() * (inside * fade)[:-1]).sum(0)

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
    # Of p(1 - p) one factor is tilted, 1 - p from above and p from below: between the two lies
    # exp(theta), which is a step of `fade`.
    weights = (inside[1:] - inside[:-1]) * xp.where(from_above, fade[:-1], fade[1:])
    slope = xp.where(from_above, negative[1] * positive[0], positive[1] * negative[0])
    inverse = xp.where((log_prob > -math.inf) & ~certain, 1.0 / total, 0.0)
    return log_prob, tree.others(weights) * (slope * inverse)


def _solve_untilted(
    z: Any, lower: Any, upper: Any, max_count: int, grad: bool
) -> tuple[Any, Any, Any]:
    """As `_solve`, in numpy, at half the cost, and the probabilities (m,), to judge them by."""
    n, m = z.shape
    size = min(max_count, n) + 1
    idle = _idle_trees(n, m, size) if n * m <= _MAX_KEPT_LEAVES else []
    try:
        tree = idle.pop()
    except IndexError:
        tree = _HostTree(n, m, size)
    leaves = tree.leaves  # 1 / (1 + exp(z)), 1 / (1 + exp(-z))
    np.exp(z, out=leaves[0])
    np.divide(1.0, leaves[0], out=leaves[1])
    leaves += 1.0
    np.divide(1.0, leaves, out=leaves)
    leaves += tree.floor
    _, inside = _inside(lower, upper, size)
    total = np.einsum("kc,kc->c", tree.grow(), inside[:-1])
    log_prob, slope = np.log(np.minimum(total, 1.0)), None
    if grad:
        slope = tree.others(inside[1:] - inside[:-1])
        slope *= leaves[0]
        slope *= leaves[1] / total
    idle.append(tree)
    return log_prob, slope, total


def _solve_host(z: Any, lower: Any, upper: Any, max_count: int, grad: bool) -> tuple[Any, Any]:
    """`_solve` in numpy, with no tree where none is needed, and no tilt but in the tails."""
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
    top = _range(n, z), z.argmax(1)  # where each row is largest
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
