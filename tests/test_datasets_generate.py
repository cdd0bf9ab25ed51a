"""Candidate generators against their formulas; toy problems and summaries."""

import re
from math import comb

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import make_blobs
from sklearn.linear_model import LogisticRegression
from test_candidates_messages import replaced

from sklearn_cleanse.datasets import (
    describe_candidates,
    long_tail_rows,
    make_candidates,
    make_lexicon,
    make_partial_classification,
)
from sklearn_cleanse.datasets._sources import Request, draw_bags

N = 200_000
SOURCES = ["uniform", "flip", "class-dependent", "instance-dependent", "bag", "lexicon"]


def labels(n_classes, n=N):
    return np.random.default_rng(1).integers(0, n_classes, n)


def blobs(n=2000, n_classes=6, spread=3.0):
    """Classes that overlap."""
    return make_blobs(n, 2, centers=n_classes, cluster_std=spread, random_state=0)


def close(found, expected, n=N, sigmas=5):
    """Compare a proportion, or an array of them, with its probability, given n draws."""
    expected = np.asarray(expected, dtype=float)
    error = sigmas * np.sqrt(np.maximum(expected * (1 - expected), 0) / n) + 1e-12
    assert np.all(np.abs(np.asarray(found) - expected) <= error), (found, expected, error)


def wrong(S, y):
    """The wrong labels that joined."""
    S = S.copy()
    S[np.arange(len(y)), y] = False
    return S


def codes(S):
    return [int("".join(map(str, row)), 2) for row in np.asarray(S).astype(int).tolist()]


X12, Y12 = make_blobs(12, 2, centers=4, cluster_std=3.0, random_state=0)
CLEAN = {"clean_rate": 0.25, "noise_rate": 0.25}
RECORDED = [  # what the generators drew before they were rewritten, a row of bits as a number
    ("uniform", {}, [4, 10, 14, 9, 12, 2, 9, 2, 13, 11, 11, 3]),
    ("flip", {"flip_proba": 0.4}, [12, 15, 4, 12, 12, 10, 9, 6, 13, 9, 10, 13]),
    ("class-dependent", {"flip_proba": 0.6}, [4, 12, 4, 12, 6, 2, 9, 3, 9, 12, 3, 9]),
    ("instance-dependent", {"flip_proba": 0.4}, [12, 15, 4, 12, 14, 10, 9, 6, 9, 9, 14, 9]),
    ("bag", {"bag_size": (1, 4), "scenes": 0.3}, [5, 10, 4, 10, 5, 2, 5, 10, 9, 9, 10, 5]),
    ("lexicon", {"n_types": 5, "flip_proba": 0.2}, [6, 8, 6, 8, 6, 2, 9, 6, 9, 9, 6, 9]),
    ("uniform", CLEAN, [3, 8, 13, 13, 13, 9, 9, 2, 9, 5, 2, 13]),
    ("flip", CLEAN, [10, 8, 7, 9, 12, 12, 5, 2, 9, 6, 2, 9]),
    ("bag", CLEAN, [9, 8, 5, 9, 6, 12, 5, 2, 9, 5, 2, 9]),
    ("lexicon", CLEAN, [11, 8, 15, 15, 15, 13, 15, 2, 15, 7, 2, 15]),
]


@pytest.mark.parametrize(("source", "options", "expected"), RECORDED)
def test_draws_are_those_recorded(source, options, expected):
    S = make_candidates(Y12, source, X=X12, classes=range(4), random_state=3, **options)
    assert codes(S) == expected


def test_toy_draws_are_those_recorded():
    X, S, y = make_partial_classification(8, imbalance=3, random_state=1)
    np.testing.assert_allclose(X[0, :2], [0.5780490894411179, 0.3865391451330911])
    assert (codes(S), y.tolist()) == ([4, 8, 9, 5, 11, 10, 9, 11], [1, 0, 0, 1, 2, 0, 0, 3])
    rows = long_tail_rows(np.repeat([0, 1, 2], 6), 3, random_state=0)
    assert rows.tolist() == [0, 1, 2, 3, 4, 5, 7, 9, 10, 15, 17]


