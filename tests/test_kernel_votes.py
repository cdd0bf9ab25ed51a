"""Facts about votes of all other rows: left out exactly, settled, weighed by label counts."""

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from sklearn.datasets import load_digits

from sklearn_cleanse.candidates import check_candidates
from sklearn_cleanse.datasets import make_candidates, make_partial_classification
from sklearn_cleanse.votes import (
    ExactRidge,
    LandmarkRidge,
    MeanKernel,
    candidate_dependence,
    choose_scaling,
    fit_kernel_votes,
    kernel_votes,
    make_ridge,
    set_log_likelihood,
)
from sklearn_cleanse.votes import _leave_one_out as loo


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    return X[:500], y[:500]


@pytest.fixture
def small(rng):
    X = rng.normal(size=(40, 3)) * [1.0, 100.0, 0.01]
    Y = torch.from_numpy(rng.dirichlet(np.ones(4), size=40))
    return X, Y


def sets_of(y, kind, **params):
    S = make_candidates(y, kind, random_state=0, **params)
    return torch.from_numpy(np.asarray(S, dtype=bool))


# -- the kernel ----------------------------------------------------------------------------------


def test_the_kernel_is_symmetric_positive_and_one_for_equal_rows(small):
    X, _ = small
    kernel = MeanKernel.fit(X)
    views = kernel.views(X)
    K = kernel(views, views)
    torch.testing.assert_close(K, K.T)
    torch.testing.assert_close(K.diagonal(), torch.ones(40, dtype=torch.float64), atol=1e-6, rtol=0)
    assert torch.linalg.eigvalsh(K).min() > -1e-9
    assert 0 < K.min() < K.max() <= 1 + 1e-12


def test_the_kernel_is_the_mean_of_nine_written_out(small):
    X, _ = small
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
    np.testing.assert_allclose(K, np.mean(expected, axis=0), atol=1e-5)  # scaled in float32


def test_constant_features_and_equal_rows_do_no_harm():
    X = np.array([[1.0, 5.0]] * 6 + [[2.0, 5.0]] * 6)
    _, candidates = check_candidates([{0}, {0, 1}, {0, 1}] * 2 + [{1}, {0, 1}, {0, 1}] * 2)
    votes, _, _ = fit_kernel_votes(X, candidates, np.arange(12))
    assert votes.proba.argmax(dim=1).tolist() == [0] * 6 + [1] * 6


# -- left out ------------------------------------------------------------------------------------


@pytest.mark.parametrize("row", [0, 7, 39])
def test_a_left_out_prediction_equals_that_of_a_fit_without_the_row(small, row):
    X, Y = small
    kernel = MeanKernel.fit(X)
    views = kernel.views(X)
    K, mean = kernel(views, views), Y.mean(dim=0)
    others = [i for i in range(40) if i != row]
    system = K[others][:, others] + 0.05 * torch.eye(39, dtype=torch.float64)
    expected = mean + K[row, others] @ torch.linalg.solve(system, Y[others] - mean)
    found = ExactRidge(kernel, X, ridge=0.05).left_out(Y)[row]
    torch.testing.assert_close(found, expected, atol=1e-7, rtol=0)


@pytest.mark.parametrize("row", [0, 7, 39])
def test_a_left_out_prediction_by_landmarks_equals_a_fit_without_the_row(small, row):
    X, Y = small
    kernel, landmarks = MeanKernel.fit(X), np.arange(0, 40, 4)
    ridge = LandmarkRidge(kernel, X, landmarks, ridge=0.05)
    basis = kernel.views(X[landmarks])
    values, vectors = torch.linalg.eigh(kernel(basis, basis))
    phi = kernel(kernel.views(X), basis) @ vectors @ torch.diag(values**-0.5) @ vectors.T
    others, mean = [i for i in range(40) if i != row], Y.mean(dim=0)
    system = phi[others].T @ phi[others] + 0.05 * torch.eye(10, dtype=torch.float64)
    weights = torch.linalg.solve(system, phi[others].T @ (Y[others] - mean))
    torch.testing.assert_close(ridge.left_out(Y)[row], mean + phi[row] @ weights, atol=1e-5, rtol=0)


def test_landmarks_that_are_all_rows_give_the_exact_form(small):
    X, Y = small
    kernel = MeanKernel.fit(X)
    exact, landmarks = ExactRidge(kernel, X), LandmarkRidge(kernel, X, np.arange(40))
    torch.testing.assert_close(landmarks.left_out(Y), exact.left_out(Y), atol=1e-8, rtol=0)
    torch.testing.assert_close(landmarks.coefficients(Y), exact.coefficients(Y), atol=1e-6, rtol=0)
    torch.testing.assert_close(landmarks.fitted(Y), exact.fitted(Y), atol=1e-8, rtol=0)
    assert landmarks.noise_error == pytest.approx(exact.noise_error)


