"""PL-CGR and DPCLS: identities, memory and limits of precision."""

import pickle
import tracemalloc
from contextlib import nullcontext

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.datasets import make_blobs
from sklearn.utils.estimator_checks import parametrize_with_checks

from sklearn_cleanse.kernel import CleanSEKernelClassifier, DPCLSClassifier, PLCGRClassifier
from sklearn_cleanse.kernel._steps import _factorize, project_simplex

MODELS = [PLCGRClassifier(random_state=0), DPCLSClassifier()]
BOTH = pytest.mark.parametrize("model", MODELS, ids=["PL-CGR", "DPCLS"])


def random_candidates(rng, n_samples, n_classes, truth=None):
    candidates = rng.random((n_samples, n_classes)) < 0.4
    truth = rng.integers(n_classes, size=n_samples) if truth is None else truth
    candidates[np.arange(n_samples), truth] = True
    return candidates


def make_problem():
    X, truth = make_blobs(150, n_features=5, centers=4, cluster_std=2.0, random_state=0)
    return X, random_candidates(np.random.default_rng(0), 150, 4, truth), truth


@pytest.fixture(scope="module")
def problem():
    return make_problem()


# -- the estimators ------------------------------------------------------------------------------


@parametrize_with_checks([PLCGRClassifier(n_components=5)])
@pytest.mark.filterwarnings("ignore:invalid value encountered in cast")  # a check of infinite y
def test_sklearn_checks_of_the_low_rank_form(estimator, check):
    check(estimator)


@BOTH
def test_permuting_classes_permutes_the_output(model, problem):
    X, candidates, _ = problem
    order = np.array([2, 0, 3, 1])
    plain = clone(model).fit(X, candidates).predict_proba(X)
    permuted = clone(model).fit(X, candidates[:, order]).predict_proba(X)
    np.testing.assert_allclose(permuted, plain[:, order], atol=1e-8)


@pytest.mark.parametrize(
    ("model", "change"),
    [
        (MODELS[0], lambda X: X),
        (MODELS[0], lambda X: (X > 0).astype(float)),  # many ties
        (MODELS[0], lambda X: np.repeat(X[:50], 3, axis=0)),
        (MODELS[0], lambda X: X + 1e11),  # whose means are rounded by 1e-5
        (PLCGRClassifier(n_components=30, random_state=0), np.asfortranarray),
        (MODELS[1], lambda X: X),
    ],
    ids=["PL-CGR", "binary", "repeated rows", "large", "low rank", "DPCLS"],
)
def test_permuting_rows_permutes_the_result(model, change, problem):
    X, candidates = change(problem[0]), problem[1]
    order = np.random.default_rng(1).permutation(150)
    one, other = clone(model).fit(X, candidates), clone(model).fit(X[order], candidates[order])
    np.testing.assert_allclose(other.candidate_proba_, one.candidate_proba_[order], atol=1e-6)
    np.testing.assert_allclose(other.decision_function(X), one.decision_function(X), atol=1e-6)


@BOTH
def test_outputs_sum_to_one_and_proba_is_their_projection(model, problem):
    X, candidates, _ = problem
    model = clone(model).fit(X, candidates)
    outputs = model.decision_function(X)
    np.testing.assert_allclose(outputs.sum(axis=1), 1)
    np.testing.assert_array_equal(model.predict_proba(X), project_simplex(outputs))
    np.testing.assert_array_equal(model.predict(X), outputs.argmax(axis=1))


@BOTH
def test_disambiguate_ranks_candidates_that_predict_proba_calls_impossible(model, problem):
    X, candidates, truth = problem
    model = clone(model).fit(X, candidates)
    wrong = np.ones_like(candidates)
    wrong[np.arange(150), truth] = False  # only candidates that look wrong
    labels, proba = model.disambiguate(X, wrong, return_proba=True)
    outputs = np.where(wrong, model.decision_function(X), -np.inf)
    np.testing.assert_array_equal(labels, outputs.argmax(axis=1))
    np.testing.assert_array_equal(proba, project_simplex(model.decision_function(X), wrong))


