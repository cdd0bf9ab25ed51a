"""Who votes, what becomes of the votes, and the paper's literal form."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import torch
from conftest import make_blobs
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.neighbors import NearestNeighbors
from test_own_loss import KEEPING, powered

from sklearn_cleanse import (
    CleanSEClassifier,
    CleanSEKernelClassifier,
    DPCLSClassifier,
    NeighborVoter,
    PartialLabelClassifier,
    PLCGRClassifier,
    paper_settings,
    reconstructed_settings,
)
from sklearn_cleanse.candidates import check_candidates
from sklearn_cleanse.losses import Loss, average_networks
from sklearn_cleanse.network import _net
from sklearn_cleanse.reweighting import temperature_at, weigh
from sklearn_cleanse.votes._neighbors import (
    candidate_proportions,
    choose_pool,
    hard_votes,
    nearest,
    soft_votes,
)

QUICK = {"hidden_layer_sizes": (16,), "max_epochs": 6, "random_state": 0}


class SumOfNeighbors(ClassifierMixin, BaseEstimator):
    """A user's own voter: the candidates of the five nearest rows; its private names are free."""

    _scores = _matched = _is_exact = _training_scores = 0

    def __init__(self, noise_rate=0.0, random_state=None):
        self.noise_rate = noise_rate
        self.random_state = random_state

    def fit(self, X, S):
        self.S_, self.classes_, self.random_state_ = S, np.asarray(S.columns), self.random_state
        near = NearestNeighbors(n_neighbors=5).fit(X).kneighbors(return_distance=False)
        votes = S.to_numpy()[near].sum(axis=1) * S.to_numpy() + 1e-9 * S.to_numpy()
        self.candidate_proba_ = votes / votes.sum(axis=1, keepdims=True)
        self.noise_rate_ = self.noise_rate
        return self

    def predict_proba(self, X):
        return np.full((len(X), len(self.classes_)), 1 / len(self.classes_))


VOTERS = {
    "kernel": "kernel",
    "neighbors": "neighbors",
    "object": CleanSEKernelClassifier(count_strength=0.0),
    "components": CleanSEKernelClassifier(n_components=30),
    "plcgr": PLCGRClassifier(max_iter=5),
    "dpcls": DPCLSClassifier(max_iter=5),
    "network": PartialLabelClassifier("proden", max_epochs=3, hidden_layer_sizes=(8,)),
    "own": SumOfNeighbors(),
}


@pytest.mark.parametrize("voter", VOTERS.values(), ids=VOTERS)
def test_any_estimator_of_candidates_can_vote(voter, blobs):
    X, S, y = blobs
    names = np.array(["x", "a", "m"])
    sets = [set(names[row > 0]) for row in S]
    clf = CleanSEClassifier(voter=voter, **{**QUICK, "max_epochs": 20}).fit(X, sets)
    assert (clf.predict(X) == names[y]).mean() > 0.9
    if isinstance(voter, str) and voter == "neighbors":
        assert clf.voter_ is None
    else:
        assert clf.voter_ is not voter
        assert clf.voter_.classes_.tolist() == ["a", "m", "x"]
        assert not hasattr(voter, "classes_")


def test_the_voter_gets_the_rows_that_are_trained_on(blobs):
    X, S, _ = blobs
    weight = np.r_[np.zeros(20), np.ones(len(X) - 20)]
    clf = CleanSEClassifier(voter=SumOfNeighbors(), early_stopping=True, **QUICK)
    clf.fit(X, S, sample_weight=weight)
    assert len(clf.voter_.S_) == 90
    assert clf.candidate_proba_.shape == S.shape


def test_random_state_and_noise_rate_are_passed_to_a_voter_at_its_defaults(blobs):
    X, S, _ = blobs
    clf = CleanSEClassifier(voter=SumOfNeighbors(), noise_rate=0.1, **QUICK).fit(X, S)
    assert isinstance(clf.voter_.random_state_, int)
    assert clf.noise_rate_ == clf.voter_.noise_rate == 0.1
    own = CleanSEClassifier(voter=SumOfNeighbors(random_state=7), **QUICK).fit(X, S)
    assert own.voter_.random_state_ == 7
    for voter in (PLCGRClassifier(), "neighbors", None):
        with pytest.raises(ValueError, match="`noise_rate` must be 0"):
            CleanSEClassifier(voter=voter, noise_rate=0.1, **QUICK).fit(X, S)


