"""Facts about label counts: exact probabilities, bounded gradients, no synchronisation."""

import itertools
import math
from fractions import Fraction
from functools import lru_cache

import fast_poibin
import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils._python_dispatch import TorchDispatchMode

from sklearn_cleanse import counts
from sklearn_cleanse.counts import (
    COUNT_LOSSES,
    estimate_proportions,
    interval_log_prob,
    one_vs_rest_logits,
)

torch.set_num_threads(1)


@pytest.fixture(params=["numpy", "torch"])
def backend(request, monkeypatch):
    """Run on the CPU what the CPU runs, and what every other device runs."""
    if request.param == "torch":
        monkeypatch.setattr(
            counts, "_enter", lambda logits: (torch, logits.detach().double(), torch.float64)
        )
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
    return z, bounds, log_pmf(z)[:, 0], [(i, log_pmf(np.delete(z, i, 0))[:, 0]) for i in without]


@pytest.mark.parametrize("shift", [-2, 0, 2])
@pytest.mark.parametrize(
    ("n", "precision"),
    [
        *itertools.product([32, 128, 257, 400, 600, 1000], [torch.float64]),
        *itertools.product([32, 128, 257, 400], [torch.float32]),
    ],
)
def test_wide_intervals_far_from_the_mean(n, shift, precision, backend, monkeypatch):
    if precision == torch.float32:  # what a device without double precision runs
        monkeypatch.setattr(
            counts, "_enter", lambda logits: (torch, logits.detach().float(), torch.float32)
        )
    accuracy = 1e-9 if precision == torch.float64 else 2e-3
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


def test_infinite_logits_are_certain_outcomes(backend):
    z = torch.tensor([[math.inf, math.inf], [-math.inf, 0.0], [0.0, 0.0]], dtype=torch.float64)
    got, grad = value_and_grad(z, torch.tensor([1, 0]), torch.tensor([1, 0]))
    assert got[0] == pytest.approx(math.log(0.5))
    assert got[1] == -math.inf
    assert torch.isfinite(grad).all()


@pytest.mark.parametrize("n", [1, 6, 9, 260])
def test_gradcheck(n, backend):
    rng = np.random.default_rng(n)
    z = torch.tensor(rng.normal(size=(n, 2)) * 2, requires_grad=True)
    lower, upper = random_intervals(n, 2, rng)
    assert torch.autograd.gradcheck(
        lambda z: interval_log_prob(z, lower, upper), z, fast_mode=n > 20
    )
    assert torch.autograd.gradcheck(one_vs_rest_logits, z, fast_mode=n > 20)


@pytest.mark.parametrize("name", COUNT_LOSSES)
def test_gradcheck_of_the_losses(name, backend):
    rng = np.random.default_rng(0)
    z = torch.tensor(rng.normal(size=(9, 4)), requires_grad=True)
    lower, upper = torch.tensor([0, 1, 2, 0]), torch.tensor([3, 4, 2, 9])
    pi = torch.tensor([0.5, 0.25, 0.25, 0.0])
    loss = COUNT_LOSSES[name]
    assert torch.autograd.gradcheck(lambda z: loss(z, lower, upper, pi, max_count=4), z)


def test_second_derivatives_are_refused_clearly():
    z = torch.zeros(3, 2, requires_grad=True)
    for function in (
        lambda z: interval_log_prob(z, 1, 2).sum(),
        lambda z: one_vs_rest_logits(z).square().sum(),
        lambda z: COUNT_LOSSES["interval"](z, 1, 2),
    ):
        (grad,) = torch.autograd.grad(function(z), z, create_graph=True)
        with pytest.raises(RuntimeError, match="differentiable once"):
            grad.sum().backward()


@st.composite
def problems(draw):
    n = draw(st.integers(1, 40))
    m = draw(st.integers(1, 4))
    seed = draw(st.integers(0, 2**32 - 1))
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(n, m)) * draw(st.sampled_from([0.0, 1.0, 30.0, 1000.0]))
    special = np.array([-1e4, 1e4, -800.0, 800.0, 0.0, 36.7, -36.7])
    z = np.where(rng.random((n, m)) < draw(st.floats(0, 1)), rng.choice(special, (n, m)), z)
    if draw(st.booleans()):
        z[:] = z[:1]
    z = np.clip(z, -1e4, 1e4)
    lower = rng.integers(-1, n + 2, m)
    upper = np.where(rng.random(m) < 0.3, lower, rng.integers(-1, n + 2, m))
    return torch.tensor(z), torch.tensor(lower), torch.tensor(upper), rng.permutation(n)


