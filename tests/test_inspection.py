"""Explanations, labels, prediction sets and rankings, through pipelines and searches too."""

import pickle

import numpy as np
import pandas as pd
import pytest
from conftest import make_blobs
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.svm import LinearSVC

from sklearn_cleanse import (
    CleanSEClassifier,
    CleanSEKernelClassifier,
    DPCLSClassifier,
    NeighborVoter,
    PartialLabelClassifier,
    PLCGRClassifier,
)
from sklearn_cleanse.datasets import make_candidates, make_lexicon, make_partial_classification
from sklearn_cleanse.inspection import disambiguate, explain, predict_set, rank_for_labeling

QUICK = {"hidden_layer_sizes": (16,), "max_epochs": 4, "n_networks": 1, "random_state": 0}
CV = KFold(2, shuffle=True, random_state=0)
EVIL = "<script>"


@pytest.fixture(scope="module")
def tickets():
    """Two groups of tickets with names, one ticket of which has the wrong label: X, S."""
    rng = np.random.RandomState(0)
    y = np.arange(60) % 2
    X = 4 * np.eye(2, 3)[y] + rng.normal(size=(60, 3))
    S = pd.DataFrame(np.eye(3, dtype=bool)[y], columns=["billing", "login", "refund"])
    S.iloc[::3, :2] = True
    S.iloc[::5, 2] = True
    S.iloc[4] = [False, True, False]  # it was billing
    return X, S.set_axis([f"t{i}" for i in range(60)])


def inside(last):
    """Ways to put an estimator behind the same steps."""
    double, step = FunctionTransformer(lambda X: 2 * X), type(last).__name__.lower()
    pipe = make_pipeline(double, StandardScaler(), last)
    search = GridSearchCV(last, {"alpha": [0.02, 0.05]}, cv=CV)
    return {
        "pipeline": pipe,
        "search over a pipeline": GridSearchCV(pipe, {f"{step}__alpha": [0.05]}, cv=CV),
        "search at the end": make_pipeline(double, StandardScaler(), search),
        "nested": make_pipeline(make_pipeline(double, StandardScaler()), make_pipeline(last)),
    }


# --- what is shown


def nearest(kernel, X, row, n):
    """Return the training rows most similar to one of them, by comparing all."""
    model = kernel.model_
    similarity = model.similarity(X[[row]]).numpy()[0]
    similarity[np.all(X[row] == model.X, axis=1)] = -1
    order = np.argsort(-similarity, kind="stable")[:n]
    return model.rows[order], similarity[order]


@pytest.mark.parametrize("n_components", [None, 60])
def test_the_most_similar_rows_are_shown_and_how_they_were_resolved(n_components, digits):
    X, S, *_ = digits
    model = CleanSEKernelClassifier(n_components=n_components, random_state=0).fit(X, S)
    labels, proba = model.disambiguate(X, S, return_proba=True)
    for row, why in enumerate(explain(model, X[:40], S[:40], n_similar=7)):
        rows, similarity = nearest(model, X, row, 7)
        assert why.similar["row"].tolist() == rows.tolist()
        np.testing.assert_allclose(why.similar["similarity"], similarity)
        resolved = model.candidate_proba_[rows]
        assert why.similar["resolved"].tolist() == resolved.argmax(axis=1).tolist()
        np.testing.assert_allclose(why.similar["probability"], resolved.max(axis=1))
        assert why.similar["candidates"].tolist() == [list(np.flatnonzero(S[r])) for r in rows]
        given = why.candidates
        assert sorted(given["candidate"]) == np.flatnonzero(S[row]).tolist()
        assert given["probability"].is_monotonic_decreasing
        np.testing.assert_allclose(given["probability"], proba[row, given["candidate"]])
        counts = [(resolved.argmax(axis=1) == label).sum() for label in given["candidate"]]
        assert given["n_similar"].tolist() == counts
        assert (why.row, why.label, why.prediction) == (row, labels[row], model.predict(X[[row]]))
        assert ("60 components" in str(why)) == (n_components == 60)


def test_contributions_sum_to_the_left_out_scores(digits):
    X, S, *_ = digits
    model = CleanSEKernelClassifier(random_state=0).fit(X[:100], S[:100])
    without = model.model_.left_out.numpy()
    for row, why in enumerate(explain(model, X[:5], S[:5])):
        table = why.contributions
        assert table.index.tolist() == [*why.similar["row"], "all other rows"]
        np.testing.assert_allclose(table.sum(), without[row, table.columns])
    new = explain(model, X[200:201], S[200:201])[0]
    scores = model.model_.scores(X[200:201]).numpy()[0]
    np.testing.assert_allclose(new.contributions.sum(), scores[new.contributions.columns])


