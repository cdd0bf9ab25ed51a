"""Several ranks train the model that one process trains on the rows of all: see ranks.py."""

import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import ranks
import scipy.sparse as sp
import torch
import torch.distributed as dist

from sklearn_cleanse import CleanSEClassifier, load
from sklearn_cleanse._ranks import Ranks
from sklearn_cleanse.deep import _pool
from sklearn_cleanse.deep._pool import Pool
from sklearn_cleanse.votes import LandmarkRidge, kernel_votes

#: Seconds within which a rank that has ended is noticed by the others.
NOTICED = 30


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """Return what each rank of each group has found, by case, and what it saw of a lost rank."""
    folder = tmp_path_factory.mktemp("ranks")
    script = Path(__file__).with_name("ranks.py")
    run = [sys.executable, "-W", "ignore", str(script), str(folder)]
    subprocess.run(run, check=True, timeout=300, cwd=Path(__file__).parents[1])
    found = {}
    for size in ranks.CASES:
        names = [f"{size}-{rank}.pickle" for rank in range(size)]
        found[size] = [pickle.loads((folder / name).read_bytes()) for name in names]
        for rank, name in zip(found[size], names, strict=True):
            path = folder / f"lost-{name}"
            rank["lost"] = pickle.loads(path.read_bytes()) if path.exists() else None
    return found


def of_two(results, name):
    return [found[name] for found in results[2]]


@pytest.mark.parametrize(
    ("size", "name"),
    [(size, name) for size, names in ranks.CASES.items() for name in names if name in ranks.FITTED],
)
def test_all_ranks_end_with_the_same_model(size, name, results):
    first, *others = (found[name] for found in results[size])
    for other in others:
        assert first["weights"].keys() == other["weights"].keys()
        for part, value in first["weights"].items():
            assert torch.equal(value, other["weights"][part]), part
        for fact in first.keys() - {"weights", "candidate_proba", "pickle", "kernel"}:
            np.testing.assert_equal(first[fact], other[fact])
        np.testing.assert_array_equal(first["proba"], other["proba"])


@pytest.mark.parametrize("name", ranks.AGREEING)
def test_they_agree_with_one_process_on_the_same_batches(name, results):
    one = getattr(ranks.Cases(), name)()
    first, *_ = found = of_two(results, name)
    for part, value in one["weights"].items():
        torch.testing.assert_close(first["weights"][part], value, atol=2e-5, rtol=1e-3, msg=part)
    np.testing.assert_allclose(first["proba"], one["proba"], atol=1e-5)
    np.testing.assert_allclose(first["shares"], one["shares"], atol=1e-6)
    for ours, theirs in zip(first["history"], one["history"], strict=True):
        assert ours.keys() == theirs.keys()
        # of weighted rows, the history has the mean over batches and not over weights
        if name != "weighted":
            np.testing.assert_allclose(list(ours.values()), list(theirs.values()), rtol=1e-4)
    for fact in one.keys() & {"dependence_", "count_strength_", "noise_", "n_landmarks_"}:
        assert first[fact] == one[fact]
    own = [rank["candidate_proba"] for rank in found]
    np.testing.assert_allclose(np.vstack(own), one["candidate_proba"], atol=1e-5)


@pytest.mark.parametrize("name", ["whole", "batches"])
def test_three_ranks_agree_as_two_do(name, results):
    one = getattr(ranks.Cases(), name)()
    for found in results[3]:
        np.testing.assert_allclose(found[name]["proba"], one["proba"], atol=1e-5)
        np.testing.assert_allclose(found[name]["shares"], one["shares"], atol=1e-6)
        assert found["usual"]["history"] == results[3][0]["usual"]["history"]


def test_landmarks_are_shared_and_their_regression_is_that_of_all_rows(results):
    first, other = (found["kernel"] for found in of_two(results, "landmarks"))
    np.testing.assert_array_equal(first.rows, other.rows)
    assert torch.equal(first.coef, other.coef)
    X, S, _ = ranks.data()
    np.testing.assert_array_equal(first.X, X[first.rows])
    np.testing.assert_array_equal(first.candidates, S[first.rows])
    assert len(first.rows) == 30
    assert min(first.rows) < ranks.CUTS[2][1] <= max(first.rows)
    ridge = LandmarkRidge(first.kernel, X, first.rows)
    votes = kernel_votes(ridge, torch.from_numpy(S), noise="auto")
    torch.testing.assert_close(first.coef, ridge.coefficients(votes.proba), atol=1e-5, rtol=1e-4)
    np.testing.assert_allclose(first.dependence, votes.dependence, atol=1e-5)
    np.testing.assert_allclose(first.intercept, votes.proba.mean(dim=0), atol=1e-6)
    assert first.noise == votes.noise


def test_classes_are_those_of_any_rank(results):
    for found in of_two(results, "labels"):
        assert found["classes"].tolist() == ["a", "bb", "ccc", "d"]
        assert found["classes"].dtype == object


def test_a_stop_on_one_rank_stops_all(results):
    assert [found["n_iter"] for found in of_two(results, "stopped")] == [2, 2]
    for found in of_two(results, "early_stopping"):
        assert found["n_iter"] < 9
        assert all("validation_score" in epoch for epoch in found["history"])


