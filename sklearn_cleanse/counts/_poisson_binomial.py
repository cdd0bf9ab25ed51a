"""The computation behind `sklearn_cleanse.counts`.

The method is a product tree over the rows' polynomials ``(1 - p) + p x``, cut at the largest count
that matters. Of 64 rows it takes six levels, where a recursion over the rows takes 64 steps: 13 to
20 times the time. Only non-negative numbers are added and multiplied, so nothing cancels, and
underflow is the only danger. Exponential tilting averts it: when all logits of a class are shifted
by ``theta``, the probability of the count k changes by a known factor,
``exp(theta k - c(theta))``. The shift is chosen to put the tilted count inside the interval, so
that what the tree computes is of ordinary size however far out in the tail the interval lies; the
factor is added in logs.

On the CPU results can be read at no cost, so the tree first runs without a tilt, and only classes
whose probability is too small to be accurate are tilted. On other devices nothing is read.
"""

import math

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid, pad

# Added to every coefficient, so that products stay out of the denormals, which are slow; 1e-150
# beside the 2^-256 that the tilt guarantees is nothing.
_FLOOR = {torch.float64: 1e-150, torch.float32: 1e-18}
# A probability above this is not affected by the floor, and needs no tilt.
_RELIABLE = 1e-130
# The sort-based tilt leaves at least 2^-n of probability; with more rows than this it is refined.
_MAX_UNREFINED = {torch.float64: 256, torch.float32: 16}
# Products held at a time (128 MiB in float64).
_MAX_PRODUCTS = 2**24

_Solved = tuple[Tensor, Tensor | None]  # log-probabilities, and derivatives if they are wanted


def solve(z: Tensor, lower: Tensor, upper: Tensor, max_count: int, grad: bool) -> _Solved:
    """Log-probabilities (m,) and, if ``grad``, their derivatives by the log-odds z (n, m)."""
    if not z.is_cpu:
        return _solve_tilted(z, lower, upper, max_count, grad)
    pairs = list(zip(lower.tolist(), upper.tolist(), strict=True))
    if (0, len(z)) in pairs or 4 * pairs.count((0, 0)) > len(pairs):  # these need no tree
        certain, never = (lower == 0) & (upper == len(z)), (lower == 0) & (upper == 0)
        log_prob, slope = logsigmoid(-z).sum(0), -torch.sigmoid(z)
        log_prob[certain], slope[:, certain | (log_prob == -math.inf)] = 0.0, 0.0
        redone, solve_again = ~(never | certain), solve
    else:
        log_prob, slope, total = _solve_untilted(z, lower, upper, max_count, grad)
        redone, solve_again = total < _RELIABLE, _solve_tilted
    if bool(redone.any()):
        columns = z[:, redone], lower[redone], upper[redone]
        log_prob[redone], slope_again = solve_again(*columns, max_count, grad)
        if slope_again is not None:
            slope[:, redone] = slope_again
    return log_prob, slope if grad else None