class Spoiled(SumOfNeighbors):
    """A voter, one of whose attributes is replaced after `fit`."""

    def __init__(self, name, change, noise_rate=0.0, random_state=None):
        super().__init__(noise_rate, random_state)
        self.name, self.change = name, change

    def fit(self, X, S):
        super().fit(X, S)
        setattr(self, self.name, self.change(getattr(self, self.name)))
        return self


class Mute(SumOfNeighbors):
    predict_proba = property()


def test_votes_are_checked_and_vanish_outside_the_candidates(blobs):
    X, S, _ = blobs
    outside = Spoiled("candidate_proba_", lambda P: np.full(P.shape, 1 / P.shape[1]))
    clf = CleanSEClassifier(voter=outside, callbacks=[Weights()], **QUICK).fit(X, S)
    batch = dict(clf.net_.callbacks_)["Weights"].seen_[0]
    assert (batch.weights[~batch.mask] == 0).all()
    for voter, blend, message in [
        (Spoiled("classes_", np.flip), "auto", "keep the columns of S"),
        (Spoiled("candidate_proba_", lambda P: 9 * P), "auto", "must return probabilities"),
        (Spoiled("candidate_proba_", lambda P: ["x"]), "auto", "a `candidate_proba_` of finite"),
        (Spoiled("predict_proba", lambda f: lambda X: f(X)[:, :2]), 0.5, "numbers of shape"),
        (Spoiled("predict_proba", lambda f: lambda X: np.nan * f(X)), 0.5, "must return finite"),
        (PLCGRClassifier, "auto", r"Pass voter=PLCGRClassifier\(\)"),
        (Mute(), 0.5, "has no predict_proba"),
        ("neighbors", 0.5, "takes no part"),
        (None, 0.5, "takes no part"),
    ]:
        with pytest.raises(ValueError, match=message):
            CleanSEClassifier(voter=voter, voter_blend=blend, **QUICK).fit(X, S)
    for found in (None, "auto", 1.0):
        voter = Spoiled("noise_rate_", lambda rate, found=found: found, noise_rate=0.3)
        with pytest.raises(ValueError, match="must have a `noise_rate_` from 0"):
            CleanSEClassifier(voter=voter, noise_rate=0.3, **QUICK).fit(X, S)


@pytest.mark.parametrize("form", [pd.DataFrame, np.ndarray.tolist, sp.csr_array])
def test_votes_may_have_any_form_of_a_matrix(form, blobs):
    X, S, _ = blobs
    voters = [Spoiled("candidate_proba_", how) for how in (np.asarray, form)]
    fits = [CleanSEClassifier(voter=voter, **QUICK).fit(X, S) for voter in voters]
    np.testing.assert_array_equal(*(clf.predict_proba(X) for clf in fits))


@pytest.mark.parametrize(
    "params",
    [
        {"loss": Loss("lws", beta=-1)},
        {"loss": lambda logits, candidates: logits.sum()},
        {"module_params": {"width": 2}},
        {"module_params": {"n_networks": 3}},
        {"hidden_layer_sizes": (0.5,)},
    ],
)
def test_bad_parameters_raise_before_the_voter_is_fitted(params, blobs):
    X, S, _ = blobs
    with pytest.raises((ValueError, TypeError), match=f"{next(iter(params))}|beta|module="):
        CleanSEClassifier(voter=Spoiled("missing", str), **{**QUICK, **params}).fit(X, S)


def test_the_class_prior_of_a_voter_does_not_enter_predictions(blobs):
    X, S, _ = blobs
    found = []
    for prior in (None, [0.98, 0.01, 0.01]):
        voter = PartialLabelClassifier(class_prior=prior, **QUICK)
        clf = CleanSEClassifier(voter=voter, voter_blend=0.9, **QUICK).fit(X, S)
        found.append(clf.predict_proba(X))
    np.testing.assert_array_equal(*found)


def test_a_voter_recognizes_all_training_rows_whatever_their_prior_weights(blobs):
    X, S, _ = blobs
    W = S * np.random.RandomState(0).uniform(0.1, 0.9, size=S.shape)
    clf = CleanSEClassifier(**QUICK).fit(X, W)
    prior = check_candidates(W).prior
    assert (clf.voter_.model_.left_out_scores(X, prior)[1] >= 0).all()


