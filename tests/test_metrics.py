"""Measures against hand-computed cases, identities and scikit-learn's measures."""

import functools
import re

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.metrics import accuracy_score, log_loss, precision_score, recall_score
from sklearn.naive_bayes import GaussianNB

from sklearn_cleanse.candidates import check_candidates
from sklearn_cleanse.metrics import (
    approximated_accuracy,
    candidate_log_loss,
    candidate_report,
    covering_rate,
    disambiguation_accuracy,
    expected_calibration_error,
)


class FirstCandidate(ClassifierMixin, BaseEstimator):
    """Naive Bayes on the first candidate of each sample: quick, with many errors."""

    def __init__(self, smoothing=1e-9):
        self.smoothing = smoothing

    def fit(self, X, y):
        candidates = check_candidates(y, n_samples=len(X))
        self.classes_, first = candidates.classes, candidates.mask.argmax(axis=1)
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
        "weights": S * np.linspace(0.2, 0.9, S.shape[1]),
        "record": check_candidates(pd.DataFrame(S, columns=names)),
    }


FORMS = list(forms(np.eye(2, dtype=bool)))


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
    # The only candidate of the third row is chosen although its probability is 0.
    assert disambiguation_accuracy(S, proba, [0, 2, 2]) == pytest.approx(2 / 3)
    assert disambiguation_accuracy(S, proba, [0, 2, 2], sample_weight=[1, 1, 0]) == 0.5
    assert disambiguation_accuracy([[1, 1, 0]], [[0.1, 0.1, 0.8]], [2]) == 0


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
    # Probability 1 is in the last bin.
    assert expected_calibration_error([[1, 0], [0, 1]], [[1, 0], [0, 1]], [0, 1]) == 0
    # Without truth: 0.6 and always covered shows nothing, 0.8 and never covered shows 0.8.
    assert expected_calibration_error(S, proba) == pytest.approx(0.2)


def test_always_right_with_probability_70_percent_is_an_error_of_30_percent():
    truth = np.array([0, 1, 2, 1])
    proba = np.where(np.eye(3)[truth] == 1, 0.7, 0.15)
    assert expected_calibration_error(truth, proba) == pytest.approx(0.3)
    assert expected_calibration_error(np.eye(3)[truth], proba) == pytest.approx(0.3)
    for S in (truth, np.ones((4, 3)), np.eye(3)[truth]):
        assert expected_calibration_error(S, proba, truth) == pytest.approx(0.3)


def test_clean_rows_hide_a_calibration_error():
    S = np.array([[1, 1], [1, 0], [0, 1]])
    proba, truth, is_clean = [[0.8, 0.2]] * 3, [1, 0, 1], check_candidates(S).is_clean
    error = functools.partial(expected_calibration_error, S, proba, truth, restrict=True)
    assert error() == pytest.approx(0.8 / 3)
    assert error(sample_weight=~is_clean) == pytest.approx(0.8)


# --- the defect of the public code


def defective_approximated_accuracy(S, log_proba):
    """One minus the risk, with an epsilon added to the probability of the candidates."""
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


@pytest.mark.parametrize("seed", range(3))
def test_singletons_give_the_ordinary_measures(seed):
    _, proba, truth = draw(seed)
    predicted, classes = proba.argmax(axis=1), np.arange(5)
    accuracy = accuracy_score(truth, predicted)
    assert covering_rate(truth, predicted) == pytest.approx(accuracy)
    assert covering_rate(np.eye(5)[truth], predicted) == pytest.approx(accuracy)
    assert approximated_accuracy(truth, proba, classes=classes) == pytest.approx(accuracy)
    expected = log_loss(truth, proba, labels=classes)
    assert candidate_log_loss(truth, proba, classes=classes) == pytest.approx(expected)
    assert disambiguation_accuracy(truth, proba, truth, classes=classes) == 1


@pytest.mark.parametrize("seed", range(5))
def test_bounds(seed):
    S, proba, truth = draw(seed)
    predicted = proba.argmax(axis=1)
    covering = covering_rate(S, predicted)
    assert 0 <= approximated_accuracy(S, proba) <= covering <= 1
    assert accuracy_score(truth, predicted) <= covering
    assert accuracy_score(truth, predicted) <= disambiguation_accuracy(S, proba, truth)
    assert candidate_log_loss(S, proba) <= log_loss(truth, proba, labels=np.arange(5))
    sharp = proba**3 / (proba**3).sum(axis=1, keepdims=True)
    error = expected_calibration_error(S, sharp, truth)
    assert 0 <= expected_calibration_error(S, sharp) <= error + 1e-12


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
@pytest.mark.parametrize("scale", [1, 1e17, 1e-17])
def test_weights_are_repetitions_up_to_a_factor(measure, scale):
    S, proba, truth = draw(2)
    weight = np.random.default_rng(2).integers(0, 4, 40)
    repeated = np.repeat(np.arange(40), weight)
    expected = measure(S[repeated], proba[repeated], truth[repeated])
    assert measure(S, proba, truth, sample_weight=scale * weight) == pytest.approx(expected)


