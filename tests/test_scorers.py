"""Scorers in cross-validation and search, with and without true labels."""

import inspect
import pickle
import re

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from test_metrics import FirstCandidate, forms

from sklearn_cleanse import (
    CleanSEClassifier,
    DPCLSClassifier,
    PartialLabelClassifier,
    PLCGRClassifier,
    metrics,
)
from sklearn_cleanse.metrics import (
    approximated_accuracy,
    approximated_accuracy_scorer,
    candidate_log_loss,
    candidate_log_loss_scorer,
    covering_rate,
    covering_scorer,
    disambiguation_scorer,
    truth_scorer,
)
from sklearn_cleanse.model_selection import CandidateKFold

LABEL_FREE = [covering_scorer, approximated_accuracy_scorer, candidate_log_loss_scorer]

FOLDS = CandidateKFold(3, random_state=0)


# --- scorers


def test_scorers_agree_with_measures(blobs):
    X, S, y = blobs
    model = FirstCandidate().fit(X, S)
    log_proba = model.predict_log_proba(X)
    assert covering_scorer(model, X, S) == model.score(X, S)
    assert approximated_accuracy_scorer(model, X, S) == pytest.approx(
        approximated_accuracy(S, log_proba, log=True)
    )
    assert candidate_log_loss_scorer(model, X, S) == -candidate_log_loss(S, log_proba, log=True)
    assert truth_scorer(model, X, S, truth=y) == model.score(X, S, truth=y)
    assert disambiguation_scorer(model, X, S, truth=y) == np.mean(model.disambiguate(X, S) == y)


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


@pytest.mark.parametrize("form", ["csr", "coo"])  # which cross_val_score refuses on its own
def test_sparse_candidates_in_grid_search(form, blobs):
    X, S, _ = blobs
    search = GridSearchCV(FirstCandidate(), {"smoothing": [0.1]}, scoring=covering_scorer, cv=FOLDS)
    expected = search.fit(X, S).cv_results_["mean_test_score"]
    given = forms(S.astype(bool))[form]
    assert search.fit(X, given).cv_results_["mean_test_score"] == pytest.approx(expected)


def test_label_free_grid_search(blobs):
    X, S, _ = blobs
    scoring = {"covering": covering_scorer, "loss": candidate_log_loss_scorer}
    search = GridSearchCV(
        FirstCandidate(), {"smoothing": [0.1, 10.0]}, scoring=scoring, refit="loss", cv=FOLDS
    )
    search.fit(X, S)
    results = search.cv_results_
    assert search.best_params_["smoothing"] == [0.1, 10.0][np.argmax(results["mean_test_loss"])]
    assert (results["mean_test_loss"] < 0).all()
    assert search.score(X, S) == candidate_log_loss_scorer(search.best_estimator_, X, S)


def test_scorers_see_through_pipelines_and_ordinary_classifiers(blobs):
    X, S, y = blobs
    pipeline = make_pipeline(StandardScaler(), FirstCandidate()).fit(X, S)
    assert 0 < approximated_accuracy_scorer(pipeline, X, S) <= covering_scorer(pipeline, X, S)
    model = LogisticRegression().fit(X, y)
    assert covering_scorer(model, X, y) == model.score(X, y)


def test_scorer_without_predict_log_proba(blobs):
    X, S, y = blobs
    model = LogisticRegression().fit(X, y)

    class OnlyProba:
        classes_ = model.classes_
        predict_proba = model.predict_proba

    assert candidate_log_loss_scorer(OnlyProba(), X, S) == pytest.approx(
        candidate_log_loss_scorer(model, X, S)
    )


def test_a_class_missing_from_training_does_not_break_scoring(blobs):
    X, S, _ = blobs
    sets = [set(np.flatnonzero(row).tolist()) for row in S]
    sets[0] = {0, 99}  # its only row is in the training part of all folds but one
    for scorer in LABEL_FREE:
        scores = cross_val_score(FirstCandidate(), X, sets, scoring=scorer, cv=FOLDS)
        assert np.isfinite(scores).all()


