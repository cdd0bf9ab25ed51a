"""Facts about votes of all other rows: left out exactly, settled, weighted by label counts."""

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits

from sklearn_cleanse.datasets import make_candidates, make_lexicon
from sklearn_cleanse.votes import (
    ComponentRidge,
    ExactRidge,
    KernelModel,
    MeanKernel,
    estimate_noise_rate,
    instance_dependence,
    kernel_votes,
    make_ridge,
    set_log_likelihood,
    trusted_votes,
)
from sklearn_cleanse.votes import _kernels as kernels
from sklearn_cleanse.votes import _ridge as loo

SOURCES = ["flip", "uniform", "class-dependent", "instance-dependent", "bag", "lexicon"]


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    return X[:500], y[:500]


@pytest.fixture(scope="module")
def ridge(digits):
    return double_ridge(MeanKernel.fit(digits[0]), digits[0])


@pytest.fixture
def small(rng):
    X = rng.normal(size=(40, 3)) * [1.0, 100.0, 0.01]
    return X, torch.from_numpy(rng.dirichlet(np.ones(4), size=40))


def double_ridge(kernel, X):
    """In double precision, so that identities hold to many digits."""
    return ExactRidge(kernel, X, dtype=torch.float64)


def sets_of(y, source, **params):
    return torch.from_numpy(np.asarray(make_candidates(y, source, random_state=0, **params), bool))


def even(S):
    return S / S.sum(dim=1, keepdim=True)


def test_the_kernel_is_the_mean_of_nine_written_out_and_positive(small, monkeypatch):
    X, _ = small
    monkeypatch.setattr(kernels, "_ROWS", 7)  # rows compared at a time do not matter
    monkeypatch.setattr(kernels, "_COLUMNS", 30)
    z = (X - X.mean(axis=0)) / X.std(axis=0)
    spread = 2 * (X - X.min(axis=0)) / np.ptp(X, axis=0) - 1
    common = (X - X.mean(axis=0)) / np.sqrt(np.mean(X.std(axis=0) ** 2))
    expected = []
    for view in (z, spread, common):
        unit = view / np.linalg.norm(view, axis=1, keepdims=True)
        turn = np.linalg.norm(unit[:, None] - unit[None], axis=2)
        expected.append(np.exp(-(turn**2) / (2 * turn.mean() ** 2)))
        for order in (1, 2):
            distance = np.linalg.norm(view[:, None] - view[None], ord=order, axis=2)
            expected.append(np.exp(-distance / distance.mean()))
    kernel = MeanKernel.fit(X)
    K = kernel(kernel.views(X), kernel.views(X)).numpy()
    np.testing.assert_allclose(K, np.mean(expected, axis=0), atol=1e-7)
    np.testing.assert_allclose(K, K.T, rtol=1e-7, atol=1e-7)
    assert np.linalg.eigvalsh(K).min() > -1e-9
    assert 0 < K.min() < K.max() <= 1 + 1e-12


def test_a_left_out_prediction_equals_that_of_a_fit_without_the_row(small):
    X, Y = small
    kernel = MeanKernel.fit(X)
    views = kernel.views(X)
    K, mean = kernel(views, views), Y.mean(dim=0)
    found = double_ridge(kernel, X).left_out(Y)
    for row in range(40):
        others = [i for i in range(40) if i != row]
        system = K[others][:, others] + 0.05 * torch.eye(39, dtype=torch.float64)
        expected = mean + K[row, others] @ torch.linalg.solve(system, Y[others] - mean)
        torch.testing.assert_close(found[row], expected, atol=1e-7, rtol=0)


@pytest.mark.parametrize("row", [0, 7, 39])
def test_a_left_out_prediction_by_components_equals_a_fit_without_the_row(small, row, monkeypatch):
    X, Y = small
    monkeypatch.setattr(loo, "_BLOCK", 7)  # blocks of rows do not matter
    kernel, components = MeanKernel.fit(X), np.arange(0, 40, 4)
    ridge = ComponentRidge(kernel, X, components)
    basis = kernel.views(X[components])
    values, vectors = torch.linalg.eigh(kernel(basis, basis))
    phi = kernel(kernel.views(X), basis) @ vectors @ torch.diag(values**-0.5) @ vectors.T
    others, mean = [i for i in range(40) if i != row], Y.mean(dim=0)
    system = phi[others].T @ phi[others] + 0.05 * torch.eye(10, dtype=torch.float64)
    weights = torch.linalg.solve(system, phi[others].T @ (Y[others] - mean))
    torch.testing.assert_close(ridge.left_out(Y)[row], mean + phi[row] @ weights, atol=1e-5, rtol=0)


def test_components_that_are_all_rows_give_the_exact_form(small):
    X, Y = small
    kernel = MeanKernel.fit(X)
    exact, components = double_ridge(kernel, X), ComponentRidge(kernel, X, np.arange(40))
    torch.testing.assert_close(components.left_out(Y), exact.left_out(Y), atol=1e-8, rtol=0)
    torch.testing.assert_close(components.coefficients(Y), exact.coefficients(Y), atol=1e-6, rtol=0)
    torch.testing.assert_close(components.fitted(Y), exact.fitted(Y), atol=1e-8, rtol=0)
    assert components.noise_error == pytest.approx(exact.noise_error)


