"""Several ranks train the model that one process trains on the rows of all: see ranks.py."""

import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import ranks
import torch
import torch.distributed as dist

from sklearn_cleanse import CleanSEClassifier, load
from sklearn_cleanse.votes import LandmarkRidge, kernel_votes

#: Seconds within which a rank that has ended is noticed by the others.
NOTICED = 30


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """Return what each rank of each group has found, by case; None for a rank that has died."""
    folder = tmp_path_factory.mktemp("ranks")
    script = Path(__file__).with_name("ranks.py")
    run = [sys.executable, "-W", "ignore", str(script), str(folder)]
    subprocess.run(run, check=True, timeout=300, cwd=Path(__file__).parents[1])
    return {
        size: [
            pickle.loads(path.read_bytes()) if path.exists() else None
            for path in (folder / f"{size}-{rank}.pickle" for rank in range(size))
        ]
        for size in ranks.CASES
    }


def of_two(results, name):
    return [found[name] for found in results[2]]


@pytest.mark.parametrize("name", [*ranks.AGREEING, *ranks.RANDOM])
def test_all_ranks_end_with_the_same_model(name, results):
    first, *others = of_two(results, name)
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
    for found in results[3][:2]:
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
        *others, last = [rank and rank["refused_rows"] for rank in found]
        for kind, message in others:
            assert kind == "RankError"
            assert f"rank {size - 1} has refused to go on" in message
            assert "row 7 has no candidate label" in message
        assert last is None or last[0] == "ValueError"
    (kind, message), own = of_two(results, "refused_weights")
    assert (kind, own[0]) == ("RankError", "ValueError")
    assert "Negative values in data" in message


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("other_features", "the shape of a sample: rank 0 has (6,), rank 1 has (5,)"),
        ("other_columns", "the columns of y: rank 0 has [0, 1, 2, 3], rank 1 has [0, 1, 2, 3, 4]"),
        ("other_parameters", "differ in lr: rank 0 has 0.01, rank 1 has 0.02"),
        ("few_rows", "rank 1 has 5 rows, fewer than the 9 steps of an epoch"),
        ("neighbours", "vote='soft' seeks neighbours among all rows, and 2 ranks have them"),
    ],
)
def test_all_ranks_refuse_what_does_not_fit_together(name, message, results):
    for kind, said in of_two(results, name):
        assert kind == "ValueError"
        assert message in said


def test_a_rank_that_dies_ends_the_others(results):
    *others, died = results[3]
    assert died is None
    for kind, message, seconds in (found["lost"] for found in others):
        assert kind == "RankError"
        assert "one of them has ended" in message
        assert seconds < NOTICED


def test_a_rank_that_does_not_answer_ends_the_others_by_the_timeout(results):
    kind, message, seconds = results[2][0]["lost"]
    assert kind == "RankError"
    assert "has not answered within the timeout" in message
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
