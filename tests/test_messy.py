"""Tables as they come: row labels, gaps, text, sparse features, annotators."""

import pickle

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import torch
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder
from sklearn.utils import get_tags

from sklearn_cleanse import (
    CleanSEClassifier,
    CleanSEKernelClassifier,
    PartialLabelClassifier,
    PLCGRClassifier,
    _rows,
)
from sklearn_cleanse._rows import SparseRows
from sklearn_cleanse.base import content_rank, first_equals
from sklearn_cleanse.candidates import check_candidates, check_index
from sklearn_cleanse.deep import _training_rows
from sklearn_cleanse.scaling import SCALINGS, fit_scaling
from sklearn_cleanse.votes import fit_kernel_votes

QUICK = {"hidden_layer_sizes": (16,), "max_epochs": 6, "random_state": 0}

TAKES_GAPS = [
    CleanSEClassifier(**QUICK),
    PartialLabelClassifier(**QUICK),
    CleanSEKernelClassifier(random_state=0),
    CleanSEKernelClassifier(n_landmarks=40, random_state=0),
]


@pytest.fixture
def frames(blobs):
    """Blobs as frames with names for rows and columns: X, S, y."""
    X, S, y = blobs
    index = [f"item {i}" for i in range(len(X))]
    names = np.array(["ant", "bee", "cat"])
    return (
        pd.DataFrame(X, columns=list("abcd"), index=index),
        pd.DataFrame(S, columns=names, index=index),
        pd.Series(names[y], index=index),
    )


# -- rows that do not belong together -----------------------------------------------------------

EACH = [CleanSEClassifier(**QUICK), CleanSEKernelClassifier(), PLCGRClassifier()]


@pytest.mark.parametrize("estimator", EACH)
def test_rows_in_another_order_are_refused_and_the_remedy_works(estimator, frames):
    X, S, y = frames
    shuffled = S.sample(frac=1, random_state=0)
    row = int(np.argmax(shuffled.index != X.index))
    expected = rf"row {row} is '{X.index[row]}' .*'{shuffled.index[row]}' .*S = S\.loc\[X\.index\]"
    with pytest.raises(ValueError, match=expected):
        estimator.fit(X, shuffled)
    estimator.fit(X, shuffled.loc[X.index])
    with pytest.raises(ValueError, match=r"S\.loc\[X\.index\]"):
        estimator.disambiguate(X, shuffled)
    with pytest.raises(ValueError, match=r"y\.loc\[X\.index\]"):
        estimator.score(X, y.sample(frac=1, random_state=0))
    with pytest.raises(ValueError, match=r"truth\.loc\[X\.index\]"):
        estimator.score(X, S, truth=y.sample(frac=1, random_state=0))


def test_rows_with_other_names_are_refused_and_can_be_named_alike(frames):
    X, S, y = frames
    unnamed = S.reset_index(drop=True)
    with pytest.raises(ValueError, match=r"row 0 is 'item 0' .*but 0 .*S\.set_axis\(X\.index\)"):
        CleanSEKernelClassifier().fit(X, unnamed)
    CleanSEKernelClassifier().fit(X, unnamed.set_axis(X.index))
    with pytest.raises(ValueError, match="row 0 is 'item 0'"):
        CleanSEKernelClassifier().fit(X, y.reset_index(drop=True))


def test_rows_without_names_are_matched_by_position(frames):
    X, S, _ = frames
    expected = CleanSEKernelClassifier(random_state=0).fit(X, S).predict_proba(X)
    for features, sets in [(X.to_numpy(), S), (X, S.to_numpy())]:
        clf = CleanSEKernelClassifier(random_state=0).fit(features, sets)
        np.testing.assert_array_equal(clf.predict_proba(features), expected)


@pytest.mark.parametrize(
    "votes",
    [
        pd.DataFrame({"ann": ["cat", "dog", "cat"], "bob": ["cat", None, "dog"]}),
        pd.DataFrame({"ann": [0, 2, 1], "bob": [1, 2, 2]}),
        pd.DataFrame({"ann": [None, "dog", "cat"], "bob": ["cat", "cat", "dog"]}),
        np.array([["cat", "dog"], ["dog", "dog"], ["cat", "cat"]]),
    ],
)
def test_annotators_columns_as_y_get_the_function_named(votes):
    with pytest.raises(ValueError, match="candidates_from_votes"):
        CleanSEKernelClassifier().fit([[0.0], [1.0], [2.0]], votes)


