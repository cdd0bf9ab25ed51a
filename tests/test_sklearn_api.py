"""Every public estimator is a scikit-learn citizen, with a candidate matrix as y."""

import inspect
import pickle

import joblib
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import sklearn
import torch
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, KFold, cross_val_predict, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import check_random_state
from sklearn.utils.estimator_checks import parametrize_with_checks

import sklearn_cleanse
from sklearn_cleanse import CleanSEClassifier, PartialLabelClassifier

CV = KFold(3, shuffle=True, random_state=0)
QUICK = {"hidden_layer_sizes": (16,), "max_epochs": 5, "random_state": 0}

ESTIMATORS = [
    value
    for name, value in inspect.getmembers(sklearn_cleanse, inspect.isclass)
    if name.endswith("Classifier")
]


def quick(cls, **params):
    known = inspect.signature(cls).parameters
    defaults = {"hidden_layer_sizes": (16,), "max_epochs": 8, "max_iter": 20, "random_state": 0}
    return cls(**{**{k: v for k, v in defaults.items() if k in known}, **params})


@parametrize_with_checks([quick(cls) for cls in ESTIMATORS])
def test_scikit_learns_own_checks(estimator, check):
    check(estimator)


@pytest.mark.parametrize("cls", ESTIMATORS)
def test_cross_validation_with_a_candidate_matrix(cls, blobs):
    X, S, y = blobs
    assert (cross_val_score(quick(cls), X, S, cv=CV) > 0.8).all()
    assert (cross_val_predict(quick(cls), X, S, cv=CV) == y).mean() > 0.8
    proba = cross_val_predict(quick(cls), X, S, cv=CV, method="predict_proba")
    np.testing.assert_allclose(proba.sum(axis=1), 1)


@pytest.mark.parametrize("cls", ESTIMATORS)
def test_true_labels_score_through_metadata_routing(cls, blobs):
    X, S, y = blobs
    with sklearn.config_context(enable_metadata_routing=True):
        estimator = quick(cls).set_score_request(truth=True)
        by_truth = cross_val_score(estimator, X, S, cv=CV, params={"truth": y})
    expected = [
        np.mean(quick(cls).fit(X[train], S[train]).predict(X[test]) == y[test])
        for train, test in CV.split(X)
    ]
    np.testing.assert_allclose(by_truth, expected)


def test_grid_search_over_the_calibration(blobs):
    X, S, _ = blobs
    grid = {"temperature": [1.0, 3.0], "count_weight": [0.0, 1e-2]}
    search = GridSearchCV(CleanSEClassifier(**QUICK), grid, cv=CV).fit(X, S)
    assert len(search.cv_results_["params"]) == 4
    assert search.best_params_ in search.cv_results_["params"]
    assert search.best_estimator_.score(X, S) > 0.8


def test_loss_parameters_can_be_searched(blobs):
    X, S, _ = blobs
    grid = {"loss_params": [{"beta": 0.0}, {"beta": 2.0}]}
    search = GridSearchCV(PartialLabelClassifier("lws", **QUICK), grid, cv=CV).fit(X, S)
    assert set(search.best_params_["loss_params"]) == {"beta"}


@pytest.mark.parametrize("cls", ESTIMATORS)
def test_pipeline_clone_and_set_params(cls, blobs):
    X, S, _ = blobs
    pipeline = make_pipeline(StandardScaler(), quick(cls)).fit(X, S)
    again = clone(pipeline).fit(X, S)
    np.testing.assert_array_equal(pipeline.predict_proba(X), again.predict_proba(X))
    step = cls.__name__.lower()
    name = sorted(pipeline[-1].get_params())[0]
    changed = pipeline.set_params(**{f"{step}__{name}": "another"})
    assert getattr(changed[-1], name) == "another"


@pytest.mark.parametrize("cls", ESTIMATORS)
def test_pickle_and_joblib_give_the_same_predictions(cls, blobs, tmp_path):
    X, S, _ = blobs
    estimator = quick(cls).fit(X, S)
    expected = estimator.predict_proba(X)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(estimator)).predict_proba(X), expected)
    joblib.dump(estimator, tmp_path / "model.joblib")
    np.testing.assert_array_equal(joblib.load(tmp_path / "model.joblib").predict_proba(X), expected)


@pytest.mark.parametrize("cls", ESTIMATORS)
def test_every_form_of_candidates_trains_the_same_model(cls, blobs):
    X, S, _ = blobs
    names = np.array(["ant", "bee", "cat"])
    expected = quick(cls).fit(X, S)
    forms = [
        S.astype(bool),
        S.astype(float),
        sp.csr_matrix(S),
        sp.coo_array(S),
        pd.DataFrame(S, columns=names),
        [set(names[row > 0]) for row in S],
    ]
    for form in forms:
        got = quick(cls).fit(X, form)
        np.testing.assert_array_equal(got.predict_proba(X), expected.predict_proba(X))
        if len(got.classes_) and isinstance(got.classes_[0], str):
            np.testing.assert_array_equal(got.predict(X), names[expected.predict(X)])
        assert got.score(X, form) == expected.score(X, S)


