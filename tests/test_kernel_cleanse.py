"""CleanSE by kernel votes: the estimator without a network, and the network's use of the votes."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from conftest import make_blobs
from sklearn.datasets import load_digits
from sklearn.exceptions import NotFittedError

from sklearn_cleanse import CleanSEClassifier, CleanSEKernelClassifier, PartialLabelClassifier
from sklearn_cleanse.calibration import Calibration
from sklearn_cleanse.datasets import make_candidates
from sklearn_cleanse.explanation import poll_kernel

QUICK = {"hidden_layer_sizes": (16,), "max_epochs": 4, "random_state": 0}


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    S = make_candidates(y, "flip", flip_proba=0.3, random_state=0)
    return X[:400], S[:400], y[:400], X[400:800], y[400:800]


@pytest.fixture(scope="module")
def fitted(digits):
    return CleanSEKernelClassifier(random_state=0).fit(*digits[:2])


# -- the estimator -------------------------------------------------------------------------------


def test_it_learns_digits_from_ambiguous_labels(digits, fitted):
    _, _, y, X_test, y_test = digits
    assert (fitted.predict(X_test) == y_test).mean() > 0.85
    assert (fitted.candidate_proba_.argmax(axis=1) == y).mean() > 0.95


def test_probabilities_sum_to_one_and_rank_as_predictions(digits, fitted):
    X_test = digits[3]
    proba = fitted.predict_proba(X_test)
    np.testing.assert_allclose(proba.sum(axis=1), 1)
    assert proba.min() > 0
    np.testing.assert_array_equal(fitted.classes_[proba.argmax(axis=1)], fitted.predict(X_test))
    np.testing.assert_allclose(np.exp(fitted.predict_log_proba(X_test)), proba)


def test_surer_predictions_are_right_more_often(digits, fitted):
    X_test, y_test = digits[3:]
    sure = fitted.predict_proba(X_test).max(axis=1)
    right = fitted.predict(X_test) == y_test
    half = np.median(sure)
    assert right[sure > half].mean() > right[sure <= half].mean()


def test_the_order_of_rows_makes_no_difference_to_the_last_bit(digits, rng):
    X, S, _, X_test, _ = digits
    shuffle = rng.permutation(len(X))
    for n_landmarks in (None, 50):
        params = {"n_landmarks": n_landmarks, "random_state": 0}
        one = CleanSEKernelClassifier(**params).fit(X, S)
        other = CleanSEKernelClassifier(**params).fit(X[shuffle], S[shuffle])
        np.testing.assert_array_equal(one.predict_proba(X_test), other.predict_proba(X_test))
        np.testing.assert_array_equal(one.candidate_proba_[shuffle], other.candidate_proba_)


def test_labels_of_any_kind_come_back(digits):
    X, S, _, X_test, _ = digits
    names = np.array([f"digit {j}" for j in range(10)])
    sets = [set(names[row.astype(bool)]) for row in S]
    model = CleanSEKernelClassifier(random_state=0).fit(X, sets)
    assert set(model.predict(X_test)) <= set(names)
    labels = model.disambiguate(X, sets)
    assert all(label in own for label, own in zip(labels, sets, strict=True))


def test_plain_labels_make_it_an_ordinary_classifier(digits):
    X, _, y, X_test, y_test = digits
    assert CleanSEKernelClassifier().fit(X, y).score(X_test, y_test) > 0.85


def test_sparse_candidates_give_sparse_confidences(digits, fitted):
    X, S = digits[:2]
    model = CleanSEKernelClassifier(random_state=0).fit(X, sp.csr_array(S))
    assert sp.issparse(model.candidate_proba_)
    np.testing.assert_allclose(model.candidate_proba_.toarray(), fitted.candidate_proba_)


def test_landmarks_make_a_small_model_that_is_nearly_as_good(digits, fitted):
    X, S, _, X_test, y_test = digits
    small = CleanSEKernelClassifier(n_landmarks=100, random_state=0).fit(X, S)
    assert small.n_landmarks_ == len(small.model_.coef) == 100
    assert len(pickle.dumps(small.model_)) < 0.5 * len(pickle.dumps(fitted.model_))
    loss = (fitted.predict(X_test) == y_test).mean() - (small.predict(X_test) == y_test).mean()
    assert loss < 0.06


def test_a_pickle_predicts_the_same(digits, fitted):
    again = pickle.loads(pickle.dumps(fitted))
    X_test = digits[3]
    np.testing.assert_array_equal(again.predict_proba(X_test), fitted.predict_proba(X_test))


def test_memory_is_estimated_before_it_is_taken(digits):
    X, S = digits[:2]
    with pytest.raises(MemoryError, match=r"400 samples with n_landmarks=400 need about"):
        CleanSEKernelClassifier(max_memory=1e-3).fit(X, S)
    CleanSEKernelClassifier(max_memory=0.2, n_landmarks=20).fit(X, S)


@pytest.mark.parametrize(
    ("params", "name"),
    [
        ({"count_strength": 2.0}, "count_strength"),
        ({"count_strength": "none"}, "count_strength"),
        ({"n_landmarks": 0}, "n_landmarks"),
        ({"max_iter": 0}, "max_iter"),
        ({"ridge": 0.0}, "ridge"),
    ],
)
def test_bad_parameters_are_refused_by_name(params, name, digits):
    with pytest.raises(ValueError, match=f"'{name}'"):
        CleanSEKernelClassifier(**params).fit(*digits[:2])


def test_nothing_is_predicted_before_fit(digits):
    with pytest.raises(NotFittedError):
        CleanSEKernelClassifier().explain(digits[0][:1])


# -- explanations --------------------------------------------------------------------------------


def test_what_is_explained_is_what_was_voted(digits, fitted):
    X, S, *_ = digits
    for i, why in enumerate(fitted.explain(X[:30], S[:30])):
        own = S[i].astype(bool)
        np.testing.assert_array_equal(why.labels, np.flatnonzero(own))
        # the votes had settled to a thousandth
        np.testing.assert_allclose(why.votes, fitted.candidate_proba_[i][own], atol=5e-3)
        assert i not in why.neighbors
        np.testing.assert_allclose(why.confidences.sum(), 1)


@pytest.mark.parametrize("trained_on", [True, False])
def test_what_voters_say_adds_up_to_the_score(digits, trained_on):
    """With all rows shown, what they say of a row and the mean make what they say together."""
    X, S, _, X_test, _ = digits
    model = CleanSEKernelClassifier(random_state=0).fit(X[:60], S[:60])
    rows = X[:60] if trained_on else X_test[:5]
    own = torch.from_numpy(S[: len(rows)].astype(bool))
    scores, _, parts = poll_kernel(model.model_, rows, own, model.classes_, n_voters=60)
    for i, part in enumerate(parts):
        assert len(part["neighbors"]) == (59 if trained_on else 60)
        total = sum(np.array(list(ballot.values())) for ballot in part["ballots"])
        total = total + model.model_.intercept.numpy()[own[i]]
        np.testing.assert_allclose(total, scores[i][own[i]], atol=1e-6)


def test_a_twin_with_other_candidates_is_another_row():
    X, S, _ = make_blobs(40)
    X = np.concatenate([X, X[:1]])
    S = np.concatenate([S, 1 - S[:1]]) if S[0].sum() < 3 else np.concatenate([S, [[1, 0, 0]]])
    model = CleanSEKernelClassifier(random_state=0).fit(X, S)
    for row in (0, 40):
        [why] = model.explain(X[row : row + 1], S[row : row + 1])
        assert row not in why.neighbors
        assert 40 - row in why.neighbors


def test_confidences_of_training_rows_are_their_disambiguation(digits):
    X, S, *_ = digits
    for n_landmarks in (None, 60):
        model = CleanSEKernelClassifier(n_landmarks=n_landmarks, random_state=0).fit(X, S)
        proba = model.disambiguate(X, S, return_proba=True)[1]
        np.testing.assert_allclose(model.candidate_proba_, proba, atol=1e-4)


def test_a_class_that_is_nobodys_candidate_is_nobodys_choice(digits):
    X, S, y, *_ = digits
    wider = np.hstack([S, np.zeros((len(S), 1), dtype=S.dtype)])
    model = CleanSEKernelClassifier(random_state=0).fit(X, wider)
    asked = np.zeros_like(wider)
    asked[np.arange(len(S)), y] = 1
    asked[:, 10] = 1
    np.testing.assert_array_equal(model.disambiguate(X, asked), y)
    assert (model.predict(X) < 10).all()


def test_few_rounds_measure_the_dependence_too(digits):
    model = CleanSEKernelClassifier(max_iter=3).fit(*digits[:2])
    assert abs(model.dependence_) < 0.2
    assert model.count_strength_ == 1


def test_a_failed_fit_leaves_the_model_before_as_it_was(digits):
    X, S, _, X_test, _ = digits
    model = CleanSEKernelClassifier(random_state=0).fit(X, S)
    expected = model.predict_proba(X_test)
    with pytest.raises(MemoryError):
        model.set_params(max_memory=1e-6).fit(X[:, :5], S)
    np.testing.assert_array_equal(model.predict_proba(X_test), expected)


def test_the_network_explains_the_same_votes(digits):
    X, S, *_ = digits
    network = CleanSEClassifier(**QUICK).fit(X, S)
    [why] = network.explain(X[3:4], S[3:4])
    T = network.temperature
    np.testing.assert_allclose(why.weights, 1 + (T - 1) * why.votes, rtol=1e-5)
    assert "training row" in why._repr_html_()
    assert str(why).startswith("predicted: ")


def test_without_votes_there_is_nothing_to_explain(digits):
    X, S, *_ = digits
    network = CleanSEClassifier(temperature=1.0, **QUICK).fit(X, S)
    with pytest.raises(ValueError, match=r"no kernel votes are kept .temperature=1.0"):
        network.explain(X[:1])


# -- in the network ------------------------------------------------------------------------------


def test_temperature_one_without_counts_is_the_base_loss(digits):
    X, S, _, X_test, _ = digits
    off = CleanSEClassifier("proden", temperature=1.0, count_weight=0.0, **QUICK).fit(X, S)
    plain = PartialLabelClassifier("proden", **QUICK).fit(X, S)
    np.testing.assert_array_equal(off.predict_proba(X_test), plain.predict_proba(X_test))


def test_votes_lift_candidates_that_look_alike(digits):
    X, _, y, X_test, y_test = digits
    S = make_candidates(y, "instance", flip_proba=0.4, X=X, random_state=0)
    params = {"hidden_layer_sizes": (64,), "max_epochs": 15, "n_members": 1, "random_state": 0}
    voted = CleanSEClassifier("proden", kernel_share=0.0, **params).fit(X, S)
    plain = PartialLabelClassifier("proden", **params).fit(X, S)
    gain = (voted.predict(X_test) == y_test).mean() - (plain.predict(X_test) == y_test).mean()
    assert gain > 0.05


def test_the_kernels_share_is_a_geometric_mean(digits):
    X, S, _, X_test, _ = digits
    model = CleanSEClassifier(**QUICK).fit(X, S)
    kernel = CleanSEKernelClassifier().fit(X, S)
    assert model._kernel.count_strength == kernel.count_strength_ == 1
    both = model.predict_proba(X_test)
    network = model.set_params(kernel_share=0.0).predict_proba(X_test)
    alone = model.set_params(kernel_share=1.0).predict_proba(X_test)
    np.testing.assert_allclose(alone, kernel.predict_proba(X_test), atol=1e-6)
    product = np.sqrt(network * alone)
    np.testing.assert_allclose(both, product / product.sum(axis=1, keepdims=True), atol=1e-9)


def test_going_on_with_parts_of_the_rows_predicts_by_the_network_alone(digits):
    X, S, _, X_test, _ = digits
    model = CleanSEClassifier(**QUICK)
    model.partial_fit(X[:200], S[:200]).partial_fit(X[200:], S[200:])
    np.testing.assert_array_equal(
        model.predict_proba(X_test), model.set_params(kernel_share=0.0).predict_proba(X_test)
    )


def test_where_landmarks_stand_for_the_rows_the_network_predicts_alone(digits):
    X, S, _, X_test, _ = digits
    model = CleanSEClassifier(n_landmarks=50, **QUICK).fit(X, S)
    by_default = model.predict_proba(X_test)
    alone = model.set_params(kernel_share=0.0).predict_proba(X_test)
    np.testing.assert_array_equal(by_default, alone)
    both = model.set_params(kernel_share=0.5).predict_proba(X_test)  # still to be had
    assert (both != alone).any()


def test_a_row_that_weights_repeat_does_not_vote_on_itself():
    X, S, _ = make_blobs(60)
    once = CleanSEClassifier(**QUICK).fit(X, S)
    twice = CleanSEClassifier(**QUICK).fit(X, S, sample_weight=np.full(60, 2))
    assert twice.dependence_ == pytest.approx(once.dependence_, abs=1e-6)
    for one, other in zip(once.explain(X[:9], S[:9]), twice.explain(X[:9], S[:9]), strict=True):
        np.testing.assert_allclose(one.votes, other.votes, atol=1e-6)


def test_rows_left_out_or_held_out_have_confidences_too():
    X, S, _ = make_blobs(60)
    model = CleanSEClassifier(early_stopping=True, **QUICK)
    model.fit(X, S, sample_weight=np.arange(60) % 2)
    proba = model.disambiguate(X, S, return_proba=True)[1]
    np.testing.assert_allclose(model.candidate_proba_, proba, atol=1e-6)


@pytest.mark.parametrize(
    ("params", "temperatures"),
    [
        ({}, [3, 2.5, 2, 1.5]),
        ({"n_landmarks": 40}, [3, 2, 1, 1]),
        ({"n_landmarks": 40, "vote_start": 0.5}, [1, 1, 3, 1]),
        ({"n_landmarks": 40, "vote_end": 1.0}, [3, 2.5, 2, 1.5]),
        ({"n_landmarks": 40, "vote_end": None}, [3, 3, 3, 3]),
        ({"vote_end": 0.5}, [3, 2, 1, 1]),
    ],
)
def test_votes_of_landmarks_fade_in_half_the_time(params, temperatures, blobs, monkeypatch):
    seen, weigh = [], Calibration.weigh

    def note(self, confidences, candidates, votes, temperature=None):
        seen.append(temperature)
        return weigh(self, confidences, candidates, votes, temperature)

    monkeypatch.setattr(Calibration, "weigh", note)
    X, S, _ = blobs
    CleanSEClassifier(max_epochs=4, random_state=0, **params).fit(X, S)
    assert seen == pytest.approx([T for T in temperatures if T > 1])


def test_votes_that_would_never_count_are_refused(digits):
    with pytest.raises(ValueError, match=r"vote_end=0.2 is not after vote_start=0.5"):
        CleanSEClassifier(vote_start=0.5, vote_end=0.2, **QUICK).fit(*digits[:2])


def test_the_say_of_the_kernel_is_checked_when_it_is_used(digits):
    X, S, *_ = digits
    model = CleanSEClassifier(**QUICK).fit(X, S).set_params(kernel_share="much")
    with pytest.raises(ValueError, match="kernel_share is 'much'; it must be 'auto' or a number"):
        model.predict(X)


@pytest.mark.parametrize("name", ["dependence_", "count_strength_"])
def test_what_kernel_votes_measured_is_there_only_with_them(digits, name):
    X, S, *_ = digits
    expected = getattr(CleanSEKernelClassifier().fit(X, S), name)
    assert getattr(CleanSEClassifier(**QUICK).fit(X, S), name) == pytest.approx(expected, abs=1e-6)
    assert not hasattr(CleanSEClassifier(vote="soft", **QUICK).fit(X, S), name)


def test_images_are_voted_on_by_their_pixels(rng):
    y = np.arange(40) % 2
    X = rng.normal(size=(40, 1, 6, 6)).astype(np.float32) + y[:, None, None, None]
    S = make_candidates(y, "flip", flip_proba=0.5, random_state=0)
    params = {"module": "resnet34", "module_params": {"width": 2}, "max_epochs": 2}
    model = CleanSEClassifier(random_state=0, **params).fit(X, S)
    assert model.explain(X[:1], S[:1])[0].votes.sum() == pytest.approx(1.0)


# -- equal rows ----------------------------------------------------------------------------------


@pytest.mark.parametrize("n_landmarks", [None, 40])
@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_copies_of_all_rows_change_nothing_to_the_last_bit(form, n_landmarks):
    X, y = load_digits(return_X_y=True)
    X, y = X[:200], y[:200]
    X[::7, 3] = np.nan  # a gap equals a gap
    S = make_candidates(y, "flip", flip_proba=0.2, noise=0.2, random_state=0)
    params = {"noise": "auto", "n_landmarks": n_landmarks, "random_state": 0}
    once = CleanSEKernelClassifier(**params).fit(form(X), S)
    twice = CleanSEKernelClassifier(**params).fit(form(np.vstack([X, X])), np.vstack([S, S]))
    assert once.noise_ == twice.noise_ > 0
    np.testing.assert_array_equal(once.predict_proba(X), twice.predict_proba(X))
    for name in ("candidate_proba_", "left_out_proba_", "label_proba_"):
        for half in (slice(200), slice(200, None)):
            np.testing.assert_array_equal(getattr(twice, name)[half], getattr(once, name))


def test_equal_rows_with_other_candidates_vote_on_each_other():
    X = [[0.0], [0.0], [0.0], [5.0], [5.1], [5.2]]
    S = [{0}, {0, 1}, {0, 1}, {1}, {1}, {1}]
    model = CleanSEKernelClassifier().fit(X, S)
    assert model.n_landmarks_ == 5
    assert model.candidate_proba_[1, 0] > 0.9
    np.testing.assert_array_equal(model.candidate_proba_[1], model.candidate_proba_[2])


def test_a_table_of_one_row_again_and_again_is_fitted():
    model = CleanSEKernelClassifier().fit(np.ones((4, 2)), np.ones((4, 3)))
    np.testing.assert_allclose(model.candidate_proba_, 1 / 3)
