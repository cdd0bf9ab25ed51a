"""CleanSE's formulas and the votes of a training, without a network.

Where rows lie is a table here; a network would only be another way to fill it.
"""

import dataclasses

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from torch.nn import functional as F

from sklearn_cleanse import CleanSEClassifier, calibration
from sklearn_cleanse.calibration import Calibration, Calibrator, choose_voters
from sklearn_cleanse.counts import COUNT_LOSSES
from sklearn_cleanse.deep import _training_rows
from sklearn_cleanse.deep._training_rows import TrainingRows
from sklearn_cleanse.losses import candidate_confidences
from sklearn_cleanse.votes import candidate_shares, hard_votes, soft_votes

VOTES = pytest.mark.parametrize("vote", ["soft", "hard"])
EVERY_VOTE = pytest.mark.parametrize("vote", ["kernel", "soft", "hard"])
KEEPS = pytest.mark.parametrize("keeps", [True, False])


@dataclasses.dataclass
class World:
    """Rows with candidates S, confidences C and a place D, all of them tables."""

    S: np.ndarray
    C: np.ndarray
    D: torch.Tensor
    rank: np.ndarray

    def permuted(self, rows, classes):
        S, C = self.S[rows][:, classes], self.C[rows][:, classes]
        return World(S, C, self.D[rows], self.rank[rows])

    def rows(self):
        return TrainingRows(
            np.zeros((len(self.S), 1)),
            sp.csr_array(self.S),
            None,
            "cpu",
            self.rank,
            scaling=torch.Tensor.float,
            confidences=self.C[self.S],
            votes=np.roll(self.C, 1, axis=0)[self.S],
        )

    def calibrator(self, keeps=True, seed=0, **params):
        params = {"vote": "soft", "vote_end": None, "n_neighbors": 5, **params}
        return Calibrator(
            Calibration(**params),
            self.rows(),
            keeps,
            lambda rows: self.D[torch.as_tensor(rows)],
            np.random.RandomState(seed),
        )

    def table(self, weights):
        """Lay flat weights out as rows and classes."""
        table = np.zeros(self.S.shape, dtype=np.float32)
        table[self.S] = weights.numpy()
        return table


@pytest.fixture
def world(rng):
    S = rng.uniform(size=(200, 6)) < 0.35
    S[np.arange(200), rng.randint(6, size=200)] = True
    C = rng.uniform(size=S.shape) * S
    C = (C / C.sum(axis=1, keepdims=True)).astype(np.float32)
    D = F.normalize(torch.from_numpy(rng.normal(size=(200, 4))).float(), dim=1)
    return World(S, C, D, rng.permutation(200))


# -- the formulas --------------------------------------------------------------------------------


@pytest.fixture
def opinions():
    """What a network and its neighbours think of six rows."""
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(6, 4, generator=generator, dtype=torch.float64) * 2
    candidates = torch.rand(6, 4, generator=generator) < 0.5
    candidates[torch.arange(6), torch.arange(6) % 4] = True
    return (
        candidates,
        candidate_confidences(logits, candidates),
        candidate_confidences(-logits, candidates),
    )


def test_k_is_equation_4(opinions):
    candidates, _, _ = opinions
    enhanced = candidates.double().argmax(dim=1)
    votes = F.one_hot(enhanced, 4).double()
    K = Calibration(temperature=5.0, vote="hard").weigh(None, candidates, votes)
    for i, j in [(i, j) for i in range(6) for j in range(4)]:
        expected = 0.0 if not candidates[i, j] else 5.0 if j == enhanced[i] else 1.0
        assert K[i, j] == expected


@EVERY_VOTE
@KEEPS
def test_temperature_one_is_no_calibration(vote, keeps, opinions):
    candidates, confidences, votes = opinions
    off = Calibration(temperature=1.0, vote=vote)
    weights = off.weigh(confidences if keeps else None, candidates, votes)
    torch.testing.assert_close(weights, confidences if keeps else candidates.double())
    assert off.temperature_after(0.0) == off.temperature_after(1.0) == 1


