"""Graded candidates: odds beforehand, in every estimator that takes them."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import torch
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sklearn_cleanse import CleanSEClassifier, CleanSEKernelClassifier, PartialLabelClassifier
from sklearn_cleanse.candidates import check_graded
from sklearn_cleanse.datasets import annotator_quality, candidates_from_votes, describe
from sklearn_cleanse.losses import LOSSES
from sklearn_cleanse.metrics import candidate_report, covering_scorer, disambiguation_scorer
from sklearn_cleanse.model_selection import CandidateKFold

QUICK = {"hidden_layer_sizes": (16,), "max_epochs": 6, "random_state": 0}

ESTIMATORS = [
    CleanSEClassifier(graded=True, **QUICK),
    CleanSEClassifier("proden", graded=True, **QUICK),
    CleanSEClassifier(vote="soft", graded=True, **QUICK),
    CleanSEClassifier(vote="hard", neighbors_from="batch", graded=True, **QUICK),
    PartialLabelClassifier(graded=True, **QUICK),
    CleanSEKernelClassifier(graded=True, random_state=0),
    CleanSEKernelClassifier(graded=True, n_landmarks=40, random_state=0),
]


@pytest.fixture
def hints(blobs):
    """Candidates of which the true one has the best grade: X, G, S, y."""
    X, S, y = blobs
    G = S * 0.2
    G[np.arange(len(y)), y] = 0.8
    return X, G, S, y


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_grades_that_are_all_alike_change_nothing(estimator, blobs):
    X, S, _ = blobs
    plain = clone(estimator).set_params(graded=False).fit(X, S)
    for same in (S, S.astype(float), 0.3 * S, sp.csr_array(0.5 * S)):
        graded = clone(estimator).fit(X, same)
        np.testing.assert_array_equal(graded.predict_proba(X), plain.predict_proba(X))
        np.testing.assert_array_equal(graded.disambiguate(X, same), plain.disambiguate(X, S))


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_grades_decide_where_features_say_nothing(estimator, rng):
    X = rng.normal(size=(200, 3))
    y = np.arange(200) % 2
    G = np.where(np.eye(2)[y] > 0, 1.0, 1e-4)
    model = clone(estimator).fit(X, G)
    labels, proba = model.disambiguate(X, G, return_proba=True)
    assert (labels == y).mean() > 0.95
    np.testing.assert_allclose(proba.sum(axis=1), 1, rtol=1e-5)
    belief = model.candidate_proba_
    assert (belief.argmax(axis=1) == y).mean() > 0.95
    np.testing.assert_allclose(belief.sum(axis=1), 1, rtol=1e-5)


@pytest.mark.parametrize("loss", sorted(LOSSES))
def test_every_loss_learns_from_grades(loss, hints):
    X, G, _, y = hints
    assert PartialLabelClassifier(loss, graded=True, **QUICK).fit(X, G).score(X, y) > 0.8


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_sharper_grades_than_the_sets_help(estimator, rng):
    # overlapping classes, two of three labels are candidates of every row
    y = np.arange(300) % 3
    X = 1.5 * np.eye(3)[y] + rng.normal(size=(300, 3))
    S = np.ones((300, 3), dtype=int)
    S[np.arange(300), (y + rng.randint(1, 3, 300)) % 3] = 0
    G = S * np.where(np.eye(3)[y] > 0, 0.9, 0.1)
    plain = clone(estimator).set_params(graded=False).fit(X, S)
    graded = clone(estimator).fit(X, G)
    right = [(m.disambiguate(X, s) == y).mean() for m, s in ((plain, S), (graded, G))]
    assert right[1] > right[0]
    assert graded.score(X, G) == S[np.arange(300), graded.predict(X)].mean()


def test_kernel_votes_are_multiplied_by_grades(hints):
    X, G, S, _ = hints
    model = CleanSEKernelClassifier(graded=True, random_state=0).fit(X, G)
    plain = model.disambiguate(X, S.astype(float), return_proba=True)[1]
    expected = plain * G
    expected /= expected.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(model.disambiguate(X, G, return_proba=True)[1], expected)
    np.testing.assert_allclose(model.candidate_proba_, expected)


def test_the_order_of_rows_does_not_matter(hints):
    X, G, _, _ = hints
    X = X.round(0)  # some rows are equal, and differ by grades only
    order = np.random.RandomState(1).permutation(len(X))
    for estimator in (ESTIMATORS[0], ESTIMATORS[5]):
        one, other = clone(estimator).fit(X, G), clone(estimator).fit(X[order], G[order])
        np.testing.assert_array_equal(one.predict_proba(X), other.predict_proba(X))


@pytest.mark.parametrize("estimator", ESTIMATORS[:1] + ESTIMATORS[4:6])
def test_grades_are_refused_unless_asked_for(estimator, hints):
    X, G, _, _ = hints
    for form in (G, pd.DataFrame(G, columns=list("abc")), sp.csr_array(G)):
        with pytest.raises(ValueError, match="pass graded=True to the estimator"):
            clone(estimator).set_params(graded=False).fit(X, form)


@pytest.mark.parametrize("value", [-0.1, 1.5, np.nan])
@pytest.mark.parametrize("form", [np.asarray, pd.DataFrame, sp.csr_array])
def test_what_is_no_grade_is_refused_by_place(value, form, hints):
    X, G, _, _ = hints
    G[7, 1] = value
    with pytest.raises(ValueError, match="row 7, column 1 of the graded candidates is"):
        CleanSEKernelClassifier(graded=True).fit(X, form(G))


def test_other_forms_are_read_as_ever():
    for y in ([{"a", "b"}, {"a"}], ["a", "b"], [[1, 0], [1, 1]], np.array([0.0, 1.0])):
        assert check_graded(y)[2] is None
    classes, candidates, grades = check_graded([[0.5, 0.25], [0.0, 0.1]])
    assert classes.tolist() == [0, 1]
    assert candidates.toarray().tolist() == [[True, True], [False, True]]
    assert grades.toarray().tolist() == [[1.0, 0.5], [0.0, 1.0]]
    with pytest.raises(ValueError, match="row 1 has no candidate label"):
        check_graded([[0.5, 0.5], [0.0, 0.0]])


def test_searches_and_scorers_take_grades(hints, routing):
    X, G, S, y = hints
    cv = KFold(3, shuffle=True, random_state=0)
    pipe = make_pipeline(StandardScaler(), CleanSEKernelClassifier(graded=True, random_state=0))
    search = GridSearchCV(pipe, {"cleansekernelclassifier__ridge": [0.02, 0.05]}, cv=cv).fit(X, G)
    assert search.best_score_ > 0.8
    assert search.score(X, G) == S[np.arange(len(y)), search.predict(X)].mean()
    assert (cross_val_score(pipe, X, G, cv=cv, scoring=covering_scorer) > 0.8).all()
    found = cross_val_score(pipe, X, G, cv=cv, scoring=disambiguation_scorer, params={"truth": y})
    assert (found > 0.9).all()


@pytest.mark.parametrize("estimator", ESTIMATORS[:3] + ESTIMATORS[5:])
def test_explanations_show_what_grades_make_of_votes(estimator, hints):
    X, G, _, _ = hints
    model = clone(estimator).fit(X, G)
    belief = model.disambiguate(X[:5], G[:5], return_proba=True)[1]
    for row, why in enumerate(model.explain(X[:5], G[:5])):
        np.testing.assert_allclose(why.confidences, belief[row][G[row] > 0], rtol=1e-4)


def test_going_on_keeps_grades(hints):
    X, G, _, y = hints
    clf = CleanSEClassifier("proden", graded=True, warm_start=True, **QUICK)
    assert clf.fit(X, G).fit(X, G).score(X, y) > 0.8
    online = CleanSEClassifier(graded=True, **QUICK)
    for rows in (slice(0, 60), slice(60, 120)):
        online.partial_fit(X[rows], G[rows], sample_weight=np.arange(60) % 3)
    assert torch.isfinite(torch.from_numpy(online.predict_proba(X))).all()


# -- annotators ---------------------------------------------------------------------------------

RIGHT = {"ann": 0.95, "bob": 0.75, "cy": 0.5}


@pytest.fixture
def votes(rng):
    """Three annotators who are right more or less often, with gaps: votes and y."""
    y = rng.randint(5, size=2000)
    table = {
        name: np.where(rng.uniform(size=2000) < right, y, (y + rng.randint(1, 5, 2000)) % 5)
        for name, right in RIGHT.items()
    }
    votes = pd.DataFrame(table).map("vwxyz".__getitem__)
    votes = votes.where(rng.uniform(size=votes.shape) > 0.1)
    votes.loc[votes.isna().all(axis=1), "ann"] = "v"
    return votes, np.array(list("vwxyz"))[y]


def test_the_accuracy_of_annotators_is_found(votes):
    quality = annotator_quality(votes[0])
    assert quality.index.tolist() == list(RIGHT)
    np.testing.assert_allclose(quality["accuracy"], list(RIGHT.values()), atol=0.04)
    assert quality["labels"].tolist() == votes[0].notna().sum().tolist()
    assert quality["agreement"].is_monotonic_decreasing


def test_agreement_counts_the_others_labels():
    quality = annotator_quality([["a", "a", "b"], ["a", None, "a"], ["b", None, None]])
    assert quality["agreement"].tolist() == [2 / 3, 1 / 2, 1 / 3]
    assert quality["labels"].tolist() == [3, 1, 2]


def test_grades_by_counts_and_by_quality(votes):
    table, y = votes
    marks = candidates_from_votes(table)
    columns = marks.columns.get_indexer(y)
    rows = np.arange(len(y))
    right = {}
    for grade in ("counts", "quality"):
        G = candidates_from_votes(table, grade=grade)
        assert ((G > 0) == marks).all(axis=None)
        np.testing.assert_allclose(G.sum(axis=1), 1)
        right[grade] = (G.to_numpy().argmax(axis=1) == columns).mean()
        sparse = candidates_from_votes(
            table, grade=grade, sparse_output=True, classes=list("vwxyz")
        )
        np.testing.assert_allclose(sparse.toarray(), G)
    assert right["quality"] > right["counts"] + 0.02
    # grades mean what they say: right as often as they are large
    G = candidates_from_votes(table, grade="quality").to_numpy()
    there = marks.to_numpy()[rows, columns]
    assert G[there].max(axis=1).mean() == pytest.approx(
        (G[there].argmax(axis=1) == columns[there]).mean(), abs=0.03
    )


def test_grades_with_few_votes_and_nobody(votes):
    table = pd.DataFrame({"a": ["x", "x", None], "b": ["x", "y", None], "c": ["y", "z", None]})
    G = candidates_from_votes(table, grade="counts", min_votes=2, unlabelled="all")
    np.testing.assert_allclose(G, [[1, 0, 0], [1 / 3, 1 / 3, 1 / 3], [1 / 3, 1 / 3, 1 / 3]])
    with pytest.raises(ValueError, match="grade is 'best'"):
        candidates_from_votes(table, grade="best")


def test_from_votes_to_a_model(votes, rng):
    table, y = votes
    table, y = table.iloc[:400], y[:400]
    X = np.eye(5)[np.searchsorted(list("vwxyz"), y)] + rng.normal(scale=0.6, size=(400, 5))
    scores = {}
    for grade in (None, "quality"):
        model = CleanSEKernelClassifier(graded=grade is not None, random_state=0)
        S = candidates_from_votes(table, grade=grade)
        scores[grade] = (model.fit(X, S).disambiguate(X, S) == y).mean()
    assert scores["quality"] > scores[None]


def test_what_only_looks_at_sets_takes_grades_as_sets():
    grades = np.array([[1.0, 0.5, 0.0], [0.0, 0.2, 0.0], [0.3, 0.0, 0.9], [0.7, 0.7, 0.0]])
    sets, predicted = grades > 0, [0, 1, 2, 2]
    assert str(describe(grades)) == str(describe(sets))
    assert candidate_report(grades, predicted) == candidate_report(sets, predicted)
    folds = [
        [test.tolist() for _, test in CandidateKFold(2, random_state=0).split(grades, form)]
        for form in (sets, grades, pd.DataFrame(grades), sp.csr_array(grades))
    ]
    assert all(fold == folds[0] for fold in folds)
