"""PL-CGR and DPCLS: identities, optimality, known defects, refusals, scikit-learn's contract."""

import ast
import inspect
import pickle
import re
import tracemalloc

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import make_blobs
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.utils.estimator_checks import parametrize_with_checks

from sklearn_cleanse.kernel import DPCLSClassifier, PLCGRClassifier
from sklearn_cleanse.kernel._steps import project_simplex

BOTH = pytest.mark.parametrize("Model", [PLCGRClassifier, DPCLSClassifier])


def random_candidates(rng, n_samples, n_classes, truth=None):
    candidates = rng.random((n_samples, n_classes)) < 0.4
    truth = rng.integers(n_classes, size=n_samples) if truth is None else truth
    candidates[np.arange(n_samples), truth] = True
    return candidates


def make_problem():
    X, truth = make_blobs(150, n_features=5, centers=4, cluster_std=2.0, random_state=0)
    return X, random_candidates(np.random.default_rng(0), 150, 4, truth), truth


@pytest.fixture(scope="module")
def blobs():
    return make_problem()


# --- the estimators -----------------------------------------------------------------------------


@parametrize_with_checks([PLCGRClassifier(), DPCLSClassifier(), PLCGRClassifier(n_components=5)])
def test_sklearn_checks(estimator, check):
    check(estimator)


@BOTH
def test_learns_from_candidates(Model, blobs):
    X, candidates, truth = blobs
    model = Model().fit(X, candidates)
    assert model.score(X, truth) > 0.9
    assert model.score(X, candidates) >= model.score(X, truth)
    assert model.candidate_proba_.shape == candidates.shape
    assert (model.candidate_proba_[~candidates] == 0).all()
    np.testing.assert_allclose(model.candidate_proba_.sum(axis=1), 1)


@BOTH
def test_permuting_classes_permutes_the_output(Model, blobs):
    X, candidates, _ = blobs
    order = np.array([2, 0, 3, 1])
    params = {"random_state": 0} if Model is PLCGRClassifier else {}
    plain = Model(**params).fit(X, candidates).predict_proba(X)
    permuted = Model(**params).fit(X, candidates[:, order]).predict_proba(X)
    np.testing.assert_allclose(permuted, plain[:, order], atol=1e-8)


@BOTH
def test_unused_classes_survive(Model, blobs):
    X, candidates, _ = blobs
    wide = np.insert(candidates, [0, 2], False, axis=1)
    model = Model(**({"random_state": 0} if Model is PLCGRClassifier else {})).fit(X, wide)
    assert list(model.classes_) == [0, 1, 2, 3, 4, 5]
    proba = model.predict_proba(X)
    assert proba.shape == (150, 6)
    np.testing.assert_allclose(proba[:, [0, 3]], 0, atol=1e-10)
    assert not np.isin(model.predict(X), [0, 3]).any()


@BOTH
def test_outputs_sum_to_one_and_proba_is_their_projection(Model, blobs):
    X, candidates, _ = blobs
    model = Model().fit(X, candidates)
    outputs = model.decision_function(X)
    np.testing.assert_allclose(outputs.sum(axis=1), 1)
    np.testing.assert_array_equal(model.predict_proba(X), project_simplex(outputs))
    np.testing.assert_array_equal(model.predict(X), outputs.argmax(axis=1))


@BOTH
def test_disambiguate_ranks_candidates_that_predict_proba_calls_impossible(Model, blobs):
    X, candidates, truth = blobs
    model = Model().fit(X, candidates)
    wrong = np.ones_like(candidates)
    wrong[np.arange(150), truth] = False  # only candidates that look wrong
    labels, proba = model.disambiguate(X, wrong, return_proba=True)
    outputs = np.where(wrong, model.decision_function(X), -np.inf)
    np.testing.assert_array_equal(labels, outputs.argmax(axis=1))
    np.testing.assert_array_equal(proba, project_simplex(model.decision_function(X), wrong))
    np.testing.assert_array_equal(model.disambiguate(X, wrong), labels)


@BOTH
def test_labels_may_be_names(Model, blobs):
    X, candidates, truth = blobs
    names = np.array(["ant", "bee", "cat", "dog"])
    sets = [set(names[row]) for row in candidates]
    assert (Model().fit(X, sets).predict(X) == names[truth]).mean() > 0.9