def test_a_hard_vote_multiplies_confidences_and_a_soft_one_averages():
    candidates = torch.tensor([[True, True, False]])
    confidences, votes = torch.tensor([[1.0, 0.0, 0.0]]), torch.tensor([[0.0, 1.0, 0.0]])
    hard = Calibration(temperature=3.0, vote="hard").weigh(confidences, candidates, votes)
    soft = Calibration(temperature=3.0, vote="soft").weigh(confidences, candidates, votes)
    torch.testing.assert_close(hard, torch.tensor([[1.0, 0.0, 0.0]]))
    torch.testing.assert_close(soft, torch.tensor([[1 / 3, 2 / 3, 0.0]]))


@VOTES
def test_a_row_without_votes_keeps_its_confidences(vote):
    candidates = torch.tensor([[True, True]])
    confidences = torch.tensor([[0.3, 0.7]])
    method = Calibration(temperature=3.0, vote=vote)
    weights = method.weigh(confidences, candidates, torch.zeros(1, 2))
    torch.testing.assert_close(weights, confidences)


@VOTES
def test_a_clean_rows_vote_is_its_only_candidate_whoever_its_neighbours_are(vote):
    voters = torch.tensor([[True, False, False], [True, True, False]])
    own = torch.tensor([[False, False, True], [True, True, False]])
    neighbors, similarity = torch.tensor([[0, 1], [0, 1]]), torch.ones(2, 2)
    ballots = voters / voters.sum(dim=1, keepdim=True)
    votes = Calibration(vote=vote).collect(neighbors, similarity, voters, ballots, own)
    assert votes[0].tolist() == [0.0, 0.0, 1.0]
    expected = (
        candidate_shares(soft_votes(neighbors, similarity, ballots), own)
        if vote == "soft"
        else hard_votes(neighbors, similarity, voters, own)
    )
    torch.testing.assert_close(votes[1], expected[1])


def test_votes_begin_after_their_share_of_the_epochs():
    late = Calibration(temperature=3.0, vote_start=0.3, vote_end=None)
    assert [late.temperature_after(done) for done in (0.0, 0.29, 0.3, 1.0)] == [1, 1, 3, 3]


def test_votes_fade_in_a_straight_line():
    fading = Calibration(temperature=3.0, vote_end=0.5)
    found = [fading.temperature_after(done) for done in (0.0, 0.25, 0.5, 1.0)]
    assert found == [3.0, 2.0, 1.0, 1.0]


def test_kernel_votes_and_confidences_are_averaged_as_tables_and_flat(opinions):
    candidates, confidences, votes = opinions
    method = Calibration(temperature=3.0, vote="kernel")
    table = method.weigh(confidences, candidates, votes)
    torch.testing.assert_close(table, (confidences + 2 * votes) / 3)
    torch.testing.assert_close(table.sum(dim=1), torch.ones(6, dtype=torch.float64))
    flat = method.weigh(confidences[candidates], torch.ones(1), votes[candidates])
    torch.testing.assert_close(flat, table[candidates])
    torch.testing.assert_close(method.weigh(None, candidates, votes), candidates + 2 * votes)


@pytest.mark.parametrize("name", COUNT_LOSSES)
@pytest.mark.parametrize("max_count", [None, 6])
def test_the_count_term_is_the_count_loss_of_that_name(name, max_count, opinions):
    candidates, _, _ = opinions
    torch.random.manual_seed(0)
    logits = torch.randn(6, 4, dtype=torch.float64, requires_grad=True)
    clean = candidates.sum(dim=1) == 1
    bounds = torch.stack([candidates[clean].sum(dim=0), candidates.sum(dim=0)])
    proportions = torch.tensor([0.1, 0.2, 0.3, 0.4], dtype=torch.float64)
    method = Calibration(count_loss=name, count_weight=17.0, proportions=proportions)
    found = method.count(logits, bounds, max_count)
    expected = COUNT_LOSSES[name](logits, bounds[0], bounds[1], proportions)
    torch.testing.assert_close(found, expected)  # not yet weighed by λ
    gradients = [torch.autograd.grad(loss, logits)[0] for loss in (found, expected)]
    torch.testing.assert_close(*gradients)


def test_the_parameters_of_a_training_cannot_change():
    with pytest.raises(dataclasses.FrozenInstanceError):
        Calibration().temperature = 5.0