@settings(deadline=None, max_examples=150)
@given(problems())
def test_any_problem_has_a_finite_gradient_and_ignores_the_order_of_rows(problem):
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


@settings(deadline=None, max_examples=150)
@given(problems())
def test_an_interval_and_its_complement_sum_to_one(problem):
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
    torch.testing.assert_close(sum(parts), torch.ones(z.shape[1], dtype=torch.float64))


def test_max_count_changes_nothing_above_the_largest_bound():
    rng = np.random.default_rng(3)
    z = torch.tensor(rng.normal(size=(37, 5)))
    lower, upper = torch.tensor([0, 1, 2, 0, 0]), torch.tensor([3, 4, 6, 0, 37])
    want, want_grad = value_and_grad(z, lower, upper, max_count=37)
    for max_count in (6, 7, 20, 1000):
        got, grad = value_and_grad(z, lower, upper, max_count=max_count)
        torch.testing.assert_close(got, want, rtol=1e-13, atol=1e-14)
        torch.testing.assert_close(grad, want_grad, rtol=1e-11, atol=1e-14)


def test_float32_in_float32_out():
    z = torch.randn(10, 3, generator=torch.Generator().manual_seed(0), requires_grad=True)
    out = interval_log_prob(z, 1, 4)
    out.sum().backward()
    assert out.dtype == z.grad.dtype == torch.float32
    exact = interval_log_prob(z.detach().double(), 1, 4)
    torch.testing.assert_close(out.detach(), exact.float())


def test_bad_bounds_are_refused_by_name():
    z = torch.zeros(3, 2)
    with pytest.raises(TypeError, match="lower must hold integers"):
        interval_log_prob(z, 0.5, 1)
    with pytest.raises(ValueError, match="upper must have shape"):
        interval_log_prob(z, 0, torch.zeros(3, dtype=torch.long))
    with pytest.raises(ValueError, match="logits must have shape"):
        interval_log_prob(z[0], 0, 1)


