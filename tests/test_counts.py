"""Facts about the count losses: exact in any tail, whatever the rows, the same on any device."""

import itertools
import math
from functools import lru_cache

import fast_poibin
import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from torch.utils._python_dispatch import TorchDispatchMode

from sklearn_cleanse.counts import (
    COUNT_LOSSES,
    _losses,
    _poisson_binomial,
    interval_log_prob,
    one_vs_rest_logits,
)
from sklearn_cleanse.counts._poisson_binomial import _RELIABLE, _solve_tilted


def compute_as_on_a_device(monkeypatch, dtype=torch.float64):
    """Run on the CPU what every other device runs."""
    monkeypatch.setattr(_losses, "solve", _solve_tilted)
    monkeypatch.setattr(_losses, "_widened", lambda logits: logits.to(dtype))


@pytest.fixture(params=["cpu", "device"])
def backend(request, monkeypatch):
    if request.param == "device":
        compute_as_on_a_device(monkeypatch)
    return request.param


def enumerate_log_prob(z, lower, upper):
    """Sum over all 2^n outcomes."""
    terms = [
        torch.where(torch.tensor(row, dtype=torch.bool), z, -z)
        for row in itertools.product((0, 1), repeat=len(z))
        if lower <= sum(row) <= upper
    ]
    return torch.logsumexp(torch.nn.functional.logsigmoid(torch.stack(terms)).sum(1), 0)


def pmf(z, end):
    """Probabilities of the counts up to `end`, none below 1e-4900, in extended precision."""
    table = np.zeros(end + 1, dtype=np.longdouble)
    table[0] = 1
    for odds in np.exp(np.asarray(z, dtype=np.longdouble)):
        table[1:] = (table[1:] + odds * table[:-1]) / (1 + odds)
        table[0] /= 1 + odds
    return table


def value_and_grad(z, lower, upper, **kwargs):
    z = z.clone().requires_grad_()
    out = interval_log_prob(z, lower, upper, **kwargs)
    return out.detach(), torch.autograd.grad(out.sum(), z)[0]


def random_intervals(n, m, rng):
    low = rng.integers(0, n + 1, m)
    return torch.tensor(low), torch.tensor(rng.integers(low, n + 1))


@pytest.mark.parametrize("scale", [0.1, 3, 100, 1e4])
@pytest.mark.parametrize("n", [1, 2, 3, 5, 8, 11, 12])
def test_value_and_gradient_agree_with_enumeration(n, scale, backend):
    rng = np.random.default_rng(n)
    z = torch.tensor(rng.normal(size=(n, 5)) * scale)
    lower, upper = random_intervals(n, 5, rng)
    got, grad = value_and_grad(z, lower, upper)
    z.requires_grad_()
    want = torch.stack(
        [enumerate_log_prob(z[:, j], int(lower[j]), int(upper[j])) for j in range(5)]
    )
    torch.testing.assert_close(got, want.detach(), rtol=1e-12, atol=1e-13)
    torch.testing.assert_close(grad, torch.autograd.grad(want.sum(), z)[0], rtol=1e-10, atol=1e-13)


@pytest.mark.parametrize("n", [20, 255, 257, 1000])
def test_probabilities_agree_with_fast_poibin(n, backend):
    rng = np.random.default_rng(n)
    p = rng.random((n, 3)) ** 4
    lower, upper = random_intervals(n, 3, rng)
    got = interval_log_prob(torch.tensor(p).logit(), lower, upper).exp()
    for j in range(3):
        # its own sums over a discrete Fourier transform are accurate to about 1e-16 absolute
        probabilities = np.asarray(fast_poibin.PoiBin(p[:, j]).pmf)
        want = probabilities[int(lower[j]) : int(upper[j]) + 1].sum()
        assert float(got[j]) == pytest.approx(want, rel=1e-10, abs=1e-14)


