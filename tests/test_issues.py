"""Wrong candidate sets are found, said to whom it may concern, and survived in training."""

import pickle

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import torch
from conftest import make_blobs
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_digits, load_iris
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import KFold
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder
from sklearn.svm import LinearSVC

from sklearn_cleanse import (
    CleanSEClassifier,
    CleanSEKernelClassifier,
    PartialLabelClassifier,
    find_candidate_issues,
    load,
)
from sklearn_cleanse._rows import row_keys
from sklearn_cleanse.candidates import check_candidates
from sklearn_cleanse.candidates._grades import label_odds
from sklearn_cleanse.datasets import make_candidates
from sklearn_cleanse.issues import _disjoint_twins
from sklearn_cleanse.votes import estimate_noise, kernel_votes, make_ridge
from sklearn_cleanse.votes._kernel_votes import outside_odds


@pytest.fixture(scope="module")
def digits():
    """Four hundred digits, a fifth of whose candidate sets are wrong: X, S, y."""
    X, y = load_digits(return_X_y=True)
    X, y = X[:400], y[:400]
    return X, make_candidates(y, "flip", flip_proba=0.2, noise=0.2, random_state=0), y


def is_wrong(S, y):
    return ~np.asarray(S, dtype=bool)[np.arange(len(y)), y]


def share_in_top(issues, wrong):
    first = issues["row"].iloc[: int(1.5 * wrong.sum())]
    return wrong[np.unique(first)].sum() / wrong.sum()


# --- the table


def test_wrong_sets_come_first(digits):
    X, S, y = digits
    issues = find_candidate_issues(X, S)
    assert share_in_top(issues, is_wrong(S, y)) > 0.9
    assert issues["score"].is_monotonic_decreasing
    assert issues["score"].between(0, 1).all()
    assert issues.columns.tolist() == ["row", "kind", "score", "label", "suggestion", "reason"]


def test_suggestions_are_no_candidates_and_mostly_right(digits):
    X, S, y = digits
    issues = find_candidate_issues(X, S, min_score=0.5)
    issues = issues[issues["kind"] != "unsupported candidate"]
    rows = issues["row"].to_numpy()
    assert not S[rows, issues["suggestion"]].any()
    assert S[rows, issues["label"]].all()
    assert (issues["suggestion"] == y[rows]).mean() > 0.8


def test_an_unsupported_candidate_is_one_and_the_set_is_believed(digits):
    X, S, y = digits
    issues = find_candidate_issues(X, S)
    rest = issues[issues["kind"] == "unsupported candidate"]
    assert len(rest) > 0
    rows = rest["row"].to_numpy()
    assert S[rows, rest["label"]].all()
    assert S[rows, rest["suggestion"]].all()
    assert (rest["score"] < 0.05).all()
    assert (rest["label"] != y[rows]).mean() > 0.95


def test_every_row_is_ranked_if_asked_for(digits):
    X, S, _ = digits
    assert sorted(find_candidate_issues(X, S, min_score=0)["row"]) == list(range(len(X)))


def test_plain_labels_have_their_errors_found():
    X, y = load_iris(return_X_y=True)
    names = np.array(["setosa", "versicolor", "virginica"])[y]
    wrong = [3, 60, 140]
    given = names.copy()
    given[wrong] = np.roll(names, 50)[wrong]
    issues = find_candidate_issues(X, given)
    assert set(issues["row"][:3]) == set(wrong)
    assert (issues["kind"] == "label contradicted").all()
    assert issues["suggestion"][:3].tolist() == names[issues["row"][:3]].tolist()
    assert all(names[row] in issues["reason"][i] for i, row in enumerate(issues["row"][:3]))


def test_right_labels_of_separate_classes_raise_no_issue():
    X, y = load_iris(return_X_y=True)
    assert len(find_candidate_issues(X[:100], y[:100])) == 0


def test_duplicates_without_a_common_candidate_are_named():
    X, S, _ = make_blobs()
    X, S = np.vstack([X, X[:1]]), np.vstack([S, 1 - S[:1]])
    S[-1, 2], S[0] = 1, [1, 0, 0]
    issues = find_candidate_issues(X, S, min_score=0).set_index("row")
    for row, other in ((0, 120), (120, 0)):
        assert issues.loc[row, "kind"] == "duplicates disagree"
        assert f"row {other} " in issues.loc[row, "reason"]
    assert issues.loc[120, "score"] >= 0.5 > issues.loc[0, "score"]


