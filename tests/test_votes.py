import numpy as np
import pytest
import torch
from sklearn.neighbors import NearestNeighbors

from sklearn_cleanse.votes import (
    candidate_shares,
    cosine_directions,
    hard_votes,
    nearest,
    soft_votes,
)


def test_nearest_agrees_with_scikit_learn(rng):
    X = rng.normal(size=(60, 5))
    expected = NearestNeighbors(n_neighbors=4, metric="cosine").fit(X).kneighbors()
    directions = cosine_directions(torch.from_numpy(X))
    neighbors, similarity = nearest(directions, directions, 4, own=torch.arange(60))
    np.testing.assert_array_equal(neighbors.numpy(), expected[1])
    np.testing.assert_allclose(1 - similarity.numpy(), expected[0], atol=1e-12)


def test_only_queries_that_are_voters_are_struck_out(rng):
    directions = cosine_directions(torch.from_numpy(rng.normal(size=(6, 3))))
    own = torch.tensor([0, -1, 2, 3, -1, 5])
    neighbors, _ = nearest(directions, directions, 1, own=own)
    assert (neighbors.ravel() == torch.arange(6)).tolist() == [
        False,
        True,
        False,
        False,
        True,
        False,
    ]


def test_fewer_voters_than_asked_for_all_vote():
    directions = cosine_directions(torch.eye(3))
    assert nearest(directions, directions, 10, own=torch.arange(3))[0].shape == (3, 2)


def test_two_equal_rows_are_each_others_neighbours():
    directions = cosine_directions(torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]]))
    neighbors, _ = nearest(directions, directions, 1, own=torch.arange(3))
    assert neighbors[:2].ravel().tolist() == [1, 0]


@pytest.fixture
def voters():
    #                     clean a    clean b    clean b    {a, c}     {a, c}     clean d
    return torch.tensor(
        [[1, 0, 0, 0], [0, 1, 0, 0], [0, 1, 0, 0], [1, 0, 1, 0], [1, 0, 1, 0], [0, 0, 0, 1]],
        dtype=torch.bool,
    )


def enhanced(neighbors, voters, own, scope="candidates"):
    own = torch.tensor([own], dtype=torch.bool)
    neighbors = torch.tensor([neighbors])
    return hard_votes(neighbors, torch.ones(neighbors.shape), voters, own, scope)[0].tolist()


def test_most_clean_votes_win(voters):
    assert enhanced([0, 1, 2], voters, [1, 1, 0, 0]) == [0, 1, 0, 0]


def test_among_equal_clean_votes_the_nearest_wins(voters):
    assert enhanced([0, 1], voters, [1, 1, 0, 0]) == [1, 0, 0, 0]
    assert enhanced([1, 0], voters, [1, 1, 0, 0]) == [0, 1, 0, 0]


def test_one_clean_voter_beats_many_partial_ones(voters):
    assert enhanced([3, 4, 1], voters, [1, 1, 1, 0]) == [0, 1, 0, 0]


def test_clean_labels_that_are_no_candidates_leave_the_vote_to_all(voters):
    assert enhanced([5, 3, 4], voters, [0, 1, 1, 0]) == [0, 0, 1, 0]


def test_a_winner_outside_the_candidates_is_never_used(voters):
    assert enhanced([3, 4, 1], voters, [0, 1, 1, 0]) == [0, 1, 0, 0]


def test_over_all_classes_a_winner_outside_the_candidates_enhances_nothing(voters):
    assert enhanced([3, 4], voters, [0, 0, 1, 0], scope="all") == [0, 0, 0, 0]  # a, before c
    assert enhanced([5, 5, 3], voters, [1, 0, 1, 0], scope="all") == [0, 0, 0, 0]  # d, twice


def test_over_all_classes_clean_neighbours_of_a_candidate_decide_as_ever(voters):
    assert enhanced([3, 4, 1], voters, [1, 1, 1, 0], scope="all") == [0, 1, 0, 0]


def test_over_all_classes_a_winning_candidate_is_enhanced_as_ever(voters):
    for neighbors in ([0, 1, 2], [0, 1], [3, 4]):
        own = [1, 1, 0, 0]
        assert enhanced(neighbors, voters, own, scope="all") == enhanced(neighbors, voters, own)


def test_nobody_votes_for_any_candidate(voters):
    assert enhanced([5, 5], voters, [1, 1, 1, 0]) == [0, 0, 0, 0]


def test_soft_votes_are_similarity_weighted_confidences(rng):
    ballots = torch.from_numpy(rng.dirichlet(np.ones(3), size=5))
    neighbors = torch.tensor([[0, 3], [4, 1]])
    similarity = torch.tensor([[0.9, 0.2], [0.5, -0.3]], dtype=torch.float64)
    expected = torch.stack([0.9 * ballots[0] + 0.2 * ballots[3], 0.5 * ballots[4]])
    torch.testing.assert_close(soft_votes(neighbors, similarity, ballots), expected)


def test_clean_voters_alone_make_soft_votes_a_weighted_poll(voters):
    votes = soft_votes(torch.tensor([[0, 1, 2]]), torch.full((1, 3), 0.5), voters.float())
    own = torch.tensor([[True, True, False, False]])
    torch.testing.assert_close(
        candidate_shares(votes, own), torch.tensor([[1 / 3, 2 / 3, 0.0, 0.0]])
    )


def test_votes_for_other_labels_lower_the_trust(voters):
    votes = soft_votes(torch.tensor([[0, 1, 2, 5]]), torch.full((1, 4), 0.5), voters.float())
    own = torch.tensor([[True, True, False, False]])
    kept = candidate_shares(votes, own)
    torch.testing.assert_close(kept, torch.tensor([[1 / 4, 2 / 4, 0.0, 0.0]]))
    assert candidate_shares(votes, ~own & torch.tensor([[True, True, True, False]])).sum() == 0


def test_hard_votes_break_ties_by_nearness_among_many():
    voters = torch.zeros(40, 3, dtype=torch.bool)
    voters[:, 2] = True  # neither of the query's candidates
    voters[26], voters[27] = torch.tensor([[False, True, False], [True, False, False]])
    own = torch.tensor([[True, True, False]])
    votes = hard_votes(torch.arange(40)[None], torch.ones(1, 40), voters, own)
    assert votes.tolist() == [[0, 1, 0]]