@pytest.mark.parametrize("measure", PROBA_MEASURES.values(), ids=PROBA_MEASURES)
@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_candidates(measure, form):
    S, proba, truth = draw(4)
    given = forms(S)[form]
    assert measure(given, proba, truth) == pytest.approx(measure(S, proba, truth))


@pytest.mark.parametrize("form", FORMS)
def test_named_classes(form):
    S, proba, truth = draw(5)
    names = np.array(["e", "d", "c", "b", "a"])
    given = forms(S, names)[form]
    value = disambiguation_accuracy(given, proba, names[truth], classes=names)
    assert value == disambiguation_accuracy(S, proba, truth)
    value = covering_rate(given, names[proba.argmax(axis=1)], classes=names)
    assert value == covering_rate(S, proba.argmax(axis=1))


def test_a_label_that_no_row_lists_is_a_wrong_prediction():
    assert covering_rate([{"cat"}, {"cat", "dog"}], ["cow", "dog"]) == 0.5
    assert covering_rate([{"cat"}, {"cat"}], ["cat", "cat"]) == 1
    assert covering_rate([{("a", 1)}, {("b", 2), ("a", 1)}], [("a", 1), ("a", 1)]) == 1
    days = np.array(["2020-01-01", "2020-01-02"], dtype="M8[D]")
    assert covering_rate([{days[0]}, {*days}], days, classes=days) == 1
    assert candidate_log_loss(OTHER, FRAME, classes=["x", "y"]) == 0  # columns without names
    proba = [[0.9, 0.1], [0.4, 0.6]]
    S = [{"cat", "cow"}, {"dog", "cow"}]  # the classifier was trained without cows
    assert approximated_accuracy(S, proba, classes=["cat", "dog"]) == 1
    loss = candidate_log_loss(S, proba, classes=["cat", "dog"])
    assert loss == pytest.approx(-np.log([0.9, 0.6]).mean())


# --- errors


def weighted(weight, S=((1, 0),) * 3):
    return covering_rate(S, [0, 1, 0], sample_weight=weight)