def test_a_training_row_is_one_by_features_and_candidates():
    X, S, _ = make_blobs()
    model = CleanSEKernelClassifier().fit(np.vstack([X, X[:1]]), np.vstack([S, S[:1]]))
    assert explain(model, X[:1], S[:1])[0].similar["similarity"].max() < 0.999
    other = explain(model, X[:1])[0]
    assert other.similar.loc[0, ["row", "similarity"]].tolist() == [0, pytest.approx(1)]
    assert len(other.candidates) == 3


@pytest.mark.parametrize("task", ["digits", "flip", "bag", "lexicon"])
def test_nearest_rows_are_shown_and_clear_is_right(task, digits):
    n_clear, (X, S, y, *_) = {"digits": 95, "lexicon": 0}.get(task, 80), digits
    if task == "lexicon":
        X, S, y = make_lexicon(400, random_state=0)
    elif task != "digits":
        X, S, y = make_partial_classification(400, source=task, class_sep=1.5, random_state=0)
    model, rows = CleanSEKernelClassifier(random_state=0), np.flatnonzero(S.sum(axis=1) > 1)[:100]
    found = explain(model.fit(X, S), X[rows], S[rows])
    expected = [nearest(model, X, row, 5)[1] for row in rows]
    np.testing.assert_allclose([why.similar["similarity"] for why in found], expected)
    right = [why.label == y[rows[why.row]] for why in found if why.verdict == "clear"]
    assert len(right) >= n_clear if n_clear else not right
    assert sum(right) >= 0.95 * len(right)
    assert np.mean([why.candidates["n_similar"].idxmax() == 0 for why in found]) > 0.8
    # where sets depend on the features, the text says so
    assert {"Candidates depend on the features" in str(why) for why in found} == {not n_clear}


# --- verdicts and text


def words(line):
    return " ".join(line.split())


def test_text_of_a_clear_row(tickets):
    X, S = tickets
    why = explain(CleanSEKernelClassifier().fit(X, S), X, S, n_similar=3)[6]
    percent = f"{100 * why.probability:.0f} %"
    assert repr(why) == f"<Explanation of row t6: billing ({percent}), clear>"
    lines = str(why).splitlines()
    assert words(lines[0]) == f"Row t6: billing ({percent}), clear predict(): billing"
    assert words(lines[2]) == "candidate probability 3 most similar rows"
    assert words(lines[3]) == f"billing {percent} {'█' * round(20 * why.probability)} 3 {'█' * 15}"
    assert lines[6] == "most similar rows"
    assert words(lines[7]) == "row similarity candidates resolved as"
    assert "only candidate" in str(why)
    assert all(name in S.index for name in why.similar["row"])


def test_text_of_a_row_without_a_fitting_candidate(tickets):
    X, S = tickets
    model = CleanSEKernelClassifier().fit(X, S)
    why = explain(model, X[:5], S[:5])[4]
    lines = [words(line) for line in str(why).splitlines()]
    assert lines[0].startswith("Row t4: no candidate fits predict():")
    assert lines[2:4] == [
        "candidate probability 5 most similar rows",
        "login 100 % of candidates 0",
    ]
    percent = f"{100 * why.outside['probability'][0]:.0f} %"
    assert lines[4] == f"not a candidate: billing {percent} of all labels 5"
    note = "Check this row: all 5 similar rows were resolved as billing, which is not a candidate."
    assert lines[5] == note
    assert note in why._repr_html_()
    new = explain(model, X[6:7], [{"refund"}])[0]
    assert (new.verdict, new.prediction, new.row) == ("no candidate fits", "billing", 0)


