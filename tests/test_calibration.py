"""Probabilities and prediction sets from candidates alone."""

import numpy as np
import pytest
import torch
from conftest import make_blobs
from scipy.special import log_softmax, softmax

from sklearn_cleanse import CleanSEClassifier, CleanSEKernelClassifier, PLCGRClassifier
from sklearn_cleanse.calibration import calibrate, least_probability, match_confidence, temper
from sklearn_cleanse.candidates import check_candidates
from sklearn_cleanse.datasets import make_candidates
from sklearn_cleanse.metrics import expected_calibration_error
from sklearn_cleanse.votes import ComponentRidge, ExactRidge, MeanKernel, fold_scores, kernel_votes

QUICK = {"hidden_layer_sizes": (16,), "max_epochs": 4, "random_state": 0}
COMPONENTS = CleanSEKernelClassifier(n_components=60, random_state=0)
ESTIMATORS = [CleanSEKernelClassifier(random_state=0), COMPONENTS, CleanSEClassifier(**QUICK)]


@pytest.fixture(scope="module", params=ESTIMATORS, ids=["kernel", "components", "network"])
def fitted(request, digits):
    return request.param.fit(*digits[:2])


def simulate(sharpness, noise_rate=0.0, n_rows=4000, n_classes=6):
    """Scores, and sets whose labels are drawn from the scores at a known sharpness."""
    rng = np.random.RandomState(0)
    logits = rng.normal(size=(n_rows, n_classes))
    truth = [rng.choice(n_classes, p=p) for p in softmax(sharpness * logits, axis=1)]
    S = make_candidates(truth, "flip", flip_proba=0.3, noise_rate=noise_rate, random_state=0)
    return softmax(logits, axis=1), S / S.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("sharpness", [0.5, 1.0, 3.0])
@pytest.mark.parametrize("noise_rate", [0.0, 0.2])
def test_the_temperature_of_simulated_scores_is_found(sharpness, noise_rate):
    proba, prior = simulate(sharpness, noise_rate)
    temperature, calibrated, weights = calibrate(proba, prior, noise_rate=noise_rate)
    assert 1 / temperature == pytest.approx(sharpness, rel=0.1)
    np.testing.assert_allclose(np.log(calibrated), temper(np.log(proba), temperature))
    assert (weights[prior == 0] == 0).all() == (noise_rate == 0)


def test_sets_that_features_predict_double_the_temperature_at_most():
    proba, prior = simulate(2.0)
    plain, *raised = (calibrate(proba, prior, dependence)[0] for dependence in (0, 0.5, 1))
    np.testing.assert_allclose(raised, [1.5 * plain, 2 * plain])


def test_uneven_prior_weights_take_part():
    proba, prior = simulate(2.0)
    uneven = prior * (0.2 + proba)  # the weights already favor what the scores favor
    uneven /= uneven.sum(axis=1, keepdims=True)
    assert calibrate(proba, uneven)[0] < calibrate(proba, prior)[0]


def test_confidence_is_matched(rng):
    logits = 3 * rng.normal(size=(200, 5))
    wanted = softmax(logits / 2.5, axis=1).max(axis=1)
    found = match_confidence(log_softmax(logits, axis=1), wanted)
    assert found == pytest.approx(2.5, rel=1e-6)
    assert match_confidence(logits, np.zeros(200)) == 16  # the range ends there
    assert match_confidence(logits[:5], wanted[:5]) == 1


def test_labels_down_to_the_least_probability_hold_the_weight():
    proba, prior = simulate(1.0)
    _, proba, weights = calibrate(proba, prior)
    for coverage in (0.5, 0.9, 0.99):
        least = least_probability(proba, weights, coverage)
        assert weights[proba >= least].sum() / len(proba) == pytest.approx(coverage, abs=1e-3)
    assert least_probability(proba[:8], weights[:8], 0.9) == 0  # 9 rows are needed
    assert least_probability(proba[:9], weights[:9], 0.9) > 0


@pytest.mark.parametrize("noise_rate", [0.0, 0.1])
@pytest.mark.parametrize("n_components", [None, 60])
def test_fold_scores_are_those_of_a_fit_without_the_fold(digits, n_components, noise_rate):
    X, S = digits[:2]
    X, prior = X[:200], check_candidates(S[:200]).prior
    kernel, weights = MeanKernel.fit(X), torch.from_numpy(prior)

    def ridge_of(rows):
        if n_components is None:
            return ExactRidge(kernel, X[rows], dtype=torch.float64)
        return ComponentRidge(kernel, X[rows], np.arange(len(rows)))

    ridge = ridge_of(np.arange(200))
    votes = kernel_votes(ridge, weights, noise_rate=noise_rate)
    scored, scores = fold_scores(ridge, votes, X, prior)
    np.testing.assert_array_equal(np.sort(scored), np.arange(200))
    for fold, found in zip(np.split(scored, 10), np.split(scores, 10), strict=True):
        rest = np.setdiff1d(np.arange(200), fold)
        own = ridge_of(rest)
        params = {"count_strength": votes.count_strength, "noise_rate": noise_rate}
        P = kernel_votes(own, weights[rest], **params).proba
        K = kernel(kernel.views(X[fold]), kernel.views(X[rest]))
        expected = P.mean(dim=0) + K @ own.coefficients(P)
        np.testing.assert_allclose(found, expected, atol=1e-8)


