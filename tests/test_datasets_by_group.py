"""Candidates that rows share: bags and dictionaries, drawn or given."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import make_blobs

from sklearn_cleanse.datasets import (
    describe,
    long_tail_rows,
    make_candidates,
    make_partial_classification,
)
from sklearn_cleanse.datasets._by_group import _draw_bags, _find_types

KINDS = ["uniform", "flip", "confusable", "instance", "bag", "dictionary"]


def labels(n_classes, n):
    return np.random.default_rng(1).integers(0, n_classes, n)


def blobs(n=2000, n_classes=6, spread=3.0):
    """Classes that overlap."""
    return make_blobs(n, 2, centers=n_classes, cluster_std=spread, random_state=0)


def bags_of(y, *, clean_rate=None, bag_size=(1, 5), scenes=0.0, seed=0):
    """Draw bags without making candidates of them."""
    is_clean = np.arange(len(y)) < round((clean_rate or 0) * len(y))
    partial = clean_rate is not None
    rng = np.random.default_rng(seed)
    return _draw_bags(y, is_clean, partial, rng, bag_size=bag_size, scenes=scenes), is_clean


def union(y, groups, n_classes):
    """The labels of each row's group, by hand."""
    one_hot = np.eye(n_classes, dtype=bool)[y]
    return np.array([one_hot[groups == group].any(axis=0) for group in groups])


@pytest.mark.parametrize("kind", ["bag", "dictionary"])
def test_given_groups_share_the_labels_of_their_rows(kind):
    y, groups = labels(5, 60), np.random.default_rng(2).choice(list("abcdefghijk"), 60)
    S = make_candidates(y, kind, groups=groups, flip_proba=0, random_state=0)
    np.testing.assert_array_equal(S, union(y, groups, 5))
    # so permuting rows or classes permutes the candidates, and nothing is left to chance
    rows, relabel = np.random.default_rng(3).permutation(60), np.array([3, 0, 4, 1, 2])
    permuted = make_candidates(
        relabel[y][rows], kind, groups=groups[rows], flip_proba=0, random_state=7
    )
    np.testing.assert_array_equal(permuted[:, relabel], S[rows])


def test_bags_drawn_at_random_do_not_look_at_labels():
    y, relabel = labels(7, 500), np.random.default_rng(0).permutation(7)
    S = make_candidates(y, "bag", random_state=0)
    np.testing.assert_array_equal(make_candidates(relabel[y], "bag", random_state=0)[:, relabel], S)
    members, _ = bags_of(y)
    np.testing.assert_array_equal(members, bags_of(relabel[y])[0])


def test_bag_sizes_are_those_asked_for():
    y = labels(10, 50_000)
    sizes = np.bincount(bags_of(y, bag_size=4)[0])
    assert set(sizes.tolist()) == {4}
    shares = np.bincount(np.bincount(bags_of(y, bag_size=(2, 6))[0]))[2:] / (50_000 / 4)
    np.testing.assert_allclose(shares, 1 / 5, atol=0.02)
    assert (make_candidates(y, "bag", bag_size=1).sum(axis=1) == 1).all()
    assert make_candidates(y, "bag", bag_size=50_000, random_state=0).all()
    # labels of two random rows agree with probability 1 / 10
    pairs = make_candidates(y, "bag", bag_size=2, random_state=0).sum(axis=1)
    assert abs(pairs.mean() - 1.9) < 0.02


def test_at_one_scene_a_bag_s_labels_are_of_one_scene():
    m, y = 10, labels(10, 5000)
    S = make_candidates(y, "bag", scenes=1.0, random_state=0)
    together = S.T.astype(int) @ S > 0
    # to occur together is an equivalence: its classes are scenes of two or three labels
    np.testing.assert_array_equal(together @ together, together)
    assert sorted(together.sum(axis=1)) == [2] * 4 + [3] * 6
    assert S[np.arange(len(y)), y].all()
    assert make_candidates(y, "bag", random_state=0).shape == (5000, m)