# -- the votes of a training ---------------------------------------------------------------------


@VOTES
@KEEPS
def test_the_weights_of_an_epoch_are_what_the_voters_say(vote, keeps, world):
    """What an explanation shows after training is what training did."""
    calibrator = world.calibrator(keeps, vote=vote, temperature=4.0)
    table = world.table(calibrator.epoch_weights(0.5))
    voters, own = calibrator.voters(), torch.from_numpy(world.S)
    _, _, votes = voters.vote_on(world.D, own)
    confidences = torch.from_numpy(world.C) if keeps else None
    expected = voters.calibration.weigh(confidences, own, votes)
    np.testing.assert_allclose(table, expected, rtol=1e-5, atol=1e-6)


@VOTES
@KEEPS
def test_the_weights_of_clean_rows_and_of_others(vote, keeps, world):
    calibrator = world.calibrator(keeps, vote=vote, temperature=4.0)
    table = world.table(calibrator.epoch_weights(0.5))
    is_clean = world.S.sum(axis=1) == 1
    assert 0 < is_clean.sum() < len(is_clean)
    if keeps:
        np.testing.assert_allclose(table.sum(axis=1), 1, rtol=1e-5)
        assert (table[is_clean].max(axis=1) == 1).all()
        return
    assert (table[is_clean].max(axis=1) == 4).all()
    raised = np.where(world.S, table - 1, 0)
    assert (raised >= 0).all()
    assert (raised.sum(axis=1) <= 3 + 1e-5).all()
    if vote == "hard":
        assert set(raised.ravel().tolist()) == {0.0, 3.0}


@VOTES
@KEEPS
def test_permuting_rows_and_classes_permutes_the_weights(vote, keeps, world, rng):
    # Two labels that the very same neighbours name tie in a hard vote, and the first one wins.
    # Labels of clean neighbours cannot: so let there be some for everyone.
    world.S[::2] = np.eye(6, dtype=bool)[rng.randint(6, size=100)]
    world.C = np.where(world.S, 1 / world.S.sum(axis=1, keepdims=True), 0.0).astype(np.float32)
    rows, classes = rng.permutation(200), rng.permutation(6)
    weights, of_moved = (
        each.table(each.calibrator(keeps, vote=vote, n_neighbors=50).epoch_weights(0.5))
        for each in (world, world.permuted(rows, classes))
    )
    np.testing.assert_allclose(weights[rows][:, classes], of_moved, rtol=1e-5, atol=1e-6)


@VOTES
@KEEPS
def test_a_batch_of_all_rows_votes_as_the_data_set_does(vote, keeps, world):
    if not keeps:  # then ballots are even, whatever is kept
        world.C = (world.S / world.S.sum(axis=1, keepdims=True)).astype(np.float32)
    by_epoch = world.table(world.calibrator(keeps, vote=vote).epoch_weights(0.5))
    calibrator = world.calibrator(keeps, vote=vote, neighbors_from="batch")
    assert not calibrator.searches
    before = calibrator.epoch_weights(0.5)
    assert torch.equal(before, calibrator.rows.confidences if keeps else torch.ones_like(before))
    weights, own = torch.from_numpy(world.table(before)), torch.from_numpy(world.S)
    by_batch = calibrator.batch_weights(world.D, own, weights, 0.5)
    assert (by_batch[~own] == 0).all()
    np.testing.assert_allclose(by_batch, by_epoch, rtol=1e-5, atol=1e-6)


@KEEPS
def test_kernel_votes_are_weighed_as_they_were_cast_before_training(keeps, world):
    calibrator = world.calibrator(keeps, vote="kernel", temperature=4.0, vote_end=1.0)
    calibrator._directions_of = None  # nobody is sought: to ask would fail
    assert calibrator.pool is None
    assert calibrator.voters() is None
    rows = calibrator.rows
    for done, T in ((0.0, 4.0), (0.5, 2.5)):
        base = rows.confidences if keeps else torch.ones_like(rows.votes)
        expected = (base + (T - 1) * rows.votes) / (T if keeps else 1)
        torch.testing.assert_close(calibrator.epoch_weights(done), expected)
    assert torch.equal(calibrator.epoch_weights(1.0), base)


