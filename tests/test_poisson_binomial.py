"""Facts about the count kernel: exact in any tail, whatever the rows, the same on any device."""

import itertools
import math
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from functools import lru_cache

import fast_poibin
import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from sklearn_cleanse.counts import (
    _losses,
    _poisson_binomial,
    interval_log_prob,
    one_vs_rest_logits,
)
from sklearn_cleanse.counts._poisson_binomial import _RELIABLE, _solve


def compute_in_torch(monkeypatch, dtype=torch.float64):
    """Run on the CPU what every other device runs."""
    monkeypatch.setattr(_losses, "_enter", lambda logits: (torch, logits.detach().to(dtype), dtype))


@pytest.fixture(params=["numpy", "torch"])
def backend(request, monkeypatch):
    if request.param == "torch":
        compute_in_torch(monkeypatch)
    return request.param


def enumerate_log_prob(z, lower, upper):
    terms = [
        torch.where(torch.tensor(row, dtype=torch.bool), z, -z)
        for row in itertools.product((0, 1), repeat=len(z))
        if lower <= sum(row) <= upper
    ]
    if not terms:
        return torch.tensor(-math.inf, dtype=z.dtype)
    return torch.logsumexp(torch.nn.functional.logsigmoid(torch.stack(terms)).sum(1), 0)


def log_pmf(z):
    """All counts' log-probabilities by the log-space recursion, in extended precision."""
    z = np.asarray(z, dtype=np.longdouble)
    table = np.full((len(z) + 1, z.shape[1]), -np.inf, dtype=np.longdouble)
    table[0] = 0
    for one, zero in zip(-np.logaddexp(0, -z), -np.logaddexp(0, z), strict=True):
        table[1:] = np.logaddexp(table[1:] + zero, table[:-1] + one)
        table[0] += zero
    return table


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
        pmf = np.asarray(fast_poibin.PoiBin(p[:, j]).pmf)
        want = pmf[int(lower[j]) : int(upper[j]) + 1].sum()
        assert float(got[j]) == pytest.approx(want, rel=1e-10, abs=1e-14)


@lru_cache  # both backends are held against one run of the oracle
def tail_problem(n, shift):
    z = np.random.default_rng(n).normal(size=(n, 4)) * 2 + shift
    return z, log_pmf(z)