@pytest.mark.parametrize("scores", [[[0.2, 0.8], [1.0, 0.0]], [[np.nan, 1.0], [1.0, 0.0]]])
def test_scores_are_not_taken_for_annotators(scores):
    with pytest.raises(ValueError, match="column 0 of the candidate matrix") as refusal:
        CleanSEKernelClassifier().fit([[0.0], [1.0]], scores)
    assert "candidates_from_votes" not in str(refusal.value)


# -- labels that a model does not know ----------------------------------------------------------


def test_scoring_labels_that_the_model_never_saw(frames):
    X, S, y = frames
    model = CleanSEKernelClassifier().fit(X, S)
    with pytest.raises(ValueError, match=r"120 of 120 rows .*row 0 with 0; .*'ant', 'bee', 'cat'"):
        model.score(X, np.arange(len(X)) % 3)
    y.iloc[7] = "emu"
    with pytest.warns(UserWarning, match="1 of 120 rows .*row 7 with 'emu'"):
        score = model.score(X, y)
    assert score == pytest.approx((model.predict(X) == y).mean())


# -- gaps ---------------------------------------------------------------------------------------


def with_gaps(X, share=0.2, columns=(0, 2), seed=0):
    X = X.copy()
    for column in columns:
        X[np.random.RandomState(seed + column).uniform(size=len(X)) < share, column] = np.nan
    return X


@pytest.mark.parametrize("estimator", TAKES_GAPS)
def test_gaps_are_learnt_with(estimator, blobs):
    X, S, y = blobs
    gaps = with_gaps(X)
    model = clone(estimator).fit(gaps, S)
    assert model.score(gaps, y) > 0.8
    np.testing.assert_allclose(model.predict_proba(gaps).sum(axis=1), 1)
    assert (S[np.arange(len(X)), model.disambiguate(gaps, S)] == 1).all()


@pytest.mark.parametrize("kind", [*SCALINGS, None])
def test_a_gap_becomes_the_mean_and_an_indicator_where_training_had_gaps(kind, blobs):
    X = with_gaps(blobs[0], columns=(1, 3))
    scaling = fit_scaling(X, kind)
    assert scaling.gaps.tolist() == [1, 3]
    whole = torch.from_numpy(np.where(np.isnan(X), np.nanmean(X, axis=0), X))
    found, expected = scaling(torch.from_numpy(X)), scaling(whole)
    torch.testing.assert_close(found[:, :4], expected[:, :4])
    np.testing.assert_array_equal(found[:, 4:].numpy(), np.isnan(X)[:, [1, 3]])
    assert (expected[:, 4:] == 0).all()


def test_statistics_leave_gaps_out(blobs):
    X = with_gaps(blobs[0], columns=(1,))
    rows = ~np.isnan(X[:, 1])
    for kind in ("standard", "sqrt", "minmax"):
        all_rows, complete = fit_scaling(X, kind), fit_scaling(X[rows][:, [1]], kind)
        value = torch.full((1, 4), 1.5)
        torch.testing.assert_close(all_rows(value)[:, 1], complete(value[:, :1])[:, 0])


@pytest.mark.parametrize("estimator", TAKES_GAPS)
def test_a_gap_where_training_had_none_counts_as_the_mean(estimator, blobs):
    X, S, _ = blobs
    model = clone(estimator).fit(X, S)
    gap, filled = X[:5].copy(), X[:5].copy()
    gap[:, 1], filled[:, 1] = np.nan, X[:, 1].mean()
    np.testing.assert_allclose(model.predict_proba(gap), model.predict_proba(filled), rtol=1e-4)


@pytest.mark.parametrize("estimator", TAKES_GAPS)
def test_a_column_of_gaps_alone_does_no_harm(estimator, blobs):
    X, S, y = blobs
    X = np.hstack([X, np.full((len(X), 1), np.nan)])
    assert clone(estimator).fit(X, S).score(X, y) > 0.8


def test_which_values_are_missing_can_tell(rng):
    y = np.arange(200) % 2
    X = rng.normal(size=(200, 2))
    X[(y == 1) & (rng.uniform(size=200) < 0.9), 0] = np.nan
    S = np.eye(2, dtype=int)[y] | (rng.uniform(size=(200, 2)) < 0.3)
    for estimator in TAKES_GAPS:
        assert clone(estimator).set_params(random_state=0).fit(X, S).score(X, y) > 0.85