@KEEPS
@pytest.mark.parametrize("params", [{"temperature": 1.0}, {"vote_start": 0.6}])
def test_where_nobody_votes_weights_are_those_of_the_base_loss(params, keeps, world):
    calibrator = world.calibrator(keeps, **params)
    expected = calibrator.rows.confidences if keeps else torch.ones(world.S.sum())
    assert torch.equal(calibrator.epoch_weights(0.5), expected)
    assert np.isnan(calibrator.clean_voter_share())


def test_votes_never_touch_the_confidences(world):
    calibrator = world.calibrator(keeps=True)
    before = calibrator.rows.confidences.clone()
    weights = calibrator.epoch_weights(0.5)
    assert torch.equal(calibrator.rows.confidences, before)
    assert not torch.equal(weights, before)


@VOTES
def test_weights_do_not_depend_on_the_size_of_blocks(vote, world, monkeypatch):
    expected = world.calibrator(vote=vote).epoch_weights(0.5)
    monkeypatch.setattr(_training_rows, "BLOCK_VALUES", 1)  # 64 rows at a time
    torch.testing.assert_close(world.calibrator(vote=vote).epoch_weights(0.5), expected)


@pytest.mark.parametrize(
    ("params", "expected"),
    [
        ({}, [0, 3, 12]),
        ({"vote_start": 0.5}, [10, 13]),
        ({"neighbor_space": "input"}, [0]),
        ({"neighbor_space": "input", "vote_start": 0.5}, [10]),
        ({"neighbors_from": "batch"}, []),
        ({"temperature": 1.0}, []),
    ],
)
def test_neighbours_are_sought_ever_more_rarely(params, expected, world):
    """All rows vote here, so that a search asks once where they are."""
    searched = []
    calibrator = world.calibrator(**params)
    epoch = None
    calibrator._directions_of = lambda rows: [searched.append(epoch), world.D[rows]][1]
    for epoch in range(20):
        calibrator.epoch_weights(epoch / 20)
    assert searched == expected


def test_between_searches_neighbours_say_what_they_now_believe(world):
    calibrator = world.calibrator(keeps=True)
    first = calibrator.epoch_weights(0.0)
    rows = calibrator.rows
    rows.confidences.copy_(1.0 / torch.from_numpy(np.repeat(rows.counts, rows.counts)))
    world.D = torch.roll(world.D, 1, dims=0)  # they have moved, but nobody has looked
    second = calibrator.epoch_weights(0.05)
    assert not torch.allclose(first, second)
    world.D = torch.roll(world.D, -1, dims=0)
    world.C = (world.S / world.S.sum(axis=1, keepdims=True)).astype(np.float32)
    torch.testing.assert_close(second, world.calibrator(keeps=True).epoch_weights(0.0))


@KEEPS
def test_clean_data_are_never_searched(keeps, world):
    world.S = np.eye(6, dtype=bool)[np.arange(200) % 6]
    world.C = world.S.astype(np.float32)
    calibrator = world.calibrator(keeps, temperature=4.0)
    calibrator._directions_of = None  # to ask would fail
    weights = calibrator.epoch_weights(0.5)
    assert torch.equal(weights, torch.full((200,), 1.0 if keeps else 4.0))
    assert np.isnan(calibrator.clean_voter_share())


def test_the_share_of_partial_rows_with_a_clean_voter(world):
    calibrator = world.calibrator(n_neighbors=2)
    calibrator.epoch_weights(0.5)
    similarity = world.D @ world.D.T
    similarity.fill_diagonal_(-torch.inf)
    is_clean = torch.from_numpy(world.S.sum(axis=1) == 1)
    has_clean = is_clean[similarity.topk(2).indices].any(dim=1)
    share = has_clean[~is_clean].float().mean().item()
    assert 0 < share < 1
    assert calibrator.clean_voter_share() == pytest.approx(share)