@lru_cache  # all backends are compared with one run of the oracle
@np.errstate(divide="ignore")
def wide_problem(n, shift):
    """Intervals that reach from one end far into the count's range, on either side of its mean."""
    z = np.random.default_rng(n).normal(size=(n, 1)) + shift
    ends = [int(part * n) for part in (0.05, 0.3, 0.4, 0.45, 0.6, 0.9)]
    bounds = [(0, end) for end in ends] + [(end, n) for end in ends] + [(ends[1], ends[4])]
    without = np.arange(0, n, n // 3)[:3]
    others = [(i, np.log(pmf(np.delete(z[:, 0], i), n - 1))) for i in without]
    return z, bounds, np.log(pmf(z[:, 0], n)), others


@pytest.mark.parametrize("precision", ["cpu", torch.float64, torch.float32])
@pytest.mark.parametrize("shift", [-12, -2, 0, 2])
@pytest.mark.parametrize("n", [32, 257, 1000])
def test_value_and_gradient_keep_relative_accuracy_in_tails(n, shift, precision, monkeypatch):
    if precision != "cpu":  # float32 is what a device without double precision runs
        compute_as_on_a_device(monkeypatch, precision)
    accuracy = 1e-5 if precision == torch.float32 else 1e-9
    z, bounds, table, others = wide_problem(n, shift)
    lower, upper = (torch.tensor(bound) for bound in zip(*bounds, strict=True))
    got, grad = value_and_grad(torch.tensor(z).expand(-1, len(bounds)), lower, upper)
    p = 1 / (1 + np.exp(-z[:, 0]))
    for j, (low, high) in enumerate(bounds):
        want = np.logaddexp.reduce(table[low : high + 1])
        assert np.isfinite(want)
        assert float(got[j]) == pytest.approx(float(want), rel=accuracy, abs=accuracy)
        for i, rest in others:
            below = np.exp(rest[low - 1] - want) if low else 0.0
            above = np.exp(rest[high] - want) if high < n else 0.0
            slope = p[i] * (1 - p[i]) * (below - above)
            assert float(grad[i, j]) == pytest.approx(float(slope), rel=accuracy, abs=accuracy)


def test_log_probabilities_far_below_the_smallest_number(backend):
    z = torch.full((40, 3), -1e4, dtype=torch.float64)
    z[:20, 1] = 1e4
    z[0, 1] = -575.0
    got, grad = value_and_grad(z, torch.tensor([1, 20, 40]), torch.tensor([1, 20, 40]))
    want = torch.tensor([-1e4 + math.log(40), -575.0, -40e4], dtype=torch.float64)
    torch.testing.assert_close(got, want, rtol=1e-13, atol=0)
    assert grad[0, 1] == pytest.approx(1.0, abs=1e-15)
    torch.testing.assert_close(grad[:, 0], torch.full((40,), 1 / 40, dtype=torch.float64))


def test_classes_on_both_sides_of_the_limit_to_tilt_agree():
    """Log-probabilities from -280 to -330, of which the CPU tilts those below -299."""
    rng = np.random.default_rng(0)
    z = torch.tensor(rng.normal(size=(30, 41)) + np.linspace(-12, -13.5, 41))
    lower = torch.full((41,), 25)
    got, grad = value_and_grad(z, lower, lower + 2)
    assert 5 < int((got < math.log(_RELIABLE)).sum()) < 36
    tilted, tilted_grad = _solve_tilted(z, lower, lower + 2, 27, True)
    torch.testing.assert_close(got, tilted, rtol=1e-13, atol=0)
    torch.testing.assert_close(grad, tilted_grad, rtol=1e-11, atol=1e-14)


def test_exactly_k_is_not_at_most_k():
    """The published log-space function starts its table at log 1 and returns .588 here."""
    z = torch.tensor([0.2, 0.5, 0.7, 0.9], dtype=torch.float64).logit()[:, None].expand(4, 5)
    k = torch.arange(5)
    want = torch.tensor([0.012, 0.151, 0.425, 0.349, 0.063], dtype=torch.float64)
    torch.testing.assert_close(interval_log_prob(z, k, k).exp(), want, rtol=1e-12, atol=0)
    assert float(interval_log_prob(z, 0, 2)[0].exp()) == pytest.approx(0.588)


def test_the_whole_range_is_certain_and_an_empty_one_impossible(backend):
    n, limits = 7, torch.iinfo(torch.int64)
    z = torch.randn(n, 8, generator=torch.Generator().manual_seed(0), dtype=torch.float64) * 50
    lower = torch.tensor([0, -3, limits.min, 4, 8, -5, 0, limits.max])
    upper = torch.tensor([n, n + 9, limits.max, 3, 9, -1, -1, limits.min])
    for max_count in (None, 2, n):
        got, grad = value_and_grad(z, lower, upper, max_count=max_count)
        assert got.tolist() == [0.0] * 3 + [-math.inf] * 5
        assert torch.all(grad == 0.0)


@pytest.mark.parametrize("shape", [(3, 0), (0, 2), (0, 0)])
def test_no_rows_or_no_classes_give_no_loss(shape):
    z = torch.zeros(shape, requires_grad=True)
    assert one_vs_rest_logits(z).shape == shape
    assert interval_log_prob(z, 0, 3).tolist() == [0.0] * shape[1]
    assert interval_log_prob(z, 1, 3).tolist() == [-math.inf] * shape[1]
    for name in ("interval", "entropy"):
        loss = COUNT_LOSSES[name](z, 0, 1)
        loss.backward()
        assert loss == 0


def test_classes_that_need_no_tree_do_not_change_the_others(backend):
    rng = np.random.default_rng(1)
    z = torch.tensor(rng.normal(size=(20, 40)))
    lower, upper = torch.zeros(40, dtype=torch.long), torch.zeros(40, dtype=torch.long)
    upper[::7], lower[7], upper[1], upper[2] = 5, 2, 20, -1
    got, grad = value_and_grad(z, lower, upper)
    never = torch.nn.functional.logsigmoid(-z).sum(0)
    torch.testing.assert_close(got[3:7], never[3:7])
    torch.testing.assert_close(grad[:, 3:7], -torch.sigmoid(z[:, 3:7]))
    for j in (0, 1, 2, 3, 7, 14):
        one, one_grad = value_and_grad(z[:, j : j + 1], lower[j : j + 1], upper[j : j + 1])
        torch.testing.assert_close(got[j : j + 1], one, rtol=1e-13, atol=1e-14)
        torch.testing.assert_close(grad[:, j : j + 1], one_grad, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("n", [1, 4, 9, 300])
def test_infinite_logits_are_certain_outcomes(n, backend):
    rng = np.random.default_rng(n)
    z = rng.choice([-math.inf, math.inf, 0.0, -1.0], (n, 60), p=[0.35, 0.35, 0.2, 0.1])
    z[:, ::3] = np.where(z[:, ::3] == math.inf, -1.0, z[:, ::3])
    lower = rng.integers(0, n + 1, 60)
    upper = np.maximum(lower, rng.integers(0, n + 1, 60))
    lower[:20] = upper[:20] = 0
    ones, free = (z == math.inf).sum(0), np.isfinite(z).sum(0)
    possible = (lower <= ones + free) & (upper >= ones)
    assert 0 < possible.sum() < 60
    got, grad = value_and_grad(torch.tensor(z), torch.tensor(lower), torch.tensor(upper))
    assert torch.equal(got > -math.inf, torch.tensor(possible))
    assert torch.all(grad[:, ~possible] == 0.0)
    for j in np.flatnonzero(possible):
        rest = z[np.isfinite(z[:, j]), j]
        want = pmf(rest, free[j])[max(0, lower[j] - ones[j]) : upper[j] - ones[j] + 1].sum()
        assert float(got[j]) == pytest.approx(float(np.log(want)), rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("n", [1, 6, 9, 260])
def test_gradcheck(n, backend):
    rng = np.random.default_rng(n)
    z = torch.tensor(rng.normal(size=(n, 2)) * 2, requires_grad=True)
    lower, upper = random_intervals(n, 2, rng)
    pi = torch.tensor([0.75, 0.25])
    functions = [lambda z: interval_log_prob(z, lower, upper), one_vs_rest_logits]
    functions += [lambda z, loss=loss: loss(z, lower, upper, pi) for loss in COUNT_LOSSES.values()]
    for function in functions:
        assert torch.autograd.gradcheck(function, z, fast_mode=n > 20)


def make_problem(n, m, seed, scale, special, duplicated):
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(n, m)) * scale
    saturated = rng.choice([-1e4, 1e4, -800.0, 800.0, 0.0, 36.7, -36.7], (n, m))
    z = np.where(rng.random((n, m)) < special, saturated, z)
    if duplicated:
        z[:] = z[:1]
    z = np.clip(z, -1e4, 1e4)
    lower = rng.integers(-1, n + 2, m)
    upper = np.where(rng.random(m) < 0.3, lower, rng.integers(-1, n + 2, m))
    return torch.tensor(z), torch.tensor(lower), torch.tensor(upper), rng.permutation(n)


problems = st.builds(
    make_problem,
    st.integers(1, 40),
    st.integers(1, 4),
    st.integers(0, 2**32 - 1),
    st.sampled_from([0.0, 1.0, 30.0, 1000.0]),
    st.floats(0, 1),
    st.booleans(),
)
many_rows = make_problem(300, 4, 0, 3.0, 0.1, False)  # more than the tilt without bisection is for


# the backend is chosen once for all examples, as it should be
@settings(
    deadline=None, max_examples=80, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(problem=problems)
@example(problem=many_rows)
def test_any_problem(problem, backend):
    z, lower, upper, order = problem
    n = len(z)
    got, grad = value_and_grad(z, lower, upper)
    assert torch.isfinite(grad).all()
    assert (grad.abs() <= 1 + 1e-12).all()  # posterior minus prior probability of a row
    assert torch.equal(torch.isfinite(got), (lower <= upper) & (lower <= n) & (upper >= 0))
    assert (got <= 0).all()
    again, grad_again = value_and_grad(z[order], lower, upper)  # any order of rows
    torch.testing.assert_close(again, got, rtol=1e-10, atol=1e-11)
    torch.testing.assert_close(grad_again, grad[order], rtol=1e-8, atol=1e-10)
    mirrored, grad_mirrored = value_and_grad(-z, n - upper, n - lower)  # zeros for ones
    torch.testing.assert_close(mirrored, got, rtol=1e-10, atol=1e-11)
    torch.testing.assert_close(grad_mirrored, -grad, rtol=1e-8, atol=1e-10)
    below, above = value_and_grad(z, 0, lower - 1)[0], value_and_grad(z, upper + 1, n)[0]
    parts = (below.exp() + got.exp() + above.exp())[lower <= upper]  # with the complement: one
    torch.testing.assert_close(parts, torch.ones_like(parts), rtol=1e-12, atol=0)


@pytest.mark.parametrize("n", [1, 2, 9, 37])
def test_max_count_cuts_tables_and_longer_intervals(n, backend):
    rng = np.random.default_rng(n)
    z = torch.tensor(rng.normal(size=(n, 5)))
    lower, upper = torch.tensor([0, 1, 2, 0, 0]), torch.tensor([3, 4, 6, 0, 37])
    want, want_grad = value_and_grad(z, lower, upper, max_count=37)
    for max_count in (6, 7, 20, 1000):  # beyond the largest bound: no change
        got, grad = value_and_grad(z, lower, upper, max_count=max_count)
        torch.testing.assert_close(got, want, rtol=1e-13, atol=1e-14)
        torch.testing.assert_close(grad, want_grad, rtol=1e-11, atol=1e-14)
    for max_count in (0, 1, 3):
        want, want_grad = value_and_grad(z, 0, min(max_count, n - 1), max_count=n)
        got, grad = value_and_grad(z, 0, n - 1, max_count=max_count)
        torch.testing.assert_close(got, want, rtol=1e-13, atol=1e-14)
        torch.testing.assert_close(grad, want_grad, rtol=1e-12, atol=1e-14)


def test_many_products_are_summed_in_parts(backend, monkeypatch):
    z = torch.tensor(np.random.default_rng(0).normal(size=(37, 4)))
    bounds = torch.tensor([0, 5, 20, 30]), torch.tensor([7, 15, 25, 37])
    whole = value_and_grad(z, *bounds)
    monkeypatch.setattr(_poisson_binomial, "_MAX_PRODUCTS", 100)
    for want, got in zip(whole, value_and_grad(z, *bounds), strict=True):
        torch.testing.assert_close(got, want, rtol=1e-13, atol=1e-15)


@pytest.mark.parametrize("gap", [0.0, 1.0, 27.0, 300.0, 1e4])
def test_one_vs_rest_is_accurate_near_zero_and_one(gap):
    z = torch.tensor([[gap, 0.0, -1.0], [0.0, gap, gap], [-gap, gap, 0.0]], dtype=torch.float64)
    got = one_vs_rest_logits(z)
    for i, j in itertools.product(range(3), repeat=2):
        others = [float(z[i, k]) for k in range(3) if k != j]
        want = float(z[i, j]) - np.logaddexp(*np.asarray(others, dtype=np.longdouble))
        assert float(got[i, j]) == pytest.approx(float(want), rel=1e-14, abs=1e-15)
    alone = one_vs_rest_logits(torch.tensor([[0.0, -math.inf, -math.inf]]))
    assert alone.tolist() == [[math.inf, -math.inf, -math.inf]]


@pytest.mark.parametrize("name", ["interval", "entropy"])
def test_losses_are_sums_over_classes_of_the_interval_probability(name, backend):
    rng = np.random.default_rng(5)
    z = torch.tensor(rng.normal(size=(6, 16)) * 3).T.requires_grad_()  # any layout in memory
    lower, upper = torch.tensor([0, 1, 0, 2, 0, 3]), torch.tensor([0, 5, 16, 4, 2, 3])
    loss = COUNT_LOSSES[name](z, lower, upper, None, max_count=5)
    (grad,) = torch.autograd.grad(loss, z)
    log_odds = z.log_softmax(1) - torch.log1p(-z.softmax(1))
    p = interval_log_prob(log_odds, lower, upper).exp()
    plain = {"interval": -p.log(), "entropy": torch.special.entr(p)}[name].sum()
    torch.testing.assert_close(loss, plain)
    torch.testing.assert_close(grad, torch.autograd.grad(plain, z)[0])


@pytest.mark.parametrize("name", ["interval", "entropy"])
def test_losses_are_finite_for_saturated_networks(name, backend):
    z = torch.full((8, 3), -1e4)
    z[:, 0] = 1e4
    z.requires_grad_()
    loss = COUNT_LOSSES[name](z, torch.tensor([0, 3, 3]), torch.tensor([1, 5, 8]))
    loss.backward()
    assert loss.dtype == z.grad.dtype == torch.float32  # float32 in, float32 out
    assert torch.isfinite(loss)
    assert torch.isfinite(z.grad).all()


def test_proportion_loss_is_a_divergence():
    z = torch.tensor(np.random.default_rng(2).normal(size=(50, 4)))
    mean = torch.softmax(z, 1).mean(0)
    loss = COUNT_LOSSES["proportion"]
    assert float(loss(z, None, None, mean)) == pytest.approx(0.0, abs=1e-14)
    pi = torch.tensor([0.7, 0.3, 0.0, 0.0], dtype=torch.float64)
    want = (pi[:2] * (pi[:2] / mean[:2]).log()).sum()
    torch.testing.assert_close(loss(z, None, None, pi), want)


class Watched(TorchDispatchMode):
    """Counts operations; on tensors without values reading one raises anyway."""

    number = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.number += 1
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize(
    ("name", "n", "most"),
    [("interval", 64, 250), ("interval", 300, 420), ("entropy", 64, 255), ("proportion", 64, 30)],
)
def test_nothing_is_read_back_from_a_device_in_few_operations(name, n, most):
    meta = torch.zeros(n, 16, device="meta", requires_grad=True)  # has no values to read
    bounds = torch.zeros(16, dtype=torch.long, device="meta")
    for max_count in (19, None):
        with Watched() as operations:
            COUNT_LOSSES[name](meta, bounds, bounds, bounds, max_count=max_count).backward()
        assert operations.number <= most
    for lower, upper in ((1, bounds), (bounds, 3), (1, 3)):
        assert interval_log_prob(meta, lower, upper).is_meta


def test_without_gradients_only_the_value_is_computed(monkeypatch):
    asked, solve = [], _losses.solve
    monkeypatch.setattr(_losses, "solve", lambda *args: asked.append(args[-1]) or solve(*args))
    z = torch.zeros(3, 2, requires_grad=True)
    for function in (interval_log_prob, COUNT_LOSSES["interval"]):
        want = function(z, 1, 2)
        with torch.no_grad():
            assert torch.equal(function(z, 1, 2), want)
        assert torch.equal(function(z.detach(), 1, 2), want)
    assert asked == [True, False, False] * 2


@pytest.mark.parametrize(
    "function", [interval_log_prob, lambda z, *_: one_vs_rest_logits(z), COUNT_LOSSES["interval"]]
)
def test_second_derivatives_and_functional_gradients_raise(function):
    z = torch.zeros(3, 2, requires_grad=True)
    (grad,) = torch.autograd.grad(function(z, 1, 2).square().sum(), z, create_graph=True)
    with pytest.raises(RuntimeError, match="twice"):
        grad.sum().backward()
    with pytest.raises(RuntimeError, match="setup_context"):
        torch.func.grad(lambda z: function(z, 1, 2).sum())(z.detach())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"logits": torch.zeros(3)}, "`logits` must have shape"),
        ({"logits": torch.zeros(3, 2).long()}, "`logits` must be floating point, got torch.int64"),
        ({"lower": 0.5}, "`lower` must hold integers, got torch.float32"),
        ({"upper": torch.zeros(3).long()}, r"`upper` must have shape \(2,\), .* got \(3,\)"),
        ({"max_count": -1}, "`max_count` must be 0 or more, got -1"),
        ({"proportions": None}, "`proportions` must be given"),
        ({"proportions": [0.2, 0.3, 0.5]}, r"`proportions` must have shape \(2,\), got \(3,\)"),
        ({"proportions": [1.5, -0.5]}, "`proportions` must be 0 or more, got .*-0.5"),
        ({"proportions": [1.5, math.nan]}, "`proportions` must be 0 or more, got .*nan"),
        ({"logits": torch.zeros(0, 2), "proportions": [0.5, 0.5]}, "must have at least one row"),
    ],
)
def test_bad_input_is_named(change, message):
    given = {"logits": torch.zeros(3, 2), "lower": 0, "upper": 1, **change}
    name = "proportion" if "proportions" in change else "interval"
    with pytest.raises((TypeError, ValueError), match=message):
        COUNT_LOSSES[name](**given)