@pytest.mark.parametrize("source", SOURCES)
def test_forms_agree_and_random_state_fixes_the_draws(source):
    X, y = blobs(300)
    options = {"X": X, "scenes": 0.5, "random_state": 3}
    S = make_candidates(y, source, **options)
    assert (S.shape, S.dtype) == ((300, 6), bool)
    assert S[np.arange(300), y].all()
    np.testing.assert_array_equal(make_candidates(y, source, **options), S)
    assert (make_candidates(y, source, **options | {"random_state": 4}) != S).any()
    sparse = make_candidates(y, source, sparse_output=True, **options)
    assert isinstance(sparse, sp.csr_array)
    np.testing.assert_array_equal(sparse.toarray(), S)
    frame = make_candidates(np.array(list("abcdef"))[y], source, as_frame=True, **options)
    assert frame.columns.tolist() == list("abcdef")
    np.testing.assert_array_equal(frame, S)


@pytest.mark.parametrize("source", SOURCES)
def test_rates_are_met_and_noise_leaves_sizes_alone(source):
    X, y = blobs(6000)
    rows = long_tail_rows(y, imbalance=32, random_state=0)
    X, y = X[rows], y[rows]
    counts = np.bincount(y)
    np.testing.assert_allclose(counts[:-1] / counts[1:], 2, rtol=0.05)  # 32 ** (1 / 5)
    options = {"X": X, "clean_rate": 0.3, "random_state": 0}
    plain = make_candidates(y, source, **options)
    S = make_candidates(y, source, noise_rate=0.1, **options)
    damaged = sp.csr_array(X)
    damaged.indices[0] = 10**6
    with pytest.raises(ValueError, match="Sparse X must be well-formed"):
        describe_candidates(S, X=damaged)
    found = describe_candidates(S, y)
    assert abs(found.clean_rate - 0.3) < 0.5 / len(y)
    assert abs(found.noise_rate - 0.1) < 0.5 / len(y)
    is_noisy = ~S[np.arange(len(y)), y]
    keeps_size = ~plain.all(axis=1)
    if source in ("bag", "lexicon"):  # drawn before the noise is
        np.testing.assert_array_equal(S[~is_noisy], plain[~is_noisy])
        np.testing.assert_array_equal(S.sum(axis=1)[keeps_size], plain.sum(axis=1)[keeps_size])
    assert abs(S.sum() - plain.sum()) < 0.05 * plain.sum()


@pytest.mark.parametrize("m", [2, 3, 5, 10])
def test_uniform_sizes_follow_the_binomial_formula(m):
    y = labels(m)
    S = make_candidates(y, random_state=0)
    formula = [comb(m, j) / (2**m - 2) for j in range(1, m)]
    close(np.bincount(S.sum(axis=1), minlength=m)[1:m] / N, formula)
    mean = sum(j * p for j, p in enumerate(formula, 1))
    for k in range(m):  # given the size, each wrong label is as likely as any other
        close(S[y != k, k].mean(), (mean - 1) / (m - 1), n=(y != k).sum())


@pytest.mark.parametrize("q", [1e-6, 0.1, 0.7, 1.0])
def test_flip_meets_a_clean_rate_and_is_else_unchanged(q):
    m, y = 4, labels(4)
    joined = wrong(make_candidates(y, "flip", flip_proba=q, random_state=0), y)[y == 0]
    close(joined[:, 1:].mean(axis=0), q, n=len(joined))
    close((joined[:, 1] & joined[:, 2]).mean(), q * q, n=len(joined))  # independent
    S = make_candidates(y, "flip", flip_proba=q, clean_rate=0.25, random_state=0)
    clean = S.sum(axis=1) == 1
    assert clean.sum() == N // 4
    some = -np.expm1((m - 1) * np.log1p(-q)) if q < 1 else 1.0
    joined = wrong(S, y)[~clean & (y == 3)]
    close(joined[:, :3].mean(axis=0), q / some, n=len(joined))
    close((joined[:, 0] & joined[:, 2]).mean(), q * q / some, n=len(joined))