@pytest.mark.parametrize("n_landmarks", [None, 15])
def test_the_error_on_noise_is_what_noise_gives(small, rng, n_landmarks):
    X, _ = small
    ridge = make_ridge(X, n_landmarks=n_landmarks)
    noise = torch.from_numpy(rng.normal(size=(40, 4000)))
    # around a known mean of zero, which the regression would otherwise estimate
    centred = torch.cat([noise, -noise.sum(dim=0, keepdim=True)])[:40]
    error = (centred - ridge.left_out(centred)).square().mean()
    assert ridge.noise_error == pytest.approx(float(error), rel=0.05)


def test_the_form_is_chosen_by_the_number_of_rows():
    assert loo.count_landmarks(5000, "auto") == 5000
    assert loo.count_landmarks(5001, "auto") == 1000
    assert loo.count_landmarks(10**6, "auto") == 268  # 1 GiB of features
    assert loo.count_landmarks(10**6, None) == 10**6
    assert loo.count_landmarks(50, 80) == 50


def test_blocks_of_rows_make_no_difference(small, monkeypatch):
    X, Y = small
    kernel = MeanKernel.fit(X)
    expected = LandmarkRidge(kernel, X, np.arange(12)).left_out(Y)
    monkeypatch.setattr(loo, "_BLOCK", 7)
    found = LandmarkRidge(kernel, X, np.arange(12)).left_out(Y)
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=0)


# -- votes ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_landmarks", [None, 60])
def test_votes_sum_to_one_on_candidates_and_clean_rows_never_change(digits, n_landmarks):
    X, y = digits
    S = sets_of(y, "flip", flip_proba=0.3)
    votes = kernel_votes(make_ridge(X, n_landmarks=n_landmarks), S)
    assert (votes.proba[~S] == 0).all()
    torch.testing.assert_close(votes.proba.sum(dim=1), torch.ones(500).to(votes.proba))
    is_clean = S.sum(dim=1) == 1
    assert is_clean.sum() > 5
    assert (votes.proba[is_clean] == S[is_clean].to(votes.proba)).all()


@pytest.mark.parametrize("kind", ["flip", "uniform", "confusable", "instance", "bag", "dictionary"])
def test_votes_name_the_truth_more_often_than_chance_and_a_first_guess(digits, kind):
    X, y = digits
    S = sets_of(y, kind, flip_proba=0.3, X=X)
    ridge = make_ridge(X)
    partial = S.sum(dim=1) > 1
    right = kernel_votes(ridge, S).proba.argmax(dim=1) == torch.from_numpy(y)
    once = kernel_votes(ridge, S, max_rounds=1).proba.argmax(dim=1) == torch.from_numpy(y)
    chance = (1 / S.sum(dim=1))[partial].mean()
    assert right[partial].float().mean() > 0.5 * (1 + chance)
    assert right[partial].float().mean() >= once[partial].float().mean()


def test_permuted_rows_and_classes_permute_the_votes(digits, rng):
    X, y = digits
    S = sets_of(y, "flip", flip_proba=0.3)
    rows, classes = rng.permutation(500), rng.permutation(10)
    first = kernel_votes(make_ridge(X), S).proba
    second = kernel_votes(make_ridge(X[rows]), S[rows][:, classes]).proba
    torch.testing.assert_close(second, first[rows][:, classes], atol=1e-4, rtol=0)


def test_rows_in_one_order_of_contents_give_the_same_bits(digits, rng):
    X, y = digits
    candidates = sp.csr_array(sets_of(y, "flip", flip_proba=0.3).numpy())
    order = rng.permutation(500)
    votes, model, _ = fit_kernel_votes(X, candidates[order], order)
    shuffle = rng.permutation(500)
    same = np.argsort(shuffle)[order]  # the same rows, which have other numbers now
    again, other, _ = fit_kernel_votes(X[shuffle], candidates[order], same)
    assert torch.equal(votes.proba, again.proba)
    assert torch.equal(model.coef, other.coef)


def test_labels_that_are_never_true_get_no_votes_to_speak_of(digits):
    X, y = digits
    S = sets_of(y, "flip", flip_proba=0.3, classes=np.arange(12))
    votes = kernel_votes(make_ridge(X), S)
    assert S[:, 10:].sum() > 100
    assert votes.proba[:, 10:].max() < 0.1
    assert votes.proba[:, 10:].sum() < 1
    assert torch.isfinite(votes.left_out).all()


def test_votes_settle_and_stop(digits):
    X, y = digits
    S = sets_of(y, "flip", flip_proba=0.2)
    ridge = make_ridge(X)
    votes = kernel_votes(ridge, S, max_rounds=100)
    assert votes.n_rounds < 100
    longer = kernel_votes(ridge, S, max_rounds=100, tol=0.0)
    assert longer.n_rounds == 100
    torch.testing.assert_close(votes.proba, longer.proba, atol=5e-3, rtol=0)


