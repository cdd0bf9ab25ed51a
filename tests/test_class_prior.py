"""Predictions for other class shares than those of the training rows."""

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.metrics import balanced_accuracy_score

from sklearn_cleanse import CleanSEClassifier, CleanSEKernelClassifier, PartialLabelClassifier
from sklearn_cleanse.datasets import long_tail_rows, make_candidates
from sklearn_cleanse.metrics import balanced_truth_scorer, truth_scorer

SMALL = {"max_epochs": 5, "hidden_layer_sizes": (100,), "n_members": 1, "random_state": 0}
MODELS = {
    "kernel": CleanSEKernelClassifier(random_state=0),
    "cleanse": CleanSEClassifier(**SMALL),
    "cc": PartialLabelClassifier("cc", **SMALL),
}


@pytest.fixture(scope="module")
def tail():
    """Digits whose classes get ever rarer, and balanced new ones: X, S, y, X_new, y_new."""
    X, y = load_digits(return_X_y=True)
    rows = long_tail_rows(y[:900], 20, random_state=0)
    S = make_candidates(y[rows], "flip", flip_proba=0.2, classes=range(10), random_state=0)
    return X[rows], S, y[rows], X[900:], y[900:]


@pytest.fixture(params=MODELS, scope="module")
def model(request, tail):
    return MODELS[request.param].fit(*tail[:2])


@pytest.fixture(autouse=True)
def no_prior(model):
    yield
    model.set_params(class_prior=None)


def test_shares_are_those_of_the_training_rows(model, tail):
    _, _, y, _, _ = tail
    assert model.class_shares_.sum() == pytest.approx(1)
    np.testing.assert_allclose(model.class_shares_, np.bincount(y) / len(y), atol=0.05)


def test_even_shares_help_rare_classes(model, tail):
    *_, X_new, y_new = tail
    before = balanced_accuracy_score(y_new, model.predict(X_new))
    model.set_params(class_prior="uniform")
    assert balanced_accuracy_score(y_new, model.predict(X_new)) > before
    proba = model.predict_proba(X_new)
    np.testing.assert_allclose(proba.sum(axis=1), 1)
    np.testing.assert_array_equal(model.classes_[proba.argmax(axis=1)], model.predict(X_new))
    np.testing.assert_allclose(np.exp(model.predict_log_proba(X_new)), proba)


def test_a_class_that_does_not_occur_is_never_predicted(model, tail):
    X_new = tail[3]
    model.set_params(class_prior=[0, *[1] * 9])
    assert (model.predict_proba(X_new)[:, 0] == 0).all()
    assert 0 not in model.predict(X_new)


def test_disambiguation_does_not_ask_for_the_prior(model, tail):
    X, S, *_ = tail
    before = model.disambiguate(X, S, return_proba=True)[1]
    model.set_params(class_prior="uniform")
    np.testing.assert_array_equal(model.disambiguate(X, S, return_proba=True)[1], before)


@pytest.mark.parametrize("prior", [[1, 1], [-1] * 10, [0] * 10, [np.nan] * 10])
def test_what_is_no_prior_is_refused(model, tail, prior):
    model.set_params(class_prior=prior)
    with pytest.raises(ValueError, match=r"class_prior is .*; it must be None, 'uniform', or 10"):
        model.predict(tail[3])
    with pytest.raises(ValueError, match="class_prior is"):
        model.fit(*tail[:2])


def test_balanced_accuracy_is_a_scorer(model, tail):
    *_, X_new, y_new = tail
    some = y_new < 4  # classes that do not occur do not count
    for rows in (slice(None), some):
        expected = np.mean(
            [(model.predict(X_new[rows])[y_new[rows] == c] == c).mean() for c in set(y_new[rows])]
        )
        S = np.ones((len(y_new[rows]), 10))
        found = balanced_truth_scorer(model, X_new[rows], S, truth=y_new[rows])
        assert found == pytest.approx(expected)
    assert truth_scorer(model, X_new, y_new, truth=y_new) != found