def test_verdicts_follow_from_the_figures(digits):
    X, S, *_ = digits
    noisy = X + np.random.RandomState(1).normal(scale=8, size=X.shape)
    model = CleanSEKernelClassifier(random_state=0).fit(noisy, S)
    found, kinds, scores = set(), set(), model.model_.left_out.numpy()
    sharp = model.loo_proba_ ** (1 / model.proba_temperature_)
    sharp /= sharp.sum(axis=1, keepdims=True)
    for row, why in enumerate(explain(model, noisy, S)):
        top, others = why.candidates["probability"].to_numpy(), sharp[row]
        # At 5 % of wrong sets these are the odds that this one is.
        odds = 0.05 / 0.95 * others[S[row] == 0].mean() / others[S[row] == 1].mean()
        is_outside = not S[row, others.argmax()]
        if is_outside and odds / (1 + odds) > 0.3:
            expected = "no candidate fits"
        elif len(top) > 1 and top[0] - top[1] < 0.1:
            expected = "close call"
        else:
            expected = "clear" if top[0] >= 0.9 and not is_outside else "not certain"
        assert why.verdict == expected
        found.add(expected)
        counts = why.candidates["n_similar"]
        if expected != "no candidate fits" and len(top) > 1:
            reasons = why.reasons[is_outside:]
            assert bool(reasons) == (counts[0] < counts.max() or counts.max() == 0)
            assert why.reasons[:is_outside] == [text for text in why.reasons if "Check" in text]
            for reason in reasons[1:]:
                by_score = np.where(S[row], scores[row], -np.inf).argmax() == why.label
                assert reason.startswith("All rows together" if by_score else "Label counts")
                kinds.add(by_score)
    assert (len(found), len(kinds)) == (4, 2)


def test_prior_weights_that_decide_against_similar_rows_are_named():
    X = np.r_[np.linspace(0, 1, 20), np.linspace(2, 3, 20)][:, None]
    S = pd.DataFrame(np.repeat(np.eye(2), 20, axis=0), columns=["b", "a"])
    model = CleanSEKernelClassifier().fit(X, S)
    for weight, label in ((0.99, "b"), (0.5, "a")):
        new = pd.DataFrame([[weight, 1 - weight]], columns=["b", "a"])
        why = explain(model, [[1.58]], new)[0]
        assert why.candidates.set_index("candidate")["n_similar"]["a"] >= 3
        assert why.label == label
        expected = "Prior weights decide for b: 99 % against 1 %."
        assert why.reasons[1:] == ([expected] if label == "b" else [])


def test_labels_are_text_in_html_and_explanations_can_be_pickled():
    X, S = [[0.0], [0.1], [0.9], [1.0]], [{EVIL}, {EVIL, "b"}, {EVIL, "b"}, {"b"}]
    why = explain(CleanSEKernelClassifier().fit(X, S), X[:1], S[:1])[0]
    shown = why._repr_html_()
    assert shown.count("<table>") == 2
    assert "&lt;script&gt;" in shown
    assert EVIL not in shown
    again = pickle.loads(pickle.dumps(why))
    assert str(again) == str(why)
    pd.testing.assert_frame_equal(again.contributions, why.contributions)


def test_under_noise_a_similar_row_may_be_resolved_as_another_label(digits):
    X, _, y, *_ = digits
    S = make_candidates(y, "flip", flip_proba=0.1, noise_rate=0.3, random_state=0)
    model = CleanSEKernelClassifier(noise_rate=0.3, random_state=0).fit(X, S)
    assert any(", not a candidate" in str(why) for why in explain(model, X[:30], S[:30]))


# --- networks


def test_a_network_shows_votes_before_and_probability_after_training(digits):
    X, S, *_ = digits
    model = CleanSEClassifier(**QUICK).fit(X, S)
    proba, voter = model.disambiguate(X, S, return_proba=True)[1], model.voter_
    votes = voter.disambiguate(X, S, return_proba=True)[1]
    alone = explain(voter, X[:20], S[:20])
    for row, why in enumerate(explain(model, X[:20], S[:20])):
        table = why.candidates
        np.testing.assert_allclose(table["probability"], proba[row, table["candidate"]])
        np.testing.assert_allclose(table["vote"], votes[row, table["candidate"]])
        pd.testing.assert_frame_equal(why.similar, alone[row].similar)
        assert "before training" in str(why)
    assert repr(model.explain(X[:1], S[:1])) == repr(explain(model, X[:1], S[:1]))


@pytest.mark.parametrize(
    "estimator",
    [
        PLCGRClassifier(),
        PartialLabelClassifier(**QUICK),
        CleanSEClassifier(voter=None, **QUICK),
        CleanSEClassifier(voter=NeighborVoter(), **QUICK),
        CleanSEClassifier(voter=PLCGRClassifier(), **QUICK),
    ],
)
def test_estimators_without_kernel_votes_cannot_explain(estimator, blobs):
    X, S, _ = blobs
    name = type(estimator).__name__
    with pytest.raises(ValueError, match=rf"got {name}\((.|\n)*Fit CleanSEKernelClassifier, or"):
        explain(estimator.fit(X, S), X, S)


# --- any fitted estimator