@BOTH
@pytest.mark.parametrize("normalize", ["standard-l2", "standard"])
def test_scaling_uses_training_statistics_and_undoes_units(Model, blobs, normalize):
    X, candidates, _ = blobs
    units = np.array([1e-4, 1e4, 1.0, 10.0, 0.1])
    params = {"random_state": 0} if Model is PLCGRClassifier else {}
    plain = Model(normalize=normalize, **params).fit(X, candidates)
    other = Model(normalize=normalize, **params).fit(X * units, candidates)
    np.testing.assert_allclose(other.predict_proba(X[:9] * units), plain.predict_proba(X[:9]))
    one_by_one = np.vstack([plain.predict_proba(row[None]) for row in X[:9]])
    np.testing.assert_allclose(one_by_one, plain.predict_proba(X[:9]), atol=1e-12)


@BOTH
def test_the_model_keeps_no_hold_of_the_features_given(Model, blobs):
    X, candidates, _ = blobs
    given = X.copy()
    model = Model(normalize=None, max_iter=3).fit(given, candidates)
    before = model.predict_proba(X)
    given[:] = 0.0
    np.testing.assert_array_equal(model.predict_proba(X), before)


@BOTH
def test_equal_rows_are_no_obstacle(Model):
    model = Model().fit(np.ones((12, 2)), [{0, 1}, {1}, {1, 2}] * 4)
    assert np.isfinite(model.decision_function(np.ones((3, 2)))).all()
    assert (model.predict(np.ones((3, 2))) == 1).all()


def test_random_state_fixes_plcgr(blobs):
    X, candidates, _ = blobs
    first, second = (
        PLCGRClassifier(random_state=3, n_components=20).fit(X, candidates).predict_proba(X)
        for _ in range(2)
    )
    np.testing.assert_array_equal(first, second)


@BOTH
def test_pickles_do_not_carry_square_matrices(Model, blobs):
    X, candidates, _ = blobs
    model = Model().fit(X, candidates)
    data = pickle.dumps(model)
    assert len(data) < 8 * 150 * 150
    np.testing.assert_array_equal(pickle.loads(data).predict(X), model.predict(X))


@BOTH
def test_grid_search_runs_on_candidates(Model, blobs):
    X, candidates, _ = blobs
    model = Model(max_iter=5)
    splitter = KFold(3, shuffle=True, random_state=0)
    search = GridSearchCV(model, {"ridge": [0.01, 1.0]}, cv=splitter).fit(X, candidates)
    assert search.best_score_ > 0.9


# --- memory -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "way_out"),
    [(PLCGRClassifier(), "n_components"), (DPCLSClassifier(), "PLCGRClassifier")],
)
def test_too_many_samples_are_refused_before_allocation(model, way_out):
    X, y = np.zeros((200_000, 2)), np.arange(200_000) % 2
    tracemalloc.start()
    try:
        with pytest.raises(MemoryError, match=r"200000 samples .* GiB.*subset.*max_memory") as e:
            model.fit(X, y)
        assert way_out in str(e.value)
        assert tracemalloc.get_traced_memory()[1] < 100e6  # one matrix would be 320e9
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("n_samples", "n_features", "n_classes", "full"),
    [(800, 3, 3, False), (150, 800, 4, True), (200, 3, 200, False)],
    ids=["many samples", "many features", "many classes"],
)
@pytest.mark.parametrize(
    "model",
    [PLCGRClassifier(), DPCLSClassifier(max_iter=3), PLCGRClassifier(n_components=100)],
    ids=["PL-CGR", "DPCLS", "low rank"],
)
def test_memory_estimate_is_kept(model, n_samples, n_features, n_classes, full):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_samples, n_features))
    candidates = random_candidates(rng, n_samples, n_classes) | full
    with pytest.raises(MemoryError) as refusal:
        clone(model).set_params(max_memory=1e-9).fit(X, candidates)
    estimate = float(re.search(r"need about (\S+) GiB", str(refusal.value))[1])
    tracemalloc.start()
    try:
        clone(model).set_params(max_memory=1.01 * estimate).fit(X, candidates)
        peak = tracemalloc.get_traced_memory()[1] / 2**30
    finally:
        tracemalloc.stop()
    assert estimate / 3 < peak < estimate


def test_low_rank_needs_no_square_matrix():
    X, truth = make_blobs(3000, centers=3, random_state=0)
    limit = 8 * 3000**2 / 2 / 2**30
    with pytest.raises(MemoryError):
        PLCGRClassifier(max_memory=limit).fit(X, truth)
    model = PLCGRClassifier(max_memory=limit, n_components=50, random_state=0)
    tracemalloc.start()
    try:
        model.fit(X, truth)
        assert tracemalloc.get_traced_memory()[1] < limit * 2**30
    finally:
        tracemalloc.stop()
    assert model.coef_.shape == (50, 3)
    assert model.score(X, truth) > 0.9


