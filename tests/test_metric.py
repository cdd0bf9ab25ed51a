"""Facts about the metric learned from votes, and about single precision."""

import numpy as np
import pytest
import torch

from sklearn_cleanse.datasets import make_candidates
from sklearn_cleanse.votes import ExactRidge, MeanKernel, kernel_votes, learn_metric, make_ridge
from sklearn_cleanse.votes import _kernels as kernels
from sklearn_cleanse.votes import _metric as metrics
from sklearn_cleanse.votes._metric import MetricKernel, metric_votes


def make_task(rng, n=400, n_noise=4):
    """Return rows whose first two features carry the label, sets, and the labels' indicators."""
    X = rng.normal(size=(n, 2 + n_noise)) * rng.uniform(0.1, 10, size=2 + n_noise)
    y = (X[:, 0] > 0) + 2 * (X[:, 1] > 0)
    S = torch.from_numpy(np.asarray(make_candidates(y, "flip", flip_proba=0.3, random_state=0)))
    return X, S / S.sum(dim=1, keepdim=True), torch.eye(4, dtype=torch.float64)[y]


@pytest.fixture
def task(rng):
    return make_task(rng)


def test_the_metric_is_symmetric_positive_and_of_mean_diagonal_one(task):
    X, _, Y = task
    M = learn_metric(MeanKernel.fit(X), X, Y).metric
    torch.testing.assert_close(M, M.T, atol=0, rtol=0)
    assert torch.linalg.eigvalsh(M).min() > -1e-9
    assert float(M.diagonal().mean()) == pytest.approx(1)


def test_features_that_carry_nothing_get_little_of_the_metric(task):
    X, prior, Y = task
    M = learn_metric(MeanKernel.fit(X), X, Y).metric
    assert M.diagonal()[:2].sum() > 0.9 * M.trace()
    M = learn_metric(MeanKernel.fit(X), X, kernel_votes(make_ridge(X), prior).proba).metric
    assert M.diagonal()[:2].sum() > 0.8 * M.trace()  # by votes as well


def test_permuted_features_permute_the_metric(task, rng):
    X, _, Y = task
    order = rng.permutation(X.shape[1])
    first = learn_metric(MeanKernel.fit(X), X, Y).metric
    second = learn_metric(MeanKernel.fit(X[:, order]), X[:, order], Y).metric
    torch.testing.assert_close(second, first[order][:, order], atol=1e-4, rtol=0)


def test_the_metric_is_the_mean_outer_product_of_gradients(task, monkeypatch):
    X, _, Y = task
    monkeypatch.setattr(metrics, "_STEPS", 1)
    monkeypatch.setattr(metrics, "_BLOCK_VALUES", X.size * 3)  # classes at a time do not matter
    kernel = MeanKernel.fit(X)
    Z = kernel.views(X)[0].requires_grad_()
    basis = Z.detach()
    D = torch.cdist(basis, basis)
    system = (-D / D.mean()).exp() + 0.05 * torch.eye(len(X), dtype=torch.float64)
    A = torch.linalg.solve(system, Y - Y.mean(dim=0))
    G = torch.zeros(6, 6, dtype=torch.float64)
    for column in A.T:
        # each row's own term has no direction
        off = (Z[:, None] - basis[None] + torch.eye(len(X))[:, :, None] * 1e9).norm(dim=2)
        (gradients,) = torch.autograd.grad(((-off / D.mean()).exp() @ column).sum(), Z)
        G += gradients.T @ gradients
    found = learn_metric(kernel, X, Y).metric
    torch.testing.assert_close(found, G / G.diagonal().mean(), atol=1e-3, rtol=0)


def test_with_the_identity_the_second_kernel_is_that_of_euclidean_distance(task):
    X, _, _ = task
    plain, eye = MeanKernel.fit(X), torch.eye(6, dtype=torch.float64)
    Z = plain.views(X)[0]
    D = torch.cdist(Z, Z)
    kernel = MetricKernel(plain, eye, eye, float(D.mean()))
    views = kernel.views(X)
    second = 2 * kernel(views, views) - plain(views[:-1], views[:-1])
    torch.testing.assert_close(second, (-D / D.mean()).exp(), atol=1e-6, rtol=0)


def test_of_many_features_principal_components_are_compared(rng):
    X, _, Y = make_task(rng, n=150, n_noise=300)
    images = X[:, :300].reshape(150, 3, 10, 10)
    for rows in (X, images):
        kernel = learn_metric(MeanKernel.fit(rows), rows, Y)
        assert kernel.metric.shape == (128, 128)
        assert kernel.views(rows)[-1].shape == (150, 128)


def test_votes_that_are_all_equal_leave_the_metric_as_it_was(task):
    X, _, Y = task
    for rows, votes in ((X, torch.ones_like(Y) / 4), (np.zeros_like(X), Y)):
        M = learn_metric(MeanKernel.fit(rows), rows, votes).metric
        torch.testing.assert_close(M, torch.eye(6, dtype=torch.float64))


@pytest.mark.parametrize("n_components", [None, 150])
def test_among_noise_the_metric_finds_more_labels(rng, n_components):
    X, prior, Y = make_task(rng, n_noise=20)
    ridge, partial = make_ridge(X, n_components=n_components), (prior > 0).sum(dim=1) > 1
    right = [
        (votes.proba.argmax(dim=1) == Y.argmax(dim=1))[partial].double().mean()
        for votes in (kernel_votes(ridge, prior), metric_votes(ridge, X, prior))
    ]
    assert right[1] > right[0] + 0.02


@pytest.mark.parametrize("n_rows", [400, 3])
def test_single_and_double_precision_give_the_same_votes(task, n_rows):
    X, prior, _ = (part[:n_rows] for part in task)
    kernel = MeanKernel.fit(X)
    single, double = (ExactRidge(kernel, X, dtype=t) for t in (torch.float32, torch.float64))
    torch.testing.assert_close(double.inverse, double.inverse.T, atol=0, rtol=0)
    assert ExactRidge(kernel, X, alpha=9e-4).inverse.dtype == double.inverse.dtype
    assert ExactRidge(kernel, X, alpha=1e-3).inverse.dtype == single.inverse.dtype
    first, second = (kernel_votes(ridge, prior).proba for ridge in (single, double))
    torch.testing.assert_close(first, second, atol=1e-4, rtol=0)
    assert first.dtype == torch.float64
    assert (first.argmax(dim=1) == second.argmax(dim=1)).all()


def test_a_gram_matrix_in_tiles_is_the_kernel(task, monkeypatch):
    monkeypatch.setattr(kernels, "_ROWS", 7)
    monkeypatch.setattr(kernels, "_COLUMNS", 30)
    X = task[0][:100]
    kernel = MeanKernel.fit(X)
    views = kernel.views(X)
    lower = kernel.gram(views, torch.float64).tril()
    torch.testing.assert_close(lower, kernel(views, views).tril(), atol=1e-7, rtol=0)