def test_rows_of_unknown_labels_do_not_blind_the_log_loss(blobs):
    X, S, _ = blobs
    sets = [set(np.flatnonzero(row).tolist()) for row in S]
    model = FirstCandidate().fit(X[1:], sets[1:])
    expected = candidate_log_loss_scorer(model, X[1:], sets[1:])
    sets[0] = {99}
    with pytest.warns(UserWarning, match=r"1 of 120 rows .* such as row 0 with \[99\]"):
        assert candidate_log_loss_scorer(model, X, sets) == pytest.approx(expected)
    with pytest.raises(ValueError, match=r"row 0 with \[99\]; nothing is left to score"):
        candidate_log_loss_scorer(model, X[:1], sets[:1])
    log_proba = model.predict_log_proba(X)  # the measure itself leaves nothing out
    assert candidate_log_loss(sets, log_proba, log=True, classes=model.classes_) == np.inf


@pytest.mark.parametrize("as_sets", [False, True])
def test_truth_in_other_labels_is_refused(as_sets, blobs):
    X, S, y = blobs
    given = [set(np.flatnonzero(row).tolist()) for row in S] if as_sets else S
    model = FirstCandidate().fit(X, given)
    names = np.array(["a", "b", "c"])
    for score in (truth_scorer, disambiguation_scorer, type(model).score):
        with pytest.raises(ValueError, match=r"row 2 of truth is 3, .* write the same labels"):
            score(model, X, given, truth=y + 1)
        with pytest.raises(ValueError, match=r"row 0 of truth is 'a', .* 3 classes: \[?0, 1, 2"):
            score(model, X, given, truth=names[y])


def test_true_accuracy_in_cross_validation(routing, blobs):
    X, S, y = blobs
    scores = cross_val_score(
        FirstCandidate(), X, S, scoring=truth_scorer, cv=FOLDS, params={"truth": y}
    )
    expected = [
        np.mean(FirstCandidate().fit(X[train], S[train]).predict(X[test]) == y[test])
        for train, test in FOLDS.split(X, S)
    ]
    assert scores == pytest.approx(expected)


def test_truth_beside_label_free_scores(routing, blobs):
    X, S, y = blobs
    scoring = {"truth": truth_scorer, "covering": covering_scorer, "dis": disambiguation_scorer}
    results = cross_validate(FirstCandidate(), X, S, scoring=scoring, cv=FOLDS, params={"truth": y})
    assert (results["test_truth"] <= results["test_covering"]).all()
    assert (results["test_truth"] <= results["test_dis"]).all()


def test_label_free_choice_inside_true_accuracy_outside(routing, blobs):
    X, S, y = blobs
    search = GridSearchCV(
        FirstCandidate(), {"smoothing": [0.1, 10.0]}, scoring=approximated_accuracy_scorer, cv=FOLDS
    )
    scores = cross_val_score(
        search, X, S, scoring=truth_scorer, cv=FOLDS, params={"truth": y}, error_score="raise"
    )
    assert np.isfinite(scores).all()


def test_shuffled_truth_changes_no_fitted_parameter(routing, blobs):
    X, S, y = blobs
    shuffled = np.random.default_rng(0).permutation(y)
    fitted = [
        cross_validate(
            FirstCandidate(),
            X,
            S,
            scoring={"truth": truth_scorer, "covering": covering_scorer},
            cv=FOLDS,
            params={"truth": truth},
            return_estimator=True,
        )
        for truth in (y, shuffled)
    ]
    assert not np.array_equal(fitted[0]["test_truth"], fitted[1]["test_truth"])
    assert np.array_equal(fitted[0]["test_covering"], fitted[1]["test_covering"])
    for one, other in zip(fitted[0]["estimator"], fitted[1]["estimator"], strict=True):
        assert np.array_equal(one.model_.theta_, other.model_.theta_)
        assert np.array_equal(one.model_.var_, other.model_.var_)


def test_shuffled_truth_changes_no_weight_of_a_network(routing, blobs):
    X, S, y = blobs
    model = CleanSEClassifier(max_epochs=3, random_state=0)
    search = GridSearchCV(
        model, {"temperature": [1, 3]}, scoring=approximated_accuracy_scorer, cv=FOLDS
    )
    weights, scores = [], []
    for truth in (y, np.random.default_rng(0).permutation(y)):
        done = cross_validate(
            search,
            X,
            S,
            scoring=truth_scorer,
            cv=FOLDS,
            params={"truth": truth},
            return_estimator=True,
            error_score="raise",
        )
        scores.append(done["test_score"])
        nets = [fitted.best_estimator_.net_.module_ for fitted in done["estimator"]]
        weights.append([value.numpy() for net in nets for value in net.state_dict().values()])
    assert not np.array_equal(*scores)
    for one, other in zip(*weights, strict=True):
        np.testing.assert_array_equal(one, other)