@pytest.mark.parametrize("way", inside(CleanSEKernelClassifier()))
def test_pipelines_and_searches_use_the_estimator_inside(way, blobs):
    X, S, _ = blobs
    fitted = inside(CleanSEKernelClassifier(random_state=0))[way].fit(X, S)
    Z = StandardScaler().fit_transform(2 * X)
    alone = CleanSEKernelClassifier(random_state=0)
    if way == "search at the end":
        alone.set_params(**fitted[-1].best_params_)
    alone.fit(Z, S)
    labels, proba = disambiguate(fitted, X, S, return_proba=True)
    np.testing.assert_allclose(proba, alone.candidate_proba_)
    np.testing.assert_array_equal(labels, alone.disambiguate(Z, S))
    assert [str(why) for why in explain(fitted, X[:9], S[:9])] == [
        str(why) for why in explain(alone, Z[:9], S[:9])
    ]
    pd.testing.assert_frame_equal(rank_for_labeling(fitted, X, S), rank_for_labeling(alone, Z, S))


def test_an_ordinary_classifier_is_restricted_to_the_candidates(digits):
    X, S, y, *_ = digits
    model = LogisticRegression(max_iter=2000).fit(X / 16, y)
    labels, proba = disambiguate(model, X / 16, S, return_proba=True)
    expected = model.predict_proba(X / 16) * S
    np.testing.assert_allclose(proba, expected / expected.sum(axis=1, keepdims=True))
    np.testing.assert_array_equal(labels, expected.argmax(axis=1))


def test_sets_are_those_of_the_estimator_inside(blobs):
    X, S, _ = blobs
    pipe = make_pipeline(StandardScaler(), CleanSEKernelClassifier()).fit(X, S)
    expected = pipe[-1].predict_set(pipe[:-1].transform(X), coverage=0.8)
    np.testing.assert_array_equal(predict_set(pipe, X, coverage=0.8), expected)
    with pytest.raises(ValueError, match="got DPCLSClassifier"):
        predict_set(DPCLSClassifier().fit(X, S), X)


def test_rows_to_label_next_have_the_least_margin(digits):
    X, S, *_ = digits
    index = [f"image {i}" for i in range(len(X))]
    model = CleanSEKernelClassifier(random_state=0).fit(X, S)
    ranking = rank_for_labeling(model, X, pd.DataFrame(S, index=index), n=20)
    assert ranking.columns.tolist() == ["row", "candidates", "suggested", "probability", "margin"]
    top = np.sort(model.candidate_proba_, axis=1)
    margin = (top[:, -1] - top[:, -2])[S.sum(axis=1) > 1]
    np.testing.assert_allclose(ranking["margin"], np.sort(margin)[:20])
    rows = [index.index(name) for name in ranking["row"]]
    for row, labels, best in zip(rows, ranking["candidates"], ranking["suggested"], strict=True):
        assert sorted(labels) == np.flatnonzero(S[row]).tolist()
        assert labels[0] == best == model.candidate_proba_[row].argmax()
    assert len(rank_for_labeling(model, X, S, n=10_000)) == (S.sum(axis=1) > 1).sum()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda m, X, S: explain(m, X, S, n_similar=0), "'n_similar' .* Got 0"),
        (lambda m, X, S: rank_for_labeling(m, X, S, n=0), "'n' .* Got 0"),
        (lambda m, X, S: predict_set(m, X, coverage=1.0), "'coverage' .* Got 1.0"),
        (lambda m, X, S: disambiguate(m, X, S[:-1]), "`S` must .* 120.* 119"),
        (lambda m, X, S: explain(m, X, S[:-1]), "`S` must .* 120.* 119"),
        (lambda m, X, S: disambiguate(LinearSVC().fit(X, S[:, 0]), X, S), "predict_proba.*Linear"),
        (
            lambda m, X, S: rank_for_labeling(LinearRegression().fit(X, S), X, S),
            "wrap a classifier",
        ),
        (lambda m, X, S: disambiguate(m, X, [{7}] * len(X)), "7"),
        (lambda m, X, S: explain(m, pd.DataFrame(X), pd.DataFrame(S)[::-1]), r"by S = S\.loc"),
    ],
)
def test_bad_input_is_named(call, message, blobs):
    X, S, _ = blobs
    with pytest.raises(ValueError, match=message):
        call(CleanSEKernelClassifier().fit(X, S), X, S)


def test_what_holds_no_model_is_named(blobs):
    X, S, _ = blobs
    with pytest.raises(NotFittedError):
        explain(make_pipeline(StandardScaler(), CleanSEKernelClassifier()), X, S)
    search = GridSearchCV(CleanSEKernelClassifier(), {"alpha": [0.05]}, cv=CV, refit=False)
    with pytest.raises(ValueError, match="refit=True"):
        disambiguate(search.fit(X, S), X, S)