@BOTH
@pytest.mark.parametrize("normalize", ["standard-l2", "standard"])
def test_scaling_uses_training_statistics_and_undoes_units(model, normalize, problem):
    X, candidates, _ = problem
    units = np.array([1e-4, 1e4, 1.0, 10.0, 0.1])
    plain = clone(model).set_params(normalize=normalize).fit(X, candidates)
    other = clone(model).set_params(normalize=normalize).fit(X * units, candidates)
    np.testing.assert_allclose(
        other.predict_proba(X[:9] * units), plain.predict_proba(X[:9]), atol=1e-7
    )
    one_by_one = np.vstack([plain.predict_proba(row[None]) for row in X[:9]])
    np.testing.assert_allclose(one_by_one, plain.predict_proba(X[:9]), atol=1e-12)


@BOTH
def test_equal_rows_and_a_single_row_can_be_fitted(model):
    many = clone(model).fit(np.ones((12, 2)), [{0, 1}, {1}, {1, 2}] * 4)
    assert np.isfinite(many.decision_function(np.ones((3, 2)))).all()
    assert (many.predict(np.ones((3, 2))) == 1).all()
    proba = clone(model).fit([[0.0]], [[1, 1, 0]]).predict_proba([[0.0], [3.0]])
    np.testing.assert_allclose(proba.sum(axis=1), 1)
    np.testing.assert_allclose(proba[:, 2], 0, atol=1e-12)


@BOTH
def test_pickles_do_not_carry_square_matrices(model, problem):
    X, candidates, _ = problem
    assert len(pickle.dumps(clone(model).fit(X, candidates))) < 8 * 150 * 150


def test_a_fit_limits_threads_to_its_work(problem, monkeypatch):
    works = []
    spy = lambda work: works.append(work) or nullcontext()  # noqa: E731
    monkeypatch.setattr("sklearn_cleanse.kernel._base.limit_threads", spy)
    DPCLSClassifier(max_iter=2).fit(*problem[:2])
    assert works == [8 * 150**2]


# -- memory --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "remedy"),
    [(PLCGRClassifier(), "set n_components"), (DPCLSClassifier(), "use PLCGRClassifier")],
)
def test_too_many_samples_raise_before_allocation(model, remedy):
    X, y = np.zeros((200_000, 2)), np.arange(200_000) % 2
    tracemalloc.start()
    try:
        with pytest.raises(MemoryError, match=rf"GiB for 200000 samples.*subset.* {remedy}"):
            model.fit(X, y)
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
def test_memory_stays_below_the_estimate(
    model, n_samples, n_features, n_classes, full, monkeypatch
):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_samples, n_features))
    candidates = random_candidates(rng, n_samples, n_classes) | full
    estimates = []
    monkeypatch.setattr(
        "sklearn_cleanse.kernel._base.check_memory", lambda n, *_: estimates.append(n)
    )
    tracemalloc.start()
    try:
        clone(model).fit(X, candidates)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert estimates[0] / 3 < peak < estimates[0]


def test_of_many_features_no_square_is_built(problem, monkeypatch):
    eye = torch.eye
    monkeypatch.setattr(torch, "eye", lambda n, **how: eye(n if n < 999 else -1, **how))
    X = np.random.default_rng(0).normal(size=(40, 50_000))
    assert CleanSEKernelClassifier().fit(X, problem[1][:40]).predict(X).shape == (40,)


# -- limits of precision -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "model",
    [
        PLCGRClassifier(alpha=1e-17),
        DPCLSClassifier(alpha=1e-300),
        PLCGRClassifier(alpha=1e-300, n_components=20, random_state=0),
    ],
)
def test_an_alpha_beyond_precision_raises(model, problem):
    X, candidates, _ = problem
    with pytest.raises(ValueError, match=r"`alpha` must be large enough .*Raise it.* to 1e-06\."):
        model.fit(X, candidates)
    with pytest.raises(ValueError, match=r"got 1e-05. Raise it, for instance to 0\.0001"):
        _factorize(1e13 * np.eye(2), 1e-5)


@BOTH
@pytest.mark.parametrize("factor", [1, 1e99, 1e-98])
def test_features_of_every_size_are_learned(model, factor, problem):
    X, candidates, truth = problem
    X = factor * X / np.abs(X).max()
    assert clone(model).fit(X, candidates).score(X, truth) > 0.9