class NoSynchronisation(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        name = str(func)
        for reading in ("_local_scalar_dense", "nonzero", "is_nonzero", "unique", "masked_select"):
            assert reading not in name, f"{name} makes the host wait for the device"
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("n", [5, 300])
def test_nothing_is_read_back_from_the_device(n, monkeypatch):
    monkeypatch.setattr(
        counts, "_enter", lambda logits: (torch, logits.detach().double(), torch.float64)
    )
    z = torch.randn(n, 4, generator=torch.Generator().manual_seed(0), requires_grad=True)
    lower, upper = torch.tensor([0, 1, 0, 2]), torch.tensor([0, 3, n, 5])
    with NoSynchronisation():
        for name in ("interval", "entropy"):
            COUNT_LOSSES[name](z, lower, upper, max_count=5).backward()
        interval_log_prob(one_vs_rest_logits(z), lower, upper, max_count=5).sum().backward()
    meta = torch.zeros(n, 4, device="meta", requires_grad=True)  # has no values to read
    bounds = torch.zeros(4, dtype=torch.long, device="meta")
    for loss in (COUNT_LOSSES["interval"], COUNT_LOSSES["entropy"]):
        loss(meta, bounds, bounds).backward()
    interval_log_prob(meta, bounds, bounds).sum().backward()
    assert meta.grad.shape == (n, 4)


@pytest.mark.parametrize("gap", [0.0, 1.0, 27.0, 300.0, 1e4])
def test_one_vs_rest_is_accurate_near_zero_and_one(gap, backend):
    z = torch.tensor([[gap, 0.0, -1.0], [0.0, gap, gap], [-gap, gap, 0.0]], dtype=torch.float64)
    got = one_vs_rest_logits(z)
    for i, j in itertools.product(range(3), repeat=2):
        others = [float(z[i, k]) for k in range(3) if k != j]
        want = float(z[i, j]) - np.logaddexp(*np.asarray(others, dtype=np.longdouble))
        assert float(got[i, j]) == pytest.approx(float(want), rel=1e-14, abs=1e-15)


def test_one_vs_rest_stays_finite_at_large_logits():
    z = torch.tensor([[1e4, -1e4, 0.0], [1e4, 1e4, -1e4], [-1e4, -1e4, -1e4]], requires_grad=True)
    out = one_vs_rest_logits(z)
    out.sum().backward()
    assert torch.isfinite(out).all()
    assert torch.isfinite(z.grad).all()
    torch.testing.assert_close(one_vs_rest_logits(z.detach() + 7), out.detach())


@pytest.mark.parametrize("name", ["interval", "entropy"])
def test_losses_are_sums_over_classes_of_the_interval_probability(name, backend):
    rng = np.random.default_rng(5)
    z = torch.tensor(rng.normal(size=(16, 6)) * 3, requires_grad=True)
    lower, upper = torch.tensor([0, 1, 0, 2, 0, 3]), torch.tensor([0, 5, 16, 4, 2, 3])
    loss = COUNT_LOSSES[name](z, lower, upper, None, max_count=5)
    (grad,) = torch.autograd.grad(loss, z)
    p = interval_log_prob(one_vs_rest_logits(z), lower, upper).exp()
    plain = {"interval": -p.log(), "entropy": torch.special.entr(p)}[name].sum()
    torch.testing.assert_close(loss, plain)
    torch.testing.assert_close(grad, torch.autograd.grad(plain, z)[0])


@pytest.mark.parametrize("name", ["interval", "entropy"])
def test_losses_are_finite_for_saturated_networks(name):
    z = torch.full((8, 3), -1e4, requires_grad=True)
    with torch.no_grad():
        z[:, 0] = 1e4
    bounds = torch.tensor([0, 3, 3]), torch.tensor([1, 5, 8])
    loss = COUNT_LOSSES[name](z, *bounds)
    loss.backward()
    assert torch.isfinite(loss)
    assert torch.isfinite(z.grad).all()


def test_proportion_loss_is_a_divergence():
    rng = np.random.default_rng(2)
    z = torch.tensor(rng.normal(size=(50, 4)))
    mean = torch.softmax(z, 1).mean(0)
    loss = COUNT_LOSSES["proportion"]
    assert float(loss(z, None, None, mean)) == pytest.approx(0.0, abs=1e-14)
    pi = torch.tensor([0.7, 0.3, 0.0, 0.0], dtype=torch.float64)
    want = (pi[:2] * (pi[:2] / mean[:2]).log()).sum()
    torch.testing.assert_close(loss(z, None, None, pi), want)
    with pytest.raises(ValueError, match="needs proportions"):
        loss(z, None, None)


@pytest.mark.parametrize("rate", [0.1, 0.4])
def test_proportions_are_recovered_from_candidates(rate):
    rng = np.random.default_rng(0)
    pi = np.array([0.4, 0.25, 0.15, 0.1, 0.06, 0.04])
    n = 20_000
    truth = rng.choice(6, size=n, p=pi)
    sets = rng.random((n, 6)) < rate
    sets[np.arange(n), truth] = True
    got = estimate_proportions(sp.csr_array(sets))
    assert np.abs(got - pi).max() < 0.02
    naive = (sets / sets.sum(1, keepdims=True)).mean(0)
    assert np.abs(got - pi).sum() < 0.3 * np.abs(naive - pi).sum()
    np.testing.assert_allclose(estimate_proportions(sets), got)
    assert got.sum() == pytest.approx(1.0)


def test_proportions_of_clean_rows_are_their_frequencies():
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 4, 100)
    want = np.bincount(labels, minlength=5) / 100
    np.testing.assert_allclose(estimate_proportions(np.eye(5)[labels]), want)


def test_labels_that_always_occur_together_share_their_mass():
    sets = np.array([[1, 1, 0]] * 3 + [[0, 0, 1]])
    np.testing.assert_allclose(estimate_proportions(sets), [0.375, 0.375, 0.25])


def test_a_row_without_candidates_is_named():
    with pytest.raises(ValueError, match="row 1 has no candidate"):
        estimate_proportions(np.array([[1, 0], [0, 0]]))