# -- who may vote --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("max_voters", "max_pairs", "min_voters", "size"),
    [("auto", 40 * 200, 2, 40), ("auto", 1, 30, 30), (25, 10**9, 2, 25)],
)
def test_a_large_data_set_has_a_pool_of_clean_rows_and_a_sample(
    max_voters, max_pairs, min_voters, size, world, monkeypatch
):
    monkeypatch.setattr(calibration, "MAX_PAIRS", max_pairs)
    monkeypatch.setattr(calibration, "MIN_VOTERS", min_voters)
    rows = world.rows()
    pool = choose_voters(rows, max_voters, np.random.RandomState(0))
    is_clean = rows.counts[pool] == 1
    assert len(set(pool.tolist())) == len(pool) == size
    assert is_clean[: min(size // 2, (rows.counts == 1).sum())].all()  # clean rows first
    assert (~is_clean).any()


def test_all_rows_of_a_small_data_set_vote_in_the_order_of_their_contents(world):
    assert world.calibrator().pool.tolist() == np.argsort(world.rank).tolist()


@VOTES
@KEEPS
def test_a_pool_votes_on_rows_inside_and_outside_it(vote, keeps, world):
    calibrator = world.calibrator(keeps, vote=vote, max_voters=40)
    table = world.table(calibrator.epoch_weights(0.5))
    voters, own = calibrator.voters(), torch.from_numpy(world.S)
    assert voters.rows.tolist() == calibrator.pool.tolist()
    neighbors, similarity, votes = voters.vote_on(world.D, own)
    assert (voters.rows[neighbors] != np.arange(200)[:, None]).all()  # nobody votes on himself
    assert (similarity > -torch.inf).all()
    confidences = torch.from_numpy(world.C) if keeps else None
    expected = voters.calibration.weigh(confidences, own, votes)
    np.testing.assert_allclose(table, expected, rtol=1e-5, atol=1e-6)


def test_the_number_of_voters_and_landmarks_is_a_parameter_and_reported(blobs):
    X, S, _ = blobs
    params = {"max_epochs": 1, "hidden_layer_sizes": (4,), "random_state": 0}
    for max_voters, expected in (("auto", len(X)), (30, 30), (10**6, len(X))):
        clf = CleanSEClassifier(vote="soft", max_voters=max_voters, **params).fit(X, S)
        assert clf.n_voters_ == expected
    with pytest.raises(AttributeError, match="n_landmarks_ is there only"):
        _ = clf.n_landmarks_
    for n_landmarks, expected in (("auto", len(X)), (20, 20)):
        clf = CleanSEClassifier(n_landmarks=n_landmarks, **params).fit(X, S)
        assert clf.n_landmarks_ == expected
    with pytest.raises(AttributeError, match="n_voters_ is there only"):
        _ = clf.n_voters_


def test_voters_are_rows_places_and_beliefs(world):
    voters = world.calibrator().voters()
    np.testing.assert_array_equal(voters.directions, world.D[torch.from_numpy(voters.rows)])
    np.testing.assert_array_equal(voters.confidences.toarray(), world.C[voters.rows])
    np.testing.assert_array_equal(voters.is_clean, world.S[voters.rows].sum(axis=1) == 1)


def test_a_candidate_given_up_is_still_a_candidate_in_a_hard_vote(world):
    lost = world.S.sum(axis=1) > 1
    world.C[lost] = 0.0
    world.C[lost, world.S[lost].argmax(axis=1)] = 1.0  # all belief in the first candidate
    voters = world.calibrator(vote="hard").voters()
    np.testing.assert_array_equal(voters.is_clean, world.S[voters.rows].sum(axis=1) == 1)
    own = torch.from_numpy(world.S)
    neighbors, similarity, votes = voters.vote_on(world.D, own)
    expected = hard_votes(neighbors, similarity, own[voters.rows], own)
    partial = torch.from_numpy(lost)
    torch.testing.assert_close(votes[partial], expected[partial])


def test_equal_places_with_other_candidates_are_other_rows(world):
    voters = world.calibrator(n_neighbors=1).voters()
    others = torch.from_numpy(~world.S[:1])
    neighbors, _, _ = voters.vote_on(world.D[:1], others)
    assert voters.rows[neighbors[0, 0]] == 0  # the twin votes
    neighbors, _, _ = voters.vote_on(world.D[:1], ~others)
    assert voters.rows[neighbors[0, 0]] != 0  # the row itself does not
