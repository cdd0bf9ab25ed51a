"""Measures against hand-computed cases and identities; scorers inside scikit-learn's searches."""

import functools
import re

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import BaseEstimator
from sklearn.metrics import accuracy_score, log_loss, precision_score, recall_score
from sklearn.naive_bayes import GaussianNB

from sklearn_cleanse.base import PartialLabelMixin
from sklearn_cleanse.candidates import check_candidates
from sklearn_cleanse.datasets import make_candidates
from sklearn_cleanse.metrics import (
    approximated_accuracy,
    approximated_accuracy_scorer,
    candidate_log_loss,
    candidate_log_loss_scorer,
    candidate_report,
    candidate_temperature,
    covering_rate,
    covering_scorer,
    disambiguation_accuracy,
    expected_calibration_error,
)
from sklearn_cleanse.model_selection import CandidateKFold

LABEL_FREE = [covering_scorer, approximated_accuracy_scorer, candidate_log_loss_scorer]
FOLDS = CandidateKFold(3, random_state=0)


class FirstCandidate(PartialLabelMixin, BaseEstimator):
    """Naive Bayes on each sample's first candidate: quick, and bad enough to tell apart."""

    def __init__(self, smoothing=1e-9):
        self.smoothing = smoothing

    def fit(self, X, y):
        self.classes_, candidates = check_candidates(y, n_samples=len(X))
        first = candidates.indices[candidates.indptr[:-1]]
        self.model_ = GaussianNB(var_smoothing=self.smoothing).fit(X, first)
        return self

    def predict_log_proba(self, X):
        log_proba = np.full((len(X), len(self.classes_)), -np.inf)
        log_proba[:, self.model_.classes_] = self.model_.predict_log_proba(X)
        return log_proba

    def predict_proba(self, X):
        return np.exp(self.predict_log_proba(X))

    def predict(self, X):
        return self.classes_[self.predict_log_proba(X).argmax(axis=1)]


