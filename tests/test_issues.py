"""Wrong candidate sets are found, with what to write instead and why."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from conftest import make_blobs
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_digits, load_iris
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import KFold
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import LinearSVC

from sklearn_cleanse import CleanSEKernelClassifier
from sklearn_cleanse.datasets import make_candidates, make_partial_classification
from sklearn_cleanse.inspection import find_candidate_issues
from sklearn_cleanse.inspection._issues import _disjoint_twins, _group_equal

ALL = {"include": "all", "random_state": 0}


@pytest.fixture(scope="module")
def digits():
    """Four hundred digits, a fifth of whose candidate sets are wrong: X, S, y."""
    X, y = (part[:400] for part in load_digits(return_X_y=True))
    return X, make_candidates(y, "flip", flip_proba=0.2, noise_rate=0.2, random_state=0), y


@pytest.fixture(scope="module")
def issues(digits):
    return find_candidate_issues(*digits[:2], random_state=0)


def is_wrong(S, y):
    return ~np.asarray(S, dtype=bool)[np.arange(len(y)), y]


def part_in_top(issues, wrong):
    first = issues["row"].iloc[: int(1.5 * wrong.sum())]
    return wrong[np.unique(first)].sum() / wrong.sum()


def scores(issues):
    return issues.set_index("row")["score"].sort_index().to_numpy()


# --- the table


def test_wrong_sets_come_first(digits, issues):
    _, S, y = digits
    wrong = is_wrong(S, y)
    assert part_in_top(issues, wrong) > 0.85
    assert wrong[issues["row"]].mean() > 0.95
    assert issues["score"].is_monotonic_decreasing
    assert issues["score"].between(0.3, 1).all()
    assert issues.columns.tolist() == ["row", "given", "suggested", "score", "reason"]


def test_few_right_sets_are_listed_and_reasons_agree():
    X, S, _ = make_partial_classification(600, n_classes=5, random_state=0)
    issues = find_candidate_issues(X, S, random_state=0)
    assert len(issues) <= 0.04 * len(X)
    found = issues["reason"].str.extractall(r"\((\d+) %\)")[0].astype(int).unstack()
    assert (found[0] > found[1]).all()


def test_suggestions_are_not_candidates_and_mostly_right(digits, issues):
    _, S, y = digits
    rows = issues["row"][issues["score"] > 0.5]
    suggested = issues["suggested"][: len(rows)]
    assert not S[rows, suggested].any()
    assert (suggested == y[rows]).mean() > 0.8
    for row, given, other, reason in zip(
        rows, issues["given"], suggested, issues["reason"], strict=False
    ):
        assert given == np.flatnonzero(S[row]).tolist()
        assert reason.startswith(f"other rows suggest {other} (")


def test_all_ranks_every_row_and_names_candidates_without_support(digits, issues):
    X, S, y = digits
    every = find_candidate_issues(X, S, **ALL)
    assert sorted(every["row"]) == list(range(len(X)))
    pd.testing.assert_frame_equal(every[: len(issues)], issues)
    fine = every[len(issues) :]
    assert S[fine["row"], fine["suggested"]].all()
    assert fine["reason"].str.match(r"other rows support \d \(\d+ %\)").all()
    weak = fine["reason"].str.extract(r"not (\d)")[0].dropna().astype(int)  # the first of them
    rows = fine["row"][weak.index]
    assert S[rows, weak].all()
    assert (weak != y[rows]).mean() > 0.95


def test_errors_in_plain_labels_are_found():
    X, y = load_iris(return_X_y=True)
    names = np.array(["setosa", "versicolor", "virginica"])[y]
    wrong = [3, 60, 140]
    given = names.copy()
    given[wrong] = np.roll(names, 50)[wrong]
    issues = find_candidate_issues(X, given)
    assert set(issues["row"][:3]) == set(wrong)
    assert issues["given"].tolist() == given[issues["row"]].tolist()
    assert issues["suggested"][:3].tolist() == names[issues["row"][:3]].tolist()
    assert len(find_candidate_issues(X[:100], names[:100])) == 0


def test_duplicates_without_a_common_candidate_are_named():
    X, S, _ = make_blobs()
    X, S = np.vstack([X, X[:1]]), np.vstack([S, 1 - S[:1]])
    S[-1, 2], S[0] = 1, [1, 0, 0]
    issues = find_candidate_issues(X, S, **ALL).set_index("row")
    assert issues.loc[120, "score"] >= 0.5 > issues.loc[0, "score"]
    assert issues.loc[120, "reason"] == "row 0 has equal features but other candidates"


def test_two_names_of_one_thing_are_reported_as_alike():
    X, y = load_iris(return_X_y=True)
    split = np.where((y == 0) & (np.random.RandomState(0).uniform(size=150) < 0.5), 3, y)
    alike = find_candidate_issues(X, split).attrs["labels_alike"]
    assert [(a, b) for a, b, _ in alike] == [(0, 3)]
    assert find_candidate_issues(X, y).attrs["labels_alike"] == []


@pytest.mark.parametrize("form", ["X", "S", "sparse", "sets"])
def test_rows_are_named_by_the_index_whatever_the_form(form, digits, issues):
    X, S, _ = digits
    names = pd.Index([f"sample {i}" for i in range(len(X))], name="id")
    if form == "X":
        found = find_candidate_issues(pd.DataFrame(X, index=names), S, random_state=0)
    elif form == "S":
        found = find_candidate_issues(X, pd.DataFrame(S, index=names), random_state=0)
    else:
        sets = [set(np.flatnonzero(row).tolist()) for row in S]
        given = sp.csr_array(S) if form == "sparse" else sets
        found, names = find_candidate_issues(X, given, random_state=0), pd.RangeIndex(len(X))
    assert found["row"].tolist() == names[issues["row"]].tolist()
    np.testing.assert_allclose(found["score"], issues["score"])


def test_scores_rank_and_are_too_low_to_be_probabilities():
    X, y = (part[:600] for part in load_digits(return_X_y=True))
    S = make_candidates(y, "flip", flip_proba=0.2, noise_rate=0.1, random_state=0)
    wrong, score = is_wrong(S, y), scores(find_candidate_issues(X, S, **ALL))
    assert roc_auc_score(wrong, score) > 0.98
    assert wrong[score > 0.5].mean() > 0.95
    assert wrong[(score > 0.1) & (score <= 0.5)].mean() > 0.5
    assert wrong[score > 0.3].sum() > 0.9 * wrong.sum()


def test_prior_weights_matter(digits):
    X, S, y = digits
    weights = np.where(np.eye(10, dtype=bool)[y], 1.0, 0.4) * S
    assert part_in_top(find_candidate_issues(X, weights, **ALL), is_wrong(S, y)) > 0.9
    model = CleanSEKernelClassifier()
    found = find_candidate_issues(X, weights, estimator=model, cv=2, **ALL)
    assert part_in_top(found, is_wrong(S, y)) > 0.8


# --- other estimators


@pytest.mark.parametrize("way", ["estimator", "components", "pipeline"])
def test_a_fitted_kernel_estimator_is_used_for_its_own_rows(way, digits, monkeypatch):
    X, S, y = digits
    n_components = 200 if way == "components" else None
    model = CleanSEKernelClassifier(noise_rate=0.2, n_components=n_components, random_state=0)
    if way == "pipeline":
        model = make_pipeline(StandardScaler(), model)
    X, S = np.vstack([X, X[:5]]), np.vstack([S, S[:5]])  # equal rows do not confuse
    model.fit(X, S)
    fits = []
    fit = CleanSEKernelClassifier.fit
    monkeypatch.setattr(CleanSEKernelClassifier, "fit", lambda *a: fits.append(1) or fit(*a))
    found = find_candidate_issues(X, S, estimator=model, **ALL)
    assert fits == []
    assert part_in_top(found, is_wrong(S, np.append(y, y[:5]))) > 0.8
    order = np.random.RandomState(0).permutation(len(X))
    find_candidate_issues(X[order], S[order], estimator=model, cv=2)
    find_candidate_issues(X[:100], S[:100], estimator=model, cv=2)
    assert len(fits) == 4


def test_any_classifier_can_be_fitted_out_of_fold():
    X, y = load_digits(return_X_y=True)
    X, y = X[:400] / 16, y[:400]
    given = np.where(np.arange(400) % 10 == 0, (y + 1) % 10, y)
    model = LogisticRegression(max_iter=500)
    score = scores(find_candidate_issues(X, given, estimator=model, **ALL))
    assert roc_auc_score(given != y, score) > 0.98
    assert not hasattr(model, "coef_")
    sets = find_candidate_issues(X, np.eye(10)[given], estimator=model, **ALL)
    np.testing.assert_array_equal(scores(sets), score)  # sets of one are labels


def test_text_columns_go_through_a_pipeline():
    X, S, _ = make_blobs()
    frame = pd.DataFrame(X).assign(town=["Oslo", "Rome"] * 60).rename(columns=str)
    with pytest.raises(ValueError, match=r"make_pipeline\(.*\['town'\]"):
        find_candidate_issues(frame, S)
    encode = make_column_transformer((OneHotEncoder(), ["town"]), remainder="passthrough")
    pipe = make_pipeline(encode, CleanSEKernelClassifier())
    assert len(find_candidate_issues(frame, S, estimator=pipe, cv=2, include="all")) == 120


# --- equal rows


def with_wrong_labels():
    """Return iris with every tenth label wrong: X, labels, which are wrong."""
    X, y = load_iris(return_X_y=True)
    X, first = np.unique(X, axis=0, return_index=True)
    wrong = np.arange(len(X)) % 10 == 0
    return X, np.where(wrong, (y[first] + 1) % 3, y[first]), wrong


def test_copies_of_all_rows_do_not_hide_errors():
    X, labels, wrong = with_wrong_labels()
    once = scores(find_candidate_issues(X, labels, **ALL))
    X, labels, both = np.vstack([X, X]), np.tile(labels, 2), np.tile(wrong, 2)
    np.testing.assert_array_equal(scores(find_candidate_issues(X, labels, **ALL)), np.tile(once, 2))
    assert (once[wrong] > 0.5).mean() > 0.7
    nearest = find_candidate_issues(X, labels, estimator=KNeighborsClassifier(1), **ALL)
    assert roc_auc_score(both, scores(nearest)) > 0.8  # by its copy each would be right


def test_equal_rows_are_found_in_every_form_and_in_great_numbers():
    X, labels = np.tile([1.0, np.nan], (12_000, 1)), np.zeros(12_000, dtype=int)
    labels[7] = 1
    twin = _disjoint_twins(_group_equal(X), np.eye(2, dtype=bool)[labels])
    assert twin[7] == 0
    assert (np.delete(twin, 7) == 7).all()
    text = pd.DataFrame({"size": [1.0, np.nan, np.nan], "town": ["Oslo", "Rome", "Rome"]})
    table = sp.csr_array([[0.0, 1.0], [1.0, 0.0], [1.0, 0.0]])
    for form in (text, text.to_numpy(), table, [[1, 2], [3, 4], [3, 4]]):
        first, *others = _group_equal(form)
        assert others[0] == others[1] != first


# --- bad input


@pytest.mark.parametrize(
    ("params", "expected"),
    [
        ({"noise_rate": 1.0}, r"'noise_rate' .*range \[0.0, 1.0\).* Got 1.0"),
        ({"noise_rate": "x"}, "'noise_rate' .*'auto'.* Got 'x'"),
        ({"include": "best"}, "'include' .*'all'.* Got 'best'"),
        ({"cv": KFold()}, "'cv' .*int .* Got KFold"),
        ({"estimator": LinearSVC()}, "'estimator' .*'predict_proba'.* Got LinearSVC"),
        ({"estimator": LogisticRegression()}, "Logistic.* labels only. Pass an estimator of this"),
        ({"estimator": RandomForestClassifier(3)}, "RandomForest.*as several outputs"),
    ],
)
def test_bad_parameters_are_named(params, expected):
    X, S, _ = make_blobs()
    with pytest.raises(ValueError, match=expected):
        find_candidate_issues(X, S, **params)


def test_rows_in_another_order_or_number_are_named():
    X, S, _ = make_blobs()
    with pytest.raises(ValueError, match=r"S = S\.loc\[X\.index\]"):
        find_candidate_issues(pd.DataFrame(X), pd.DataFrame(S)[::-1])
    with pytest.raises(ValueError, match="`S` must have as many rows as X, 120, got 117"):
        find_candidate_issues(X, S[:-3])
