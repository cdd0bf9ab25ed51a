"""Scorers in cross-validation and search, with and without true labels."""

import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import balanced_accuracy_score
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score, cross_validate
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from test_metrics import FirstCandidate, forms

from sklearn_cleanse.candidates import candidate_softmax, check_candidates
from sklearn_cleanse.metrics import (
    approximated_accuracy,
    approximated_accuracy_scorer,
    balanced_true_accuracy_scorer,
    candidate_log_loss,
    candidate_log_loss_scorer,
    covering_rate,
    covering_rate_scorer,
    disambiguation_accuracy_scorer,
    true_accuracy_scorer,
)

LABEL_FREE = [covering_rate_scorer, approximated_accuracy_scorer, candidate_log_loss_scorer]
NEED_TRUTH = [true_accuracy_scorer, balanced_true_accuracy_scorer, disambiguation_accuracy_scorer]
LABEL_FREE, NEED_TRUTH = pickle.loads(pickle.dumps([LABEL_FREE, NEED_TRUTH]))
FOLDS = KFold(3, shuffle=True, random_state=0)


class LastCandidate(FirstCandidate):
    """A classifier that disambiguates in a way of its own: the last candidate always wins."""

    def disambiguate(self, X, y, return_proba=False):
        mask = check_candidates(y, n_samples=len(X), classes=self.classes_).mask
        last = mask.shape[1] - 1 - mask[:, ::-1].argmax(axis=1)
        return (self.classes_[last], np.eye(mask.shape[1])[last]) if return_proba else last


def test_scorers_agree_with_measures(blobs):
    X, S, y = blobs
    model = FirstCandidate().fit(X, S)
    log_proba, predicted = model.predict_log_proba(X), model.predict(X)
    assert covering_rate_scorer(model, X, S) == covering_rate(S, predicted)
    expected = approximated_accuracy(S, log_proba, log=True)
    assert approximated_accuracy_scorer(model, X, S) == pytest.approx(expected)
    assert candidate_log_loss_scorer(model, X, S) == -candidate_log_loss(S, log_proba, log=True)
    assert true_accuracy_scorer(model, X, S, truth=y) == np.mean(predicted == y)
    unequal = y[:70]
    expected = balanced_accuracy_score(unequal, predicted[:70])
    score = balanced_true_accuracy_scorer(model, X[:70], S[:70], truth=unequal)
    assert score == pytest.approx(expected)


# --- disambiguation


@pytest.mark.parametrize("plain", [LogisticRegression(), GaussianNB()])
@pytest.mark.parametrize("form", ["bool", "sets", "weights", "record"])
def test_an_ordinary_classifier_is_restricted_to_the_candidates(plain, form, blobs):
    X, S, y = blobs
    model = plain.fit(X[::2], y[::2])
    given = forms(S.astype(bool))[form]
    candidates = check_candidates(given)
    log_proba = model.predict_log_proba(X)
    expected = candidate_softmax(log_proba, candidates.mask, candidates.prior).argmax(axis=1)
    assert candidates.has_prior == (form == "weights")
    for row in range(len(X)):  # row by row, so that errors cannot cancel
        one = slice(row, row + 1)
        rows = candidates[one] if form == "record" else given[one]
        assert disambiguation_accuracy_scorer(model, X[one], rows, truth=expected[one]) == 1


def test_an_estimator_that_disambiguates_is_asked_inside_pipelines_and_searches(blobs):
    X, S, y = blobs
    last = S.shape[1] - 1 - S[:, ::-1].argmax(axis=1)
    pipeline = make_pipeline(StandardScaler(), LastCandidate())
    grid = {"lastcandidate__smoothing": [0.1]}
    search = GridSearchCV(pipeline, grid, scoring=covering_rate_scorer, cv=FOLDS)
    for model in (LastCandidate(), pipeline, search):
        model.fit(X, S)
        score = disambiguation_accuracy_scorer(model, X, S, truth=y)
        assert score == np.mean(last == y) < true_accuracy_scorer(model, X, S, truth=y)
        assert disambiguation_accuracy_scorer(model, X, S, truth=last) == 1


@pytest.mark.parametrize("model", [LastCandidate(), LogisticRegression()])
def test_labels_that_fit_never_saw_count_only_where_no_other_is_a_candidate(model, blobs):
    X, S, y = blobs
    model = clone(model).fit(X, y)
    sets = [set(np.flatnonzero(row).tolist()) for row in S]
    more = [row | {99} for row in sets]
    score = disambiguation_accuracy_scorer(model, X, sets, truth=y)
    assert disambiguation_accuracy_scorer(model, X, more, truth=y) == score
    assert disambiguation_accuracy_scorer(model, X[:1], [{98, 99}], truth=[98]) == 1


