"""The splitter: a partition, shuffled, balanced, and never too proud for a small class."""

import time

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import (
    GridSearchCV,
    KFold,
    cross_val_predict,
    cross_val_score,
    learning_curve,
)

from sklearn_cleanse.metrics import covering_scorer
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


def marks(S):
    """Per class: is a candidate, is the only candidate."""
    S = np.asarray(S, dtype=int)
    return np.hstack([S, S * (S.sum(axis=1, keepdims=True) == 1)])


def imbalance(S, splitter):
    """Mean and largest distance between a fold's count of a mark and its fair share."""
    M = marks(S)
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
    sizes = [len(test) for test in tests]
    assert max(sizes) - min(sizes) <= 1


@pytest.mark.parametrize("n_splits", [5, 10])
@pytest.mark.parametrize("shuffle", [False, True])
def test_far_better_balanced_than_plain_folds(n_splits, shuffle):
    ours, plain = [], []
    for seed in range(5):
        S = skewed(seed=seed)
        ours.append(imbalance(S, CandidateKFold(n_splits, random_state=seed)))
        folds = KFold(n_splits, shuffle=shuffle, random_state=seed if shuffle else None)
        plain.append(imbalance(S, folds))
    (mean, largest), (plain_mean, plain_largest) = np.mean(ours, axis=0), np.mean(plain, axis=0)
    assert mean < plain_mean / 2
    assert largest < plain_largest / 2


def test_clean_rows_are_balanced_class_by_class():
    S = skewed()
    clean = S & (S.sum(axis=1, keepdims=True) == 1)
    counts = np.array(
        [clean[t].sum(axis=0) for _, t in CandidateKFold(5, random_state=0).split(S, S)]
    )
    assert (np.abs(counts - clean.sum(axis=0) / 5) < 2).all()


def test_a_class_of_three_rows_is_spread():
    S = skewed()
    assert S[:, -1].sum() == 3
    with_it = [S[test, -1].sum() for _, test in CandidateKFold(10, random_state=0).split(S, S)]
    assert sorted(with_it) == [0] * 7 + [1] * 3
    for train, _ in CandidateKFold(2, random_state=0).split(S, S):
        assert S[train, -1].any()


def test_one_label_per_row_gives_stratified_folds():
    y = np.repeat(["a", "b", "c"], [50, 30, 20])
    for _, test in CandidateKFold(10, random_state=0).split(np.zeros((100, 1)), y):
        assert np.unique(y[test], return_counts=True)[1].tolist() == [5, 3, 2]


def test_sorted_rows_are_shuffled():
    y = np.repeat([0, 1, 2], 30)
    X = np.random.default_rng(0).normal(size=(90, 2)) + 3 * np.eye(3)[y, :2]
    S = np.eye(3, dtype=int)[y]
    for train, _ in KFold(3).split(X):  # what scikit-learn does with a matrix for y
        assert len(set(y[train])) == 2
    for train, _ in CandidateKFold(3, random_state=0).split(X, S):
        assert np.bincount(y[train]).tolist() == [20, 20, 20]


def test_random_state_and_repeats():
    S = skewed(60)

    def folds(**keywords):
        return [test.tolist() for _, test in CandidateKFold(3, **keywords).split(S, S)]

    assert folds(random_state=0) == folds(random_state=0)
    assert folds(random_state=0) != folds(random_state=1)
    repeated = folds(n_repeats=2, random_state=0)
    assert len(repeated) == CandidateKFold(3, n_repeats=2).get_n_splits() == 6
    assert repeated[:3] == folds(random_state=0)
    assert repeated[:3] != repeated[3:]


def test_every_form_gives_the_same_folds():
    S = skewed(60)
    expected = [test.tolist() for _, test in CandidateKFold(3, random_state=0).split(S, S)]
    for y in (
        sp.csr_array(S.astype(int)),
        pd.DataFrame(S),
        [set(np.flatnonzero(row).tolist()) for row in S],
    ):
        splits = CandidateKFold(3, random_state=0).split(np.zeros((60, 2)), y)
        assert [test.tolist() for _, test in splits] == expected


def test_serves_as_cv_everywhere():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 60)
    X = rng.normal(size=(60, 3)) + 2 * np.eye(3)[y]
    cv = CandidateKFold(3, random_state=0)
    assert len(cross_val_score(LogisticRegression(), X, y, cv=cv, scoring=covering_scorer)) == 3
    assert cross_val_predict(LogisticRegression(), X, y, cv=cv).shape == (60,)
    search = GridSearchCV(LogisticRegression(), {"C": [0.1, 1.0]}, cv=clone(cv, safe=False))
    assert search.fit(X, y).n_splits_ == 3
    assert learning_curve(LogisticRegression(), X, y, cv=cv, train_sizes=[20, 40])[2].shape == (
        2,
        3,
    )
    assert repr(cv) == "CandidateKFold(n_repeats=1, n_splits=3, random_state=0)"


def test_out_of_fold_predictions_need_a_partition():
    S = skewed(60)
    with pytest.raises(ValueError, match="partition"):
        cross_val_predict(
            LogisticRegression(),
            np.zeros((60, 1)),
            S.argmax(axis=1),
            cv=CandidateKFold(3, n_repeats=2),
        )


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"n_splits": 1}, "n_splits is 1; it must be an integer of at least 2"),
        ({"n_splits": 2.5}, "n_splits is 2.5"),
        ({"n_splits": True}, "n_splits is True"),
        ({"n_repeats": 0}, "n_repeats is 0"),
    ],
)
def test_bad_parameters_are_refused(keywords, message):
    with pytest.raises(ValueError, match=message):
        CandidateKFold(**keywords)


def test_bad_data_is_refused():
    with pytest.raises(ValueError, match="n_splits is 5, but there are only 2 samples"):
        next(CandidateKFold(5).split(np.zeros((2, 1)), [{"a"}, {"b"}]))
    with pytest.raises(ValueError, match="y is None"):
        next(CandidateKFold(2).split(np.zeros((4, 1))))
    with pytest.raises(ValueError, match="row 1 has no candidate"):
        next(CandidateKFold(2).split(np.zeros((2, 1)), [[1, 1], [0, 0]]))


def test_large_data_in_seconds():
    rng = np.random.default_rng(0)
    n_samples, n_classes = 100_000, 100
    columns = rng.integers(0, n_classes, (n_samples, 3)).ravel()
    rows = np.repeat(np.arange(n_samples), 3)
    S = sp.csr_array((np.ones(len(rows)), (rows, columns)), shape=(n_samples, n_classes)) > 0
    start = time.perf_counter()
    splits = list(CandidateKFold(10, random_state=0).split(np.zeros((n_samples, 1)), S))
    assert len(splits) == 10
    assert time.perf_counter() - start < 20  # takes about one second