def test_of_many_rows_a_thousand_are_scored(rng):
    X, y = rng.normal(size=(2500, 2)), rng.randint(3, size=2500)
    model = CleanSEKernelClassifier(n_components=50, random_state=0).fit(X, y)
    assert len(model._scored[0]) == 1000


def test_the_predicted_class_does_not_change(digits, fitted):
    X, S, _, X_new, _ = digits
    assert fitted.proba_temperature_ != 1
    proba, labels = fitted.predict_proba(X_new), fitted.predict(X_new)
    resolved = fitted.disambiguate(X, S)
    np.testing.assert_array_equal(fitted.classes_[proba.argmax(axis=1)], labels)
    before, fitted.proba_temperature_ = fitted.proba_temperature_, 1.0
    np.testing.assert_array_equal(fitted.predict(X_new), labels)
    np.testing.assert_array_equal(fitted.disambiguate(X, S), resolved)
    raw, fitted.proba_temperature_ = fitted.predict_proba(X_new), before
    np.testing.assert_allclose(temper(np.log(raw), before), np.log(proba), atol=1e-6)


def test_the_class_prior_comes_after_calibration(digits, fitted):
    X_new, wanted = digits[3], np.arange(1, 11) / 55
    expected = fitted.predict_proba(X_new)
    dependence = fitted._scored[2]
    expected *= (wanted / fitted.class_proportions_) ** (1 / (1 + dependence))
    fitted.set_params(class_prior=wanted)
    found, sets = fitted.predict_proba(X_new), fitted.predict_set(X_new)
    assert sets[np.arange(400), fitted.predict(X_new)].all()
    fitted.set_params(class_prior=None)
    np.testing.assert_allclose(found, expected / expected.sum(axis=1, keepdims=True))
    assert dependence < 0.2  # independent sets: nearly all of the odds


def test_probabilities_of_training_candidates_are_calibrated_alike(digits, fitted):
    X, S = digits[:2]
    proba = fitted.disambiguate(X, S, return_proba=True)[1]
    np.testing.assert_allclose(fitted.candidate_proba_, proba, atol=1e-4)


def test_kernel_probabilities_hold_better_than_its_scores(digits):
    X, S, _, X_new, y_new = digits
    model = CleanSEKernelClassifier(random_state=0).fit(X, S)
    raw, found = model._normalize(model._scores(X_new)), model.predict_proba(X_new)
    before, error = (expected_calibration_error(y_new, p, classes=range(10)) for p in (raw, found))
    assert error < 0.08 < before


def test_prediction_sets_are_candidates_and_grow_with_coverage(digits, fitted):
    _, _, _, X_new, y_new = digits
    sets = {q: fitted.predict_set(X_new, coverage=q) for q in (0.5, 0.9, 0.99)}
    for S in sets.values():
        assert S[np.arange(400), fitted.predict(X_new).astype(int)].all()
        assert check_candidates(S, classes=fitted.classes_).mask.shape == (400, 10)
    assert (sets[0.5] <= sets[0.9]).all()
    assert (sets[0.9] <= sets[0.99]).all()
    assert sets[0.9][np.arange(400), y_new].mean() > 0.8
    with pytest.raises(ValueError, match=r"`coverage` must be between 0 and 1, exclusive, got 1\."):
        fitted.predict_set(X_new, coverage=1.0)


@pytest.mark.parametrize("voter", [None, "neighbors", PLCGRClassifier()])
def test_without_a_kernel_voter_the_temperature_is_one(voter):
    X, S, _ = make_blobs(60)
    model = CleanSEClassifier(voter=voter, **QUICK).fit(X, S)
    assert model.proba_temperature_ == 1
    with pytest.raises(ValueError, match=r"`predict_set`.* Fit CleanSEKernelClassifier, or"):
        model.predict_set(X)


def test_partial_fit_ends_calibration():
    X, S, _ = make_blobs(60)
    model = CleanSEClassifier(**QUICK).fit(X, S)
    assert model.predict_set(X).any(axis=1).all()
    assert model.partial_fit(X, S).proba_temperature_ == 1
    with pytest.raises(ValueError, match="not `partial_fit`"):
        model.predict_set(X)


@pytest.mark.parametrize("model", ESTIMATORS, ids=["kernel", "components", "network"])
def test_few_rows_give_all_classes(model):
    X, S, _ = make_blobs(12)
    model.fit(X, S)
    assert model.proba_temperature_ == 1
    assert model.predict_set(X, coverage=0.95).all()