@pytest.mark.parametrize("estimator", TAKES_GAPS)
def test_repeated_rows_with_gaps_vote_once(estimator, blobs):
    X, S, _ = blobs
    rank = content_rank(with_gaps(X), check_candidates(S)[1])
    assert sorted(rank) == list(range(1, len(X) + 1))
    twice = np.vstack([with_gaps(X)] * 2)
    sets = check_candidates(np.vstack([S, S]))[1]
    by_content = np.argsort(content_rank(twice, sets), kind="stable")
    first = first_equals(twice, sets, np.arange(len(twice)), by_content)
    assert len(np.unique(first)) == len(X)


@pytest.mark.parametrize("estimator", [*TAKES_GAPS, PLCGRClassifier()])
@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_infinity_is_refused(estimator, form, blobs):
    X, S, _ = blobs
    X = X.copy()
    X[3, 1] = np.inf
    with pytest.raises((ValueError, TypeError), match=r"infinity|dense data is required"):
        clone(estimator).fit(form(X), S)


def test_who_takes_no_gaps_says_what_to_do(blobs):
    X, S, _ = blobs
    with pytest.raises(ValueError, match=r"row 1, column 2 of X is NaN.*SimpleImputer\("):
        PLCGRClassifier().fit(with_gaps(X), S)
    images = np.zeros((8, 1, 4, 4))
    images[3, 0, 1, 1] = np.nan
    with pytest.raises(ValueError, match="row 3 of X holds NaN"):
        CleanSEClassifier(**QUICK).fit(images, S[:8])


def test_frames_with_missing_values_of_pandas(frames):
    X, S, y = frames
    X = X.convert_dtypes()
    X.iloc[3, 1] = pd.NA
    assert CleanSEKernelClassifier().fit(X, S).score(X, y) > 0.8


# -- text and categories ------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["category", object, "string"])
@pytest.mark.parametrize("estimator", EACH)
def test_text_is_answered_by_the_pipeline_that_takes_it(kind, estimator, frames):
    X, S, y = frames
    towns = np.array(["Oslo", "Rome", "Lima"])[np.arange(len(X)) % 3]
    X["town"] = pd.Series(towns, index=X.index).astype(kind)
    if kind != "string":  # whose pd.NA scikit-learn's encoder does not take
        X.loc[X.index[3], "town"] = None
    name = type(estimator).__name__
    with pytest.raises(ValueError, match=r"column 'town' of X holds text") as refusal:
        clone(estimator).fit(X, S)
    written = str(refusal.value).rpartition(": ")[2]
    pipeline = eval(
        written,
        {
            "make_pipeline": make_pipeline,
            "make_column_transformer": make_column_transformer,
            "OneHotEncoder": OneHotEncoder,
            name: type(estimator),
        },
    )
    assert pipeline.fit(X, S).score(X, y) > 0.8


# -- sparse features ----------------------------------------------------------------------------

SPARSE_FORMS = [sp.csr_array, sp.csr_matrix, sp.csc_array, sp.coo_array]


@pytest.fixture
def sparse_blobs(blobs):
    """Blobs with most values zero, and columns that are nearly empty."""
    X, S, y = blobs
    rng = np.random.RandomState(1)
    X = np.where(rng.uniform(size=X.shape) < 0.2, 0.0, X)
    rare = rng.uniform(size=(len(X), 30)) * (rng.uniform(size=(len(X), 30)) < 0.05)
    return np.hstack([X, rare]), S, y


@pytest.mark.parametrize("estimator", TAKES_GAPS)
def test_sparse_features_train_as_good_a_model(estimator, sparse_blobs):
    X, S, y = sparse_blobs
    for form in SPARSE_FORMS:
        model = clone(estimator).fit(form(X), S)
        assert model.score(form(X), y) > 0.8
        np.testing.assert_allclose(model.predict_proba(X), model.predict_proba(form(X)), atol=1e-5)


@pytest.mark.parametrize("kind", [*SCALINGS, None])
def test_scalings_of_sparse_features_are_those_of_dense_ones(kind, sparse_blobs, monkeypatch):
    X = with_gaps(sparse_blobs[0])
    monkeypatch.setattr(_rows, "BLOCK_VALUES", 500)  # several blocks of columns
    dense, sparse = fit_scaling(X, kind), fit_scaling(SparseRows(sp.csr_array(X)), kind)
    rows = torch.from_numpy(X)
    torch.testing.assert_close(sparse(rows), dense(rows))