@pytest.mark.parametrize("n_components", [None, 15])
def test_the_error_on_noise_is_what_noise_gives(small, rng, n_components):
    ridge = make_ridge(small[0], n_components=n_components)
    noise = torch.from_numpy(rng.normal(size=(40, 4000)))
    # around a known mean of zero, which the regression would otherwise estimate
    centered = torch.cat([noise, -noise.sum(dim=0, keepdim=True)])[:40]
    error = (centered - ridge.left_out(centered)).square().mean()
    assert ridge.noise_error == pytest.approx(float(error), rel=0.05)


@pytest.mark.parametrize(
    ("n_samples", "n_components", "count"),
    [(8000, "auto", 8000), (8001, "auto", 1000), (10**6, "auto", 268), (10**6, None, 10**6),
     (50, 80, 50)],
)  # fmt: skip
def test_the_form_depends_on_the_number_of_rows(n_samples, n_components, count):
    assert loo.count_components(n_samples, n_components) == count


@pytest.mark.parametrize("n_components", [None, 60])
def test_votes_sum_to_one_on_candidates_and_clean_rows_never_change(digits, n_components):
    X, y = digits
    S = sets_of(y, "flip", flip_proba=0.3)
    votes = kernel_votes(make_ridge(X, n_components=n_components), even(S))
    assert (votes.proba[~S] == 0).all()
    torch.testing.assert_close(votes.proba.sum(dim=1), torch.ones(500).to(votes.proba))
    is_clean = S.sum(dim=1) == 1
    assert is_clean.sum() > 5
    assert (votes.proba[is_clean] == S[is_clean].to(votes.proba)).all()


@pytest.mark.parametrize("source", SOURCES)
def test_votes_name_the_truth_more_often_than_chance_and_a_first_guess(digits, ridge, source):
    X, y = digits
    S = sets_of(y, source, flip_proba=0.3, X=X)
    partial = S.sum(dim=1) > 1
    rates = []
    for rounds in (20, 1):
        votes = kernel_votes(ridge, even(S), max_rounds=rounds).proba
        rates.append((votes.argmax(dim=1) == torch.from_numpy(y))[partial].float().mean())
    chance = (1 / S.sum(dim=1))[partial].mean()
    assert rates[0] > 0.5 * (1 + chance)
    assert rates[0] >= rates[1]


def test_permuted_rows_and_classes_permute_the_votes(digits, ridge, rng):
    X, y = digits
    S = sets_of(y, "flip", flip_proba=0.3)
    rows, classes = rng.permutation(500), rng.permutation(10)
    first = kernel_votes(ridge, even(S)).proba
    second = kernel_votes(make_ridge(X[rows]), even(S[rows][:, classes])).proba
    torch.testing.assert_close(second, first[rows][:, classes], atol=1e-4, rtol=0)


def test_labels_that_are_never_true_get_hardly_any_votes(digits, ridge):
    S = sets_of(digits[1], "flip", flip_proba=0.3, classes=np.arange(12))
    votes = kernel_votes(ridge, even(S)).proba[:, 10:]
    assert S[:, 10:].sum() > 100
    assert votes.max() < 0.1
    assert votes.sum() < 1


def test_votes_settle_and_stop(digits, ridge):
    S = sets_of(digits[1], "flip", flip_proba=0.2)
    votes = kernel_votes(ridge, even(S), max_rounds=100)
    assert votes.n_rounds < 100
    longer = kernel_votes(ridge, even(S), max_rounds=votes.n_rounds + 1, tol=0.0)
    assert longer.n_rounds == votes.n_rounds + 1
    assert (votes.proba - longer.proba).abs().sum(dim=1).mean() <= 1e-2


def test_prior_weights_multiply_the_votes(digits, ridge):
    S = sets_of(digits[1], "flip", flip_proba=0.3)
    weights = S * torch.arange(1, 11) / 10
    alone = {"count_strength": 0.0, "max_rounds": 1}
    votes = kernel_votes(ridge, weights / weights.sum(dim=1, keepdim=True), **alone)
    first = weights / weights.sum(dim=1, keepdim=True)
    expected = ridge.left_out(first.double()).clamp(min=1e-3).square() * weights
    torch.testing.assert_close(votes.proba, expected / expected.sum(dim=1, keepdim=True))


def test_new_rows_are_voted_on_by_the_formula_of_the_training_rows(digits, ridge):
    X, y = digits
    S = sets_of(y, "bag")
    prior = even(S).numpy()
    votes = kernel_votes(ridge, even(S), max_rounds=200, tol=1e-5)
    model = KernelModel(ridge, votes, X, prior, np.arange(500))
    torch.testing.assert_close(ridge.fitted(votes.proba), model.scores(X), atol=1e-6, rtol=0)
    scores, position = model.left_out_scores(X[:50], prior[:50])
    assert position.tolist() == list(range(50))
    torch.testing.assert_close(scores, votes.left_out[:50])
    # at the fixed point another round changes nothing
    again = model.vote_on(scores, prior[:50])
    torch.testing.assert_close(again, votes.proba[:50], atol=2e-3, rtol=0)
    _, elsewhere = model.left_out_scores(X[:50] + 0.5, prior[:50])
    assert (elsewhere == -1).all()