def test_new_rows_are_voted_on_by_the_formula_of_the_training_rows(digits):
    X, y = digits
    candidates = sp.csr_array(sets_of(y, "bag").numpy())
    order = np.arange(500)
    votes, model, fitted = fit_kernel_votes(X, candidates, order, max_rounds=200)
    torch.testing.assert_close(fitted, model.scores(X), atol=1e-6, rtol=0)
    own = torch.from_numpy(candidates.toarray())
    scores, position = model.left_out_scores(X[:50], own[:50])
    assert position.tolist() == list(range(50))
    torch.testing.assert_close(scores, votes.left_out[:50])
    # at the fixed point another round changes nothing
    torch.testing.assert_close(model.vote_on(scores, own[:50]), votes.proba[:50], atol=2e-3, rtol=0)
    _, elsewhere = model.left_out_scores(X[:50] + 0.5, own[:50])
    assert (elsewhere == -1).all()


# -- counts --------------------------------------------------------------------------------------


def test_the_likelihood_of_a_set_is_that_of_independent_labels():
    S = torch.tensor([[1.0, 1.0, 0.0]] * 300 + [[1.0, 0.0, 0.0]] * 100 + [[0.0, 1.0, 0.0]] * 400)
    y = torch.nn.functional.one_hot(torch.tensor([0] * 400 + [1] * 400), 3).to(S)
    found = set_log_likelihood(S, y).exp()
    # 300 of 400 rows of label 0 have label 1 as well, and none of label 1 has label 0
    assert found[0, 0] == pytest.approx(0.75, abs=0.02)
    assert found[300, 0] == pytest.approx(0.25, abs=0.02)
    assert found[0, 1] < 0.02
    assert found[400, 1] == pytest.approx(1.0, abs=0.02)


@pytest.mark.parametrize("kind", ["flip", "uniform", "confusable", "bag"])
@pytest.mark.parametrize("n_landmarks", [None, 100])
def test_features_say_nothing_of_candidates_that_the_label_alone_draws(digits, kind, n_landmarks):
    X, y = digits
    S = sets_of(y, kind, flip_proba=0.5)
    truth = torch.nn.functional.one_hot(torch.from_numpy(y), 10).double()
    ridge = make_ridge(X, n_landmarks=n_landmarks)
    assert abs(candidate_dependence(ridge, S, truth)) < 0.1
    assert kernel_votes(ridge, S).count_strength == 1


@pytest.mark.parametrize("kind", ["instance", "dictionary"])
def test_features_give_away_candidates_that_depend_on_them(digits, kind):
    X, y = digits
    S = sets_of(y, kind, flip_proba=0.3, X=X)
    votes = kernel_votes(make_ridge(X), S)
    assert votes.dependence > 0.2
    assert votes.count_strength < 0.9


def test_without_counts_only_the_others_count(digits):
    X, y = digits
    S = sets_of(y, "bag", scenes=1.0)
    ridge = make_ridge(X)
    votes = kernel_votes(ridge, S, count_strength=0.0, max_rounds=1)
    first = S / S.sum(dim=1, keepdim=True).double()
    said = ridge.left_out(first).clamp(min=1e-3).square() * S
    torch.testing.assert_close(votes.proba, said / said.sum(dim=1, keepdim=True))


def test_counts_tell_which_of_two_look_alikes_brings_the_other_along():
    rng = np.random.RandomState(0)
    y = np.arange(300) % 3
    X = rng.normal(size=(300, 2)) + np.array([0.0, 1.5, 6.0])[y][:, None]  # 0 and 1 overlap
    S = np.eye(3, dtype=bool)[y]
    S[y == 0, 1] = rng.uniform(size=100) < 0.9  # 0 brings 1 along, never the other way round
    ridge = make_ridge(X)
    truth = torch.from_numpy(y)
    partial = torch.from_numpy(S.sum(axis=1) > 1)
    sets = torch.from_numpy(S)
    with_counts, without = (
        (kernel_votes(ridge, sets, count_strength=c).proba.argmax(1) == truth)[partial].float()
        for c in ("auto", 0.0)
    )
    assert with_counts.mean() > without.mean() + 0.05


# -- scaling -------------------------------------------------------------------------------------


def test_the_scaling_is_chosen_by_the_same_votes():
    X, S, _ = make_partial_classification(200, 6, 4, class_sep=2.0, random_state=0)
    candidates = check_candidates(S)[1]
    blown_up = X * np.array([1, 1, 1, 1, 1, 1])
    blown_up = np.hstack([blown_up, 1e4 * np.random.RandomState(0).normal(size=(200, 6))])
    assert choose_scaling(blown_up, candidates) != "common"
