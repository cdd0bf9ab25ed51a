"""Predictions for other class shares than those of the training rows."""

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.datasets import load_digits, load_iris
from sklearn.metrics import balanced_accuracy_score

from sklearn_cleanse import CleanSEClassifier, CleanSEKernelClassifier, PartialLabelClassifier, load
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
def fitted(request, tail):
    return MODELS[request.param].fit(*tail[:2])


@pytest.fixture
def model(fitted):
    yield fitted
    fitted.set_params(class_prior=None)


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


def _small(model):
    return clone(MODELS[model]).set_params(class_prior=None)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("column", [None, "empty"])
def test_own_shares_change_nothing(name, column):
    X, y = load_iris(return_X_y=True)
    S = make_candidates(y, "flip", flip_proba=0.3, random_state=0)
    if column == "empty":
        S = np.hstack([S, np.zeros((len(S), 1), dtype=S.dtype)])
    model = _small(name).fit(X, S)
    before = model.predict_proba(X)
    model.set_params(class_prior=model.class_shares_)
    np.testing.assert_allclose(model.predict_proba(X), before, atol=1e-7)


@pytest.mark.parametrize("name", MODELS)
def test_uniform_leaves_a_class_without_candidates_out(name):
    rng = np.random.RandomState(0)
    n = 20_000 if name == "kernel" else 2_000
    y = rng.randint(2, size=n)
    X = y[:, None] + rng.normal(size=(n, 2))
    S = np.column_stack([y == 0, y == 1, np.zeros(n, dtype=bool)])
    model = _small(name)
    model.set_params(**({"n_landmarks": 30} if name == "kernel" else {"max_epochs": 2}))
    model.fit(X, S)
    assert model.class_shares_[2] == 0
    before = model.predict(X[:2000])
    model.set_params(class_prior="uniform")
    after = model.predict(X[:2000])
    assert 2 not in after
    assert (after == before).mean() > 0.97


def test_uniform_gives_the_kernel_a_rare_class_only_where_it_is():
    rng = np.random.RandomState(0)
    y = np.where(np.arange(5000) < 10, 2, rng.randint(2, size=5000))
    X = np.eye(3)[y] + 0.2 * rng.normal(size=(5000, 3))
    model = CleanSEKernelClassifier(n_landmarks=100, class_prior="uniform", random_state=0)
    predicted = model.fit(X, y).predict(X)
    assert ((predicted == 2) & (y != 2)).mean() < 0.05


@pytest.mark.parametrize("kind", [dict, pd.Series])
def test_named_shares_are_taken_by_label(kind, tmp_path):
    X, y = load_iris(return_X_y=True)
    names = np.array(["a", "b", "c"])[y]
    model = CleanSEKernelClassifier(class_prior=[0.1, 0.2, 0.7]).fit(X, names)
    expected = model.predict_proba(X)
    model.set_params(class_prior=kind({"c": 7, "a": 1, "b": 2}))
    np.testing.assert_allclose(model.predict_proba(X), expected)
    again = load(model.save(tmp_path / "model") and tmp_path / "model")
    assert again.class_prior == [1, 2, 7]
    np.testing.assert_allclose(again.predict_proba(X), expected)
    clone(model).fit(X, names)
    for given, said in [
        ({"a": 1, "b": 2, "d": 7}, "names 'd', which is no class and has no share for 'c'"),
        ({"a": 1, "b": 2}, "has no share for 'c'"),
    ]:
        with pytest.raises(ValueError, match=said):
            model.set_params(class_prior=kind(given)).predict(X)


def test_a_series_that_names_a_class_twice_is_refused():
    prior = pd.Series([1, 1, 1], index=[0, 1, 1])
    with pytest.raises(ValueError, match="more than once"):
        CleanSEKernelClassifier(class_prior=prior).fit([[0.0], [1.0]], [0, 1])


@pytest.mark.parametrize("prior", ["foo", ["a", "b"], {0: "a", 1: 1}])
def test_words_are_no_shares(prior):
    model = CleanSEKernelClassifier().fit([[0.0], [1.0]], [0, 1])
    with pytest.raises(ValueError, match=r"class_prior is .*; it must be None, 'uniform'"):
        model.set_params(class_prior=prior).predict([[0.0]])


@pytest.mark.parametrize("name", ["cleanse", "cc"])
def test_shares_weigh_rows(name):
    X, y = load_iris(return_X_y=True)
    model = _small(name).set_params(max_epochs=1)
    for weight in (np.array([4, 1, 0])[y], np.array([4.0, 1.0, 0.0])[y] / 3):
        found = model.fit(X, y, sample_weight=weight).class_shares_
        np.testing.assert_allclose(found, [0.8, 0.2, 0], atol=0.02)


@pytest.mark.parametrize("name", ["cleanse", "cc"])
def test_shares_add_up_over_calls(name, tmp_path):
    X, y = load_iris(return_X_y=True)
    model = _small(name)
    for label in range(3):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # the optimiser's state is not kept
            model.partial_fit(X[y == label], y[y == label], classes=[0, 1, 2])
        model = load(model.save(tmp_path / "model") and tmp_path / "model")
        model = pickle.loads(pickle.dumps(model.drop_training_state()))
    np.testing.assert_allclose(model.class_shares_, [1 / 3] * 3, atol=1e-6)
    model.fit(X[y < 2], np.eye(3)[y[y < 2]].astype(bool))
    np.testing.assert_allclose(model.class_shares_, [0.5, 0.5, 0], atol=1e-6)


@pytest.mark.parametrize("name", ["kernel", "cleanse"])
def test_shares_look_outside_sets_that_may_be_wrong(name):
    X, y = load_iris(return_X_y=True)
    wrong = (y == 2) & (np.arange(len(y)) % 5 < 2)
    labels = np.where(wrong, 0, y)
    shares = {}
    for noise in (0.0, 0.15):
        shares[noise] = _small(name).set_params(noise=noise).fit(X, labels).class_shares_
    np.testing.assert_allclose(shares[0.0], np.bincount(labels) / len(y), atol=0.02)
    assert abs(shares[0.15][2] - 1 / 3) < 0.6 * abs(shares[0.0][2] - 1 / 3)
