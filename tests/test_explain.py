"""Explanations name the voters and say what came of their votes."""

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from sklearn_cleanse import CleanSEClassifier
from sklearn_cleanse.losses import LOSSES
from sklearn_cleanse.votes import hard_votes

QUICK = {"hidden_layer_sizes": (16,), "max_epochs": 6, "random_state": 0}


def test_clean_rows_pull_their_neighbours():
    """A partial row between two clean groups goes with the nearer one, by votes alone."""
    rng = np.random.RandomState(0)
    near, far = np.array([0.0, 1.0]), np.array([1.0, 0.0])
    X = np.vstack([near + 0.05 * rng.normal(size=(20, 2)), far + 0.05 * rng.normal(size=(20, 2))])
    S = np.repeat([[1, 0], [0, 1]], 20, axis=0)
    S[::2] = 1  # every other row could be either
    clf = CleanSEClassifier(vote="hard", **QUICK).fit(X, S)
    why = clf.explain(X[:1], S[:1])[0]
    assert why.votes.tolist() == [1.0, 0.0]
    assert why.clean.any()


@pytest.mark.parametrize("vote", ["soft", "hard"])
@pytest.mark.parametrize("loss", LOSSES)
def test_explain_names_the_voters(loss, vote, blobs):
    X, S, _ = blobs
    clf = CleanSEClassifier(loss, n_neighbors=5, vote=vote, **QUICK).fit(X, S)
    sets, keeps = torch.from_numpy(S == 1), LOSSES[loss].confidences
    believed = clf.disambiguate(X, S, return_proba=True)[1]
    kept = clf.net_.confidences(X, sp.csr_array(S == 1), keeps).toarray() if keeps else None
    for i, why in enumerate(clf.explain(X[:30], S[:30])):
        assert i not in why.neighbors  # nobody votes for himself
        assert len(why.neighbors) == len(why.ballots) == 5
        assert (np.diff(why.similarity) <= 0).all()
        np.testing.assert_array_equal(why.clean, S[why.neighbors].sum(axis=1) == 1)
        assert why.labels.tolist() == np.flatnonzero(S[i]).tolist()
        for row, ballot in zip(why.neighbors, why.ballots, strict=True):
            assert set(ballot) == set(np.flatnonzero(S[row]).tolist())
            assert sum(ballot.values()) == pytest.approx(1, abs=1e-5)
        np.testing.assert_allclose(why.confidences, believed[i][S[i] == 1], atol=1e-6)
        if vote == "hard":
            voters = torch.from_numpy(why.neighbors)[None], torch.from_numpy(why.similarity)[None]
            votes = hard_votes(*voters, sets, sets[[i]])[0].numpy()
            np.testing.assert_array_equal(why.votes, votes[S[i] == 1])
        expected = 1 + 2 * why.votes
        if keeps:
            own = kept[i][S[i] == 1]
            assert loss != "cavl" or set(own) <= {0, 1}
            expected = own * expected if vote == "hard" else own + 2 * why.votes
            expected = expected / expected.sum()
        np.testing.assert_allclose(why.weights, expected, atol=1e-5)
        assert str(why.prediction) in str(why)


def test_explain_without_candidates_lets_all_classes_stand(blobs):
    X, S, _ = blobs
    why = CleanSEClassifier(vote="soft", **QUICK).fit(X, S).explain(X[:1] + 0.01)[0]
    assert why.labels.tolist() == [0, 1, 2]