def test_parameters_of_a_voter_need_an_object():
    for voter, name in (("neighbors", "NeighborVoter"), ("kernel", "CleanSEKernelClassifier")):
        with pytest.raises(ValueError, match=rf"Pass voter={name}\(\)"):
            CleanSEClassifier(voter=voter).set_params(voter__n_neighbors=5)
    clf = CleanSEClassifier().set_params(voter=NeighborVoter(), voter__n_neighbors=5)
    assert clf.voter.n_neighbors == 5


@pytest.mark.parametrize("params", [{"voter": None}, {"temperature": 1}])
def test_without_votes_and_counts_it_is_the_plain_network(params, blobs):
    X, S, _ = blobs
    for loss in ("cc", "proden", "lws"):
        clf = CleanSEClassifier(loss, count_weight=0, **params, **QUICK).fit(X, S)
        plain = PartialLabelClassifier(loss, **QUICK).fit(X, S)
        np.testing.assert_allclose(clf.predict_proba(X), plain.predict_proba(X), atol=1e-12)
        assert clf.voter_ is None


def test_the_blend_is_half_the_strength_of_counts_for_an_exact_voter(blobs):
    X, S, _ = blobs
    clf = CleanSEClassifier(**QUICK).fit(X, S)
    voter = clf.voter_
    kernel = np.log(np.maximum(voter._scores(X), 1e-2))
    share = 0.5 * voter.count_strength_
    assert share > 0
    T, clf.proba_temperature_ = clf.proba_temperature_, 1.0  # it comes after the blend
    clf.set_params(voter_blend=0.0)
    network = clf.predict_log_proba(X)
    kernel -= np.log(np.exp(kernel).sum(axis=1, keepdims=True))
    blended = np.exp((1 - share) * network + share * kernel)
    clf.set_params(voter_blend="auto")
    expected = blended / blended.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(clf.predict_proba(X), expected, atol=1e-6)
    clf.proba_temperature_ = T
    resolved = clf.disambiguate(X, S, return_proba=True)[1]
    np.testing.assert_allclose(clf.candidate_proba_, resolved, atol=0.05)  # votes on itself apart
    components = CleanSEClassifier(voter=CleanSEKernelClassifier(n_components=20), **QUICK)
    assert components.fit(X, S)._blend() == 0


def test_wrong_sets_do_not_bind_the_network():
    X, S, y = make_blobs(400)
    wrong = np.random.RandomState(1).uniform(size=400) < 0.15
    S[wrong, y[wrong]] = 0
    S[wrong, (y[wrong] + np.random.RandomState(2).randint(1, 3, size=wrong.sum())) % 3] = 1
    clf = CleanSEClassifier(noise_rate="auto", **{**QUICK, "max_epochs": 20}).fit(X, S)
    assert 0.08 < clf.noise_rate_ < 0.25
    assert clf.noise_rate_ == clf.voter_.noise_rate_
    assert (clf.predict(X)[wrong] == y[wrong]).mean() > 0.9
    assert S[np.arange(400), clf.disambiguate(X, S)].all()
    assert clf.history_[-1]["covering_rate"] < 1  # of the user's sets


# -- weights -------------------------------------------------------------------------------------


class Weights(_net.Callback):
    def on_batch_end(self, net, batch, **kwargs):
        self.seen_ = [*getattr(self, "seen_", []), batch[1]]


@pytest.mark.parametrize(
    ("loss", "keeps"), [("cc", False), ("proden", True), (powered, False), (KEEPING, True)]
)
@pytest.mark.parametrize("hard", [False, True])
def test_weights_are_eq_4_or_confidences_reweighted_by_it(hard, loss, keeps, blobs):
    X, S, _ = blobs
    clf = CleanSEClassifier(
        loss,
        voter=NeighborVoter(hard=hard, end=None),
        callbacks=[Weights()],
        **{**QUICK, "batch_size": len(X), "max_epochs": 2},
    ).fit(X, S)
    batch = dict(clf.net_.callbacks_)["Weights"].seen_[-1]
    mask, table = batch.mask.numpy(), batch.weights.numpy()
    assert (table[~mask] == 0).all()
    clean = mask.sum(axis=1) == 1
    assert 0 < clean.sum() < len(X)
    if keeps:
        np.testing.assert_allclose(table.sum(axis=1), 1, rtol=1e-5)
        return
    np.testing.assert_allclose(table[clean].max(axis=1), 3)
    raised = table[mask] - 1
    assert (raised >= -1e-6).all()
    if hard:
        assert set(raised.tolist()) == {0.0, 2.0}