# --- label-free


@pytest.mark.parametrize("scorer", LABEL_FREE, ids=repr)
@pytest.mark.parametrize("form", ["bool", "int", "list", "frame", "sets", "object array"])
def test_label_free_scorers_in_cross_validation(scorer, form, blobs):
    X, S, _ = blobs
    expected = cross_val_score(FirstCandidate(), X, S, scoring=scorer, cv=FOLDS)
    given = forms(S.astype(bool))[form]
    scores = cross_val_score(
        FirstCandidate(), X, given, scoring=scorer, cv=FOLDS, error_score="raise"
    )
    assert scores == pytest.approx(expected)
    assert len(set(scores)) > 1


@pytest.mark.parametrize("form", ["csr", "coo"])  # cross_val_score itself raises on these
def test_sparse_candidates_in_grid_search(form, blobs):
    X, S, _ = blobs
    search = GridSearchCV(
        FirstCandidate(), {"smoothing": [0.1]}, scoring=covering_rate_scorer, cv=FOLDS
    )
    expected = search.fit(X, S).cv_results_["mean_test_score"]
    given = forms(S.astype(bool))[form]
    assert search.fit(X, given).cv_results_["mean_test_score"] == pytest.approx(expected)


def test_label_free_grid_search(blobs):
    X, S, _ = blobs
    scoring = {"covering": covering_rate_scorer, "loss": candidate_log_loss_scorer}
    search = GridSearchCV(
        FirstCandidate(), {"smoothing": [0.1, 10.0]}, scoring=scoring, refit="loss", cv=FOLDS
    )
    search.fit(X, S)
    results = search.cv_results_
    assert search.best_params_["smoothing"] == [0.1, 10.0][np.argmax(results["mean_test_loss"])]
    assert (results["mean_test_loss"] < 0).all()
    assert search.score(X, S) == candidate_log_loss_scorer(search.best_estimator_, X, S)


def test_scorers_take_pipelines_and_ordinary_classifiers(blobs):
    X, S, y = blobs
    pipeline = make_pipeline(StandardScaler(), FirstCandidate()).fit(X, S)
    assert 0 < approximated_accuracy_scorer(pipeline, X, S) <= covering_rate_scorer(pipeline, X, S)
    model = LogisticRegression().fit(X, y)
    assert covering_rate_scorer(model, X, y) == model.score(X, y)

    class OnlyProba:
        classes_ = model.classes_
        predict_proba = model.predict_proba

    expected = candidate_log_loss_scorer(model, X, S)
    assert candidate_log_loss_scorer(OnlyProba(), X, S) == pytest.approx(expected)


def test_a_class_missing_from_training_does_not_break_scoring(blobs):
    X, S, _ = blobs
    sets = [set(np.flatnonzero(row).tolist()) for row in S]
    sets[0] = {0, 99}  # its only row is in the training part of all folds but one
    for scorer in LABEL_FREE:
        scores = cross_val_score(FirstCandidate(), X, sets, scoring=scorer, cv=FOLDS)
        assert np.isfinite(scores).all()


@pytest.mark.parametrize("weight", [None, np.linspace(1, 2, 120)])
def test_the_log_loss_scorer_ignores_rows_without_a_known_label(weight, blobs):
    X, S, _ = blobs
    sets = [set(np.flatnonzero(row).tolist()) for row in S]
    model = FirstCandidate().fit(X[1:], sets[1:])
    rest = None if weight is None else weight[1:]
    expected = candidate_log_loss_scorer(model, X[1:], sets[1:], sample_weight=rest)
    sets[0] = {99}
    with pytest.warns(UserWarning, match=r"1 of 120 rows .* such as row 0 with \[99\]"):
        score = candidate_log_loss_scorer(model, X, sets, sample_weight=weight)
    assert score == pytest.approx(expected)
    with pytest.raises(ValueError, match=r"row 0 with \[99\], so that there is nothing to score"):
        candidate_log_loss_scorer(model, X[:1], sets[:1])
    log_proba = model.predict_log_proba(X)  # the measure itself leaves nothing out
    assert candidate_log_loss(sets, log_proba, log=True, classes=model.classes_) == np.inf


@pytest.mark.parametrize("name", ["y", "sample_weight", "truth"])
def test_rows_in_another_order_raise(name, blobs):
    X, S, y = blobs
    given = {"y": pd.DataFrame(S), "sample_weight": pd.Series(y + 1.0), "truth": pd.Series(y)}
    model = LogisticRegression().fit(X, y)
    X = pd.DataFrame(X)
    assert 0 < true_accuracy_scorer(model, X.to_numpy(), **given) <= 1
    given[name] = given[name][::-1]
    with pytest.raises(ValueError, match=f"`{name}` must have the row labels of X"):
        true_accuracy_scorer(model, X, **given)


