"""All estimators are scikit-learn classifiers with a candidate matrix as y."""

import inspect
import pickle
import warnings

import joblib
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import sklearn
import torch
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.metrics import balanced_accuracy_score
from sklearn.model_selection import GridSearchCV, KFold, cross_val_predict, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import check_random_state
from sklearn.utils.estimator_checks import parametrize_with_checks

import sklearn_cleanse
from sklearn_cleanse import (
    CleanSEClassifier,
    CleanSEKernelClassifier,
    NeighborVoter,
    PartialLabelClassifier,
)
from sklearn_cleanse.losses import LOSSES, Loss

CV = KFold(3, shuffle=True, random_state=0)
QUICK = {"hidden_layer_sizes": (16,), "max_epochs": 8, "random_state": 0}
ESTIMATORS = [
    getattr(sklearn_cleanse, name)
    for name in sklearn_cleanse.__all__
    if name.endswith("Classifier")
]
NETWORKS = [CleanSEClassifier, PartialLabelClassifier]


def quick(cls, **params):
    known = inspect.signature(cls).parameters
    defaults = {**QUICK, "max_iter": 20}
    return cls(**{**{k: v for k, v in defaults.items() if k in known}, **params})


def expected_failures(estimator):
    """Batches and shuffling depend on the number of rows, as in scikit-learn's own networks."""
    reason = "stochastic training in batches: a row of weight 2 is not two rows"
    checks = ("on_dense_data", "on_sparse_data")
    names = {f"check_sample_weight_equivalence_{kind}": reason for kind in checks}
    return names if type(estimator) in NETWORKS else {}


@parametrize_with_checks(
    [quick(cls) for cls in ESTIMATORS], expected_failed_checks=expected_failures
)
@pytest.mark.filterwarnings("ignore:invalid value encountered in cast")  # a check of infinite y
def test_scikit_learns_own_checks(estimator, check):
    check(estimator)


def test_the_networks_have_the_parameters_of_the_design():
    counts = {cls: len(inspect.signature(cls).parameters) for cls in ESTIMATORS}
    assert counts[CleanSEClassifier] == 27
    assert counts[PartialLabelClassifier] == 20
    cleanse, plain = (list(inspect.signature(cls).parameters) for cls in NETWORKS)
    assert [name for name in cleanse if name in plain] == plain


@pytest.mark.parametrize("cls", ESTIMATORS)
def test_cross_validation_with_a_candidate_matrix(cls, blobs):
    X, S, y = blobs
    assert (cross_val_score(quick(cls), X, S, cv=CV) > 0.8).all()
    proba = cross_val_predict(quick(cls), X, S, cv=CV, method="predict_proba")
    np.testing.assert_allclose(proba.sum(axis=1), 1)
    assert (proba.argmax(axis=1) == y).mean() > 0.8


@pytest.mark.parametrize("cls", ESTIMATORS)
def test_true_labels_score_through_metadata_routing(cls, blobs):
    X, S, y = blobs
    with sklearn.config_context(enable_metadata_routing=True):
        estimator = quick(cls).set_score_request(truth=True)
        found = cross_val_score(estimator, X, S, cv=CV, params={"truth": y})
    expected = [
        np.mean(quick(cls).fit(X[train], S[train]).predict(X[test]) == y[test])
        for train, test in CV.split(X)
    ]
    np.testing.assert_allclose(found, expected)
    with pytest.raises(TypeError, match="enable_metadata_routing=True"):
        quick(cls).fit(X, S, truth=y)
    assert set(inspect.signature(cls.fit).parameters) <= {"self", "X", "y", "sample_weight"}


@pytest.mark.parametrize(
    ("estimator", "grid"),
    [
        (
            CleanSEClassifier(voter=NeighborVoter(), **QUICK),
            {"voter__n_neighbors": [5, 10], "temperature": [1, 3], "count_weight": [0, 1e-3]},
        ),
        (PartialLabelClassifier(**QUICK), {"loss": [Loss("lws", beta=0), Loss("lws", beta=2)]}),
        (
            CleanSEClassifier(voter=CleanSEKernelClassifier(), **QUICK),
            {"voter__count_strength": [0, 1]},
        ),
    ],
)
def test_grid_search(estimator, grid, blobs):
    X, S, _ = blobs
    search = GridSearchCV(estimator, grid, cv=CV).fit(X, S)
    assert set(search.best_params_) == set(grid)
    assert search.best_estimator_.score(X, S) > 0.8


@pytest.mark.parametrize("cls", ESTIMATORS)
def test_same_seed_same_predictions_also_of_pipelines_clones_and_pickles(cls, blobs, tmp_path):
    X, S, _ = blobs
    pipeline = make_pipeline(StandardScaler(), quick(cls)).fit(X, S)
    expected = pipeline.predict_proba(X)
    joblib.dump(pipeline, tmp_path / "model.joblib")
    for again in (
        clone(pipeline).fit(X, S),
        pickle.loads(pickle.dumps(pipeline)),
        joblib.load(tmp_path / "model.joblib"),
    ):
        np.testing.assert_array_equal(again.predict_proba(X), expected)