# --- parameters ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("Model", "name", "value"),
    [(Model, name, value) for Model in (PLCGRClassifier, DPCLSClassifier) for name, value in [
        ("ridge", 0), ("ridge", np.nan), ("max_iter", 0), ("length_scale", -1.0),
        ("length_scale", 1e-300), ("length_scale", 1e300),
        ("normalize", "minmax"), ("max_memory", 0), ("verbose", "loud")]]
    + [(PLCGRClassifier, name, value) for name, value in [
        ("cost_weight", -0.1), ("first_bonus", -1), ("cluster_ratio", 0), ("cluster_ratio", 1.5),
        ("balance", "yes"), ("n_components", 0), ("random_state", "x")]]
    + [(DPCLSClassifier, name, value) for name, value in [
        ("dissimilarity_weight", -1), ("smoothness_weight", -1), ("n_neighbors", 0), ("tol", -1),
        ("n_inner_iter", 0), ("penalty", 0), ("penalty_growth", 0.9)]],
)  # fmt: skip
def test_bad_parameters_are_refused_by_name(Model, name, value):
    with pytest.raises(ValueError, match=rf"'{name}' parameter of {Model.__name__}"):
        Model(**{name: value}).fit([[0.0], [1.0]], [0, 1])


@BOTH
def test_rows_without_candidates_are_refused(Model):
    with pytest.raises(ValueError, match="row 1 has no candidate"):
        Model().fit([[0.0], [1.0]], [[1, 1], [0, 0]])


@BOTH
def test_one_row_keeps_its_candidates(Model):
    proba = Model().fit([[0.0]], [[1, 1, 0]]).predict_proba([[0.0], [3.0]])
    np.testing.assert_allclose(proba.sum(axis=1), 1)
    np.testing.assert_allclose(proba[:, 2], 0, atol=1e-12)


@pytest.mark.parametrize("params", [{"penalty": 1e-300}, {"smoothness_weight": 1e300}])
def test_a_penalty_beyond_precision_is_refused(params, blobs):
    X, candidates, _ = blobs
    with pytest.raises(ValueError, match=r"smoothness_weight=.* times penalty=.*; raise penalty"):
        DPCLSClassifier(**params).fit(X, candidates)


@BOTH
@pytest.mark.parametrize("ridge", [1e-300, 1e-17])
def test_a_ridge_beyond_precision_is_refused(Model, ridge, blobs):
    X, candidates, _ = blobs
    with pytest.raises(ValueError, match=rf"ridge={ridge} is too small.*raise it"):
        Model(ridge=ridge).fit(X, candidates)


def test_a_ridge_beyond_precision_is_refused_at_low_rank(blobs):
    X, candidates, _ = blobs
    with pytest.raises(ValueError, match="ridge=1e-300 is too small"):
        PLCGRClassifier(ridge=1e-300, n_components=20, random_state=0).fit(X, candidates)


@BOTH
@pytest.mark.parametrize("normalize", ["standard-l2", "standard", "l2", None])
@pytest.mark.parametrize("factor", [1e300, 1e160, 1e-160, 1e-300])
def test_features_that_cannot_be_squared_are_refused(Model, normalize, factor, blobs):
    X, candidates, _ = blobs
    row = np.abs(X).max(axis=1).argmax()
    with pytest.raises(ValueError, match=rf"largest value of X, .* in row {row}, .*; rescale"):
        Model(normalize=normalize).fit(factor * X, candidates)


@BOTH
def test_features_that_can_be_squared_are_fitted(Model, blobs):
    X, candidates, truth = blobs
    for factor in (1e148, 1e-148):
        assert Model(max_iter=3).fit(factor * X, candidates).score(factor * X, truth) > 0.9


@BOTH
def test_new_rows_that_cannot_be_squared_are_refused(Model, blobs):
    X, candidates, _ = blobs
    model = Model(max_iter=3).fit(X, candidates)
    with pytest.raises(ValueError, match=r"largest value of X, 1e\+300 in row 1, .*; rescale"):
        model.predict([[0.0] * 5, [1e300] * 5])
    assert model.predict([[0.0] * 5]).shape == (1,)


@BOTH
def test_documented_defaults_equal_the_signature(Model):
    documented = dict(re.findall(r"^    (\w+) : .*default=(.+)$", Model.__doc__, re.MULTILINE))
    signature = inspect.signature(Model).parameters
    assert list(documented) == list(signature)
    for name, text in documented.items():
        assert ast.literal_eval(text) == signature[name].default, name


@BOTH
def test_progress_is_shown_on_request_only(Model, blobs, capsys):
    X, candidates, _ = blobs
    Model(max_iter=2).fit(X, candidates)
    assert capsys.readouterr() == ("", "")
    Model(max_iter=2, verbose=True).fit(X, candidates)
    assert "2/2" in capsys.readouterr().err