@pytest.mark.parametrize(
    ("n", "shift"),
    [*itertools.product([64, 256, 257], [-40, -6, 0, 30]), (1000, -40), (1000, -3)],
)
def test_tails_keep_relative_accuracy(n, shift, backend):
    z, table = tail_problem(n, shift)
    z = torch.tensor(z)
    lower = torch.tensor([0, 3, n // 2, n - 2])
    upper = torch.tensor([2, 9, n // 2 + 5, n])
    got = interval_log_prob(z, lower, upper)
    for j in range(4):
        want = np.logaddexp.reduce(table[int(lower[j]) : int(upper[j]) + 1, j])
        if want > -600:  # a probability of about 1e-250, to 1e-10
            assert abs(float(got[j]) - want) < 1e-10
        assert float(got[j]) == pytest.approx(float(want), rel=1e-12, abs=1e-12)


@lru_cache
def wide_problem(n, shift):
    """Intervals that reach from one end far into the count's range, on either side of its mean."""
    z = np.random.default_rng(n).normal(size=(n, 1)) + shift
    ends = [int(share * n) for share in (0.05, 0.3, 0.4, 0.45, 0.6, 0.9)]
    bounds = [(0, end) for end in ends] + [(end, n) for end in ends] + [(ends[1], ends[4])]
    without = np.arange(0, n, n // 3)[:3]
    others = [(i, np.log(pmf(np.delete(z[:, 0], i), n - 1))) for i in without]
    return z, bounds, np.log(pmf(z[:, 0], n)), others


@pytest.mark.parametrize("precision", ["numpy", torch.float64, torch.float32])
@pytest.mark.parametrize("shift", [-2, 0, 2])
@pytest.mark.parametrize("n", [32, 128, 257, 400, 600, 1000])
def test_wide_intervals_far_from_the_mean(n, shift, precision, monkeypatch):
    if precision != "numpy":  # float32 is what a device without double precision runs
        compute_in_torch(monkeypatch, precision)
    accuracy = 1e-5 if precision == torch.float32 else 1e-9
    z, bounds, table, others = wide_problem(n, shift)
    lower, upper = (torch.tensor(bound) for bound in zip(*bounds, strict=True))
    got, grad = value_and_grad(torch.tensor(z).expand(-1, len(bounds)), lower, upper)
    p = 1 / (1 + np.exp(-z[:, 0]))
    for j, (low, high) in enumerate(bounds):
        want = np.logaddexp.reduce(table[low : high + 1])
        assert float(got[j]) == pytest.approx(float(want), rel=accuracy, abs=accuracy)
        for i, rest in others:
            below = np.exp(rest[low - 1] - want) if low else 0.0
            above = np.exp(rest[high] - want) if high < n else 0.0
            slope = p[i] * (1 - p[i]) * (below - above)
            assert float(grad[i, j]) == pytest.approx(float(slope), rel=accuracy, abs=accuracy)


def test_many_products_are_summed_in_parts(monkeypatch):
    compute_in_torch(monkeypatch)
    z = torch.tensor(np.random.default_rng(0).normal(size=(37, 4)))
    bounds = torch.tensor([0, 5, 20, 30]), torch.tensor([7, 15, 25, 37])
    whole = value_and_grad(z, *bounds)
    monkeypatch.setattr(_poisson_binomial, "_MAX_PRODUCTS", 100)
    for want, got in zip(whole, value_and_grad(z, *bounds), strict=True):
        torch.testing.assert_close(got, want, rtol=1e-13, atol=1e-15)


def test_a_far_lower_tail_of_many_rows(backend):
    """Most rows are unlikely, so no single one tells that the interval is far from the mean."""
    n, end = 6000, 300
    z = np.random.default_rng(0).normal(size=(n, 1)) - 2
    want = float(np.log(pmf(z[:, 0], end).sum()))
    assert want < -350
    assert float(interval_log_prob(torch.tensor(z), 0, end)) == pytest.approx(want, rel=1e-12)


def test_a_tail_of_1e_minus_250_against_rational_arithmetic():
    p = [Fraction(1, 10**25 + 7 * i) for i in range(12)]
    exact = Fraction(0)
    for rows in itertools.combinations(range(12), 10):
        term = Fraction(1)
        for i in range(12):
            term *= p[i] if i in rows else 1 - p[i]
        exact += term
    logit = torch.tensor([[-math.log(q.denominator - 1)] for q in p], dtype=torch.float64)
    got = interval_log_prob(logit, 10, 10)
    want = math.log(exact.numerator) - math.log(exact.denominator)
    assert want < -560
    assert abs(float(got) - want) < 1e-10


def test_log_probabilities_far_below_the_smallest_number(backend):
    z = torch.full((40, 3), -1e4, dtype=torch.float64)
    z[:20, 1] = 1e4
    z[0, 1] = -575.0
    got, grad = value_and_grad(z, torch.tensor([1, 20, 40]), torch.tensor([1, 20, 40]))
    want = torch.tensor([-1e4 + math.log(40), -575.0, -40e4], dtype=torch.float64)
    torch.testing.assert_close(got, want, rtol=1e-13, atol=0)
    assert grad[0, 1] == pytest.approx(1.0, abs=1e-15)
    torch.testing.assert_close(grad[:, 0], torch.full((40,), 1 / 40, dtype=torch.float64))


def test_exactly_k_is_not_at_most_k():
    """The published log-space function starts its table at log 1 and returns .588 here."""
    z = torch.tensor([0.2, 0.5, 0.7, 0.9], dtype=torch.float64).logit()[:, None].expand(4, 5)
    k = torch.arange(5)
    want = torch.tensor([0.012, 0.151, 0.425, 0.349, 0.063], dtype=torch.float64)
    torch.testing.assert_close(interval_log_prob(z, k, k).exp(), want, rtol=1e-12, atol=0)
    assert float(interval_log_prob(z, 0, 2)[0].exp()) == pytest.approx(0.588)


def test_the_whole_range_is_certain_and_an_empty_one_impossible(backend):
    n = 7
    z = torch.randn(n, 6, generator=torch.Generator().manual_seed(0), dtype=torch.float64) * 50
    lower = torch.tensor([0, -3, 4, 8, -5, 0])
    upper = torch.tensor([n, n + 9, 3, 9, -1, -1])
    for max_count in (None, 2, n):
        got, grad = value_and_grad(z, lower, upper, max_count=max_count)
        assert got.tolist() == [0.0, 0.0] + [-math.inf] * 4
        assert torch.all(grad == 0.0)


def test_no_rows_and_no_classes(backend):
    assert interval_log_prob(torch.zeros(0, 2), torch.tensor([0, 1]), 3).tolist() == [0, -math.inf]
    assert interval_log_prob(torch.zeros(3, 0), 1, 2).shape == (0,)


def test_upper_zero_is_the_product_of_the_complements(backend):
    z = torch.tensor(np.random.default_rng(0).normal(size=(33, 8)))
    got, grad = value_and_grad(
        z, torch.zeros(8, dtype=torch.long), torch.zeros(8, dtype=torch.long)
    )
    torch.testing.assert_close(got, torch.nn.functional.logsigmoid(-z).sum(0))
    torch.testing.assert_close(grad, -torch.sigmoid(z))


def test_classes_without_a_tree_do_not_change_the_others():
    rng = np.random.default_rng(1)
    z = torch.tensor(rng.normal(size=(20, 40)))
    lower, upper = torch.zeros(40, dtype=torch.long), torch.zeros(40, dtype=torch.long)
    upper[::7], lower[7], upper[1], upper[2] = 5, 2, 20, -1
    got, grad = value_and_grad(z, lower, upper)
    for j in (0, 1, 2, 3, 7, 14):
        one, one_grad = value_and_grad(z[:, j : j + 1], lower[j : j + 1], upper[j : j + 1])
        torch.testing.assert_close(got[j : j + 1], one, rtol=1e-13, atol=1e-14)
        torch.testing.assert_close(grad[:, j : j + 1], one_grad, rtol=1e-12, atol=1e-14)


def test_classes_on_both_sides_of_the_limit_to_tilt_agree():
    """Log-probabilities from -280 to -330, of which the CPU tilts those below -299."""
    rng = np.random.default_rng(0)
    z = rng.normal(size=(30, 41)) + np.linspace(-12, -13.5, 41)
    lower = np.full(41, 25)
    got, grad = value_and_grad(torch.tensor(z), torch.tensor(lower), torch.tensor(lower + 2))
    assert 5 < int((got < math.log(_RELIABLE)).sum()) < 36
    with np.errstate(all="ignore"):
        tilted, tilted_grad = _solve(z, lower, lower + 2, 27, True)
    np.testing.assert_allclose(got, tilted, rtol=1e-13)
    np.testing.assert_allclose(grad, tilted_grad, rtol=1e-11, atol=1e-14)
    table = log_pmf(z)[25:28]
    np.testing.assert_allclose(got, np.logaddexp.reduce(table, 0).astype(float), rtol=1e-13)


def test_threads_and_repetitions_give_the_same_numbers():
    rng = np.random.default_rng(0)
    problems = [torch.tensor(rng.normal(size=(33, 5)) * scale) for scale in (1, 1e4, 5, 100)] * 50
    lower, upper = torch.arange(5), torch.tensor([2, 1, 9, 5, 33])

    def solve(z):
        return value_and_grad(z, lower, upper)

    alone = [solve(z) for z in problems]
    with ThreadPoolExecutor(4) as threads:
        together = list(threads.map(solve, problems))
    for (value, grad), (same, same_grad) in zip(alone, together, strict=True):
        assert torch.equal(value, same)
        assert torch.equal(grad, same_grad)
    for (value, grad), (same, same_grad) in zip(alone, alone[4:], strict=False):
        assert torch.equal(value, same)
        assert torch.equal(grad, same_grad)


def test_infinite_logits_are_certain_outcomes(backend):
    z = torch.tensor([[math.inf, math.inf], [-math.inf, 0.0], [0.0, 0.0]], dtype=torch.float64)
    got, grad = value_and_grad(z, torch.tensor([1, 0]), torch.tensor([1, 0]))
    assert got[0] == pytest.approx(math.log(0.5))
    assert got[1] == -math.inf
    assert torch.all(grad[:, 1] == 0.0)


@pytest.mark.parametrize("n", [1, 4, 9, 300])
def test_certain_rows_have_the_same_value_and_gradient_on_every_backend(n, monkeypatch):
    rng = np.random.default_rng(n)
    z = rng.choice([-math.inf, math.inf, 0.0, -1.0], (n, 60), p=[0.35, 0.35, 0.2, 0.1])
    z[:, ::3] = np.where(z[:, ::3] == math.inf, -1.0, z[:, ::3])
    lower = torch.tensor(rng.integers(0, n + 1, 60))
    upper = torch.maximum(lower, torch.tensor(rng.integers(0, n + 1, 60)))
    lower[:20] = upper[:20] = 0
    ones, free = (z == math.inf).sum(0), np.isfinite(z).sum(0)
    possible = torch.tensor((lower.numpy() <= ones + free) & (upper.numpy() >= ones))
    assert 0 < int(possible.sum()) < 60
    on_host = value_and_grad(torch.tensor(z), lower, upper)
    compute_in_torch(monkeypatch)
    for value, grad in (on_host, value_and_grad(torch.tensor(z), lower, upper)):
        assert torch.equal(value > -math.inf, possible)
        assert torch.all(grad[:, ~possible] == 0.0)
        torch.testing.assert_close(value, on_host[0], rtol=1e-12, atol=1e-12)
        torch.testing.assert_close(grad, on_host[1], rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("n", [1, 6, 9, 260])
def test_gradcheck(n, backend):
    rng = np.random.default_rng(n)
    z = torch.tensor(rng.normal(size=(n, 2)) * 2, requires_grad=True)
    lower, upper = random_intervals(n, 2, rng)
    assert torch.autograd.gradcheck(
        lambda z: interval_log_prob(z, lower, upper), z, fast_mode=n > 20
    )
    assert torch.autograd.gradcheck(one_vs_rest_logits, z, fast_mode=n > 20)


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
both_backends = settings(
    deadline=None, max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@both_backends
@given(problem=problems)
@example(problem=many_rows)
def test_any_problem_has_a_finite_gradient_and_ignores_the_order_of_rows(problem, backend):
    z, lower, upper, order = problem
    n = len(z)
    got, grad = value_and_grad(z, lower, upper)
    assert torch.isfinite(grad).all()
    assert (grad.abs() <= 1 + 1e-12).all()  # posterior minus prior probability of a row
    possible = (lower <= upper) & (lower <= n) & (upper >= 0)
    assert torch.equal(torch.isfinite(got), possible)
    assert (got <= 0).all()
    again, grad_again = value_and_grad(z[order], lower, upper)
    torch.testing.assert_close(again, got, rtol=1e-10, atol=1e-11)
    torch.testing.assert_close(grad_again, grad[order], rtol=1e-8, atol=1e-10)
    mirrored, grad_mirrored = value_and_grad(-z, n - upper, n - lower)
    torch.testing.assert_close(mirrored, got, rtol=1e-10, atol=1e-11)
    torch.testing.assert_close(grad_mirrored, -grad, rtol=1e-8, atol=1e-10)


@both_backends
@given(problem=problems)
@example(problem=many_rows)
def test_an_interval_and_its_complement_sum_to_one(problem, backend):
    z, lower, upper, _ = problem
    n = len(z)
    upper = torch.maximum(lower, upper)
    parts = [
        interval_log_prob(z, low, high).exp()
        for low, high in (
            (torch.zeros_like(lower), (lower - 1).clamp(max=n)),
            (lower, upper),
            ((upper + 1).clamp(min=0), torch.full_like(upper, n)),
        )
    ]
    one = torch.ones(z.shape[1], dtype=torch.float64)
    torch.testing.assert_close(sum(parts), one, rtol=1e-12, atol=0)


def test_max_count_changes_nothing_above_the_largest_bound():
    rng = np.random.default_rng(3)
    z = torch.tensor(rng.normal(size=(37, 5)))
    lower, upper = torch.tensor([0, 1, 2, 0, 0]), torch.tensor([3, 4, 6, 0, 37])
    want, want_grad = value_and_grad(z, lower, upper, max_count=37)
    for max_count in (6, 7, 20, 1000):
        got, grad = value_and_grad(z, lower, upper, max_count=max_count)
        torch.testing.assert_close(got, want, rtol=1e-13, atol=1e-14)
        torch.testing.assert_close(grad, want_grad, rtol=1e-11, atol=1e-14)


@pytest.mark.parametrize("n", [1, 2, 9])
@pytest.mark.parametrize("max_count", [0, 1, 3])
def test_max_count_cuts_longer_intervals(n, max_count, backend):
    z = torch.tensor(np.random.default_rng(n).normal(size=(n, 3)))
    want, want_grad = value_and_grad(z, 0, min(max_count, n - 1), max_count=n)
    got, grad = value_and_grad(z, 0, n - 1, max_count=max_count)
    torch.testing.assert_close(got, want, rtol=1e-13, atol=1e-14)
    torch.testing.assert_close(grad, want_grad, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("gap", [0.0, 1.0, 27.0, 300.0, 1e4])
def test_one_vs_rest_is_accurate_near_zero_and_one(gap, backend):
    z = torch.tensor([[gap, 0.0, -1.0], [0.0, gap, gap], [-gap, gap, 0.0]], dtype=torch.float64)
    got = one_vs_rest_logits(z)
    for i, j in itertools.product(range(3), repeat=2):
        others = [float(z[i, k]) for k in range(3) if k != j]
        want = float(z[i, j]) - np.logaddexp(*np.asarray(others, dtype=np.longdouble))
        assert float(got[i, j]) == pytest.approx(float(want), rel=1e-14, abs=1e-15)


def test_the_layout_in_memory_makes_no_difference(backend):
    """A network may give its logits transposed."""
    logits = torch.randn(9, 4, dtype=torch.float64)
    lower, upper = torch.tensor([0, 1, 2, 3]), torch.tensor([2, 3, 4, 5])
    found = []
    for z in (logits, logits.T.contiguous().T):
        z = z.clone(memory_format=torch.preserve_format).requires_grad_()
        loss = _losses.interval_loss(z, lower, upper)
        odds = one_vs_rest_logits(z)
        (loss + odds.square().sum()).backward()
        found.append((loss, odds, z.grad))
    torch.testing.assert_close(*found)


def test_one_vs_rest_stays_finite_at_large_logits():
    z = torch.tensor([[1e4, -1e4, 0.0], [1e4, 1e4, -1e4], [-1e4, -1e4, -1e4]], requires_grad=True)
    out = one_vs_rest_logits(z)
    out.sum().backward()
    assert torch.isfinite(out).all()
    assert torch.isfinite(z.grad).all()
    torch.testing.assert_close(one_vs_rest_logits(z.detach() + 7), out.detach())


def test_a_class_without_rival_is_certain(backend):
    assert torch.all(one_vs_rest_logits(torch.zeros(2, 1)) == math.inf)
    alone = torch.tensor([[0.0, -math.inf, -math.inf]])
    assert one_vs_rest_logits(alone).tolist() == [[math.inf, -math.inf, -math.inf]]