def test_the_papers_form_trains_on_k_of_each_batch_as_computed_by_hand(blobs, monkeypatch):
    """Algorithm 1: neighbors of the batch, by the representation, name one label each (Eq. 3)."""
    X, S, _ = blobs
    steps, original = [], _net.PartialLabelNet._base_loss

    def note(self, logits, mask, weights, sample_weight):
        steps.append((logits.detach(), mask, weights))
        return original(self, logits, mask, weights, sample_weight)

    outputs, infer = [], _net.PartialLabelNet.infer

    def keep(self, x, **kwargs):
        outputs.append(infer(self, x, **kwargs))
        return outputs[-1]

    monkeypatch.setattr(_net.PartialLabelNet, "_base_loss", note)
    monkeypatch.setattr(_net.PartialLabelNet, "infer", keep)
    settings = {**paper_settings(), "max_epochs": 1, "random_state": 0, "batch_size": 30}
    clf = CleanSEClassifier(**settings).fit(X, S)
    assert [clf.count_loss, clf.count_every, clf.count_weight] == ["entropy", 1, 1e-3]
    assert len(steps) == 4
    for (_, mask, weights), (_, representation) in zip(steps, outputs, strict=False):
        H = representation.detach().flatten(1).numpy()
        H = H / np.linalg.norm(H, axis=1, keepdims=True)
        similar, mask = H @ H.T, mask.numpy()
        for i in range(len(mask)):
            near = [j for j in np.argsort(-similar[i], kind="stable") if j != i][:10]
            clean = [j for j in near if mask[j].sum() == 1 and mask[i][mask[j]].all()]
            ballots = mask[clean] if clean else mask[near]
            tally = (ballots.sum(axis=0) * mask[i]).astype(float)
            order = [np.flatnonzero(ballots[:, k])[0] if tally[k] else 99 for k in range(3)]
            expected = mask[i].astype(float)
            if mask[i].sum() == 1:
                expected[mask[i]] = 3
            elif tally.any():
                best = np.flatnonzero(tally == tally.max())
                near_first = [k for k in best if order[k] == min(order[b] for b in best)]
                raised = np.flatnonzero(weights[i].numpy() == 3)
                assert len(raised) == 1
                assert raised[0] in (near_first if clean else best)
                expected[raised[0]] = 3
            np.testing.assert_array_equal(weights[i].numpy(), expected)


def test_settings_are_new_each_time():
    for settings in (paper_settings, reconstructed_settings):
        assert settings() is not settings()
        assert settings()["voter"] is not settings()["voter"]
        CleanSEClassifier(**settings())._validate_params()


def test_reweighting_is_the_identity_at_temperature_one():
    even = torch.tensor([[1.0, 1.0, 0.0], [0.5, 1.0, 1.0]])
    confidences = even / even.sum(dim=1, keepdim=True)
    votes = torch.tensor([[0.0, 1.0, 0.0], [0.2, 0.3, 0.5]])
    torch.testing.assert_close(weigh(None, even, votes, 1.0), even)
    for hard in (False, True):
        torch.testing.assert_close(weigh(confidences, even, votes, 1.0, hard), confidences)
        weights = weigh(confidences, even, votes, 4.0, hard)
        torch.testing.assert_close(weights.sum(dim=1), torch.ones(2))
        assert (weights[even == 0] == 0).all()


@pytest.mark.parametrize(
    ("start", "end", "expected"),
    [
        (0.0, 1.0, [3, 2.5, 2, 1.5]),
        (0.5, 1.0, [1, 1, 3, 2]),
        (0.0, 0.5, [3, 2, 1, 1]),
        (0.25, None, [1, 3, 3, 3]),
    ],
)
def test_the_temperature_falls_in_a_straight_line(start, end, expected):
    found = [temperature_at(done, 3.0, start, end) for done in (0, 0.25, 0.5, 0.75)]
    assert found == expected


