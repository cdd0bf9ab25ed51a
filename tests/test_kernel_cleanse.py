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
    with pytest.raises(MemoryError, match=r"400 samples with n_landmarks=400 need about .* GiB"):
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


def test_what_voters_say_adds_up_to_the_score(digits):
    """With all rows shown, what they say of a new row and the mean make the prediction."""
    X, S, _, X_test, _ = digits
    model = CleanSEKernelClassifier(random_state=0).fit(X[:60], S[:60])
    own = torch.ones(1, 10, dtype=torch.bool)
    scores, _, [part] = poll_kernel(model.model_, X_test[:1], own, model.classes_, n_voters=60)
    total = sum(np.array(list(ballot.values())) for ballot in part["ballots"])
    np.testing.assert_allclose(total + model.model_.intercept.numpy(), scores[0], atol=1e-6)


def test_the_network_explains_the_same_votes(digits):
    X, S, *_ = digits
    network = CleanSEClassifier(**QUICK).fit(X, S)
    [why] = network.explain(X[3:4], S[3:4])
    T = network.temperature
    np.testing.assert_allclose(why.weights, (1 + (T - 1) * why.votes) / T, rtol=1e-5)
    assert "training row" in why._repr_html_()
    assert str(why).startswith("predicted: ")


def test_without_votes_there_is_nothing_to_explain(digits):
    X, S, *_ = digits
    network = CleanSEClassifier(temperature=1.0, **QUICK).fit(X, S)
    with pytest.raises(ValueError, match=r"no votes are kept .temperature=1.0"):
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


def test_weights_that_repeat_rows_are_rows_that_are_repeated():
    X, S, _ = make_blobs(60)
    weight = np.arange(60) % 3
    repeated = np.repeat(np.arange(60), weight)
    one = CleanSEClassifier(**QUICK).fit(X, S, sample_weight=weight)
    other = CleanSEClassifier(**QUICK).fit(X[repeated], S[repeated])
    np.testing.assert_allclose(one.predict_proba(X), other.predict_proba(X), atol=1e-6)


def test_images_are_voted_on_by_their_pixels(rng):
    y = np.arange(40) % 2
    X = rng.normal(size=(40, 1, 6, 6)).astype(np.float32) + y[:, None, None, None]
    S = make_candidates(y, "flip", flip_proba=0.5, random_state=0)
    params = {"module": "resnet34", "module_params": {"width": 2}, "max_epochs": 2}
    model = CleanSEClassifier(random_state=0, **params).fit(X, S)
    assert model.explain(X[:1], S[:1])[0].votes.sum() == pytest.approx(1.0)
