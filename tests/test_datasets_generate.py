"""Candidate generators against their formulas; votes; the public names' documentation."""

import inspect
import re
from math import comb

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression

from sklearn_cleanse import datasets
from sklearn_cleanse.candidates import check_candidates
from sklearn_cleanse.datasets import (
    candidates_from_votes,
    describe,
    long_tail_rows,
    make_candidates,
    make_partial_classification,
)

N = 200_000


def labels(n_classes, n=N):
    return np.random.default_rng(1).integers(0, n_classes, n)


def close(found, expected, n=N, sigmas=5):
    """Compare a share, or an array of shares, with its probability, given n draws."""
    expected = np.asarray(expected, dtype=float)
    error = sigmas * np.sqrt(np.maximum(expected * (1 - expected), 0) / n) + 1e-12
    assert np.all(np.abs(np.asarray(found) - expected) <= error), (found, expected, error)


def wrong(S, y):
    """The wrong labels that joined."""
    S = S.copy()
    S[np.arange(len(y)), y] = False
    return S


@pytest.mark.parametrize("m", [2, 3, 5, 10])
def test_uniform_sizes_follow_the_binomial_formula(m):
    y = labels(m)
    S = make_candidates(y, random_state=0)
    assert S[np.arange(N), y].all()
    sizes = S.sum(axis=1)
    formula = [comb(m, j) / (2**m - 2) for j in range(1, m)]
    close(np.bincount(sizes, minlength=m)[1:m] / N, formula)
    assert sizes.max() < m
    mean = sum(j * p for j, p in enumerate(formula, 1))
    # given the size, each wrong label is as likely as any other
    for k in range(m):
        close(S[y != k, k].mean(), (mean - 1) / (m - 1), n=(y != k).sum())


def test_uniform_with_ten_classes_gives_the_paper_s_figures():
    found = describe(make_candidates(labels(10), random_state=0))
    assert abs(found.mean_candidates - 5) < 0.02
    close(found.clean_rate, 10 / 1022)


def test_uniform_wrong_labels_are_pairwise_exchangeable():
    y = np.zeros(N, dtype=int)
    S = make_candidates(y, classes=range(4), random_state=0)
    three = S[S.sum(axis=1) == 3][:, 1:]
    for pair in ([1, 1, 0], [1, 0, 1], [0, 1, 1]):
        close((three == pair).all(axis=1).mean(), 1 / 3, n=len(three))


@pytest.mark.parametrize("q", [0.0, 0.1, 0.7, 1.0])
def test_flip_rates(q):
    m, y = 6, labels(6)
    S = make_candidates(y, "flip", flip_proba=q, random_state=0)
    assert S[np.arange(N), y].all()
    close((S.sum(axis=1) == 1).mean(), (1 - q) ** (m - 1))
    joined = wrong(S, y)
    for k in range(m):
        close(joined[y != k, k].mean(), q, n=(y != k).sum())
    pairs = joined[y == 0]
    close((pairs[:, 1] & pairs[:, 2]).mean(), q * q, n=len(pairs))  # independent


@pytest.mark.parametrize("q", [1e-6, 0.1, 0.7, 1.0])
def test_flip_meets_a_clean_rate_and_is_else_unchanged(q):
    m, y = 4, labels(4)
    S = make_candidates(y, "flip", flip_proba=q, clean_rate=0.25, random_state=0)
    clean = S.sum(axis=1) == 1
    assert clean.sum() == N // 4
    some = -np.expm1((m - 1) * np.log1p(-q)) if q < 1 else 1.0
    joined, truth = wrong(S, y)[~clean], y[~clean]
    for k in range(m):
        close(joined[truth != k, k].mean(), q / some, n=(truth != k).sum())
    pairs = joined[truth == 3]
    close((pairs[:, 0] & pairs[:, 2]).mean(), q * q / some, n=len(pairs))