def test_class_dependent_rates_are_the_table_s():
    m, y = 4, labels(4)
    table = np.random.default_rng(0).random((m, m))
    S = make_candidates(y, "class-dependent", confusion=table, random_state=0)
    for j in range(m):
        expected = np.where(np.arange(m) == j, 1.0, table[j])
        close(S[y == j].mean(axis=0), expected, n=(y == j).sum())
    S = make_candidates(y, "class-dependent", flip_proba=0.3, random_state=0)
    close(S[y == 3].mean(axis=0), [0.3, 0, 0, 1], n=(y == 3).sum())


def test_instance_dependent_rates_are_the_classifier_s_mistakes():
    m, q, X, y = 4, 0.2, np.random.default_rng(0).normal(size=(N, 2)), labels(4)
    model = LogisticRegression().fit(X[:500], (X[:500, 0] > 0) + 2 * (X[:500, 1] > 0))
    options = {"X": X, "estimator": model, "flip_proba": q, "random_state": 0}
    joined = wrong(make_candidates(y, "instance-dependent", **options), y)
    proba = model.predict_proba(X)
    proba[np.arange(N), y] = 0
    expected = np.minimum(q * proba / (proba.sum(axis=1, keepdims=True) / (m - 1)), 1)
    for low, high in ((0, 0.05), (0.05, 0.2), (0.2, 0.5), (0.5, 1)):
        between = (expected > low) & (expected < high)
        close(joined[between].mean(), expected[between].mean(), n=between.sum())
    assert joined[expected == 1].all()


def union(y, groups, n_classes):
    """The labels of each row's group, by hand."""
    one_hot = np.eye(n_classes, dtype=bool)[y]
    return np.array([one_hot[groups == group].any(axis=0) for group in groups])


@pytest.mark.parametrize("source", ["bag", "lexicon"])
def test_given_groups_share_the_labels_of_their_rows(source):
    y, groups = labels(5, 60), np.random.default_rng(2).choice(list("abcdefghijk"), 60)
    S = make_candidates(y, source, groups=groups, flip_proba=0, random_state=0)
    np.testing.assert_array_equal(S, union(y, groups, 5))
    # so permuting rows or classes permutes the candidates, whatever the seed
    rows, relabel = np.random.default_rng(3).permutation(60), np.array([3, 0, 4, 1, 2])
    options = {"groups": groups[rows], "flip_proba": 0, "random_state": 7}
    permuted = make_candidates(relabel[y][rows], source, **options)
    np.testing.assert_array_equal(permuted[:, relabel], S[rows])


@pytest.mark.parametrize("source", ["bag", "lexicon"])
@pytest.mark.parametrize("flip_proba", [0, 0.1])
def test_given_groups_meet_a_clean_rate(source, flip_proba):
    y, groups = labels(5, 1000), np.arange(1000) // 4 % 200
    y[groups < 20] = 3  # a tenth of the rows are in groups with a single label
    options = {"groups": groups, "flip_proba": flip_proba, "random_state": 0}
    S = make_candidates(y, source, clean_rate=0.3, **options)
    is_clean = S.sum(axis=1) == 1
    assert is_clean.sum() == 300
    if source == "bag" or flip_proba == 0:
        assert is_clean[groups < 20].all()
        np.testing.assert_array_equal(S[~is_clean], union(y, groups, 5)[~is_clean])
        with pytest.raises(ValueError, match=r"`clean_rate` must be at least 0\.1") as caught:
            make_candidates(y, source, clean_rate=0.05, **options)
        advice = float(re.search(r"at least ([\d.]+\d)", str(caught.value))[1])
        S = make_candidates(y, source, clean_rate=advice, **options)
        assert (S.sum(axis=1) == 1).sum() == round(advice * 1000)


