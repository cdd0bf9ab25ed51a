"""Facts about the count losses: what they sum, what they refuse, and no synchronisation."""

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from test_poisson_binomial import compute_in_torch
from torch.utils._python_dispatch import TorchDispatchMode

from sklearn_cleanse.counts import (
    COUNT_LOSSES,
    estimate_proportions,
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
    ):
        (grad,) = torch.autograd.grad(function(z), z, create_graph=True)
        with pytest.raises(RuntimeError, match="differentiable once"):
            grad.sum().backward()


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