def test_uniform_meets_a_clean_rate():
    m = 5
    S = make_candidates(labels(m), clean_rate=0.5, random_state=0)
    sizes = S.sum(axis=1)
    assert (sizes == 1).sum() == N // 2
    weights = np.array([comb(m, j) for j in range(2, m)])
    close(np.bincount(sizes)[2:m] / (N // 2), weights / weights.sum(), n=N // 2)
    assert (make_candidates(labels(m, 50), clean_rate=1.0).sum(axis=1) == 1).all()


def test_confusable_rates_are_the_table_s():
    m, y = 4, labels(4)
    table = np.random.default_rng(0).random((m, m))
    S = make_candidates(y, "confusable", confusion=table, random_state=0)
    for j in range(m):
        expected = np.where(np.arange(m) == j, 1.0, table[j])
        close(S[y == j].mean(axis=0), expected, n=(y == j).sum())
    S = make_candidates(y, "confusable", flip_proba=0.3, random_state=0)
    close(S[y == 3].mean(axis=0), [0.3, 0, 0, 1], n=(y == 3).sum())


def test_instance_rates_are_the_classifier_s_mistakes():
    rng = np.random.default_rng(0)
    m = 4
    X = rng.normal(size=(N, 2))
    y = labels(m)
    model = LogisticRegression().fit(X[:500], (X[:500, 0] > 0) + 2 * (X[:500, 1] > 0))
    q = 0.2
    S = make_candidates(y, "instance", X=X, estimator=model, flip_proba=q, random_state=0)
    proba = model.predict_proba(X)
    proba[np.arange(N), y] = 0
    expected = np.minimum(q * proba / (proba.sum(axis=1, keepdims=True) / (m - 1)), 1)
    joined = wrong(S, y)
    for low, high in ((0, 0.05), (0.05, 0.2), (0.2, 0.5), (0.5, 1)):
        bin_ = (expected > low) & (expected < high)
        close(joined[bin_].mean(), expected[bin_].mean(), n=bin_.sum())
    assert joined[expected == 1].all()
    assert joined.sum(axis=1).mean() <= q * (m - 1) + 0.01


def test_instance_fits_a_classifier_of_its_own():
    X, _, y = make_partial_classification(400, n_classes=4, class_sep=0.5, random_state=0)
    S = make_candidates(y, "instance", X=X, random_state=0, clean_rate=0.1)
    assert describe(S, y).clean_rate == 0.1
    assert describe(S, y).noise_rate == 0


@pytest.mark.parametrize("kind", ["uniform", "flip", "confusable"])
@pytest.mark.parametrize("clean_rate", [None, 0.2])
def test_noise_is_met_and_leaves_sizes_alone(kind, clean_rate):
    y = labels(10, 20_000)
    plain = make_candidates(y, kind, clean_rate=clean_rate, random_state=0)
    noisy = make_candidates(y, kind, clean_rate=clean_rate, noise=0.25, random_state=0)
    found = describe(noisy, y)
    assert found.noise_rate == 0.25
    if clean_rate:
        assert found.clean_rate == clean_rate
    assert abs(found.mean_candidates - describe(plain).mean_candidates) < 0.1


def test_noise_where_every_label_is_a_candidate_removes_the_truth():
    y = labels(3, 1000)
    S = make_candidates(y, "flip", flip_proba=1.0, noise=1.0)
    np.testing.assert_array_equal(S, ~np.eye(3, dtype=bool)[y])


@given(
    kind=st.sampled_from(["uniform", "flip", "confusable"]),
    m=st.integers(2, 30),
    n=st.integers(1, 40),
    noise=st.floats(0, 1),
    seed=st.integers(0, 99),
)
@settings(max_examples=60, deadline=None)
def test_every_row_has_a_candidate_and_the_share_of_noise(kind, m, n, noise, seed):
    y = np.random.default_rng(seed).integers(0, m, n)
    S = make_candidates(y, kind, classes=np.arange(m), noise=noise, random_state=seed)
    _, checked = check_candidates(S, n_samples=n)
    assert checked.shape == (n, m)
    assert (~S[np.arange(n), y]).sum() == round(noise * n)


def test_random_state_fixes_the_draws_and_forms_agree():
    y = labels(7, 500)
    S = make_candidates(y, random_state=3)
    np.testing.assert_array_equal(S, make_candidates(y, random_state=3))
    assert (make_candidates(y, random_state=4) != S).any()
    sparse = make_candidates(y, random_state=3, sparse_output=True)
    assert isinstance(sparse, sp.csr_array)
    np.testing.assert_array_equal(sparse.toarray(), S)
    names = np.array(list("abcdefg"))
    frame = make_candidates(names[y], random_state=3, as_frame=True)
    assert frame.columns.tolist() == list("abcdefg")
    np.testing.assert_array_equal(frame, S)


def test_many_classes_are_drawn_in_blocks():
    y = labels(1000, 6000)
    S = make_candidates(y, classes=range(1000), random_state=0, sparse_output=True)
    sizes = S.sum(axis=1)
    assert abs(sizes.mean() - 500) < 1


Y6 = [0, 1, 2, 0, 1, 2]
REFUSED = {
    "kind is 'unifrom'": {"kind": "unifrom"},
    "flip_proba is 1.5": {"flip_proba": 1.5},
    "noise is -0.1": {"noise": -0.1},
    "clean_rate is nan": {"clean_rate": float("nan")},
    r"confusion has shape \(2, 2\)": {"kind": "confusable", "confusion": np.eye(2)},
    r"confusion\[0, 1\] is 2": {"kind": "confusable", "confusion": np.full((3, 3), 2)},
    "X is None": {"kind": "instance"},
    "expected a fitted classifier": {
        "kind": "instance",
        "X": np.ones((6, 2)),
        "estimator": LogisticRegression(),
    },
    "no wrong label of positive probability": {"kind": "flip", "flip_proba": 0, "clean_rate": 0.5},
    "two classes": {"y": [0, 1], "clean_rate": 0.5},
    "columns of a plain matrix cannot name": {"y": ["a", "b"]},
    "run up to 2 but 1 never occurs": {"y": [0, 2]},
    "row 1 has the label 9": {"y": [0, 9], "classes": [0, 1]},
    "a label twice": {"classes": [0, 1, 2, 2]},
    "y has shape": {"y": [[0, 1], [1, 0]]},
    "exclude each other": {"as_frame": True, "sparse_output": True},
}


@pytest.mark.parametrize("message", REFUSED)
def test_wrong_parameters_are_named(message):
    with pytest.raises(ValueError, match=message):
        make_candidates(**{"y": Y6, **REFUSED[message]})


def test_partial_classification_options():
    X, S, y = make_partial_classification(
        6000, 10, 5, clean_rate=0.3, noise=0.1, imbalance=16, sparse_output=True, random_state=0
    )
    assert X.shape == (6000, 10)
    found = describe(S, y, X=X)
    assert (found.clean_rate, found.noise_rate) == (0.3, 0.1)
    counts = np.bincount(y)
    np.testing.assert_allclose(counts[:-1] / counts[1:], 2, rtol=0.02)  # 16 ** (1 / 4)
    again = make_partial_classification(
        6000, 10, 5, clean_rate=0.3, noise=0.1, imbalance=16, random_state=0
    )
    np.testing.assert_array_equal(again[0], X)
    with pytest.raises(ValueError, match=r"imbalance is 0\.5"):
        make_partial_classification(imbalance=0.5)
    with pytest.raises(ValueError, match="n_features is 1, too few"):
        make_partial_classification(n_features=1)
    with pytest.raises(ValueError, match="n_classes is 1"):
        make_partial_classification(n_classes=1)


def test_long_tail_keeps_what_the_rarest_class_allows():
    y = np.repeat(["a", "b", "c"], [100, 30, 100])
    rows = long_tail_rows(y, 4, random_state=0)
    assert np.unique(y[rows], return_counts=True)[1].tolist() == [60, 30, 15]
    assert len(set(rows.tolist())) == len(rows)


def test_votes_become_candidates():
    votes = pd.DataFrame(
        [["a", "b", None], ["a", "a", "b"], [None, None, "c"], ["a", "b", "c"]], index=list("wxyz")
    )
    S = candidates_from_votes(votes)
    assert S.index.tolist() == list("wxyz")
    assert S.columns.tolist() == ["a", "b", "c"]
    expected = [[1, 1, 0], [1, 1, 0], [0, 0, 1], [1, 1, 1]]
    np.testing.assert_array_equal(S, expected)
    classes, _ = check_candidates(S)
    assert classes.tolist() == ["a", "b", "c"]
    majority = candidates_from_votes(votes, min_votes=2)
    np.testing.assert_array_equal(majority, [[1, 1, 0], [1, 0, 0], [0, 0, 1], [1, 1, 1]])
    more = candidates_from_votes(votes, classes=["c", "b", "a", "d"], sparse_output=True)
    np.testing.assert_array_equal(more.toarray()[:, :3], np.array(expected)[:, ::-1])
    assert more.shape == (4, 4)


def test_votes_of_numbers_stay_integers_despite_missing_ones():
    S = candidates_from_votes(pd.DataFrame({"u": [0, 1, np.nan], "v": [1.0, 1.0, 2.0]}))
    assert S.columns.tolist() == [0, 1, 2]
    nullable = pd.DataFrame({"u": pd.array([0, 1, None], dtype="Int64"), "v": [1, 1, 2]})
    pd.testing.assert_frame_equal(candidates_from_votes(nullable), S)
    array = candidates_from_votes(np.array([[0, 1], [1, 1], [np.nan, 2]]))
    np.testing.assert_array_equal(array, S)


def test_votes_that_say_nothing_are_named():
    votes = pd.DataFrame({"u": ["a", None], "v": ["b", None]}, index=["x", "y"])
    with pytest.raises(ValueError, match="row 'y' has no label from any annotator"):
        candidates_from_votes(votes)
    everything = candidates_from_votes(votes, unlabelled="all")
    assert everything.loc["y"].all()
    for bad, message in (
        ({"min_votes": 0}, "min_votes is 0"),
        ({"unlabelled": "drop"}, "unlabelled is 'drop'"),
        ({"classes": ["a"]}, "row 'x' has the label 'b'"),
    ):
        with pytest.raises(ValueError, match=message):
            candidates_from_votes(votes, **{"unlabelled": "all", **bad})
    for bad, message in (
        (["a", "b"], "votes has shape"),
        ([["a", 1], ["b", 2]], "different types"),
        ([["a"], ["a"]], "1 different label"),
        ([["a"], ["b"]], "as_frame=True"),
    ):
        with pytest.raises(ValueError, match=message):
            candidates_from_votes(bad)


def test_describe_counts_by_hand():
    S = [{"a", "b"}, {"a"}, {"c", "a"}, {"b"}]
    found = describe(S, y=["b", "a", "a", "a"], X=[[0.0], [1], [-0.0], [2]], name="toy")
    assert (found.n_samples, found.n_classes, found.n_features) == (4, 3, 1)
    assert (found.mean_candidates, found.max_candidates, found.clean_rate) == (1.5, 2, 0.5)
    assert (found.n_classes_clean, found.never_true, found.noise_rate) == (2, ("c",), 0.25)
    assert found.n_duplicates == 1
    assert describe(S, X=sp.csr_array([[0.0], [1], [0], [2]])).n_duplicates == 1
    assert describe(S).never_true is None
    assert " ".join(str(found).splitlines()[2].split()) == "toy 4 1 3 1.5000 50.00% 2 1 1"
    with pytest.raises(ValueError, match="row 3 has the label 'z'"):
        describe(S, y=["b", "a", "a", "z"])


@pytest.mark.parametrize("name", [n for n in datasets.__all__ if n != "Characteristics"])
def test_documented_defaults_are_the_signature_s(name):
    function = getattr(datasets, name)
    for parameter in inspect.signature(function).parameters.values():
        entry = re.search(rf"^    {parameter.name}(?:, \w+)* : (.*)$", function.__doc__, re.M)
        assert entry, f"{name}: {parameter.name} is not documented"
        stated = re.search(r"default=(.*)$", entry[1])
        if parameter.default is inspect.Parameter.empty:
            assert stated is None
        else:
            assert stated[1].strip('"') == str(parameter.default)
    assert ">>> from sklearn_cleanse.datasets import" in function.__doc__