def test_at_one_scene_a_bag_s_labels_are_of_one_scene():
    y = labels(10, 5000)
    for clean_rate in (None, 0.2):
        S = make_candidates(y, "bag", scenes=1.0, clean_rate=clean_rate, random_state=0)
        together = S.T.astype(int) @ S > 0
        # to occur together is an equivalence: its classes are scenes of two or three labels
        np.testing.assert_array_equal(together @ together, together)
        assert sorted(together.sum(axis=1)) == [2] * 4 + [3] * 6
    made = [make_candidates(y, "bag", scenes=s, random_state=0).sum() for s in (0, 0.3, 0.6, 1)]
    assert (np.diff(made) < 0).all()


def bags_of(y, *, clean_rate=None, bag_size=(1, 5), scenes=0.0, seed=0):
    """Draw bags without making candidates of them."""
    is_clean = np.arange(len(y)) < round((clean_rate or 0) * len(y))
    rng, partial = np.random.default_rng(seed), clean_rate is not None
    request = Request(y, [0, 1], is_clean, partial, rng, bag_size=bag_size, scenes=scenes)
    return draw_bags(request), is_clean


@given(
    m=st.integers(2, 12),
    n=st.integers(2, 60),
    clean_rate=st.one_of(st.none(), st.floats(0, 1)),
    low=st.integers(1, 4),
    more=st.integers(0, 4),
    scenes=st.sampled_from([0.0, 0.4, 1.0]),
    seed=st.integers(0, 999),
)
@settings(max_examples=100, deadline=None)
def test_bags_hold_every_row_once(m, n, clean_rate, low, more, scenes, seed):
    y = np.random.default_rng(seed).integers(0, m, n)
    left, size = y[round((clean_rate or 0) * n) :], (low, max(low + more, 2))
    options = {"clean_rate": clean_rate, "bag_size": size, "scenes": scenes, "seed": seed}
    if clean_rate is not None and len(set(left.tolist())) == 1:
        with pytest.raises(ValueError, match="`clean_rate` must leave rows of two labels"):
            bags_of(y, **options)
        return
    members, is_clean = bags_of(y, **options)
    sizes = np.bincount(members)
    assert sizes.min() >= 1  # numbered without a gap
    if clean_rate is None:
        assert sizes.max() <= size[1]
    else:
        np.testing.assert_array_equal(union(y, members, m).sum(axis=1) == 1, is_clean)


def test_rows_of_a_type_share_a_set_with_all_their_truths():
    X, y = blobs()
    S = make_candidates(y, "lexicon", X=X, n_types=40, random_state=0)
    assert len(np.unique(S, axis=0)) <= 40
    one, each = ({"X": X, "n_types": n, "flip_proba": 0} for n in (1, 2000))
    assert make_candidates(y, "lexicon", **one).all()
    np.testing.assert_array_equal(make_candidates(y, "lexicon", **each), np.eye(6, dtype=bool)[y])
    # equal rows are of equal type
    twice = np.tile(np.arange(len(y)), 2)
    S = make_candidates(y[twice], "lexicon", X=X[twice], random_state=0)
    np.testing.assert_array_equal(S[: len(y)], S[len(y) :])