def test_labels_that_are_the_same_thing_are_reported_as_alike():
    X, y = load_iris(return_X_y=True)
    rng = np.random.RandomState(0)
    split = np.where((y == 0) & (rng.uniform(size=150) < 0.5), 3, y)  # setosa under two names
    alike = find_candidate_issues(X, split).attrs["labels_alike"]
    assert [(a, b) for a, b, _ in alike] == [(0, 3)]
    assert find_candidate_issues(X, y).attrs["labels_alike"] == []


def test_a_frame_keeps_its_index_and_html_its_sentences(digits):
    X, S, _ = digits
    names = pd.Index([f"sample {i}" for i in range(len(X))], name="id")
    issues = find_candidate_issues(pd.DataFrame(X, index=names), S)
    plain = find_candidate_issues(X, S)
    assert issues.index.tolist() == [f"sample {row}" for row in plain["row"]]
    assert "..." not in issues.head()._repr_html_()
    again = pickle.loads(pickle.dumps(issues))
    pd.testing.assert_frame_equal(again, issues)


def test_candidates_may_come_in_any_form(digits):
    X, S, _ = digits
    sets = [set(np.flatnonzero(row).tolist()) for row in S]
    expected = find_candidate_issues(X, S, random_state=0)
    for form in (sp.csr_array(S), pd.DataFrame(S), sets):
        found = find_candidate_issues(X, form, random_state=0)
        assert found["row"].tolist() == expected["row"].tolist()
        assert found["score"].tolist() == expected["score"].tolist()


# --- other engines


def test_any_classifier_can_be_the_engine():
    X, y = load_digits(return_X_y=True)
    X, y = X[:400] / 16, y[:400]
    given = y.copy()
    given[::10] = (y[::10] + 1) % 10
    model = LogisticRegression(max_iter=500)
    issues = find_candidate_issues(X, given, estimator=model, min_score=0, random_state=0)
    score = issues.set_index("row")["score"].sort_index()
    assert roc_auc_score(given != y, score) > 0.98
    assert not hasattr(model, "coef_")


def test_a_classifier_of_candidates_can_be_the_engine(digits):
    X, S, y = digits
    engine = CleanSEKernelClassifier(noise=0.2, random_state=0)
    issues = find_candidate_issues(X, S, estimator=engine, cv=3, random_state=0)
    assert share_in_top(issues, is_wrong(S, y)) > 0.85


def test_a_fitted_classifier_is_taken_as_it_is():
    X, y = load_iris(return_X_y=True)
    model = LogisticRegression(max_iter=500).fit(X[::2], y[::2])
    given = y.copy()
    given[1] = 2
    issues = find_candidate_issues(X[1::2], given[1::2], estimator=model, cv="prefit")
    assert issues["row"][0] == 0
    assert issues["suggestion"][0] == 0


# --- votes and estimators that reckon with wrong sets


def test_without_noise_votes_stay_inside_and_with_noise_they_sum_to_one(digits):
    X, S, _ = digits
    ridge, sets = make_ridge(X), torch.from_numpy(S.astype(bool))
    inside = kernel_votes(ridge, sets)
    assert inside.noise == 0
    assert (inside.proba[~sets] == 0).all()
    widened = kernel_votes(ridge, sets, noise=0.2)
    assert (widened.proba[~sets] > 0).any()
    assert torch.allclose(widened.proba.sum(dim=1), torch.ones(len(X), dtype=torch.float64))


@pytest.mark.parametrize("noise", [0.0, 0.1, 0.3])
def test_noise_is_estimated_without_truth(noise):
    X, y = load_digits(return_X_y=True)
    X, y = X[:800], y[:800]
    S = make_candidates(y, "flip", flip_proba=0.2, noise=noise, random_state=0)
    found = estimate_noise(make_ridge(X), torch.from_numpy(S.astype(bool)))
    assert found == pytest.approx(noise, abs=0.05)


@pytest.mark.parametrize("seed", range(3))
def test_classes_that_overlap_are_no_noise(seed):
    rng = np.random.RandomState(seed)
    y = rng.randint(8, size=400)
    codes = rng.uniform(size=(8, 7)) < 0.5
    X = (codes[y] ^ (rng.uniform(size=(400, 7)) < 0.1)).astype(float)  # others' rows look the same
    S = torch.from_numpy(make_candidates(y, "flip", flip_proba=0.3, random_state=seed).astype(bool))
    assert estimate_noise(make_ridge(X), S) == 0


def test_sets_of_all_labels_are_never_wrong():
    X = np.random.RandomState(0).normal(size=(20, 2))
    assert estimate_noise(make_ridge(X), torch.ones(20, 3, dtype=torch.bool)) == 0