# --- with true labels


@pytest.mark.parametrize("as_sets", [False, True])
@pytest.mark.parametrize("scorer", NEED_TRUTH, ids=repr)
def test_truth_in_other_labels_raises(scorer, as_sets, blobs):
    X, S, y = blobs
    given = [set(np.flatnonzero(row).tolist()) for row in S] if as_sets else S
    model = FirstCandidate().fit(X, given)
    with pytest.raises(ValueError, match=r"`truth` .* got 3 in row 2"):
        scorer(model, X, given, truth=y + 1)
    with pytest.raises(ValueError, match=r"`truth` .* 3 classes, 0, 1, 2, got 'a' in row 0"):
        scorer(model, X, given, truth=np.array(["a", "b", "c"])[y])


def test_truth_reaches_the_scorer_in_cross_validation_and_search(routing, blobs):
    X, S, y = blobs
    search = GridSearchCV(
        FirstCandidate(), {"smoothing": [0.1, 10.0]}, scoring=true_accuracy_scorer, cv=FOLDS
    ).fit(X, S, truth=y)
    scoring = {repr(scorer): scorer for scorer in [*LABEL_FREE, *NEED_TRUTH]}
    found = cross_validate(
        FirstCandidate(0.1), X, S, scoring=scoring, cv=FOLDS, params={"truth": y}
    )
    for i, (train, test) in enumerate(FOLDS.split(X)):
        model = FirstCandidate(0.1).fit(X[train], S[train])
        for name, scorer in scoring.items():
            truth = {"truth": y[test]} if scorer in NEED_TRUTH else {}
            expected = scorer(model, X[test], S[test], **truth)
            assert found[f"test_{name}"][i] == pytest.approx(expected)
    true = found["test_true_accuracy_scorer"]
    assert search.cv_results_["mean_test_score"][0] == pytest.approx(true.mean())


def test_shuffled_truth_changes_no_fitted_parameter_of_a_search(routing, blobs):
    X, S, y = blobs
    grid, scores, fitted = {"smoothing": [0.1, 10.0]}, [], []
    search = GridSearchCV(FirstCandidate(), grid, scoring=approximated_accuracy_scorer, cv=FOLDS)
    for truth in (y, np.random.default_rng(0).permutation(y)):
        given = {"scoring": true_accuracy_scorer, "cv": FOLDS, "params": {"truth": truth}}
        done = cross_validate(search, X, S, **given, return_estimator=True, error_score="raise")
        scores.append(done["test_score"])
        fitted.append([outer.best_estimator_.model_ for outer in done["estimator"]])
    assert not np.array_equal(*scores)
    for one, other in zip(*fitted, strict=True):
        assert np.array_equal(one.theta_, other.theta_)
        assert np.array_equal(one.var_, other.var_)


@pytest.mark.parametrize("scorer", NEED_TRUTH, ids=repr)
def test_forgotten_truth_raises_with_the_remedy(scorer, blobs):
    X, S, _ = blobs
    message = r"set_config\(enable_metadata_routing=True\).*params=\{\"truth\": y\}"
    with pytest.raises(ValueError, match=message):
        scorer(FirstCandidate().fit(X, S), X, S)
    with pytest.warns(UserWarning, match=message):
        cross_val_score(FirstCandidate(), X, S, scoring=scorer, cv=FOLDS)


@pytest.mark.parametrize("scorer", LABEL_FREE, ids=repr)
def test_label_free_scorers_take_no_truth(scorer, routing, blobs):
    X, S, y = blobs
    with pytest.raises(TypeError, match=f"{scorer!r} has no parameter 'truth'"):
        scorer(FirstCandidate().fit(X, S), X, S, truth=y)
    with pytest.raises(TypeError, match=f"{scorer!r} has no parameter 'truth'"):
        scorer.set_score_request(truth=True)


def test_sample_weight_request_leaves_the_shared_scorer_alone(routing, blobs):
    X, S, _ = blobs
    weighted = covering_rate_scorer.set_score_request(sample_weight=True)
    assert covering_rate_scorer.requests["sample_weight"] is None
    weight = np.arange(len(X)) % 3
    scores = cross_val_score(
        FirstCandidate(), X, S, scoring=weighted, cv=FOLDS, params={"sample_weight": weight}
    )
    models = [FirstCandidate().fit(X[train], S[train]) for train, _ in FOLDS.split(X)]
    expected = [
        covering_rate(S[test], model.predict(X[test]), sample_weight=weight[test])
        for model, (_, test) in zip(models, FOLDS.split(X), strict=True)
    ]
    assert scores == pytest.approx(expected)