@pytest.mark.parametrize("cls", ESTIMATORS)
def test_frames_in(cls, blobs):
    X, S, _ = blobs
    frame = pd.DataFrame(X, columns=list("abcd"))
    estimator = quick(cls).fit(frame, pd.DataFrame(S, columns=["ant", "bee", "cat"]))
    assert estimator.feature_names_in_.tolist() == list("abcd")
    assert set(estimator.predict(frame)) <= {"ant", "bee", "cat"}
    with pytest.raises(ValueError, match="feature names"):
        estimator.predict(frame.rename(columns={"a": "z"}))


@pytest.mark.parametrize("cls", ESTIMATORS)
def test_one_dimensional_labels_make_an_ordinary_classifier(cls, blobs):
    X, _, y = blobs
    estimator = quick(cls).fit(X, y)
    assert estimator.score(X, y) > 0.9
    np.testing.assert_array_equal(estimator.disambiguate(X, y), y)


@pytest.mark.parametrize("cls", ESTIMATORS)
def test_classes_that_never_occur_survive(cls, blobs):
    X, S, _ = blobs
    wide = np.hstack([S, np.zeros((len(S), 1), dtype=int)])
    estimator = quick(cls).fit(X, wide)
    assert estimator.classes_.tolist() == [0, 1, 2, 3]
    assert estimator.predict_proba(X).shape == (len(X), 4)


def global_numpy_state():
    return np.array(check_random_state(None).get_state()[1])


@pytest.mark.parametrize("cls", ESTIMATORS)
def test_same_seed_same_predictions_and_untouched_generators(cls, blobs):
    X, S, _ = blobs
    numpy_before, torch_before = global_numpy_state(), torch.get_rng_state()
    first = quick(cls).fit(X, S).predict_proba(X)
    second = quick(cls).fit(X, S).predict_proba(X)
    np.testing.assert_array_equal(first, second)
    np.testing.assert_array_equal(global_numpy_state(), numpy_before)
    assert torch.equal(torch.get_rng_state(), torch_before)


@pytest.mark.parametrize("cls", ESTIMATORS)
def test_disambiguation_stays_inside_the_candidates(cls, blobs):
    X, S, y = blobs
    estimator = quick(cls).fit(X, S)
    labels, proba = estimator.disambiguate(X, S, return_proba=True)
    assert (S[np.arange(len(X)), labels] == 1).all()
    assert (proba[S == 0] == 0).all()
    np.testing.assert_allclose(proba.sum(axis=1), 1)
    assert (labels == y).mean() > 0.8


@pytest.mark.parametrize("cls", ESTIMATORS)
def test_score_is_accuracy_with_truth_and_covering_rate_without(cls, blobs):
    X, S, y = blobs
    estimator = quick(cls).fit(X, S)
    predicted = estimator.predict(X)
    assert estimator.score(X, S, truth=y) == np.mean(predicted == y)
    assert estimator.score(X, y) == np.mean(predicted == y)
    assert estimator.score(X, S) == S[np.arange(len(X)), predicted].mean()
    weight = np.arange(len(X), dtype=float)
    assert estimator.score(X, S, sample_weight=weight) == pytest.approx(
        np.average(S[np.arange(len(X)), predicted], weights=weight)
    )


@pytest.mark.parametrize("cls", ESTIMATORS)
def test_score_takes_every_form_and_labels_that_training_never_saw(cls, blobs):
    X, S, _ = blobs
    names = np.array([5, 7, 9])
    lists = [names[row > 0].tolist() for row in S]
    estimator = quick(cls).fit(X, lists)
    expected = estimator.score(X, [set(row) for row in lists])
    assert estimator.score(X, lists) == expected
    assert estimator.score(X, [tuple(row) for row in lists]) == expected
    assert estimator.score(X, [{*row, 11} for row in lists]) == expected


@pytest.mark.parametrize("cls", ESTIMATORS)
def test_truth_sent_to_fit_is_explained(cls, blobs):
    X, S, y = blobs
    with pytest.raises(TypeError, match="enable_metadata_routing=True"):
        quick(cls).fit(X, S, truth=y)


@pytest.mark.parametrize("cls", ESTIMATORS)
def test_true_labels_cannot_enter_fit(cls):
    assert set(inspect.signature(cls.fit).parameters) <= {"self", "X", "y", "sample_weight"}