def draw(seed, n_samples=40, n_classes=5):
    """Random candidates, probabilities and true labels."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, n_classes, n_samples)
    S = rng.random((n_samples, n_classes)) < 0.3
    S[np.arange(n_samples), truth] = True
    return S, rng.dirichlet(np.ones(n_classes), n_samples), truth


def forms(S, names=None):
    """The same candidates in every form that fit takes."""
    names = np.arange(S.shape[1]) if names is None else np.asarray(names)
    sets = [set(names[row].tolist()) for row in S]
    return {
        "bool": S,
        "int": S.astype(int),
        "list": S.astype(int).tolist(),
        "csr": sp.csr_array(S.astype(int)),
        "coo": sp.coo_matrix(S),
        "frame": pd.DataFrame(S, columns=names),
        "sets": sets,
        "object array": np.array([frozenset(s) for s in sets], dtype=object),
    }


# --- hand-computed cases


def test_covering_rate_by_hand():
    S = [[1, 1, 0], [0, 1, 0], [1, 0, 1], [0, 0, 1]]
    assert covering_rate(S, [1, 0, 2, 2]) == 0.75
    assert covering_rate(S, [1, 0, 2, 2], sample_weight=[1, 3, 0, 0]) == 0.25


def test_approximated_accuracy_by_hand():
    S = [[1, 1, 0], [0, 1, 1], [0, 1, 0]]
    proba = [[0.6, 0.2, 0.2], [0.5, 0.3, 0.2], [0.1, 0.8, 0.1]]
    assert approximated_accuracy(S, proba) == pytest.approx((0.75 + 0 + 1) / 3)
    assert approximated_accuracy(S, np.log(proba), log=True) == pytest.approx(1.75 / 3)
    assert approximated_accuracy(S, proba, sample_weight=[1, 1, 0]) == pytest.approx(0.375)


def test_candidate_log_loss_by_hand():
    S = [[1, 1, 0], [1, 1, 1]]
    proba = [[0.3, 0.2, 0.5], [0.5, 0.3, 0.2]]
    assert candidate_log_loss(S, proba) == pytest.approx(np.log(2) / 2)
    assert candidate_log_loss(S, proba, sample_weight=[0, 1]) == pytest.approx(0, abs=1e-15)


def test_disambiguation_accuracy_by_hand():
    S = [[1, 1, 0], [0, 1, 1], [0, 0, 1]]
    proba = [[0.6, 0.2, 0.2], [0.5, 0.3, 0.2], [0.9, 0.1, 0.0]]
    # The third row's only candidate has probability 0 and is believed all the same.
    assert disambiguation_accuracy(S, proba, [0, 2, 2]) == pytest.approx(2 / 3)
    assert disambiguation_accuracy(S, proba, [0, 2, 2], sample_weight=[1, 1, 0]) == 0.5


def test_calibration_error_by_hand():
    S = [[1, 1, 0]] * 4
    proba = [[0.6, 0.2, 0.2]] * 3 + [[0.1, 0.1, 0.8]]
    truth = [0, 0, 1, 0]
    # With truth: confidence 0.6 three times, right twice; confidence 0.8 once, wrong.
    expected = (3 * abs(0.6 - 2 / 3) + 1 * abs(0.8 - 0)) / 4
    assert expected_calibration_error(S, proba, truth) == pytest.approx(expected)
    # Among candidates: 0.75 three times, right twice; 0.5 once, right, in its own bin.
    expected = (3 * abs(0.75 - 2 / 3) + 1 * abs(0.5 - 1)) / 4
    assert expected_calibration_error(S, proba, truth, restrict=True) == pytest.approx(expected)
    # Without: 0.6 and always covered proves nothing, 0.8 and never covered proves 0.8.
    assert expected_calibration_error(S, proba) == pytest.approx(0.2)


def test_always_right_and_70_percent_sure_is_an_error_of_30_percent():
    truth = np.array([0, 1, 2, 1])
    proba = np.where(np.eye(3)[truth] == 1, 0.7, 0.15)
    assert expected_calibration_error(truth, proba) == pytest.approx(0.3)
    assert expected_calibration_error(np.eye(3)[truth], proba) == pytest.approx(0.3)
    for S in (truth, np.ones((4, 3)), np.eye(3)[truth]):
        assert expected_calibration_error(S, proba, truth) == pytest.approx(0.3)
    with pytest.raises(ValueError, match="restrict=True needs truth"):
        expected_calibration_error(np.ones((4, 3)), proba, restrict=True)


def test_calibration_error_uses_the_last_bin_for_certainty():
    assert expected_calibration_error([[1, 0], [0, 1]], [[1, 0], [0, 1]], [0, 1]) == 0


@pytest.mark.parametrize("n_bins", [0, 2.5, True, "ten"])
def test_bins_are_counted_in_integers(n_bins):
    with pytest.raises(ValueError, match=f"n_bins is {n_bins!r}; it must be an integer"):
        expected_calibration_error([[1, 0]], [[1, 0]], [0], n_bins=n_bins)


def test_clean_rows_hide_a_calibration_error():
    S = np.array([[1, 1], [1, 0], [0, 1]])
    proba, truth, clean = [[0.8, 0.2]] * 3, [1, 0, 1], S.sum(axis=1) == 1
    error = functools.partial(expected_calibration_error, S, proba, truth, restrict=True)
    assert error() == pytest.approx(0.8 / 3)
    assert error(sample_weight=~clean) == pytest.approx(0.8)


# --- the defect of the public code


def defective_approximated_accuracy(S, log_proba):
    """One minus the risk, with an epsilon where the candidates' mass should be."""
    confidence = np.exp(log_proba) * S
    confidence /= confidence.sum(axis=1, keepdims=True) + 1e-12
    risk = confidence.copy()
    risk[np.arange(len(S)), log_proba.argmax(axis=1)] = 0
    return np.mean(1 - risk.sum(axis=1))


@pytest.mark.parametrize("gap", [60.0, 1e3, 1e300])
def test_confident_wrong_prediction_scores_zero(gap):
    S, logits = np.array([[0, 1, 1]]), np.array([[gap, 0.0, 0.0]])
    assert defective_approximated_accuracy(S, logits - gap) == pytest.approx(1)
    assert approximated_accuracy(S, logits, log=True) == 0
    assert candidate_log_loss(S, logits, log=True) == pytest.approx(gap - np.log(2))