@pytest.mark.parametrize("cls", ESTIMATORS)
def test_every_form_of_candidates_trains_the_same_model(cls, blobs):
    X, S, _ = blobs
    names = np.array(["ant", "bee", "cat"])
    expected = quick(cls).fit(X, S)
    forms = [
        S.astype(bool),
        S.astype(float),
        sp.coo_array(S),
        pd.DataFrame(S, columns=names),
        [set(names[row > 0]) for row in S],
    ]
    for form in forms:
        got = quick(cls).fit(X, form)
        np.testing.assert_array_equal(got.predict_proba(X), expected.predict_proba(X))
        if isinstance(got.classes_[0], str):
            np.testing.assert_array_equal(got.predict(X), names[expected.predict(X)])
        assert got.score(X, form) == expected.score(X, S)
        assert isinstance(got.candidate_proba_, np.ndarray)


@pytest.mark.parametrize("cls", ESTIMATORS)
def test_frames_labels_and_classes_that_never_occur(cls, blobs):
    X, S, y = blobs
    frame = pd.DataFrame(X, columns=list("abcd"))
    estimator = quick(cls).fit(frame, pd.DataFrame(S, columns=["ant", "bee", "cat"]))
    assert estimator.feature_names_in_.tolist() == list("abcd")
    assert set(estimator.predict(frame)) <= {"ant", "bee", "cat"}
    ordinary = quick(cls).fit(X, y)
    assert ordinary.score(X, y) > 0.9
    np.testing.assert_array_equal(ordinary.disambiguate(X, y), y)
    wide = quick(cls).fit(X, np.hstack([S, np.zeros((len(S), 1), dtype=int)]))
    assert wide.classes_.tolist() == [0, 1, 2, 3]
    assert wide.predict_proba(X).shape == (len(X), 4)


def global_numpy_state():
    return np.array(check_random_state(None).get_state()[1])


@pytest.mark.parametrize("cls", ESTIMATORS)
def test_global_generators_are_left_alone(cls, blobs):
    X, S, _ = blobs
    numpy_before, torch_before = global_numpy_state(), torch.get_rng_state()
    quick(cls).fit(X, S).predict_proba(X)
    np.testing.assert_array_equal(global_numpy_state(), numpy_before)
    assert torch.equal(torch.get_rng_state(), torch_before)


@pytest.mark.parametrize("cls", ESTIMATORS)
def test_disambiguation_stays_inside_the_candidates(cls, blobs):
    X, S, y = blobs
    model = quick(cls).fit(X, S)
    labels, proba = model.disambiguate(X, S, return_proba=True)
    assert (S[np.arange(len(X)), labels] == 1).all()
    for found in (proba, model.candidate_proba_):
        assert (found[S == 0] == 0).all()
        np.testing.assert_allclose(found.sum(axis=1), 1)
    assert (labels == y).mean() > 0.8
    with pytest.raises(ValueError, match="120"):
        model.disambiguate(X, S[:1])


@pytest.mark.parametrize("cls", ESTIMATORS)
def test_score_is_accuracy_with_truth_and_covering_rate_without(cls, blobs):
    X, S, y = blobs
    estimator = quick(cls).fit(X, S)
    predicted = estimator.predict(X)
    covered = S[np.arange(len(X)), predicted]
    assert estimator.score(X, S, truth=y) == estimator.score(X, y) == np.mean(predicted == y)
    assert estimator.score(X, S) == covered.mean()
    weight = np.arange(len(X), dtype=float)
    found = estimator.score(X, S, sample_weight=weight)
    assert found == pytest.approx(np.average(covered, weights=weight))
    lists = [{*np.flatnonzero(row).tolist(), 11} for row in S]  # 11: seen in no training row
    assert estimator.score(X, lists) == covered.mean()


PRIOR = [cls for cls in ESTIMATORS if "class_prior" in inspect.signature(cls).parameters]


@pytest.mark.parametrize("cls", PRIOR)
def test_prior_weights_decide_where_features_do_not(cls, blobs):
    X, S, _ = blobs
    X, S = np.vstack([X, X[:1] * 0]), np.vstack([S, [[1, 1, 0]]]).astype(float)
    found = []
    for weights in ([0.9, 0.1], [0.1, 0.9]):
        S[-1, :2] = weights
        found.append(quick(cls).fit(X, S).candidate_proba_[-1, 0])
    assert found[0] > found[1] + 0.2


@pytest.mark.parametrize("cls", PRIOR)
def test_even_weights_are_plain_candidates(cls, blobs):
    X, S, _ = blobs
    expected = quick(cls).fit(X, S)
    for form in (0.3 * S, sp.csr_array(0.5 * S)):
        got = quick(cls).fit(X, form)
        np.testing.assert_array_equal(got.predict_proba(X), expected.predict_proba(X))
        np.testing.assert_array_equal(got.disambiguate(X, form), expected.disambiguate(X, S))
        assert got.score(X, form) == expected.score(X, S)


