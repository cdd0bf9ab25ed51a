"""CleanSE by kernel votes: the estimator without a network."""

import pickle

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from conftest import make_blobs

from sklearn_cleanse import CleanSEKernelClassifier
from sklearn_cleanse.candidates import _memory, check_candidates
from sklearn_cleanse.datasets import make_candidates


@pytest.fixture(scope="module")
def fitted(digits):
    return CleanSEKernelClassifier(random_state=0).fit(*digits[:2])


def test_it_learns_digits_and_no_probability_is_zero(digits, fitted):
    _, _, y, X_test, y_test = digits
    assert (fitted.predict(X_test) == y_test).mean() > 0.85
    assert (fitted.candidate_proba_.argmax(axis=1) == y).mean() > 0.95
    proba = fitted.predict_proba(X_test)
    assert proba.min() > 0
    np.testing.assert_allclose(np.exp(fitted.predict_log_proba(X_test)), proba)


def test_the_order_of_rows_hardly_matters_in_the_exact_form(digits, fitted, rng):
    X, S, _, X_test, _ = digits
    shuffle = rng.permutation(len(X))
    other = CleanSEKernelClassifier(random_state=0).fit(X[shuffle], S[shuffle])
    expected = fitted.predict_proba(X_test)
    # the kernel is inverted in single precision
    np.testing.assert_allclose(other.predict_proba(X_test), expected, atol=1e-4)
    np.testing.assert_allclose(fitted.candidate_proba_[shuffle], other.candidate_proba_, atol=1e-4)
    assert other.proba_temperature_ == pytest.approx(fitted.proba_temperature_, rel=1e-3)


@pytest.mark.parametrize("form", [sp.csr_array, lambda X: X.astype(np.float32), pd.DataFrame])
def test_the_same_numbers_in_another_form_give_the_same_model(digits, fitted, form):
    X, S, _, X_test, _ = digits
    other = CleanSEKernelClassifier(random_state=0).fit(form(X), S)
    expected = fitted.predict_proba(X_test)
    np.testing.assert_allclose(other.predict_proba(form(X_test)), expected, atol=1e-12)
    np.testing.assert_array_equal(other.disambiguate(form(X), S), fitted.disambiguate(X, S))


def test_the_candidate_record_is_candidates_too(digits, fitted):
    X, S = digits[:2]
    frame = pd.DataFrame(S, index=[f"row {i}" for i in range(400)])
    model = CleanSEKernelClassifier(random_state=0).fit(X, check_candidates(frame))
    assert model.index_.equals(frame.index)
    assert fitted.index_ is None
    np.testing.assert_array_equal(model.candidate_proba_, fitted.candidate_proba_)


def test_images_are_voted_on_by_their_pixels(digits):
    X, S, _, X_test, y_test = digits
    images, new = X.reshape(-1, 1, 8, 8).astype(np.uint8), X_test.reshape(-1, 1, 8, 8)
    model = CleanSEKernelClassifier(random_state=0).fit(images, S)
    assert model.score(new, y_test) > 0.85
    proba = model.disambiguate(images, S, return_proba=True)[1]
    np.testing.assert_allclose(model.candidate_proba_, proba)
    # all channels of a pixel carry the same information, so copies change nothing
    twice = CleanSEKernelClassifier(random_state=0).fit(np.repeat(images, 2, axis=1), S)
    assert (twice.predict(np.repeat(new, 2, axis=1)) == model.predict(new)).mean() > 0.97


def test_components_make_a_small_model_that_is_nearly_as_good(digits, fitted):
    X, S, _, X_test, y_test = digits
    small = CleanSEKernelClassifier(n_components=100, random_state=0).fit(X, S)
    assert small.n_components_ == len(small.model_.coef) == 100
    assert len(pickle.dumps(small.model_)) < 0.5 * len(pickle.dumps(fitted.model_))
    loss = (fitted.predict(X_test) == y_test).mean() - (small.predict(X_test) == y_test).mean()
    assert loss < 0.06


def test_memory_is_estimated_before_it_is_taken(digits, fitted, monkeypatch):
    X, S, _, X_test, _ = digits
    model = pickle.loads(pickle.dumps(fitted))
    monkeypatch.setattr(_memory, "MEMORY_LIMIT", 2**20)
    with pytest.raises(MemoryError, match="the votes of 400 rows with n_components=400"):
        model.fit(X[:, :5], S)
    # and the model before is as it was
    np.testing.assert_array_equal(model.predict_proba(X_test), fitted.predict_proba(X_test))


@pytest.mark.parametrize("method", ["predict", "predict_proba"])
def test_rows_whose_distances_overflow_are_named(method):
    X, S, _ = make_blobs(30)
    model = CleanSEKernelClassifier().fit(1e-80 * X, S)
    far = 1e-80 * X[:3]
    far[1] = 1e90
    with pytest.raises(ValueError, match=r"too far from the .* overflow in row 1\."):
        getattr(model, method)(far)