def test_agrees_with_the_public_form_where_nothing_underflows():
    S, proba, _ = draw(3)
    expected = defective_approximated_accuracy(S, np.log(proba))
    assert approximated_accuracy(S, proba) == pytest.approx(expected, abs=1e-9)


def test_impossible_candidates_cost_infinity():
    assert candidate_log_loss([[0, 1, 1]], [[1.0, 0.0, 0.0]]) == np.inf
    assert candidate_log_loss([[0, 1], [1, 0]], [[1.0, 0.0]] * 2, sample_weight=[0, 1]) == 0
    assert approximated_accuracy([[0, 1, 1]], [[1.0, 0.0, 0.0]]) == 0


# --- identities


@pytest.mark.parametrize("seed", range(5))
def test_singletons_give_the_ordinary_measures(seed):
    _, proba, truth = draw(seed)
    predicted, classes = proba.argmax(axis=1), np.arange(5)
    accuracy = accuracy_score(truth, predicted)
    assert covering_rate(truth, predicted) == pytest.approx(accuracy)
    assert covering_rate(np.eye(5)[truth], predicted) == pytest.approx(accuracy)
    assert approximated_accuracy(truth, proba, classes=classes) == pytest.approx(accuracy)
    assert candidate_log_loss(truth, proba, classes=classes) == pytest.approx(
        log_loss(truth, proba, labels=classes)
    )
    assert disambiguation_accuracy(truth, proba, truth, classes=classes) == 1


@pytest.mark.parametrize("seed", range(10))
def test_bounds(seed):
    S, proba, truth = draw(seed)
    predicted = proba.argmax(axis=1)
    covering = covering_rate(S, predicted)
    assert 0 <= approximated_accuracy(S, proba) <= covering <= 1
    assert accuracy_score(truth, predicted) <= covering
    assert accuracy_score(truth, predicted) <= disambiguation_accuracy(S, proba, truth)
    assert candidate_log_loss(S, proba) <= log_loss(truth, proba, labels=np.arange(5))


@pytest.mark.parametrize("seed", range(10))
def test_label_free_calibration_error_is_a_lower_bound(seed):
    S, proba, truth = draw(seed)
    proba = proba**3 / (proba**3).sum(axis=1, keepdims=True)
    error = expected_calibration_error(S, proba, truth)
    assert 0 <= expected_calibration_error(S, proba) <= error + 1e-12


def test_everything_is_a_candidate():
    _, proba, _ = draw(0)
    everything = np.ones((40, 5))
    assert covering_rate(everything, proba.argmax(axis=1)) == 1
    assert candidate_log_loss(everything, proba) == pytest.approx(0, abs=1e-12)
    assert approximated_accuracy(everything, proba) == pytest.approx(proba.max(axis=1).mean())


PROBA_MEASURES = {
    "approximated": lambda S, p, t, **k: approximated_accuracy(S, p, **k),
    "log_loss": lambda S, p, t, **k: candidate_log_loss(S, p, **k),
    "disambiguation": disambiguation_accuracy,
    "calibration": expected_calibration_error,
    "label-free calibration": lambda S, p, t, **k: expected_calibration_error(S, p, **k),
    "covering": lambda S, p, t, **k: covering_rate(S, p.argmax(axis=1), **k),
}


@pytest.mark.parametrize("measure", PROBA_MEASURES.values(), ids=PROBA_MEASURES)
def test_permutations_change_nothing(measure):
    S, proba, truth = draw(1)
    rng = np.random.default_rng(1)
    rows, columns = rng.permutation(40), rng.permutation(5)
    expected = measure(S, proba, truth)
    assert measure(S[rows], proba[rows], truth[rows]) == pytest.approx(expected)
    moved = np.argsort(columns)[truth]  # class columns[j] is now called j
    assert measure(S[:, columns], proba[:, columns], moved) == pytest.approx(expected)


@pytest.mark.parametrize("measure", PROBA_MEASURES.values(), ids=PROBA_MEASURES)
def test_weights_are_repetitions(measure):
    S, proba, truth = draw(2)
    weight = np.random.default_rng(2).integers(0, 4, 40)
    repeated = np.repeat(np.arange(40), weight)
    expected = measure(S[repeated], proba[repeated], truth[repeated])
    assert measure(S, proba, truth, sample_weight=weight) == pytest.approx(expected)