@pytest.mark.parametrize("loss", LOSSES)
def test_every_loss_learns_from_prior_weights(loss, blobs):
    X, S, y = blobs
    weights = np.where(np.arange(3) == y[:, None], 0.8, 0.2) * S
    for method in ("fit", "partial_fit"):
        clf = quick(PartialLabelClassifier, loss=loss, warm_start=True).fit(X, weights)
        getattr(clf, method)(X, weights, sample_weight=np.ones(len(X)))
        assert (clf.predict(X) == y).mean() > 0.8


@pytest.mark.parametrize("cls", PRIOR)
def test_class_prior(cls):
    rng = np.random.RandomState(0)
    y = np.repeat([0, 1, 2], [200, 60, 20])
    X = np.eye(3)[y] + 0.6 * rng.normal(size=(280, 3))
    S = (rng.uniform(size=(280, 4)) < 0.2) & np.array([True, True, True, False])
    S[np.arange(280), y] = True
    y_new = np.repeat([0, 1, 2], 100)
    X_new = np.eye(3)[y_new] + 0.6 * rng.normal(size=(300, 3))
    model = quick(cls).fit(X, S)
    own = model.class_proportions_
    np.testing.assert_allclose(own[:3], [200 / 280, 60 / 280, 20 / 280], atol=0.05)
    assert own[3] == 0
    before, resolved = model.predict_proba(X_new), model.disambiguate(X, S, return_proba=True)[1]
    plain = balanced_accuracy_score(y_new, model.predict(X_new))
    model.set_params(class_prior=own)
    np.testing.assert_allclose(model.predict_proba(X_new), before, atol=1e-7)
    model.set_params(class_prior="uniform")
    assert balanced_accuracy_score(y_new, model.predict(X_new)) > plain
    assert 3 not in model.predict(X_new)
    np.testing.assert_array_equal(model.disambiguate(X, S, return_proba=True)[1], resolved)
    model.set_params(class_prior={0: 0, 3: 1, 1: 1, 2: 1})
    proba = model.predict_proba(X_new)
    assert (proba[:, 0] == 0).all()
    np.testing.assert_allclose(proba.sum(axis=1), 1)
    np.testing.assert_array_equal(model.predict(X_new), proba.argmax(axis=1))
    assert clone(model).fit(X, S).class_prior == model.class_prior


@pytest.mark.parametrize("cls", NETWORKS)
def test_proportions_weigh_rows_and_add_up_over_calls(cls):
    X, y = load_iris(return_X_y=True)
    model = quick(cls, max_epochs=1)
    weight = np.array([4.0, 1.0, 0.0])[y] / 3
    found = model.fit(X, y, sample_weight=weight).class_proportions_
    np.testing.assert_allclose(found, [0.8, 0.2, 0], atol=0.02)
    again = quick(cls)
    for label in range(3):
        again.partial_fit(X[y == label], y[y == label], classes=[0, 1, 2])
    np.testing.assert_allclose(again.class_proportions_, [1 / 3] * 3, atol=1e-6)


@pytest.mark.parametrize("cls", ESTIMATORS)
def test_sparse_features_are_read_as_dense_ones(cls, blobs):
    X, S, _ = blobs
    X = np.where(X > 0, X, 0.0)
    dense, sparse = (quick(cls).fit(form, S) for form in (X, sp.csr_array(X)))
    np.testing.assert_array_equal(dense.predict_proba(X), sparse.predict_proba(sp.csr_array(X)))
    with pytest.raises(MemoryError, match=r"got 7.45 GiB.*TruncatedSVD"):
        quick(cls).fit(sp.csr_array((1000, 10**6)), np.ones((1000, 2)))


@pytest.mark.parametrize("cls", PRIOR)
def test_missing_values_are_filled_and_indicated(cls, blobs):
    X, S, y = blobs
    X = X.copy()
    X[y == 0, 3] = np.nan  # being missing is all that separates this class
    X[:, 0] = 0
    model = quick(cls).fit(X, S)
    assert (model.predict(X) == y).mean() > 0.9
    masked = np.ma.masked_array(np.nan_to_num(X), mask=np.isnan(X))
    np.testing.assert_array_equal(model.predict_proba(masked), model.predict_proba(X))
    empty = np.hstack([X, np.full((len(X), 1), np.nan)])
    assert (quick(cls).fit(empty, S).predict(empty) == y).mean() > 0.9


@pytest.mark.parametrize("cls", NETWORKS)
def test_zero_weights_leave_rows_out_and_scale_does_not_matter(cls, blobs):
    X, S, _ = blobs
    far = np.vstack([X, 1e3 + X[:5]])
    S_far, weight = np.vstack([S, S[:5, ::-1]]), np.r_[np.ones(len(X)), np.zeros(5)]
    one, other = (
        quick(cls).fit(far, S_far, sample_weight=w).predict_proba(X) for w in (weight, 3 * weight)
    )
    np.testing.assert_allclose(one, other, atol=1e-6)
    plain = quick(cls).fit(X, S, sample_weight=np.ones(len(X))).predict_proba(X)
    np.testing.assert_allclose(one, plain, atol=1e-6)


def test_importing_the_top_level_warns_of_nothing():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for name in sklearn_cleanse.__all__:
            assert getattr(sklearn_cleanse, name) is not None