@pytest.mark.parametrize("rate", [0.0, 0.2])
def test_the_noise_rate_is_estimated_without_truth(digits, ridge, rate):
    S = sets_of(digits[1], "flip", flip_proba=0.2, noise_rate=rate)
    assert estimate_noise_rate(ridge, even(S)) == pytest.approx(rate, abs=0.1 * (rate > 0))


def test_under_noise_votes_name_labels_outside_wrong_sets(digits, ridge):
    y = torch.from_numpy(digits[1])
    S = sets_of(digits[1], "flip", flip_proba=0.1, noise_rate=0.2)
    wrong = ~S.gather(1, y[:, None])[:, 0]
    votes = kernel_votes(ridge, even(S), noise_rate=0.2).proba
    torch.testing.assert_close(votes.sum(dim=1), torch.ones(500).to(votes))
    assert (votes.argmax(dim=1) == y)[wrong].float().mean() > 0.7


def test_the_likelihood_of_a_set_is_that_of_independent_labels():
    S = torch.tensor([[1.0, 1.0, 0.0]] * 300 + [[1.0, 0.0, 0.0]] * 100 + [[0.0, 1.0, 0.0]] * 400)
    y = torch.nn.functional.one_hot(torch.tensor([0] * 400 + [1] * 400), 3).to(S)
    found = set_log_likelihood(S, y).exp()
    # 300 of 400 rows of label 0 have label 1 as well, and none of label 1 has label 0
    assert found[0, 0] == pytest.approx(0.75, abs=0.02)
    assert found[300, 0] == pytest.approx(0.25, abs=0.02)
    assert found[0, 1] < 0.02
    assert found[400, 1] == pytest.approx(1.0, abs=0.02)


@pytest.mark.parametrize("source", ["flip", "uniform", "class-dependent", "bag"])
@pytest.mark.parametrize("n_components", [None, 100])
def test_features_do_not_predict_candidates_that_the_label_alone_draws(
    digits, source, n_components
):
    X, y = digits
    S = sets_of(y, source, flip_proba=0.5)
    truth = torch.nn.functional.one_hot(torch.from_numpy(y), 10).double()
    ridge = make_ridge(X, n_components=n_components)
    assert abs(instance_dependence(ridge, S, truth)) < 0.1
    assert kernel_votes(ridge, even(S)).count_strength == 1


@pytest.mark.parametrize("source", ["instance-dependent", "lexicon"])
def test_features_predict_candidates_that_depend_on_them(digits, ridge, source):
    X, y = digits
    votes = kernel_votes(ridge, even(sets_of(y, source, flip_proba=0.3, X=X)))
    assert votes.instance_dependence > 0.2
    assert votes.count_strength < 0.9


def test_counts_decide_which_of_two_similar_labels_brings_the_other_along():
    rng = np.random.RandomState(0)
    y = np.arange(300) % 3
    X = rng.normal(size=(300, 2)) + np.array([0.0, 1.5, 6.0])[y][:, None]  # 0 and 1 overlap
    S = np.eye(3, dtype=bool)[y]
    S[y == 0, 1] = rng.uniform(size=100) < 0.9  # 0 brings 1 along, never the other way round
    ridge, truth, sets = make_ridge(X), torch.from_numpy(y), torch.from_numpy(S)
    partial = sets.sum(dim=1) > 1
    with_counts, without = (
        (kernel_votes(ridge, even(sets), count_strength=c).proba.argmax(1) == truth)[partial]
        for c in ("auto", 0.0)
    )
    assert with_counts.double().mean() > without.double().mean() + 0.05


@pytest.mark.parametrize("seed", [0, 1])
def test_counts_are_left_out_where_clean_rows_show_that_they_mislead(seed):
    X, S, y = make_lexicon(2000, random_state=seed)
    S, y = torch.from_numpy(S), torch.from_numpy(y)
    ridge = make_ridge(X)
    found = [
        (votes.proba.argmax(dim=1) == y)[S.sum(dim=1) > 1].double().mean()
        for votes in (kernel_votes(ridge, even(S)), trusted_votes(ridge, even(S)))
    ]
    assert found[1] > found[0] + 0.2
    trusted = trusted_votes(ridge, even(S))
    assert (trusted.count_strength, trusted.log_bonus.abs().max()) == (0, 0)
    # A number is taken as it is, and no clean rows show nothing.
    assert trusted_votes(ridge, even(S), count_strength=0.5).log_bonus.any()
    S[torch.arange(2000), (y + 1) % 8] = True
    assert trusted_votes(ridge, even(S)).log_bonus.any()


def test_counts_stay_where_labels_alone_draw_the_candidates(digits, ridge):
    prior = even(sets_of(digits[1], "bag"))
    found, expected = trusted_votes(ridge, prior), kernel_votes(ridge, prior)
    assert torch.equal(found.proba, expected.proba)