# -- neighbors -----------------------------------------------------------------------------------


def test_clean_neighbors_decide_before_others_and_nearness_breaks_ties():
    masks = torch.tensor([[1, 1, 0], [0, 1, 0], [1, 0, 0], [1, 1, 0], [0, 0, 1]]).bool()
    near = torch.tensor([[3, 0, 1], [1, 2, 0], [4, 4, 3], [2, 1, 0]])
    own = torch.tensor([[1, 1, 0], [1, 1, 0], [1, 1, 0], [1, 1, 0]]).bool()
    votes = hard_votes(near, torch.ones(4, 3), masks, own)
    assert votes.tolist() == [[0, 1, 0], [0, 1, 0], [1, 0, 0], [1, 0, 0]]
    nobody = hard_votes(torch.tensor([[4]]), torch.ones(1, 1), masks, own[:1])
    assert nobody.sum() == 0


def test_with_scope_all_a_label_outside_may_win_and_enhances_nothing():
    masks = torch.tensor([[0, 1, 1], [1, 0, 1], [0, 1, 1]]).bool()
    own = torch.tensor([[1, 1, 0]]).bool()
    near = torch.tensor([[0, 1, 2]])
    assert hard_votes(near, torch.ones(1, 3), masks, own, "all").sum() == 0
    assert hard_votes(near, torch.ones(1, 3), masks, own).argmax() == 1


def test_soft_votes_are_weighted_by_similarity_and_trusted_by_what_is_inside():
    ballots = torch.tensor([[1.0, 0.0, 0.0], [0.0, 0.5, 0.5]])
    near, similarity = torch.tensor([[0, 1]]), torch.tensor([[0.9, 0.5]])
    votes = soft_votes(near, similarity, ballots)
    torch.testing.assert_close(votes, torch.tensor([[0.9, 0.25, 0.25]]))
    own = torch.tensor([[True, True, False]])
    found = candidate_proportions(votes, own)
    torch.testing.assert_close(found, torch.tensor([[0.9, 0.25, 0]]) / 1.4)
    assert soft_votes(near, -similarity, ballots).sum() == 0


def test_no_row_votes_on_itself():
    rows = torch.nn.functional.normalize(torch.randn(20, 3), dim=1)
    near, similarity = nearest(rows, rows, 4, torch.arange(20))
    assert (near != torch.arange(20)[:, None]).all()
    assert (similarity.diff(dim=1) <= 0).all()


def test_of_many_rows_half_the_voters_are_clean(monkeypatch, rng):
    monkeypatch.setattr("sklearn_cleanse.votes._neighbors.MIN_VOTERS", 40)
    monkeypatch.setattr("sklearn_cleanse.votes._neighbors.MAX_PAIRS", 100)
    is_clean = np.arange(1000) % 10 == 0
    pool = choose_pool(is_clean, rng)
    assert len(set(pool)) == 40
    assert is_clean[pool].sum() == 20
    assert choose_pool(is_clean[:10], rng).tolist() == list(range(10))


@pytest.mark.parametrize(
    ("params", "expected"),
    [
        ({}, [0, 3, 12]),
        ({"start": 0.5}, [10, 13]),
        ({"space": "input"}, [0]),
        ({"within": "batch"}, []),
    ],
)
def test_neighbors_are_searched_more_and_more_rarely(params, expected, blobs, monkeypatch):
    from sklearn_cleanse.votes._neighbors import NeighborVotes

    X, S, _ = blobs
    searched, search = [], NeighborVotes._search

    def note(self, net, *args):
        searched.append(len(net.history) - 1)
        search(self, net, *args)

    monkeypatch.setattr(NeighborVotes, "_search", note)
    CleanSEClassifier(voter=NeighborVoter(**params), **{**QUICK, "max_epochs": 20}).fit(X, S)
    assert searched == expected


def test_the_mean_probability_of_networks_predicts(blobs):
    X, S, _ = blobs
    clf = PartialLabelClassifier(n_networks=3, **QUICK).fit(X, S)
    logits, _ = clf.net_.outputs(clf._scaler(torch.from_numpy(X)).float())
    assert logits.shape == (len(X), 3, 3)
    np.testing.assert_allclose(
        average_networks(logits).exp().numpy(), clf.predict_proba(X), atol=1e-6
    )
