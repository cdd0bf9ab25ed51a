"""One disambiguation: `disambiguate`, displays and scorer agree, whatever the classifier."""

import matplotlib as mpl
import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_digits
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler
from test_sklearn_api import ESTIMATORS, quick

from sklearn_cleanse import DPCLSClassifier, PLCGRClassifier
from sklearn_cleanse.datasets import make_candidates
from sklearn_cleanse.metrics import covering_scorer, disambiguation_scorer
from sklearn_cleanse.metrics._predictions import candidate_proba
from sklearn_cleanse.model_selection import CandidateKFold
from sklearn_cleanse.plots import DisambiguationDisplay, ReliabilityDisplay

mpl.use("Agg")


@pytest.fixture(autouse=True)
def close():
    yield
    mpl.pyplot.close("all")


@pytest.fixture(scope="module")
def digits():
    """Digits to train on, and others whose candidates often exclude what is predicted."""
    X, y = load_digits(return_X_y=True)
    X, X_test, y, y_test = train_test_split(X, y, train_size=300, test_size=150, random_state=0)
    S = make_candidates(y, kind="flip", flip_proba=0.3, random_state=0)
    S_test = make_candidates(y_test, kind="flip", flip_proba=0.3, noise=0.5, random_state=1)
    return X, S, y, X_test, S_test, y_test


def check_agreement(model, labels, proba, X, S, y):
    """Assert that scorer and displays say what ``labels`` and ``proba`` say."""
    n_classes = len(model.classes_)
    assert disambiguation_scorer(model, X, S, truth=y) == np.mean(labels == y)
    for row in range(len(X)):  # by rows, so that mistakes cannot cancel
        one = slice(row, row + 1)
        assert disambiguation_scorer(model, X[one], S[one], truth=labels[one]) == 1
    expected = np.zeros((n_classes, n_classes), dtype=int)
    np.add.at(expected, (y, labels), 1)
    display = DisambiguationDisplay.from_estimator(model, X, S, y)
    np.testing.assert_array_equal(display.matrix, expected)
    for threshold in (10, 1000):  # so fine a grid that a bin is nearly a row
        given = {"n_bins": threshold, "sample_weight": np.arange(1, len(X) + 1)}
        curve = ReliabilityDisplay.from_estimator(model, X, S, y, restrict=True, **given)
        top = proba.max(axis=1)
        place = np.minimum((top * threshold).astype(int), threshold - 1)
        weight = np.bincount(place, given["sample_weight"])
        mean = np.bincount(place, given["sample_weight"] * top)
        rate = np.bincount(place, given["sample_weight"] * (labels == y))
        full = weight > 0
        np.testing.assert_allclose(curve.confidence, mean[full] / weight[full], rtol=1e-12)
        np.testing.assert_allclose(curve.rate, rate[full] / weight[full], rtol=1e-12)


@pytest.mark.parametrize("cls", ESTIMATORS)
def test_estimator_display_and_scorer_agree(cls, digits):
    X, S, _, X_test, S_test, y_test = digits
    model = quick(cls).fit(X, S)
    labels, proba = model.disambiguate(X_test, S_test, return_proba=True)
    excluded = ~S_test[np.arange(len(X_test)), model.predict(X_test)]
    assert excluded.mean() > 0.2
    assert S_test[np.arange(len(X_test)), labels].all()
    np.testing.assert_array_equal(model.disambiguate(X_test, S_test), labels)
    np.testing.assert_array_equal(candidate_proba(model, X_test, S_test).toarray(), proba)
    check_agreement(model, labels, proba, X_test, S_test, y_test)


@pytest.mark.parametrize("plain", [LogisticRegression(max_iter=2000), GaussianNB()])
def test_an_ordinary_classifier_is_restricted_to_the_candidates(plain, digits):
    X, _, y, X_test, S_test, y_test = digits
    model = plain.fit(X / 16, y)
    X_test = X_test / 16
    proba = candidate_proba(model, X_test, S_test).toarray()
    log_proba = np.where(S_test, model.predict_log_proba(X_test), -np.inf)
    expected = np.exp(log_proba - log_proba.max(axis=1, keepdims=True))
    expected /= expected.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(proba, expected, rtol=1e-9)
    labels = log_proba.argmax(axis=1)
    check_agreement(model, labels, proba, X_test, S_test, y_test)


@pytest.mark.parametrize("cls", [PLCGRClassifier, DPCLSClassifier])
def test_pipelines_and_searches_ask_the_estimator_inside(cls, digits):
    X, S, _, X_test, S_test, y_test = digits
    pipeline = make_pipeline(MinMaxScaler(), quick(cls))
    grid = {f"{cls.__name__.lower()}__ridge": [0.1]}
    search = GridSearchCV(
        pipeline, grid, scoring=covering_scorer, cv=CandidateKFold(2, random_state=0)
    ).fit(X, S)
    inner, scaled = search.best_estimator_[-1], search.best_estimator_[0].transform(X_test)
    labels, proba = inner.disambiguate(scaled, S_test, return_proba=True)
    through = candidate_proba(search, X_test, S_test).toarray()
    np.testing.assert_array_equal(through, proba)
    assert disambiguation_scorer(search, X_test, S_test, truth=y_test) == np.mean(labels == y_test)
    alone = make_pipeline(inner)
    np.testing.assert_array_equal(candidate_proba(alone, scaled, S_test).toarray(), proba)


def test_candidates_that_were_not_in_fit_have_no_say_beside_others(digits):
    X, S, _, X_test, S_test, y_test = digits
    model = PLCGRClassifier().fit(X, S)
    sets = [set(np.flatnonzero(row).tolist()) for row in S_test]
    more = [row | {99} for row in sets]
    score = disambiguation_scorer(model, X_test, more, truth=y_test)
    assert score == disambiguation_scorer(model, X_test, sets, truth=y_test)
    assert disambiguation_scorer(model, X_test[:1], [{98, 99}], truth=[98]) == 1
    with pytest.raises(ValueError, match="row 0 has the label 99"):
        model.disambiguate(X_test, more)


def test_confidences_keep_an_entry_for_every_candidate(digits):
    X, S, _, X_test, S_test, _ = digits
    for cls in ESTIMATORS:
        proba = candidate_proba(quick(cls).fit(X, S), X_test, S_test)
        assert isinstance(proba, sp.csr_array)
        assert proba.nnz == S_test.sum()


def test_an_unfitted_classifier_is_named():
    with pytest.raises(NotFittedError, match="PLCGRClassifier"):
        PLCGRClassifier().disambiguate([[0.0]], [[1, 1]])