Y6, X6 = [0, 1, 2, 0, 1, 2], np.arange(12.0).reshape(6, 2)
BAD = {
    "`source` must be one of .*, got 'unifrom'": {"source": "unifrom"},
    r"`flip_proba` must be a number from 0 to 1, got 1\.5": {"flip_proba": 1.5},
    r"`flip_proba` must be a number from 0 to 1, got 10+\.": {"flip_proba": 10**400},
    "`X` must not be masked": {"X": np.ma.array(X6, mask=X6 == 3)},
    "Sparse X must be well-formed": {"X": replaced("csr", indptr=np.array([0, 9, 9, 5]))},
    "`noise_rate` must be a number from 0 to 1, got -1": {"noise_rate": -1},
    "`clean_rate` must be a number from 0 to 1, got nan": {"clean_rate": float("nan")},
    r"`scenes` must be a number from 0 to 1, got 1\.5": {"source": "bag", "scenes": 1.5},
    r"`confusion` must have shape \(3, 3\), got \(2, 2\)": {"confusion": np.eye(2)},
    "probabilities, got 2.0 in row 0, column 1": {"confusion": np.full((3, 3), 2)},
    r"`source` must be one of .*, got \[\]": {"source": []},
    "'class-dependent' must be None with": {"source": "flip", "confusion": np.eye(3)},
    "'instance-dependent' must be None": {"estimator": LogisticRegression()},
    "rows for source='instance-dependent', got 0": {"source": "instance-dependent"},
    "6 rows for source=.instance-dependent., got 5": {"source": "instance-dependent", "X": X6[:5]},
    "fitted probabilistic classifier": {"source": "instance-dependent", "X": X6,
        "estimator": LogisticRegression()},
    "positive probability, got 0 in row": {"source": "flip", "flip_proba": 0, "clean_rate": 0.5},
    '`source` must not be "uniform" with two': {"y": [0, 1], "clean_rate": 0.5},
    r"to make a plain matrix, got \['a', 'b'\]": {"y": ["a", "b"]},
    r"got \[0, 2\]. Pass as_frame=True, or `classes`, such as range\(3\)": {"y": [0, 2]},
    "got 9 in row 1. Correct it": {"y": [0, 9], "classes": [0, 1]},
    "one true label per sample, got none in row 1": {"y": ["a", None]},
    "one true label per sample, got none in row 2": {"y": np.ma.array(Y6, mask=[0, 0, 1, 0, 0, 0])},
    "`classes` must be .*got 2": {"classes": [0, 1, 2, 2]},
    r"per sample, got shape \(2, 2\)": {"y": [[0, 1], [1, 0]]},
    r"`y` must have two labels, got \[0\]": {"y": [0, 0]},
    "`sparse_output` must be False if": {"as_frame": True, "sparse_output": True},
    "positive integer or two, got 0": {"source": "bag", "bag_size": 0},
    r"positive integer or two, got \(3, 2\)": {"source": "bag", "bag_size": (3, 2)},
    r"positive integer or two, got \(1, 2, 3\)": {"source": "bag", "bag_size": (1, 2, 3)},
    "`bag_size` must be at least 2": {"source": "bag", "bag_size": 1, "clean_rate": 0.5},
    "two labels, got 1 of one": {"source": "bag", "clean_rate": 5 / 6},
    r"`groups` must have shape \(6,\), got \(2,\)": {"source": "bag", "groups": [0, 1]},
    "every row, got NaN in row 1": {"source": "bag", "groups": [0, np.nan, 1, 1, 1, 1]},
    "all numbers or all strings": {"source": "lexicon", "groups": ["a", None, "a", "b", "b", "a"]},
    '"bag" or "lexicon" with `groups`, got': {"source": "flip", "groups": [0] * 6},
    "`X` must have 6 rows for source='lexicon', got 0": {"source": "lexicon"},
    "`X` must have 6 rows for source='lexicon', got 5": {"source": "lexicon", "X": X6[:5]},
    "X contains NaN": {"source": "lexicon", "X": X6 * np.nan},
    "an integer from 1 to 6, got 7": {"source": "lexicon", "X": X6, "n_types": 7},
    r"an integer from 1 to 6, got 2\.0": {"source": "lexicon", "X": X6, "n_types": 2.0},
}  # fmt: skip