@pytest.mark.parametrize("make", [CleanSEKernelClassifier, CleanSEClassifier])
def test_wrong_sets_cost_less_if_they_are_reckoned_with(make):
    X, y = load_digits(return_X_y=True)
    S = make_candidates(y[:600], "flip", flip_proba=0.3, noise=0.4, random_state=0)
    small = {"max_epochs": 5, "hidden_layer_sizes": (100,), "n_members": 1}
    fast = {} if make is CleanSEKernelClassifier else small
    plain = make(random_state=0, **fast).fit(X[:600], S)
    robust = make(noise="auto", random_state=0, **fast).fit(X[:600], S)
    assert plain.noise_ == 0
    assert robust.noise_ == pytest.approx(0.4, abs=0.1)
    assert robust.score(X[600:], y[600:]) > plain.score(X[600:], y[600:]) + 0.1


@pytest.mark.parametrize("make", [CleanSEKernelClassifier, CleanSEClassifier])
def test_confidences_stay_inside_the_set_that_was_given(make, digits):
    X, S, _ = digits
    fast = {} if make is CleanSEKernelClassifier else {"max_epochs": 2}
    model = make(noise=0.2, random_state=0, **fast).fit(X, S)
    labels, proba = model.disambiguate(X, S, return_proba=True)
    for confidences in (proba, model.candidate_proba_):
        assert (confidences[~S] == 0).all()
        np.testing.assert_allclose(confidences.sum(axis=1), 1, rtol=1e-5)
    assert S[np.arange(len(X)), labels].all()


def test_where_the_sets_are_right_auto_is_the_default_to_the_last_bit():
    X, y = load_digits(return_X_y=True)
    S = make_candidates(y[:300], "flip", flip_proba=0.2, random_state=0)
    params = {"max_epochs": 2, "random_state": 0}
    default = CleanSEClassifier(**params).fit(X[:300], S)
    auto = CleanSEClassifier(noise="auto", **params).fit(X[:300], S)
    assert auto.noise_ == 0
    np.testing.assert_array_equal(default.predict_proba(X), auto.predict_proba(X))


def test_a_training_that_goes_on_reckons_with_wrong_sets(digits):
    X, S, _ = digits
    weight = np.repeat([1, 2], 200)
    params = {"loss": "proden", "max_epochs": 2, "warm_start": True, "random_state": 0}
    model = CleanSEClassifier(noise=0.2, **params)
    model.fit(X, S, sample_weight=weight).fit(X, S, sample_weight=weight)
    assert model.n_iter_ == 4
    assert model.noise_ == 0.2
    assert model.candidate_proba_.shape == S.shape


def test_the_noise_is_a_fact_of_the_fit(digits, tmp_path):
    X, S, _ = digits
    model = CleanSEClassifier(noise=0.2, kernel_share=0.0, max_epochs=1, random_state=0).fit(X, S)
    assert model.drop_training_state().noise_ == 0.2
    model.save(tmp_path / "model")
    assert load(tmp_path / "model").noise_ == 0.2
    some = CleanSEClassifier(noise=0.3, random_state=0).partial_fit(X, S)
    assert some.noise_ == 0.3
    some.set_params(noise=0.0).partial_fit(X, S)
    assert some.noise_ == 0


@pytest.mark.parametrize("graded", [False, True])
def test_labels_outside_start_with_the_share_of_wrong_sets(graded):
    S = torch.zeros(1, 10, dtype=torch.bool)
    S[:, :5] = True
    grades = torch.ones(1, 10)
    if graded:
        grades[:, 1:5] = 0.05
    odds = outside_odds(S.double(), 0.2, grades)
    belief = torch.where(S, grades, odds)
    assert float(belief[~S].sum() / belief.sum()) == pytest.approx(0.2)
    marks = sp.csr_array((grades * S).numpy())
    belief = label_odds(sp.csr_array(S.numpy()), 0.2, marks if graded else None).toarray()
    assert belief.max() == 1
    assert belief[:, 5:].sum() / belief.sum() == pytest.approx(0.2)


@pytest.mark.parametrize("make", [CleanSEKernelClassifier, CleanSEClassifier])
def test_grades_do_not_add_noise(make, digits):
    X, S, _ = digits
    grades = np.where(S, 0.1, 0.0)
    grades[np.arange(len(S)), S.argmax(axis=1)] = 1.0
    fast = {} if make is CleanSEKernelClassifier else {"max_epochs": 1}
    model = make(noise=0.2, graded=True, random_state=0, **fast).fit(X, grades)
    assert model.noise_ == 0.2
    assert (model.candidate_proba_[~S] == 0).all()
    if make is CleanSEKernelClassifier:
        assert model.label_proba_[~S].sum() / len(S) < 0.4