@pytest.mark.parametrize("measure", PROBA_MEASURES.values(), ids=PROBA_MEASURES)
@pytest.mark.parametrize("form", forms(np.eye(2, dtype=bool)))
def test_every_form_of_candidates(measure, form):
    S, proba, truth = draw(4)
    given = forms(S)[form]
    assert measure(given, proba, truth) == pytest.approx(measure(S, proba, truth))


@pytest.mark.parametrize("form", forms(np.eye(2, dtype=bool)))
def test_named_classes(form):
    S, proba, truth = draw(5)
    names = np.array(["e", "d", "c", "b", "a"])
    given = forms(S, names)[form]
    value = disambiguation_accuracy(given, proba, names[truth], classes=names)
    assert value == disambiguation_accuracy(S, proba, truth)
    value = covering_rate(given, names[proba.argmax(axis=1)], classes=names)
    assert value == covering_rate(S, proba.argmax(axis=1))


def test_sparse_confidences():
    S, proba, truth = draw(6)
    confidences = proba * S / (proba * S).sum(axis=1, keepdims=True)
    value = disambiguation_accuracy(S, sp.csr_array(confidences), truth)
    assert value == disambiguation_accuracy(S, proba, truth)


def test_a_label_nobody_lists_is_merely_wrong():
    assert covering_rate([{"cat"}, {"cat", "dog"}], ["cow", "dog"]) == 0.5
    assert covering_rate([{"cat"}, {"cat"}], ["cat", "cat"]) == 1
    proba = [[0.9, 0.1], [0.4, 0.6]]
    S = [{"cat", "cow"}, {"dog", "cow"}]  # the classifier has not met a cow
    assert approximated_accuracy(S, proba, classes=["cat", "dog"]) == 1
    assert candidate_log_loss(S, proba, classes=["cat", "dog"]) == pytest.approx(
        -np.log([0.9, 0.6]).mean()
    )


def test_truth_outside_the_candidates_is_never_found():
    assert disambiguation_accuracy([[1, 1, 0]], [[0.1, 0.1, 0.8]], [2]) == 0


# --- refusals


def weighted(weight):
    return covering_rate([[1, 0]] * 3, [0, 1, 0], sample_weight=weight)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: covering_rate([[1, 0]], ["cat"]), "row 0 of y_pred is 'cat'.*pass classes="),
        (lambda: covering_rate([[1, 0]], [0, 1]), "y_pred has 2 rows.*candidates for 1"),
        (lambda: covering_rate([[1, 0], [0, 0]], [0, 1]), "row 1 has no candidate"),
        (lambda: covering_rate([{"cat"}], [1]), "labels of different types"),
        (lambda: approximated_accuracy([[1, 0]], [[-1.0, -2.0]]), "row 0 of y_proba.*log=True"),
        (lambda: approximated_accuracy([[1, 0]], [[0.5, 0.1]]), "sum to 1"),
        (lambda: approximated_accuracy([[1, 0]], [[np.nan, 1.0]]), "row 0 of y_proba"),
        (lambda: candidate_log_loss([[1, 0]], [[np.nan, 1.0]], log=True), "not NaN"),
        (lambda: candidate_log_loss([[1, 0]], [[-np.inf] * 2], log=True), "not -inf throughout"),
        (lambda: candidate_log_loss([[1, 0]], [0.5, 0.5]), "expected .n_samples, n_classes"),
        (lambda: candidate_log_loss([[1, 0]], [[0.2, 0.3, 0.5]]), "2 classes; pass classes="),
        (lambda: candidate_log_loss([{"a"}, {"b"}], [[0.2, 0.3, 0.5]] * 2), "pass classes="),
        (lambda: disambiguation_accuracy([[1, 0]], [[1, 0]], [7]), "row 0 of truth is 7"),
        (lambda: weighted([1, 2]), "sample_weight has 2 rows, but there are 3 samples"),
        (lambda: weighted([0, 0, 0]), "sample_weight is 0 throughout"),
        (lambda: weighted([1, np.nan, 1]), "row 1 of sample_weight is nan"),
        (lambda: weighted([1, 1, -2]), "row 2 of sample_weight is -2.0; weights are finite"),
        (lambda: weighted([1, np.inf, 1]), "row 1 of sample_weight is inf"),
    ],
)
def test_bad_input_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