def test_scores_of_training_rows_have_a_closed_form(digits):
    X, S, *_ = digits
    X, S = np.vstack([X, X[:50]]), np.vstack([S, S[:50]])
    model = CleanSEKernelClassifier(random_state=0).fit(X, S)
    np.testing.assert_allclose(model._training_scores(), model._scores(X), atol=2e-5)
    double = CleanSEKernelClassifier(alpha=9e-4, random_state=0).fit(X, S)
    np.testing.assert_allclose(double._training_scores(), double._scores(X), atol=1e-6)
    few = CleanSEKernelClassifier(n_components=60, random_state=0).fit(X, S)
    assert few._training_scores() is None


def test_a_class_that_is_never_a_candidate_is_never_chosen(digits):
    X, S, y, *_ = digits
    wider = np.hstack([S, np.zeros((len(S), 1), dtype=S.dtype)])
    model = CleanSEKernelClassifier(random_state=0).fit(X, wider)
    asked = np.zeros_like(wider)
    asked[np.arange(len(S)), y] = 1
    asked[:, 10] = 1
    np.testing.assert_array_equal(model.disambiguate(X, asked), y)
    assert (model.predict(X) < 10).all()


@pytest.mark.parametrize("n_components", [None, 60])
def test_prior_weights_are_odds_before_the_features(digits, n_components):
    X, S, y, *_ = digits
    params = {"n_components": n_components, "random_state": 0}
    plain = CleanSEKernelClassifier(**params).fit(X, S)
    weights = np.where(np.eye(10)[y] == 1, 0.9, 0.1) * S
    model = CleanSEKernelClassifier(**params).fit(X, weights)
    of_truth = [m.candidate_proba_[np.arange(400), y].mean() for m in (plain, model)]
    assert of_truth[1] > of_truth[0]
    assert (model.disambiguate(X, weights) == y).mean() > 0.99


@pytest.mark.parametrize("n_components", [None, 100])
def test_under_noise_label_probabilities_leave_the_sets(digits, n_components):
    X, _, y, X_test, y_test = digits
    S = make_candidates(y, "flip", flip_proba=0.1, noise_rate=0.3, random_state=0)
    params = {"n_components": n_components, "random_state": 0}
    plain = CleanSEKernelClassifier(**params).fit(X, S)
    model = CleanSEKernelClassifier(noise_rate="auto", **params).fit(X, S)
    assert model.noise_rate_ == pytest.approx(0.3, abs=0.1)
    assert (plain.label_proba_[~S.astype(bool)] == 0).all()
    assert (model.candidate_proba_[~S.astype(bool)] == 0).all()
    assert (model.label_proba_.argmax(axis=1) == y).mean() > 0.8
    assert model.score(X_test, y_test) > plain.score(X_test, y_test)


@pytest.mark.parametrize("n_components", [None, 40])
@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_copies_of_all_rows_change_nothing(digits, form, n_components):
    X, y = digits[0][:200].copy(), digits[2][:200]
    X[::7, 3] = np.nan  # missing equals missing
    S = make_candidates(y, "flip", flip_proba=0.2, noise_rate=0.2, random_state=0)
    params = {"noise_rate": "auto", "n_components": n_components, "random_state": 0}
    once = CleanSEKernelClassifier(**params).fit(form(X), S)
    twice = CleanSEKernelClassifier(**params).fit(form(np.vstack([X, X])), np.vstack([S, S]))
    assert once.noise_rate_ == twice.noise_rate_ > 0
    np.testing.assert_array_equal(once.predict_proba(X), twice.predict_proba(X))
    for name in ("candidate_proba_", "loo_proba_", "label_proba_"):
        for half in (slice(200), slice(200, None)):
            np.testing.assert_array_equal(getattr(twice, name)[half], getattr(once, name))


def test_equal_rows_with_other_candidates_vote_on_each_other():
    X = [[0.0], [0.0], [0.0], [5.0], [5.1], [5.2]]
    S = [{0}, {0, 1}, {0, 1}, {1}, {1}, {1}]
    model = CleanSEKernelClassifier().fit(X, S)
    assert model.n_components_ == 5
    assert model.candidate_proba_[1, 0] > 0.9
    np.testing.assert_array_equal(model.candidate_proba_[1], model.candidate_proba_[2])


@pytest.mark.parametrize("X", [np.ones((4, 2)), np.full((4, 2), np.nan)])
def test_a_table_of_one_row_repeated_is_fitted(X):
    model = CleanSEKernelClassifier().fit(X, np.ones((4, 3)))
    np.testing.assert_allclose(model.candidate_proba_, 1 / 3)


def test_a_uniform_prior_hardly_changes_predictions_of_balanced_classes():
    X, S, _ = make_blobs(600)
    model = CleanSEKernelClassifier(random_state=0).fit(X, np.hstack([S, np.zeros((600, 1))]))
    before = model.predict(X)
    assert (model.set_params(class_prior="uniform").predict(X) == before).mean() > 0.97


def test_a_uniform_prior_predicts_a_rare_class_only_where_it_is(rng):
    y = np.where(np.arange(5000) < 10, 2, rng.randint(2, size=5000))
    X = np.eye(3)[y] + 0.2 * rng.normal(size=(5000, 3))
    model = CleanSEKernelClassifier(n_components=100, class_prior="uniform", random_state=0)
    predicted = model.fit(X, y).predict(X)
    assert ((predicted == 2) & (y != 2)).mean() < 0.05
