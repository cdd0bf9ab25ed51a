"""Facts about the count losses: what they sum, what they refuse, and no synchronisation."""

import math

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from sklearn.exceptions import ConvergenceWarning
from test_poisson_binomial import compute_in_torch
from torch._subclasses import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode

from sklearn_cleanse.candidates import estimate_proportions
from sklearn_cleanse.counts import (
    COUNT_LOSSES,
    _losses,
    interval_log_prob,
    one_vs_rest_logits,
)


@pytest.fixture(params=["numpy", "torch"])
def backend(request, monkeypatch):
    """Run on the CPU what the CPU runs, and what every other device runs."""
    if request.param == "torch":
        compute_in_torch(monkeypatch)


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
        lambda z: COUNT_LOSSES["entropy"](z, 1, 2),
    ):
        (grad,) = torch.autograd.grad(function(z), z, create_graph=True)
        with pytest.raises(RuntimeError, match="differentiable once"):
            grad.sum().backward()


def test_functional_gradients_are_refused():
    with pytest.raises(RuntimeError, match="setup_context"):
        torch.func.grad(lambda z: one_vs_rest_logits(z).sum())(torch.zeros(3, 2))
    with pytest.raises(RuntimeError):
        torch.func.grad(lambda z: interval_log_prob(z, 1, 2).sum())(torch.zeros(3, 2))


@pytest.mark.parametrize("function", [interval_log_prob, COUNT_LOSSES["interval"]])
def test_without_gradients_only_the_value_is_computed(function, monkeypatch):
    asked = []
    solve = _losses._solve_host
    monkeypatch.setattr(
        _losses, "_solve_host", lambda *args: asked.append(args[-1]) or solve(*args)
    )
    z = torch.zeros(3, 2, requires_grad=True)
    want = function(z, 1, 2)
    with torch.no_grad():
        torch.testing.assert_close(function(z, 1, 2), want.detach(), rtol=0, atol=0)
    function(z.detach(), 1, 2)
    assert asked == [True, False, False]


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
    with pytest.raises(TypeError, match="logits must be floating point; got"):
        interval_log_prob(z.long(), 0, 1)
    with pytest.raises(ValueError, match="max_count must not be negative; got -1"):
        interval_log_prob(z, 0, 1, max_count=-1)


def test_one_vs_rest_refuses_what_is_no_matrix_of_logits():
    with pytest.raises(TypeError, match="logits must be floating point"):
        one_vs_rest_logits(torch.zeros(3, 2, dtype=torch.long))
    with pytest.raises(ValueError, match="logits must have shape"):
        one_vs_rest_logits(torch.zeros(3))


@pytest.mark.parametrize("shape", [(3, 0), (0, 2), (0, 0)])
def test_no_rows_or_no_classes_give_empty_log_odds_and_no_loss(shape):
    z = torch.zeros(shape, requires_grad=True)
    assert one_vs_rest_logits(z).shape == shape
    for name in ("interval", "entropy"):
        loss = COUNT_LOSSES[name](z, 0, 1)
        loss.backward()
        assert loss == 0
        assert z.grad.shape == shape


def test_bounds_of_any_size_do_not_overflow(backend):
    z = torch.tensor(np.random.default_rng(0).normal(size=(7, 3)))
    limits = torch.iinfo(torch.int64)
    want = interval_log_prob(z, 0, torch.tensor([2, 5, 7]))
    got = interval_log_prob(z, limits.min, torch.tensor([2, 5, limits.max]))
    assert torch.equal(got, want)
    assert torch.all(interval_log_prob(z, limits.max, limits.min) == -math.inf)
    assert torch.all(interval_log_prob(z, limits.min, limits.min) == -math.inf)


def test_a_rounded_log_probability_still_has_a_finite_gradient():
    """In float32 the larger log-probability is 0, from which log-odds cannot be made alone."""
    z = torch.tensor([[18.0, 0.0]] * 3, requires_grad=True)
    log_p = torch.log_softmax(z, 1)
    assert torch.all(log_p[:, 0] == 0.0)
    log_odds = one_vs_rest_logits(log_p)
    torch.testing.assert_close(log_odds, torch.tensor([[18.0, -18.0]] * 3))
    interval_log_prob(log_odds, torch.tensor([0, 1]), torch.tensor([2, 2])).sum().backward()
    assert torch.isfinite(z.grad).all()
    assert torch.all(z.grad[:, 0] < 0)