ESTIMATORS = [CleanSEClassifier, PartialLabelClassifier, PLCGRClassifier, DPCLSClassifier]


@pytest.mark.parametrize("cls", [FirstCandidate, *ESTIMATORS])
def test_truth_cannot_be_asked_for_by_fit(cls, routing):
    with pytest.raises((TypeError, AttributeError)):
        cls().set_fit_request(truth=True)


@pytest.mark.parametrize("cls", ESTIMATORS)
def test_fit_refuses_truth_and_says_what_to_write(cls, blobs):
    X, S, y = blobs
    message = r"fit takes no truth.*set_config\(enable_metadata_routing=True\)"
    with pytest.raises(TypeError, match=message):
        cls().fit(X, S, truth=y)
    with pytest.raises(ValueError, match=message):  # of all folds, by scikit-learn
        cross_val_score(cls(), X, S, scoring=truth_scorer, cv=FOLDS, params={"truth": y})


@pytest.mark.parametrize("scorer", [truth_scorer, disambiguation_scorer], ids=repr)
def test_forgotten_truth_says_what_to_write(scorer, blobs):
    X, S, _ = blobs
    message = r"set_config\(enable_metadata_routing=True\).*params=\{\"truth\": y\}"
    with pytest.raises(ValueError, match=message):
        scorer(FirstCandidate().fit(X, S), X, S)
    with pytest.raises(ValueError, match=message):
        cross_val_score(FirstCandidate(), X, S, scoring=scorer, cv=FOLDS, error_score="raise")
    with pytest.warns(UserWarning, match=message):
        cross_val_score(FirstCandidate(), X, S, scoring=scorer, cv=FOLDS)


def test_without_routing_truth_does_not_pass_silently(blobs):
    X, S, y = blobs
    with pytest.raises(ValueError, match=r"unexpected keyword argument 'truth'"):
        cross_val_score(FirstCandidate(), X, S, scoring=truth_scorer, cv=FOLDS, params={"truth": y})


def test_label_free_scorers_refuse_truth(blobs):
    X, S, y = blobs
    with pytest.raises(TypeError, match="covering_scorer takes no truth"):
        covering_scorer(FirstCandidate().fit(X, S), X, S, truth=y)


def test_label_free_scorers_do_not_take_truth_by_routing(routing, blobs):
    X, S, y = blobs
    with pytest.raises(TypeError, match="truth"):
        cross_val_score(
            FirstCandidate(), X, S, scoring=covering_scorer, cv=FOLDS, params={"truth": y}
        )


def test_sample_weight_request_leaves_the_shared_scorer_alone(routing, blobs):
    X, S, _ = blobs
    weighted = covering_scorer.set_score_request(sample_weight=True)
    assert covering_scorer._requests["sample_weight"] is None
    weight = np.arange(len(X)) % 3
    scores = cross_val_score(
        FirstCandidate(), X, S, scoring=weighted, cv=FOLDS, params={"sample_weight": weight}
    )
    expected = [
        covering_rate(
            S[test],
            FirstCandidate().fit(X[train], S[train]).predict(X[test]),
            sample_weight=weight[test],
        )
        for train, test in FOLDS.split(X, S)
    ]
    assert scores == pytest.approx(expected)
    with pytest.raises(TypeError, match="covering_scorer takes no truth"):
        covering_scorer.set_score_request(truth=True)


@pytest.mark.parametrize("scorer", [*LABEL_FREE, truth_scorer, disambiguation_scorer], ids=repr)
def test_scorers_pickle(scorer, blobs):
    X, S, y = blobs
    model = FirstCandidate().fit(X, S)
    keywords = {} if scorer in LABEL_FREE else {"truth": y}
    assert pickle.loads(pickle.dumps(scorer))(model, X, S, **keywords) == scorer(
        model, X, S, **keywords
    )


@pytest.mark.parametrize(
    "function", [f for name in metrics.__all__ if inspect.isfunction(f := getattr(metrics, name))]
)
def test_documented_defaults_are_those_of_the_signature(function):
    stated = dict(re.findall(r"^    (\w+) : .*default=(\S+)$", function.__doc__, re.MULTILINE))
    actual = {
        name: str(parameter.default)
        for name, parameter in inspect.signature(function).parameters.items()
        if parameter.default is not inspect.Parameter.empty
    }
    assert stated == actual