def test_noise_goes_with_early_stopping_and_weights(digits):
    X, S, _ = digits
    weight = np.linspace(0, 1, len(X))
    model = CleanSEClassifier(noise=0.2, early_stopping=True, max_epochs=2, random_state=0)
    model.fit(X, S, sample_weight=weight)
    assert model.noise_ == 0.2
    assert model.class_shares_.sum() == pytest.approx(1)
    assert (model.candidate_proba_[~S] == 0).all()


def test_noise_needs_kernel_votes(digits):
    X, S, _ = digits
    for params in ({"vote": "soft"}, {"temperature": 1.0}):
        with pytest.raises(ValueError, match=r"noise=0.1 needs kernel votes.*noise=0"):
            CleanSEClassifier(noise=0.1, **params).fit(X, S)
    with pytest.raises(ValueError, match="noise"):
        CleanSEKernelClassifier(noise=1.0).fit(X, S)


def test_networks_without_votes_have_no_noise():
    assert "noise" not in PartialLabelClassifier().get_params()


def test_classes_stay_as_they_were_given():
    X, S, _ = make_blobs()
    frame = pd.DataFrame(S, columns=["owl", "cat", "dog"])
    issues = find_candidate_issues(X, frame, min_score=0)
    assert set(issues["label"]) | set(issues["suggestion"]) <= set(check_candidates(frame)[0])


# --- equal rows


def with_wrong_labels():
    """Return iris with every tenth label wrong: X, labels, which are wrong."""
    X, y = load_iris(return_X_y=True)
    X, first = np.unique(X, axis=0, return_index=True)
    y = y[first]
    wrong = np.arange(len(y)) % 10 == 0
    return X, np.where(wrong, (y + 1) % 3, y), wrong


def test_copies_of_all_rows_do_not_hide_errors():
    X, labels, wrong = with_wrong_labels()
    params = {"min_score": 0, "random_state": 0}
    once = find_candidate_issues(X, labels, **params).set_index("row")["score"].sort_index()
    X, labels = np.vstack([X, X]), np.concatenate([labels, labels])
    twice = find_candidate_issues(X, labels, **params).set_index("row")["score"].sort_index()
    np.testing.assert_array_equal(twice, np.concatenate([once, once]))
    assert (once[wrong] > 0.5).mean() > 0.8


def test_copies_of_a_row_are_not_in_other_folds():
    X, labels, wrong = with_wrong_labels()
    X, labels, wrong = np.vstack([X, X]), np.tile(labels, 2), np.tile(wrong, 2)
    by_nearest = KNeighborsClassifier(1)
    issues = find_candidate_issues(X, labels, estimator=by_nearest, min_score=0, random_state=0)
    score = issues.set_index("row")["score"].sort_index()
    assert roc_auc_score(wrong, score) > 0.8  # by its copy, the nearest row, each would be right


def test_duplicates_with_gaps_disagree_and_many_equal_rows_are_no_matter():
    X, labels = np.tile([1.0, np.nan], (12_000, 1)), np.zeros(12_000, dtype=int)
    labels[7] = 1
    twin = _disjoint_twins(row_keys(X), np.eye(2, dtype=bool)[labels])
    assert twin[7] == 0
    assert (np.delete(twin, 7) == 7).all()
    X[0] = [-0.0, 0.0]
    assert _disjoint_twins(row_keys(X), np.eye(2, dtype=bool)[labels])[0] == -1
    text = pd.DataFrame({"size": [1.0, np.nan, np.nan], "town": ["Oslo", "Rome", "Rome"]})
    assert len(set(row_keys(text))) == 2
    assert len(set(row_keys(sp.csr_array([[0.0, 1.0], [1.0, 0.0], [0.0, 1.0]])))) == 2


# --- grades


def test_grades_are_taken_and_tell(digits):
    X, S, y = digits
    grades = np.where(np.eye(10, dtype=bool)[y], 1.0, 0.4) * S
    wrong = is_wrong(S, y)
    issues = find_candidate_issues(X, grades, random_state=0)
    assert share_in_top(issues, wrong) > 0.9
    for engine in (CleanSEKernelClassifier(graded=True), CleanSEKernelClassifier()):
        issues = find_candidate_issues(X, grades, estimator=engine, cv=2, random_state=0)
        assert share_in_top(issues, wrong) > 0.8
    model = CleanSEKernelClassifier(graded=True).fit(X, grades)
    issues = find_candidate_issues(X, grades, estimator=model, cv="prefit")
    assert set(issues["label"]) <= set(range(10))