@pytest.mark.parametrize("n_landmarks", [None, 40])
def test_votes_on_sparse_rows_are_those_on_dense_ones(n_landmarks, sparse_blobs, monkeypatch):
    X, S, _ = sparse_blobs
    X = with_gaps(X)
    monkeypatch.setattr(_rows, "BLOCK_VALUES", 700)  # blocks of some rows
    _, candidates = check_candidates(S)
    order = np.arange(len(X))
    dense, model, fitted = fit_kernel_votes(X, candidates, order, n_landmarks=n_landmarks)
    rows = SparseRows(sp.csr_array(X))
    sparse, other, also = fit_kernel_votes(rows, candidates, order, n_landmarks=n_landmarks)
    close = {"rtol": 1e-4, "atol": 1e-6}
    torch.testing.assert_close(sparse.proba, dense.proba, **close)
    torch.testing.assert_close(also, fitted, **close)
    own = torch.from_numpy(candidates.toarray())
    for one, another in zip(
        other.left_out_scores(rows, own), model.left_out_scores(X, own), strict=True
    ):
        torch.testing.assert_close(one, another, **close)
    assert torch.equal(other.left_out_scores(X, own)[1], model.left_out_scores(rows, own)[1])


@pytest.mark.parametrize("estimator", TAKES_GAPS)
def test_sparse_features_are_never_dense_as_a_whole(estimator, sparse_blobs, monkeypatch):
    X, S, _ = sparse_blobs
    monkeypatch.setattr(_rows, "BLOCK_VALUES", 900)
    monkeypatch.setattr(_training_rows, "BLOCK_VALUES", 900)
    largest = []
    original = sp.csr_array.toarray

    def watched(self, *args, **kwargs):
        if self.shape[1] > S.shape[1]:
            largest.append(self.shape[0])
        return original(self, *args, **kwargs)

    monkeypatch.setattr(sp.csr_array, "toarray", watched)
    model = clone(estimator).fit(sp.csr_array(X), S)
    model.predict(sp.csr_array(X))
    model.disambiguate(sp.csr_array(X), S)
    assert max(largest) <= 64 < len(X)


@pytest.mark.parametrize("estimator", TAKES_GAPS)
def test_sparse_features_with_gaps_weights_and_everything_else(estimator, sparse_blobs):
    X, S, y = sparse_blobs
    X = sp.csr_array(with_gaps(X))
    model = clone(estimator)
    if hasattr(model, "early_stopping"):
        model.set_params(early_stopping=True)
        model.fit(X, S, sample_weight=np.arange(len(y)) % 3)
    else:
        model.fit(X, S)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    if hasattr(model, "explain"):
        assert "voters" in str(model.explain(X[:3], S[:3])[0])


@pytest.mark.parametrize("vote", ["soft", "hard"])
@pytest.mark.parametrize("neighbors_from", ["dataset", "batch"])
def test_neighbours_vote_on_sparse_rows(vote, neighbors_from, sparse_blobs):
    X, S, y = sparse_blobs
    clf = CleanSEClassifier(
        vote=vote, neighbors_from=neighbors_from, neighbor_space="input", **QUICK
    )
    assert clf.fit(sp.csr_array(X), S).score(sp.csr_array(X), y) > 0.8


@pytest.mark.parametrize("estimator", TAKES_GAPS)
def test_tags_say_what_is_taken(estimator):
    tags = get_tags(estimator).input_tags
    assert tags.sparse
    assert tags.allow_nan
    others = get_tags(PLCGRClassifier()).input_tags
    assert not others.sparse
    assert not others.allow_nan


@pytest.mark.parametrize("gap", [np.nan, None, pd.NA, pd.NaT])
def test_the_row_that_differs_is_named_where_the_index_has_gaps(gap):
    X = pd.DataFrame({"size": [1.0, 2.0, 3.0]}, index=pd.Index(["a", gap, "b"], dtype=object))
    with pytest.raises(ValueError, match="row 2 is 'b' in the index of X, but 'c' in that of S"):
        check_index(X, X.set_axis(pd.Index(["a", gap, "c"], dtype=object)))
    check_index(X, X.copy())


def test_text_in_an_array_gets_the_pipeline(blobs):
    X, S, _ = blobs
    mixed = np.hstack([X.astype(object), np.full((len(X), 1), "Oslo", dtype=object)])
    for array in (mixed, mixed.astype(str)):
        with pytest.raises(ValueError, match=r"column 4 of X holds text .*\[4\]\)"):
            CleanSEKernelClassifier().fit(array, S)
    CleanSEKernelClassifier().fit(X.astype(object), S)