class NoSynchronisation(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        name = str(func)
        for reading in ("_local_scalar_dense", "nonzero", "is_nonzero", "unique", "masked_select"):
            assert reading not in name, f"{name} makes the host wait for the device"
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("n", [5, 300])
def test_nothing_is_read_back_from_the_device(n, monkeypatch):
    compute_in_torch(monkeypatch)
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


@pytest.mark.parametrize("shape", [(5, 4), (0, 4)])
def test_one_bound_may_be_a_number_and_the_other_on_the_device(shape):
    meta = torch.zeros(shape, device="meta", requires_grad=True)
    bound = torch.zeros(4, dtype=torch.long, device="meta")
    for lower, upper in ((1, bound), (bound, 3), (1, 3)):
        assert interval_log_prob(meta, lower, upper).is_meta
        assert COUNT_LOSSES["interval"](meta, lower, upper).is_meta


def test_a_trace_leaves_nothing_behind(monkeypatch):
    compute_in_torch(monkeypatch)

    def loss():
        z = torch.zeros(23, 19, dtype=torch.float64, requires_grad=True)
        bounds = torch.zeros(19, dtype=torch.long), torch.full((19,), 11)
        return COUNT_LOSSES["interval"](z, *bounds, max_count=11)

    for _ in range(2):
        with FakeTensorMode():
            loss()
    assert math.isfinite(loss().detach())


class CountedOperations(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.number = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.number += 1
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize(
    ("name", "shape", "max_count", "most"),
    [
        ("interval", (64, 16), 19, 300),  # value and gradient; the interval alone grows with log n
        ("interval", (64, 16), None, 300),
        ("interval", (256, 171), 42, 350),
        ("entropy", (64, 16), 19, 310),
        ("proportion", (64, 16), 19, 30),
    ],
)
def test_operations_per_step_on_a_device(name, shape, max_count, most):
    logits = torch.zeros(shape, device="meta", requires_grad=True)
    bounds = torch.zeros(shape[1], dtype=torch.long, device="meta")
    with CountedOperations() as operations:
        COUNT_LOSSES[name](logits, bounds, bounds, bounds, max_count=max_count).backward()
    assert operations.number <= most


@pytest.mark.parametrize("name", ["interval", "entropy"])
def test_losses_count_zeros_where_they_are_fewer(name, backend, monkeypatch):
    rng = np.random.default_rng(0)
    z = torch.tensor(rng.normal(size=(30, 3)) + [6, 0, 0], requires_grad=True)
    lower, upper = torch.tensor([28, 0, 0]), torch.tensor([30, 2, 1])
    want = COUNT_LOSSES[name](z, lower, upper, max_count=30)
    interval, largest = _losses._interval, []

    def record(xp, z, bounds, dtype, grad):
        largest.append(bounds.max_count)
        return interval(xp, z, bounds, dtype, grad)

    monkeypatch.setattr(_losses, "_interval", record)
    got = COUNT_LOSSES[name](z, lower, upper)
    assert largest == [2]
    torch.testing.assert_close(got, want, rtol=1e-12, atol=0)
    grad, want_grad = (torch.autograd.grad(loss, z)[0] for loss in (got, want))
    torch.testing.assert_close(grad, want_grad, rtol=1e-10, atol=1e-13)


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


def test_bad_proportions_are_refused_by_name():
    loss, z = COUNT_LOSSES["proportion"], torch.zeros(3, 2)
    with pytest.raises(ValueError, match=r"proportions must have shape \(2,\).*got \(3,\)"):
        loss(z, None, None, [0.2, 0.3, 0.5])
    for bad in (-0.5, math.nan):
        with pytest.raises(ValueError, match=f"proportions must be 0 or more; got .*{bad}"):
            loss(z, None, None, [1.5, bad])
    with pytest.raises(ValueError, match="has no rows; the mean prediction needs at least one"):
        loss(z[:0], None, None, [0.5, 0.5])
    with pytest.raises(ValueError, match="logits must have shape"):
        loss(z[0], None, None, [0.5, 0.5])


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
    with pytest.raises(ValueError, match="there are no rows"):
        estimate_proportions(np.zeros((0, 2)))


def test_proportions_that_have_not_settled_are_announced():
    sets = np.array([[1, 0, 0], [1, 1, 0], [0, 1, 1], [0, 1, 0]])
    with pytest.warns(ConvergenceWarning, match="tol=1e-07 after max_iter=2 iterations"):
        pi = estimate_proportions(sets, max_iter=2)
    assert pi.sum() == pytest.approx(1.0)