# --- what is claimed of scores


def test_scores_rank_and_are_too_low_to_be_probabilities():
    X, y = load_digits(return_X_y=True)
    X, y = X[:600], y[:600]
    S = make_candidates(y, "flip", flip_proba=0.2, noise=0.1, random_state=0)
    wrong = is_wrong(S, y)
    score = find_candidate_issues(X, S, min_score=0).set_index("row")["score"].sort_index()
    assert roc_auc_score(wrong, score) > 0.98
    assert wrong[score > 0.5].mean() > 0.95
    middle = (score > 0.1) & (score <= 0.5)
    assert wrong[middle].mean() > 0.5
    assert wrong[score > 0.1].sum() > 0.9 * wrong.sum()


def test_labels_alike_are_told_in_html():
    X, y = load_iris(return_X_y=True)
    split = np.where((y == 0) & (np.random.RandomState(0).uniform(size=150) < 0.5), 3, y)
    assert "do not tell apart: 0 and 3</p>" in find_candidate_issues(X, split)._repr_html_()
    assert "tell apart" not in find_candidate_issues(X, y)._repr_html_()


# --- what is refused


@pytest.mark.parametrize(
    ("params", "expected"),
    [
        ({"noise": 1.0}, r"'noise' .*range \[0.0, 1.0\).* Got 1.0"),
        ({"noise": 2}, "'noise' .* Got 2"),
        ({"noise": "x"}, "'noise' .*'auto'.* Got 'x'"),
        ({"min_score": 7}, "'min_score' .* Got 7"),
        ({"min_score": "a"}, "'min_score' .* Got 'a'"),
        ({"cv": KFold()}, "'cv' .*int .*'prefit'.* Got KFold"),
        ({"estimator": LinearSVC()}, "LinearSVC.* no predict_proba; wrap .*CalibratedClassifierCV"),
        ({"estimator": LogisticRegression()}, "LogisticRegression.*takes labels only"),
        ({"estimator": RandomForestClassifier(3)}, "RandomForest.*not for candidates"),
    ],
)
def test_what_makes_no_sense_is_refused_by_name_and_value(params, expected):
    X, S, _ = make_blobs()
    with pytest.raises(ValueError, match=expected):
        find_candidate_issues(X, S, **{"estimator": CleanSEKernelClassifier(), **params})


def test_sets_of_one_are_labels_to_any_classifier():
    X, _, y = make_blobs()
    model = LogisticRegression()
    expected = find_candidate_issues(X, y, estimator=model, min_score=0, random_state=0)
    found = find_candidate_issues(X, np.eye(3)[y], estimator=model, min_score=0, random_state=0)
    assert found["score"].tolist() == expected["score"].tolist()


def test_rows_in_another_order_are_refused_with_an_estimator_too():
    X, S, _ = make_blobs()
    X, S = pd.DataFrame(X), pd.DataFrame(S)[::-1]
    with pytest.raises(ValueError, match=r"S\.loc\[X\.index\]"):
        find_candidate_issues(X, S, estimator=CleanSEKernelClassifier())


def test_a_fitted_classifier_may_know_more_labels_than_the_rows_have():
    X, y = load_iris(return_X_y=True)
    model = LogisticRegression(max_iter=500).fit(X, y)
    given = np.where(y[:100] == 0, 1, 0)
    issues = find_candidate_issues(X[:100], given, estimator=model, cv="prefit")
    assert len(issues) > 90
    new = np.where(y == 0, 7, y)  # and fewer
    issues = find_candidate_issues(X, new, estimator=model, cv="prefit")
    assert (issues.set_index("row").loc[:49, "suggestion"] == 0).all()


def test_text_gets_the_pipeline_as_the_estimator_to_give():
    X, S, _ = make_blobs()
    frame = pd.DataFrame(X).assign(town=["Oslo", "Rome"] * (len(X) // 2)).rename(columns=str)
    with pytest.raises(ValueError, match=r"\(X, S, estimator=make_pipeline\(.*\['town'\]"):
        find_candidate_issues(frame, S)
    with pytest.raises(ValueError, match=r"column 4 of X holds text"):
        find_candidate_issues(frame.to_numpy(dtype=object), S)
    encode = make_column_transformer((OneHotEncoder(), ["town"]), remainder="passthrough")
    pipe = make_pipeline(encode, CleanSEKernelClassifier())
    assert len(find_candidate_issues(frame, S, estimator=pipe, min_score=0)) > 0
