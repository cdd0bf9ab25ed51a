"""The splitter: a partition, shuffled, balanced, and without a smallest class size."""

import time

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, KFold, cross_val_predict, cross_val_score

from sklearn_cleanse.model_selection import CandidateKFold


def skewed(n_samples=600, n_classes=12, seed=0):
    """Candidates with class sizes from hundreds down to three, a tenth of the rows clean."""
    rng = np.random.default_rng(seed)
    share = 0.6 ** np.arange(n_classes)
    truth = rng.choice(n_classes - 1, n_samples, p=share[:-1] / share[:-1].sum())
    truth[rng.choice(n_samples, 3, replace=False)] = n_classes - 1
    S = rng.random((n_samples, n_classes)) < share
    S[:, -1] = False
    S[rng.random(n_samples) < 0.1] = False
    S[np.arange(n_samples), truth] = True
    return S


def folds(S, n_splits=3, **keywords):
    splits = CandidateKFold(n_splits, **keywords).split(np.zeros((60, 1)), S)
    return [test.tolist() for _, test in splits]


def imbalance(S, splitter):
    """Mean and largest distance between a fold's count of a mark and its due."""
    M = np.hstack([S, S & (S.sum(axis=1, keepdims=True) == 1)]).astype(int)
    counts = np.array([M[test].sum(axis=0) for _, test in splitter.split(S, S)])
    distance = np.abs(counts - M.sum(axis=0) / len(counts))
    return distance.mean(), distance.max()


@pytest.mark.parametrize("n_splits", [2, 5, 7, 10])
@pytest.mark.parametrize("n_samples", [23, 600])
def test_folds_partition_the_rows_in_equal_parts(n_splits, n_samples):
    S = skewed(n_samples)
    tests = []
    for train, test in CandidateKFold(n_splits, random_state=0).split(S, S):
        assert np.array_equal(np.sort(np.r_[train, test]), np.arange(n_samples))
        tests.append(test)
    assert np.array_equal(np.sort(np.concatenate(tests)), np.arange(n_samples))
    assert np.ptp([len(test) for test in tests]) <= 1


@pytest.mark.parametrize("n_splits", [5, 10])
@pytest.mark.parametrize("shuffle", [False, True])
def test_twice_as_well_balanced_as_plain_folds(n_splits, shuffle):
    ours, plain = [], []
    for seed in range(5):
        S = skewed(seed=seed)
        ours.append(imbalance(S, CandidateKFold(n_splits, random_state=seed)))
        kfold = KFold(n_splits, shuffle=shuffle, random_state=seed if shuffle else None)
        plain.append(imbalance(S, kfold))
    assert (np.mean(ours, axis=0) < np.mean(plain, axis=0) / 2).all()


def test_clean_rows_are_balanced_class_by_class():
    S = skewed()
    clean = S & (S.sum(axis=1, keepdims=True) == 1)
    splits = CandidateKFold(5, random_state=0).split(S, S)
    counts = np.array([clean[test].sum(axis=0) for _, test in splits])
    assert (np.abs(counts - clean.sum(axis=0) / 5) < 2).all()


def test_a_class_of_three_rows_is_spread():
    S = skewed()
    with_it = [S[test, -1].sum() for _, test in CandidateKFold(10, random_state=0).split(S, S)]
    assert sorted(with_it) == [0] * 7 + [1] * 3
    for train, _ in CandidateKFold(2, random_state=0).split(S, S):
        assert S[train, -1].any()


def test_one_label_per_row_gives_stratified_folds_of_shuffled_rows():
    y = np.repeat(["a", "b", "c"], [50, 30, 20])
    for train, test in CandidateKFold(10, random_state=0).split(np.zeros((100, 1)), y):
        assert np.unique(y[test], return_counts=True)[1].tolist() == [5, 3, 2]
        assert len(set(y[train])) == 3


def test_random_state_and_repeats():
    S = skewed(60)
    assert folds(S, random_state=0) == folds(S, random_state=0)
    assert folds(S, random_state=0) != folds(S, random_state=1)
    repeated = folds(S, n_repeats=2, random_state=0)
    assert len(repeated) == CandidateKFold(3, n_repeats=2).get_n_splits() == 6
    assert repeated[:3] == folds(S, random_state=0)
    assert repeated[:3] != repeated[3:]


def test_every_form_gives_the_same_folds():
    S = skewed(60)
    sets = [set(np.flatnonzero(row).tolist()) for row in S]
    weights = S * np.random.default_rng(0).uniform(0.1, 1, S.shape)
    for y in (sp.csr_array(S.astype(int)), pd.DataFrame(S), sets, weights):
        assert folds(y, random_state=0) == folds(S, random_state=0)


def test_serves_as_cv_everywhere():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 60)
    X = rng.normal(size=(60, 3)) + 2 * np.eye(3)[y]
    cv = CandidateKFold(3, random_state=0)
    assert len(cross_val_score(LogisticRegression(), X, y, cv=cv)) == 3
    assert cross_val_predict(LogisticRegression(), X, y, cv=cv).shape == (60,)
    assert GridSearchCV(LogisticRegression(), {"C": [0.1, 1.0]}, cv=cv).fit(X, y).n_splits_ == 3
    assert repr(cv) == "CandidateKFold(n_repeats=1, n_splits=3, random_state=0)"
    with pytest.raises(ValueError, match="partition"):
        cross_val_predict(LogisticRegression(), X, y, cv=CandidateKFold(3, n_repeats=2))


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"n_splits": 1}, r"`n_splits` must be an integer of at least 2, got 1\."),
        ({"n_splits": 2.5}, "got 2.5"),
        ({"n_splits": True}, "got True"),
        ({"n_repeats": 0}, r"`n_repeats` must be an integer of at least 1, got 0\."),
    ],
)
def test_bad_parameters(keywords, message):
    with pytest.raises(ValueError, match=message):
        CandidateKFold(**keywords)


def test_bad_data():
    for n_splits, y, message in (
        (5, [{"a"}, {"b"}], "`n_splits` must be at most .*, got 5 for 2 samples"),
        (2, None, "the target y is None"),
        (2, [[1, 1], [0, 0]], "got none in row 1"),
        (2, [{"a"}, {"b"}, {"c"}], "inconsistent numbers of samples"),
    ):
        with pytest.raises(ValueError, match=message):
            next(CandidateKFold(n_splits).split(np.zeros((2, 1)), y))


def test_large_data_in_seconds():
    rng = np.random.default_rng(0)
    S = np.zeros((100_000, 100), dtype=bool)
    S[np.arange(100_000)[:, None], rng.integers(0, 100, (100_000, 3))] = True
    start = time.perf_counter()
    assert len(list(CandidateKFold(10, random_state=0).split(S, S))) == 10
    assert time.perf_counter() - start < 20  # takes about two seconds