@pytest.mark.parametrize("message", BAD)
def test_wrong_parameters_are_named(message):
    options = {"y": Y6, "source": "class-dependent" if "confusion" in BAD[message] else "uniform"}
    with pytest.raises(ValueError, match=message):
        make_candidates(**options | BAD[message])


@pytest.mark.parametrize(
    ("make", "options", "message"),
    [
        (make_partial_classification, {"imbalance": 0.5}, r"a number of at least 1, got 0\.5"),
        (make_partial_classification, {"n_features": 1}, "at least 2 for 4 classes, got 1"),
        (make_partial_classification, {"n_classes": 1}, "an integer of at least 2, got 1"),
        (make_lexicon, {"imbalance": 0.5}, r"a number of at least 1, got 0\.5"),
        (make_lexicon, {"n_types": 0}, "an integer of at least 1, got 0"),
        (make_lexicon, {"n_samples": 2.5}, r"an integer of at least 1, got 2\.5"),
        (make_lexicon, {"n_features": 1}, "an integer of at least 2, got 1"),
        (make_lexicon, {"dominance": 2}, "a number from 0 to 1, got 2"),
    ],
)
def test_wrong_toy_problems_are_named(make, options, message):
    (name,) = options
    with pytest.raises(ValueError, match=f"`{name}` must be {message}"):
        make(**options)


def test_a_lexicon_has_words_of_unequal_frequency_with_a_dominant_tag():
    X, S, y = make_lexicon(5000, n_types=50, dominance=0.7, random_state=0)
    assert X.shape == (5000, 60)
    assert set(np.unique(X)) == {0.0, 1.0}
    assert S[np.arange(5000), y].all()
    form, word, sizes = np.unique(X[:, :30], axis=0, return_inverse=True, return_counts=True)
    assert len(form) == 50
    order = np.sort(sizes)[::-1] * np.arange(1, 51)
    assert order.max() < 2.5 * order.min()  # frequencies fall as 1/rank
    for w in range(50):
        assert (S[word == w] == S[word == w][0]).all()  # all tags of the word
    assert 1 <= S.sum(axis=1).min() <= S.sum(axis=1).max() <= 6
    several = S.sum(axis=1) > 1
    dominant = np.array([np.bincount(y[word == w]).argmax() for w in range(50)])[word]
    assert (y == dominant)[several].mean() == pytest.approx(0.7, abs=0.05)
    again = make_lexicon(5000, n_types=50, dominance=0.7, random_state=0)
    for first, second in zip((X, S, y), again, strict=True):
        np.testing.assert_array_equal(first, second)


def test_summaries_count_by_hand():
    S = [{"a", "b"}, {"a"}, {"c", "a"}, {"b"}]
    X = [[0.0, np.nan], [1, 1], [-0.0, np.nan], [2, 2]]
    found = describe_candidates(S, ["b", "a", "a", "a"], X=X, name="<toy>")
    assert (found.n_samples, found.n_classes, found.n_features) == (4, 3, 2)
    assert (found.mean_candidates, found.max_candidates, found.clean_rate) == (1.5, 2, 0.5)
    assert (found.n_classes_clean, found.never_true, found.noise_rate) == (2, ("c",), 0.25)
    assert found.n_duplicates == 1
    assert describe_candidates(S, X=sp.csr_array([[0.0], [1], [0], [2]])).n_duplicates == 1
    assert describe_candidates(S).never_true is None
    assert " ".join(str(found).splitlines()[1].split()) == "<toy> 4 2 3 1.5000 50.00% 2 1 1"
    assert "<td>&lt;toy&gt;</td>" in found._repr_html_()
    weights = np.array([[0.6, 0.4, 0.0], [1.0, 0, 0], [0.2, 0, 0.8], [0, 1.0, 0]])
    assert describe_candidates(weights).mean_candidates == 1.5
    for truth, message in ((["b", "a", "a", "z"], "'z'"), (S, "one label per sample, got several")):
        with pytest.raises(ValueError, match=message):
            describe_candidates(S, truth)