@pytest.mark.parametrize("scenes", [0.0, 0.3, 0.6, 1.0])
def test_scenes_raise_cooccurrence_as_documented(scenes):
    m, n = 12, 40_000  # four scenes of three labels each
    y = np.arange(n) % m
    S = make_candidates(y, "bag", bag_size=2, scenes=1.0, random_state=0)
    scene = (S.T.astype(int) @ S > 0).argmax(axis=1)[y]  # a seed fixes the scenes
    S = make_candidates(y, "bag", bag_size=2, scenes=scenes, random_state=0)
    in_scene = np.array([(scene_of == scene[:m]) for scene_of in scene])
    found = 1 - (S & ~in_scene).any(axis=1).mean()
    # a row is in a bag of its scene if it does not stray, or strays there
    home = scenes + (1 - scenes) / 4
    expected = home**2 + 3 * ((1 - home) / 3) ** 2
    assert abs(found - expected) < 5 * np.sqrt(expected * (1 - expected) / (n / 2)) + 1e-3


def test_scenes_shrink_sets():
    y = labels(12, 20_000)
    made = [make_candidates(y, "bag", scenes=s, random_state=0).sum() for s in (0, 0.3, 0.6, 1)]
    assert (np.diff(made) < 0).all()


@pytest.mark.parametrize("scenes", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("clean_rate", [0.0, 0.25, 0.97, 1.0])
def test_bags_meet_a_clean_rate(scenes, clean_rate):
    y = labels(9, 1000)
    S = make_candidates(y, "bag", scenes=scenes, clean_rate=clean_rate, random_state=0)
    assert (S.sum(axis=1) == 1).sum() == round(clean_rate * 1000)
    assert S[np.arange(1000), y].all()
    members, is_clean = bags_of(y, clean_rate=clean_rate, scenes=scenes)
    sizes = np.bincount(members)
    assert (sizes[members[is_clean]] == 1).all()
    assert (union(y, members, 9)[~is_clean].sum(axis=1) >= 2).all()


def test_with_a_clean_rate_bags_stay_within_their_scene():
    S = make_candidates(labels(10, 2000), "bag", scenes=1.0, clean_rate=0.2, random_state=0)
    together = S.T.astype(int) @ S > 0
    assert sorted(together.sum(axis=1)) == [2] * 4 + [3] * 6


@given(
    m=st.integers(2, 12),
    n=st.integers(2, 60),
    clean_rate=st.one_of(st.none(), st.floats(0, 1)),
    low=st.integers(1, 4),
    more=st.integers(0, 4),
    scenes=st.sampled_from([0.0, 0.4, 1.0]),
    seed=st.integers(0, 999),
)
@settings(max_examples=150, deadline=None)
def test_bags_hold_every_row_once(m, n, clean_rate, low, more, scenes, seed):
    y = np.random.default_rng(seed).integers(0, m, n)
    left = y[round((clean_rate or 0) * n) :]
    size = (low, max(low + more, 2))
    options = {"clean_rate": clean_rate, "bag_size": size, "scenes": scenes, "seed": seed}
    if clean_rate is not None and len(set(left.tolist())) == 1:
        with pytest.raises(ValueError, match="clean_rate cannot be met"):
            bags_of(y, **options)
        return
    members, is_clean = bags_of(y, **options)
    sizes = np.bincount(members)
    assert sizes.min() >= 1  # numbered without a gap
    if clean_rate is None:
        assert sizes.max() <= size[1]
    else:
        n_labels = union(y, members, m).sum(axis=1)
        np.testing.assert_array_equal(n_labels == 1, is_clean)


@pytest.mark.parametrize("kind", ["bag", "dictionary"])
@pytest.mark.parametrize("flip_proba", [0, 0.1])
def test_given_groups_meet_a_clean_rate(kind, flip_proba):
    y, groups = labels(5, 1000), np.arange(1000) // 4 % 200
    y[groups < 20] = 3  # a tenth of the rows are in groups with a single label
    options = {"groups": groups, "flip_proba": flip_proba, "random_state": 0}
    S = make_candidates(y, kind, clean_rate=0.3, **options)
    is_clean = S.sum(axis=1) == 1
    assert is_clean.sum() == 300
    if kind == "bag" or flip_proba == 0:
        assert is_clean[groups < 20].all()
        np.testing.assert_array_equal(S[~is_clean], union(y, groups, 5)[~is_clean])
        with pytest.raises(ValueError, match=r"use clean_rate >= 0\.1\d*$") as refusal:
            make_candidates(y, kind, clean_rate=0.05, **options)
        advice = float(str(refusal.value).split()[-1])
        S = make_candidates(y, kind, clean_rate=advice, **options)
        assert (S.sum(axis=1) == 1).sum() == round(advice * 1000)
    else:
        S = make_candidates(y, kind, clean_rate=0.05, **options)
        assert (S.sum(axis=1) == 1).sum() == 50


def test_rows_of_a_type_share_a_set_with_all_their_truths():
    X, y = blobs()
    S = make_candidates(y, "dictionary", X=X, n_types=40, random_state=0)
    assert S[np.arange(len(y)), y].all()
    assert len(np.unique(S, axis=0)) <= 40
    # equal rows are of equal type
    twice = np.tile(np.arange(len(y)), 2)
    S = make_candidates(y[twice], "dictionary", X=X[twice], random_state=0)
    np.testing.assert_array_equal(S[: len(y)], S[len(y) :])


def test_one_type_has_every_label_and_a_type_per_row_has_one():
    X, y = blobs(300)
    everything = make_candidates(y, "dictionary", X=X, n_types=1, flip_proba=0)
    assert everything.all()
    alone = make_candidates(y, "dictionary", X=X, n_types=300, flip_proba=0)
    np.testing.assert_array_equal(alone, np.eye(6, dtype=bool)[y])
    full = make_candidates(y, "dictionary", X=X, n_types=300, flip_proba=1)
    assert full.all()


def test_types_do_not_depend_on_the_units_or_the_storage_of_features():
    X, y = blobs()
    options = {"kind": "dictionary", "random_state": 0}
    S = make_candidates(y, X=X, **options)
    np.testing.assert_array_equal(make_candidates(y, X=X * [1000, 1] + 5, **options), S)
    np.testing.assert_array_equal(make_candidates(y, X=sp.csr_array(X), **options), S)


def test_truth_in_a_type_is_skewed_to_its_frequent_label():
    def share_of_the_frequent(y, types):
        """Return how often a type's most frequent label is true, where the type has several."""
        counts = np.zeros((types.max() + 1, 6))
        np.add.at(counts, (types, y), 1)
        counts = counts[(counts > 0).sum(axis=1) > 1]
        return counts.max(axis=1).sum() / counts.sum()

    shares = []
    for spread in (3.0, 2.0, 1.0):
        X, y = blobs(spread=spread)
        types = _find_types(X, None, len(y), np.random.default_rng(0))
        shuffled = np.random.default_rng(0).permutation(y)
        shares.append(share_of_the_frequent(y, types))
        assert shares[-1] > share_of_the_frequent(shuffled, types) + 0.15
    assert (np.diff(shares) > 0).all()  # the more so, the better X tells the classes apart


def test_wrong_labels_join_a_dictionary_by_flip_proba():
    n_types, m = 20_000, 6
    groups = np.repeat(np.arange(n_types), 2)
    y = np.repeat(labels(m, n_types), 2)
    S = make_candidates(y, "dictionary", groups=groups, flip_proba=0.2, random_state=0)
    np.testing.assert_array_equal(S[::2], S[1::2])
    joined = S[::2].sum(axis=1) - 1
    assert abs(joined.mean() - 0.2 * (m - 1)) < 0.03
    # with a clean rate, the same given that one joins at least
    S = make_candidates(
        y, "dictionary", groups=groups, flip_proba=0.2, clean_rate=0, random_state=0
    )
    joined = S[::2].sum(axis=1) - 1
    assert joined.min() == 1
    assert abs(joined.mean() - 0.2 * (m - 1) / (1 - 0.8 ** (m - 1))) < 0.03


@pytest.mark.parametrize("clean_rate", [0.1, 0.5, 1.0])
def test_dictionary_meets_a_clean_rate(clean_rate):
    X, y = blobs()
    S = make_candidates(y, "dictionary", X=X, clean_rate=clean_rate, random_state=0)
    assert describe(S, y).clean_rate == clean_rate
    assert describe(S, y).noise_rate == 0


@pytest.mark.parametrize("kind", ["bag", "dictionary"])
def test_noise_is_met_and_leaves_sizes_alone(kind):
    X, y = blobs()
    options = {"kind": kind, "X": X, "clean_rate": 0.2, "n_types": 400, "random_state": 0}
    plain = make_candidates(y, **options)
    noisy = make_candidates(y, noise=0.25, **options)
    found = describe(noisy, y)
    assert (found.noise_rate, found.clean_rate) == (0.25, 0.2)
    is_noisy = ~noisy[np.arange(len(y)), y]
    np.testing.assert_array_equal(noisy[~is_noisy], plain[~is_noisy])
    keeps_size = ~plain.all(axis=1)
    np.testing.assert_array_equal(noisy.sum(axis=1)[keeps_size], plain.sum(axis=1)[keeps_size])


@pytest.mark.parametrize("kind", ["bag", "dictionary"])
def test_forms_agree_and_random_state_fixes_the_draws(kind):
    X, y = blobs(300)
    options = {"kind": kind, "X": X, "scenes": 0.5, "random_state": 3}
    S = make_candidates(y, **options)
    np.testing.assert_array_equal(make_candidates(y, **options), S)
    assert (make_candidates(y, **{**options, "random_state": 4}) != S).any()
    sparse = make_candidates(y, sparse_output=True, **options)
    assert isinstance(sparse, sp.csr_array)
    np.testing.assert_array_equal(sparse.toarray(), S)
    frame = make_candidates(np.array(list("abcdef"))[y], as_frame=True, **options)
    assert frame.columns.tolist() == list("abcdef")
    np.testing.assert_array_equal(frame, S)
    # a label that no row has joins no bag
    wide = make_candidates(y, classes=range(9), **{**options, "kind": "bag"})
    assert not wide[:, 6:].any()


@pytest.mark.parametrize("kind", KINDS)
def test_imbalance_composes_with_every_kind(kind):
    X, y = blobs(6000)
    rows = long_tail_rows(y, imbalance=32, random_state=0)
    X, y = X[rows], y[rows]
    counts = np.bincount(y)
    np.testing.assert_allclose(counts[:-1] / counts[1:], 2, rtol=0.05)  # 32 ** (1 / 5)
    S = make_candidates(y, kind, X=X, clean_rate=0.3, noise=0.1, random_state=0)
    found = describe(S, y)
    assert abs(found.clean_rate - 0.3) < 0.5 / len(y)
    assert abs(found.noise_rate - 0.1) < 0.5 / len(y)
    X, S, y = make_partial_classification(
        600, kind=kind, imbalance=8, clean_rate=0.2, random_state=0
    )
    assert describe(S, y).clean_rate == 0.2
    assert S[np.arange(600), y].all()
    assert np.bincount(y)[0] > 5 * np.bincount(y)[-1]


Y6, X6 = [0, 1, 2, 0, 1, 2], np.arange(12.0).reshape(6, 2)
REFUSED = {
    "bag_size is 0; expected a number of rows": {"kind": "bag", "bag_size": 0},
    r"bag_size is \(3, 2\)": {"kind": "bag", "bag_size": (3, 2)},
    r"bag_size is \(1, 2, 3\)": {"kind": "bag", "bag_size": (1, 2, 3)},
    r"bag_size is 2\.5": {"kind": "bag", "bag_size": 2.5},
    "bag_size is 1, but with clean_rate": {"kind": "bag", "bag_size": 1, "clean_rate": 0.5},
    r"scenes is 1\.5; expected a number from 0 to 1": {"kind": "bag", "scenes": 1.5},
    r"not clean \(1\) have a single label": {"kind": "bag", "clean_rate": 5 / 6},
    r"groups has shape \(2,\); expected \(6,\)": {"kind": "bag", "groups": [0, 1]},
    r"groups\[1\] is nan; every row needs a group": {
        "kind": "bag",
        "groups": [0, np.nan, 1, 1, 1, 1],
    },
    "ids that cannot be sorted": {"kind": "dictionary", "groups": ["a", None, "a", "b", "b", "a"]},
    "kind='flip' draws each row by itself; use kind='bag' or 'dictionary'": {
        "kind": "flip",
        "groups": [0] * 6,
    },
    'X is None; kind="dictionary" needs the features': {"kind": "dictionary"},
    "X has 5 rows but y has 6": {"kind": "dictionary", "X": X6[:5]},
    "X contains NaN": {"kind": "dictionary", "X": X6 * np.nan},
    "n_types is 7; expected a whole number from 1 to the number of rows, 6": {
        "kind": "dictionary",
        "X": X6,
        "n_types": 7,
    },
    r"n_types is 2\.0": {"kind": "dictionary", "X": X6, "n_types": 2.0},
    r"6 of 6 rows are in groups with a single label, and so clean; use clean_rate >= 1": {
        "kind": "dictionary",
        "groups": Y6,
        "flip_proba": 0,
        "clean_rate": 0.5,
    },
}


@pytest.mark.parametrize("message", REFUSED)
def test_wrong_parameters_are_named(message):
    with pytest.raises(ValueError, match=message):
        make_candidates(**{"y": Y6, **REFUSED[message]})