# --- the report


def test_report_without_truth():
    S = [{"cat", "dog"}, {"cat"}, {"dog"}, {"cow", "dog"}]
    report = candidate_report(S, ["dog", "dog", "dog", "cow"], output_dict=True)
    assert report["dog"] == {
        "candidates": 3,
        "clean": 1,
        "predicted": 3,
        "covering": pytest.approx(2 / 3),
    }
    assert np.isnan(report["cat"]["covering"])
    assert report["all"] == {"candidates": 4, "clean": 2, "predicted": 4, "covering": 0.75}
    text = candidate_report(S, ["dog", "dog", "dog", "cow"], digits=3)
    assert re.search(r"^dog +3 +1 +3 +0\.667$", text, re.MULTILINE)
    assert re.search(r"^cat +2 +1 +0 +-$", text, re.MULTILINE)
    assert len({len(line) for line in text.splitlines()}) == 1


def test_report_with_truth_agrees_with_scikit_learn():
    S, proba, truth = draw(7, n_samples=200)
    predicted = proba.argmax(axis=1)
    report = candidate_report(S, predicted, truth, output_dict=True)
    precision = precision_score(truth, predicted, average=None)
    recall = recall_score(truth, predicted, average=None)
    assert [report[str(c)]["precision"] for c in range(5)] == pytest.approx(precision)
    assert [report[str(c)]["recall"] for c in range(5)] == pytest.approx(recall)
    assert report["all"]["precision"] == pytest.approx(precision.mean())
    assert report["all"]["recall"] == pytest.approx(recall.mean())
    assert sum(report[str(c)]["support"] for c in range(5)) == report["all"]["support"] == 200
    assert report["all"]["covering"] == pytest.approx(covering_rate(S, predicted))


def test_report_keeps_classes_that_never_occur():
    S, proba, _ = draw(8)
    S = np.hstack([S, np.zeros((40, 1), dtype=bool)])
    report = candidate_report(S, proba.argmax(axis=1), output_dict=True)
    assert report["5"]["candidates"] == report["5"]["predicted"] == 0


# --- temperature


def test_a_temperature_that_was_taken_away_is_found_by_candidates(rng):
    logits = 2 * rng.normal(size=(4000, 5))
    proba = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    truth = (proba.cumsum(axis=1) < rng.uniform(size=(4000, 1))).sum(axis=1)
    S = make_candidates(truth, "flip", flip_proba=0.3, random_state=0)
    for too_sure in (0.4, 1.0, 2.5):
        assert candidate_temperature(S, too_sure * logits, log=True) == pytest.approx(
            too_sure, rel=0.15
        )
    found = candidate_temperature(S, 3 * logits, log=True)
    before = expected_calibration_error(S, 3 * logits, truth, log=True)
    after = expected_calibration_error(S, 3 * logits / found, truth, log=True)
    assert after < 0.03 < before


def test_labels_give_the_temperature_of_the_log_loss(rng):
    logits = rng.normal(size=(200, 3))
    truth = (logits + rng.normal(size=(200, 3))).argmax(axis=1)
    found = candidate_temperature(truth, logits, log=True)
    best = candidate_log_loss(truth, logits / found, log=True)
    for other in (0.9 * found, 1.1 * found):
        assert best <= candidate_log_loss(truth, logits / other, log=True)
    weight = rng.randint(3, size=200)
    repeated = candidate_temperature(
        np.repeat(truth, weight), np.repeat(logits, weight, axis=0), log=True
    )
    weighed = candidate_temperature(truth, logits, log=True, sample_weight=weight)
    assert weighed == pytest.approx(repeated, rel=1e-3)


def test_certainty_has_a_temperature():
    assert 0 < candidate_temperature([0, 1, 1], [[1, 0], [0, 1], [1, 0]]) < 60