FRAME = pd.DataFrame([[1, 0]] * 3, index=list("abc"))
MOVED = pd.DataFrame([[1, 0]] * 3, index=list("acb"))
OTHER = FRAME.set_axis(["x", "y"], axis=1)
LABELS = "must have the row labels of y_candidates.*y_candidates.index"


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: covering_rate([[1, 0]], ["cat"]),
            "`y_pred` .* 2 classes.*'cat' in row 0.*classes=",
        ),
        (lambda: covering_rate([[1, 0]], [0, 1]), "2 labels for 1 rows of candidates"),
        (lambda: covering_rate([[1, 0], [0, 0]], [0, 1]), "got none in row 1"),
        (lambda: covering_rate([{"cat"}], [1]), r"Labels must be .*'cat' \(str\)"),
        (lambda: covering_rate([{"cat"}], "cat"), "one label per sample, got 'cat'"),
        (lambda: covering_rate([{"cat"}], 5), "one label per sample, got 5"),
        (lambda: covering_rate([[1, 0]], np.ma.array([0], mask=[1])), "one label per sample"),
        (lambda: covering_rate([{"a"}, {"b"}], [["a"], ["b", "c"]]), "one label per sample"),
        (lambda: approximated_accuracy([[1, 0]], [[-1.0, -2.0]]), "log=True.* in row 0"),
        (lambda: approximated_accuracy([[1, 0]], [[0.5, 0.1]]), "sum to 1"),
        (lambda: approximated_accuracy([[1, 0]], [[np.nan, 1.0]]), "in row 0"),
        (lambda: candidate_log_loss([[1, 0]], np.ma.array([[0, 1]], mask=[[0, 1]])), "in row 0"),
        (lambda: candidate_log_loss([[1, 0]], [[np.nan, 1.0]], log=True), "not NaN"),
        (lambda: candidate_log_loss([[1, 0]], [[-np.inf] * 2], log=True), "not -inf for every"),
        (lambda: candidate_log_loss([[1, 0]], [0.5, 0.5]), "shape .n_samples, n_classes"),
        (lambda: candidate_log_loss([[1, 0]], [[0.2, 0.3, 0.5]]), "2 classes.* Pass `classes=`"),
        (lambda: candidate_log_loss([{"a"}, {"b"}], [[0.2, 0.3, 0.5]] * 2), "Pass `classes=`"),
        (lambda: disambiguation_accuracy([[1, 0]], [[1, 0]], [7]), "`truth` .* got 7 in row 0"),
        (lambda: disambiguation_accuracy(FRAME, FRAME, MOVED[1]), f"`truth` {LABELS}"),
        (lambda: covering_rate(FRAME, MOVED[0]), f"`y_pred` {LABELS}"),
        (lambda: candidate_log_loss(FRAME, MOVED), f"`y_proba` {LABELS}"),
        (lambda: candidate_log_loss(FRAME, FRAME[[1, 0]]), "0, 1, got .* 1 in column 0"),
        (lambda: candidate_log_loss(FRAME, OTHER), "'x' in column 0. Reorder the columns"),
        (lambda: candidate_log_loss([[1, 0]], sp.csr_array([[1, 0]])), "of shape .*Sparse Row"),
        (lambda: candidate_log_loss([[1, 0]] * 2, [[1, 0], [1]]), r"got \[\[1, 0\], \[1\]\]"),
        (lambda: candidate_log_loss([[1, 0]], [["a", "b"]]), r"got \['a' 'b'\] in row 0"),
        (lambda: candidate_log_loss([[1, 0]], [[1j, 0]]), r"got \[1j 0\] in row 0"),
        (lambda: expected_calibration_error([[1, 1]], [[1, 0]], restrict=True), "needs `truth`"),
        (lambda: weighted([1, 2]), "one number for each of 3 samples"),
        (lambda: weighted([[1, 2], [3]]), "one number for each of 3 samples"),
        (lambda: weighted(["a"] * 3), "got 'a' in row 0"),
        (lambda: weighted([0, 0, 0]), "`sample_weight` must not be zero in every row"),
        (lambda: weighted([1, np.nan, 1]), "got nan in row 1"),
        (lambda: weighted([1, 1, -2]), "`sample_weight` must be 0 or between .* got -2 in row 2"),
        (lambda: weighted([1, np.inf, 1]), "got inf in row 1"),
        (lambda: weighted([1, 1e300, 1]), r"got 1e\+300 in row 1"),
        (lambda: weighted([1, 1, 1e-300]), "got 1e-300 in row 2"),
        (lambda: weighted(np.ma.array([1, 1, 1], mask=[0, 1, 0])), "got None in row 1"),
        (lambda: weighted(MOVED[0], FRAME), f"`sample_weight` {LABELS}"),
        *(
            (
                lambda n=n: expected_calibration_error([[1, 0]], [[1, 0]], [0], n_bins=n),
                f"`n_bins` must be an integer from 1 to a million, got {n!r:.80}",
            )
            for n in (0, 2.5, True, "ten", 10**7, 10**400)
        ),
    ],
)
def test_bad_input_raises(call, message):
    with pytest.raises(ValueError, match=message):
        call()


# --- the report


def test_report_without_truth():
    S = [{"cat", "dog"}, {"cat"}, {"dog"}, {"cow", "dog"}]
    report = candidate_report(S, ["dog", "dog", "dog", "cow"], output_dict=True)
    expected = {"candidates": 3, "clean": 1, "predicted": 3, "covering": pytest.approx(2 / 3)}
    assert report["dog"] == expected
    assert type(report["dog"]["clean"]) is int
    assert np.isnan(report["cat"]["covering"])
    assert report["all"] == {"candidates": 4, "clean": 2, "predicted": 4, "covering": 0.75}
    text = candidate_report(S, ["dog", "dog", "dog", "cow"], digits=3)
    assert re.search(r"^dog +3 +1 +3 +0\.667$", text, re.MULTILINE)
    assert re.search(r"^cat +2 +1 +0 +-$", text, re.MULTILINE)
    assert len({len(line) for line in text.splitlines()}) == 1
    assert "<td>0.667</td>" in text._repr_html_()
    assert "(all)" in candidate_report([{"all"}, {"b"}], ["b", "b"], output_dict=True)


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
    S, proba, truth = draw(8)
    S = np.hstack([S, np.zeros((40, 1), dtype=bool)])
    report = candidate_report(S, proba.argmax(axis=1), truth, output_dict=True)
    assert report["5"]["candidates"] == report["5"]["predicted"] == report["5"]["support"] == 0