def test_what_one_rank_refuses_ends_all_of_them(results):
    for size, found in results.items():
        *others, last = [rank["refused_rows"] for rank in found]
        for kind, message in others:
            assert kind == "RankError"
            assert f"rank {size - 1} has refused to go on" in message
            assert "row 7 has no candidate label" in message
        assert last[0] == "ValueError"
    (kind, message), own = of_two(results, "refused_weights")
    assert (kind, own[0]) == ("RankError", "ValueError")
    assert "Negative values in data" in message


def test_a_callback_that_fails_on_one_rank_ends_all(results):
    (kind, message), own = of_two(results, "failing_callback")
    assert (kind, own) == ("RankError", ("OSError", "the disk is full"))
    assert "rank 1 has refused to go on" in message
    assert "the disk is full" in message


def test_partial_fit_without_classes_on_one_rank_ends_all(results):
    (kind, message), own = of_two(results, "missing_classes")
    assert (kind, own[0]) == ("RankError", "ValueError")
    assert "classes must be passed on the first call to partial_fit" in message


def test_the_same_rows_on_two_ranks_and_kernel_methods_in_a_group_are_warned_of(results):
    for ours, kernel in of_two(results, "same_rows"):
        assert ours.startswith("ranks 0 and 1 have the same rows")
        assert kernel.startswith("CleanSEKernelClassifier fits the rows of this process alone")


@pytest.mark.parametrize(
    ("backend", "device", "message"),
    [("nccl", "cpu", "use device='cuda'"), ("gloo", "mps", "use device='cpu'")],
)
def test_a_device_that_the_group_cannot_serve_is_refused(backend, device, message, monkeypatch):
    monkeypatch.setattr(dist, "get_backend", lambda: backend)
    with pytest.raises(ValueError, match=message):
        Ranks(0, 2).check_device(device)
    Ranks(0, 2).check_device("cuda")
    Ranks(0, 1).check_device(device)


def test_wide_rows_are_shared_in_smaller_numbers(monkeypatch):
    X, S, _ = ranks.data()
    S = sp.csr_array(S)
    own = Pool.of(X, S, np.arange(len(X)), S, None, np.arange(len(X)), np.random.RandomState(0))
    monkeypatch.setattr(Ranks, "gather", lambda self, value: [value, value])
    for n_bytes, n_shared in ((300 * 48, 300), (100 * 48, 100)):
        monkeypatch.setattr(_pool, "SHARED_BYTES", n_bytes)
        monkeypatch.setattr(_pool, "LEAST_SHARED", 10)
        pool = own.shared(Ranks(0, 2), np.random.RandomState(0))
        assert len(pool.X) == n_shared
        assert (pool.ours is None) == (n_shared < 300)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("other_features", "the shape of a sample: rank 0 has (6,), rank 1 has (5,)"),
        ("other_columns", "the columns of y: rank 0 has [0, 1, 2, 3], rank 1 has [0, 1, 2, 3, 4]"),
        ("other_parameters", "differ in lr: rank 0 has 0.01, rank 1 has 0.02"),
        ("few_rows", "rank 1 has 5 rows, fewer than the 9 steps of an epoch"),
        ("other_models", "differ in the model to go on from: rank 0 has"),
        ("neighbours", "vote='soft' seeks neighbours among all rows, and 2 ranks have them"),
    ],
)
def test_all_ranks_refuse_what_does_not_fit_together(name, message, results):
    for kind, said in of_two(results, name):
        assert kind == "ValueError"
        assert message in said


def test_a_rank_that_dies_ends_the_others(results):
    *others, died = results[3]
    assert died["lost"] is None
    for kind, message, seconds in (found["lost"] for found in others):
        assert kind == "RankError"
        assert "probably one of them has ended" in message
        assert seconds < NOTICED


def test_a_rank_that_does_not_answer_ends_the_others_by_the_timeout(results):
    kind, message, seconds = results[2][0]["lost"]
    assert kind == "RankError"
    assert "answered within the timeout of the process group" in message
    assert 3 < seconds < NOTICED


def test_a_pickle_of_any_rank_needs_no_group(results, tmp_path):
    X, S, _ = ranks.data()
    for found in of_two(results, "usual"):
        assert b"distributed" not in found["pickle"]
        assert b"_ranks" not in found["pickle"]
        clf = pickle.loads(found["pickle"])
        np.testing.assert_array_equal(clf.predict_proba(X), found["proba"])
        clf.save(tmp_path / "model")
        again = load(tmp_path / "model")
        np.testing.assert_array_equal(again.predict_proba(X), found["proba"])
        clf.set_params(warm_start=True).fit(X, S)  # and goes on, here on all rows
        assert clf.n_iter_ == 2 * ranks.USUAL["max_epochs"]


def test_a_group_of_one_changes_nothing(tmp_path):
    X, S, _ = ranks.data()
    expected = CleanSEClassifier(**ranks.USUAL).fit(X, S)
    ranks.start_group(tmp_path, "one", 0, 1, 60)
    try:
        found = CleanSEClassifier(**ranks.USUAL).fit(X, S)
    finally:
        dist.destroy_process_group()
    np.testing.assert_array_equal(found.predict_proba(X), expected.predict_proba(X))
    for ours, theirs in zip(found.history_, expected.history_, strict=True):
        assert {**ours, "seconds": 0} == {**theirs, "seconds": 0}