def _solve_untilted(
    z: Tensor, lower: Tensor, upper: Tensor, max_count: int, grad: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """As `_solve_tilted`, without a tilt, at half the cost; also the probabilities (m,)."""
    n = len(z)
    size, floor = min(max_count, n) + 1, _FLOOR[z.dtype]
    leaves = torch.sigmoid(torch.stack((-z, z))).add_(floor)
    root, levels = _multiply_up(leaves, size, floor)
    _, inside = _inside(size, lower, upper.clamp(max=max_count), z.dtype)
    total = (root * inside[:-1]).sum(0)
    log_prob, slope = total.clamp(max=1.0).log(), z
    if grad:
        others = _sum_down(inside[1:] - inside[:-1], levels, floor)[:n]
        slope = others * leaves[0] * (leaves[1] / total)
    return log_prob, slope, total


def _solve_tilted(z: Tensor, lower: Tensor, upper: Tensor, max_count: int, grad: bool) -> _Solved:
    """Log-probabilities and derivatives, accurate in any tail."""
    n = len(z)
    size, floor = min(max_count, n) + 1, _FLOOR[z.dtype]
    certain = (lower <= 0) & (upper >= n)
    upper = upper.clamp(max=max_count)
    theta = _tilt(z, lower, upper)
    from_above = theta < 0.0
    anchor = torch.where(from_above, upper, lower)

    limit = -math.log(floor)
    both = torch.stack((z, z + theta)).clamp(-limit, limit)
    positive, negative = torch.sigmoid(both), torch.sigmoid(-both)  # before and after the tilt
    root, levels = _multiply_up(torch.stack((negative[1], positive[1])), size, floor)
    k, inside = _inside(size, lower, upper, z.dtype)
    fade = ((anchor - k) * theta).clamp(-limit, 0.0).exp()
    total = (root * (inside * fade)[:-1]).sum(0)

    # The tilt's factor is sum(softplus(z + theta) - softplus(z)) - theta * anchor. What is linear
    # in theta is taken out row by row, where a row is tilted to one, so that nothing cancels.
    ones = both[1] > 0.0
    against = torch.where(ones, z, -z).clamp(max=0.0)
    larger = torch.maximum(positive, negative)
    scale = (against + (larger[0] / larger[1]).log()).sum(0)
    log_prob = total.log() + scale + theta * (ones.sum(0) - anchor)
    log_prob = log_prob.masked_fill(certain | (log_prob > 0.0), 0.0)
    # Only certain rows, whose logits are infinite, can want a shift as large as `_tilt` allows.
    log_prob = log_prob.masked_fill(log_prob < -0.5 / floor, -math.inf)
    if not grad:
        return log_prob, None

    # dP/dp telescopes to L(lower - 1) - L(upper), L(k) the probability of k among the other rows.
    # Of p(1 - p) one factor is tilted, 1 - p from above and p from below: between the two lies
    # exp(theta), the ratio of neighboring values of `fade`.
    weights = (inside[1:] - inside[:-1]) * torch.where(from_above, fade[:-1], fade[1:])
    slope = torch.where(from_above, negative[1] * positive[0], positive[1] * negative[0])
    inverse = torch.where((log_prob > -math.inf) & ~certain, 1.0 / total, 0.0)
    return log_prob, _sum_down(weights, levels, floor)[:n] * (slope * inverse)


def _inside(size: int, lower: Tensor, upper: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Column of the counts k = 0, ..., size, and one where k is in the interval (size + 1, m)."""
    k = torch.arange(size + 1, device=lower.device)[:, None]
    return k, ((k >= lower) & (k <= upper)).to(dtype)


def _correlate(padded: Tensor, factor: Tensor, size: int) -> Tensor:
    """``out[k] = sum_j padded[k + j] * factor[j]`` for k < size, column by column."""
    if size > 1 and size * factor.numel() > _MAX_PRODUCTS:
        half = size // 2
        rest = _correlate(padded[half:], factor, size - half)
        return torch.cat((_correlate(padded, factor, half), rest))
    row, *columns = padded.stride()
    windows = padded.as_strided((size, *factor.shape), (row, row, *columns))
    return (windows * factor).sum(1)


def _multiply_up(leaves: Tensor, size_max: int, floor: float) -> tuple[Tensor, list[Tensor]]:
    """Coefficients (size, m) of each class's product, and the levels below (size, 2, columns).

    The columns of a level are its nodes, classes innermost, halves to be multiplied with each
    other; `leaves` (2, n, m) are 1 - p and p.
    """
    _, nodes, m = leaves.shape
    level, levels = leaves.flatten(1), []
    for _ in range(max(1, (nodes - 1).bit_length())):
        if nodes % 2:  # the constant one makes the number of nodes even
            level = pad(level, (0, m))
            level[0, -m:] = 1.0
        nodes = (nodes + 1) // 2
        size = len(level)
        size_out = min(2 * size - 1, size_max)
        pair = level.view(size, 2, nodes * m)
        left, right = pair.unbind(1)
        padded = pad(right, (0, 0, size - 1, size_out - size))
        level = _correlate(padded, left.flip(0), size_out).add_(floor)
        levels.append(pair)
    return level, levels


def _sum_down(weights: Tensor, levels: list[Tensor], floor: float) -> Tensor:
    """For each leaf the weighted sum of the coefficients of all others' product, (n, m).

    `weights` (size, m) are for the coefficients that `_multiply_up` returns. If n is odd, a row of
    no meaning follows.
    """
    m = weights.shape[1]
    for i, pair in reversed(list(enumerate(levels))):
        size, _, half = pair.shape
        cut = 2 * size - 1 - len(weights)
        if cut or weights.shape[1] > half:
            weights = pad(weights[:, :half], (0, 0, 0, cut))
        weights = weights[:, None].expand(-1, 2, -1)
        weights = _correlate(weights, pair.flip(1), size if i else 1).flatten(1)
        if i:
            weights += floor
    return weights.view(-1, m)


def _tilt(z: Tensor, lower: Tensor, upper: Tensor) -> Tensor:
    """Shift of each class's logits, (m,), that brings its mean count to the interval.

    With the shift ``-z_(l)``, z_(l) the l-th largest logit, the l largest are at least even odds
    and the others at most, so the count l keeps a probability of 2^-n; likewise at the upper end.
    """
    n, m = z.shape

    def mean(theta: Tensor | float) -> Tensor:
        return torch.sigmoid(z + theta).sum(0)

    ordered = z.sort(dim=0).values
    columns = torch.arange(m, device=z.device)
    bound = 1.0 / _FLOOR[z.dtype]  # infinite logits: certain rows, which no shift can move
    at_least = (-ordered[(n - lower).clamp(0, n - 1), columns]).clamp(0.0, bound)
    at_most = (-ordered[(n - 1 - upper).clamp(0, n - 1), columns]).clamp(-bound, 0.0)
    untilted = mean(0.0)
    up, down = untilted < lower, untilted > upper
    theta = torch.where(up, at_least, torch.where(down, at_most, 0.0))
    if n > _MAX_UNREFINED[z.dtype]:
        # Bisection for a tilted mean at the end of the interval that anchors the sum: further
        # inside, what the anchor adds would be lost beside the rest. It starts where one row more
        # or less decides, and from there a solution is at most about log(n) + 1 away.
        goal = torch.where(up, lower, upper)
        least, most = torch.where(down, -math.inf, 0.0), torch.where(up, math.inf, 0.0)
        step = math.log(n) + 1.0
        for _ in range(12):
            step /= 2.0
            theta = (theta + step * torch.sign(goal - mean(theta))).clamp(least, most)
    return theta
