"""What the network estimators promise beyond scikit-learn's own checks."""

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from skorch.callbacks import Callback

from sklearn_cleanse import (
    PAPER_SETTINGS,
    RECONSTRUCTION,
    CleanSEClassifier,
    PartialLabelClassifier,
)
from sklearn_cleanse.calibration import Calibration
from sklearn_cleanse.counts import COUNT_LOSSES
from sklearn_cleanse.losses import LOSSES

QUICK = {"hidden_layer_sizes": (16,), "max_epochs": 6, "random_state": 0}
NEIGHBORS = {"vote": "soft", "vote_start": 0.3, "neighbors_from": "dataset"}


def same(first, second, X):
    return np.array_equal(first.predict_proba(X), second.predict_proba(X))


# -- every reading of the paper ------------------------------------------------------------------


@pytest.mark.parametrize("loss", LOSSES)
def test_calibration_switched_off_is_the_plain_loss(loss, blobs):
    X, S, _ = blobs
    plain = PartialLabelClassifier(loss, **QUICK).fit(X, S)
    off = CleanSEClassifier(loss, temperature=1, count_weight=0, **QUICK).fit(X, S)
    assert same(plain, off, X)


@pytest.mark.parametrize("loss", LOSSES)
def test_each_part_of_the_calibration_does_something(loss, blobs):
    X, S, _ = blobs
    settings = [(1, 0), (3, 0), (1, 0.1), (3, 0.1)]  # the four rows of the ablation
    probas = [
        CleanSEClassifier(loss, temperature=T, count_weight=weight, **NEIGHBORS, **QUICK)
        .fit(X, S)
        .predict_proba(X)
        for T, weight in settings
    ]
    for i in range(4):
        for j in range(i):
            assert not np.array_equal(probas[i], probas[j])


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("neighbors_from", ["dataset", "batch"])
@pytest.mark.parametrize("neighbor_space", ["representation", "input"])
@pytest.mark.parametrize("vote", ["soft", "hard"])
def test_every_reading_learns(loss, neighbors_from, neighbor_space, vote, blobs):
    X, S, y = blobs
    clf = CleanSEClassifier(
        loss,
        neighbors_from=neighbors_from,
        neighbor_space=neighbor_space,
        vote=vote,
        **{**QUICK, "max_epochs": 15},
    ).fit(X, S)
    assert clf.score(X, S, truth=y) > 0.9


def test_votes_start_late(blobs):
    X, S, _ = blobs
    params = {**QUICK, **NEIGHBORS, "vote_start": 0.5}
    never = CleanSEClassifier(temperature=1, **params).fit(X, S).history_
    late = CleanSEClassifier(temperature=3, **params).fit(X, S).history_
    losses = [[epoch["loss"] for epoch in history] for history in (never, late)]
    assert losses[0][:3] == losses[1][:3]
    assert losses[0][3] != losses[1][3]


@pytest.mark.parametrize("count_loss", COUNT_LOSSES)
def test_every_count_loss_learns(count_loss, blobs):
    X, S, y = blobs
    params = {**QUICK, "max_epochs": 15}
    clf = CleanSEClassifier(count_loss=count_loss, count_weight=0.1, **params).fit(X, S)
    assert clf.score(X, S, truth=y) > 0.9
    assert clf.history_[-1]["count_loss"] > 0


@pytest.mark.parametrize(("n_rows", "expected"), [(100, 2e-4), (5000, 2e-4), (20_000, 5e-5)])
def test_the_penalty_is_worth_a_fixed_number_of_rows(n_rows, expected, rng):
    X, y = rng.normal(size=(n_rows, 2)), rng.randint(2, size=n_rows)
    params = {"hidden_layer_sizes": (2,), "max_epochs": 1, "scaling": "standard"}
    group = PartialLabelClassifier(**params).fit(X, y).net_.optimizer_.param_groups[0]
    assert group["weight_decay"] == pytest.approx(expected / 2)  # two members


@pytest.mark.parametrize("form", [PAPER_SETTINGS, RECONSTRUCTION])
def test_the_papers_own_form_learns(form, blobs):
    X, S, y = blobs
    clf = CleanSEClassifier(**{**form, "max_epochs": 30}, random_state=0).fit(X, S)
    assert clf.score(X, S, truth=y) > 0.9
    weights = {name: tuple(w.shape) for name, w in clf.net_.module_.network.named_parameters()}
    assert weights == {  # one hidden layer of 500, and no batch norm
        "body.0.weight": (1, 500, X.shape[1]),
        "body.0.bias": (1, 500, 1),
        "head.weight": (1, S.shape[1], 500),
        "head.bias": (1, S.shape[1], 1),
    }


def test_votes_over_all_classes_train_otherwise(blobs):
    X, S, _ = blobs
    partial = S.sum(axis=1) > 1  # clean neighbours would decide either way
    params = {**QUICK, **NEIGHBORS, "vote": "hard", "n_neighbors": 3}
    within = CleanSEClassifier(**params).fit(X[partial], S[partial])
    over_all = CleanSEClassifier(vote_scope="all", **params).fit(X[partial], S[partial])
    assert within.history_[-1]["loss"] != over_all.history_[-1]["loss"]


def test_the_loss_is_base_plus_lambda_times_count(blobs):
    X, S, _ = blobs
    for epoch in CleanSEClassifier(count_weight=0.5, **QUICK).fit(X, S).history_:
        total = epoch["base_loss"] + 0.5 * epoch["count_loss"]
        assert epoch["loss"] == pytest.approx(total, rel=1e-5)


@pytest.mark.parametrize("count_every", [1, 2, 4, 9])
def test_the_history_has_the_mean_count_term_of_counted_rows(count_every, blobs, monkeypatch):
    X, S, _ = blobs
    seen, count = [], Calibration.count

    def note(self, logits, *bounds):
        found = count(self, logits, *bounds)
        seen.append((found.item(), len(logits)))
        return found

    monkeypatch.setattr(Calibration, "count", note)
    params = {**QUICK, "max_epochs": 1, "batch_size": 16}  # seven batches of 16 and one of 8
    clf = CleanSEClassifier(count_every=count_every, **params).fit(X, S)
    assert len(seen) == -(-8 // count_every)
    terms, sizes = zip(*seen, strict=True)
    assert clf.history_[0]["count_loss"] == pytest.approx(np.average(terms, weights=sizes))


def test_who_only_looks_on_changes_nothing(blobs):
    X, S, _ = blobs

    class Onlooker(Callback):
        def on_batch_end(self, net, **kwargs):
            net.most_likely(X)

    params = QUICK | {"dropout": 0.5}
    alone, watched = (CleanSEClassifier(callbacks=c, **params) for c in ([], [Onlooker()]))
    np.testing.assert_array_equal(
        alone.fit(X, S).predict_proba(X), watched.fit(X, S).predict_proba(X)
    )


# -- data that are legal, if odd -----------------------------------------------------------------


def test_data_without_clean_rows(blobs):
    X, S, y = blobs
    partial = S.sum(axis=1) > 1
    clf = CleanSEClassifier(**{**QUICK, "max_epochs": 30}, **NEIGHBORS)
    clf.fit(X[partial], S[partial])
    assert clf.history_[-1]["clean_voter_share"] == 0
    assert clf.score(X, S, truth=y) > 0.8


def test_rows_that_say_nothing(blobs):
    X, S, _ = blobs
    S = S.copy()
    S[:20] = 1
    clf = CleanSEClassifier(**QUICK).fit(X, S)
    assert np.isfinite(clf.predict_log_proba(X)).all()
    assert np.isfinite(
        CleanSEClassifier(**QUICK).fit(X, np.ones_like(S)).predict_log_proba(X)
    ).all()


@pytest.mark.parametrize("n_samples", [2, 3, 16, 17, 18, 33])
def test_tiny_data_and_a_last_batch_of_one_row(n_samples, blobs):
    X, S, _ = blobs
    clf = CleanSEClassifier(**QUICK).fit(X[:n_samples], S[:n_samples])
    assert clf.predict_proba(X[:1]).shape == (1, 3)


def test_one_row_is_predicted_as_among_many(blobs):
    X, S, _ = blobs
    clf = CleanSEClassifier(**QUICK).fit(X, S)
    together = clf.predict_proba(X)
    alone = np.vstack([clf.predict_proba(X[[i]]) for i in range(len(X))])
    np.testing.assert_allclose(alone, together, rtol=1e-4, atol=1e-6)


def test_a_hundredfold_of_candidates_is_no_matter(blobs):
    X, _, y = blobs
    S = sp.csr_array((np.ones(len(X)), (np.arange(len(X)), y * 90)), shape=(len(X), 500))
    clf = CleanSEClassifier(**QUICK).fit(X, S)
    assert clf.predict_proba(X).shape == (len(X), 500)
    assert sp.issparse(clf.candidate_proba_)


# -- independence of what must not matter --------------------------------------------------------


def test_the_order_of_rows_does_not_matter(blobs, rng):
    X, S, _ = blobs
    order = rng.permutation(len(X))
    assert same(
        CleanSEClassifier(**QUICK).fit(X, S), CleanSEClassifier(**QUICK).fit(X[order], S[order]), X
    )


@pytest.mark.parametrize("loss", LOSSES)
def test_whole_weights_repeat_rows(loss, blobs, rng):
    X, S, _ = blobs
    weight = rng.randint(0, 3, size=len(X))
    clf = PartialLabelClassifier(loss, **QUICK)
    weighted = clf.fit(X, S, sample_weight=weight).predict_proba(X)
    repeated = clf.fit(np.repeat(X, weight, 0), np.repeat(S, weight, 0)).predict_proba(X)
    np.testing.assert_array_equal(weighted, repeated)


def test_a_row_of_vanishing_weight_does_not_teach(blobs):
    X, S, y = blobs
    wrong = S.copy()
    wrong[::2] = np.eye(3, dtype=int)[(y[::2] + 1) % 3]
    weight = np.where(np.arange(len(X)) % 2, 1.0, 1e-3)
    clf = PartialLabelClassifier(**{**QUICK, "max_epochs": 15})
    assert clf.fit(X, wrong, sample_weight=weight).score(X, y) > 0.9
    assert clf.fit(X, wrong).score(X, y) < 0.9


@pytest.mark.parametrize("loss", ["cc", "scarce"])
@pytest.mark.parametrize("early_stopping", [False, True])
def test_zero_and_fractional_weights_go_together(early_stopping, loss, blobs, rng):
    X, S, _ = blobs
    weight = rng.uniform(size=len(X)) * (rng.uniform(size=len(X)) > 0.3)
    clf = PartialLabelClassifier(loss, early_stopping=early_stopping, **QUICK)
    with_zeros = clf.fit(X, S, sample_weight=weight).predict_proba(X)
    kept = weight > 0
    without = clf.fit(X[kept], S[kept], sample_weight=weight[kept]).predict_proba(X)
    np.testing.assert_array_equal(with_zeros, without)


@pytest.mark.parametrize("dtype", [np.int8, np.int16, np.uint8])
@pytest.mark.parametrize("scaling", ["auto", "sqrt", "rank", "standard", "minmax", "common"])
def test_small_integers_do_not_overflow(dtype, scaling, blobs):
    _, S, y = blobs
    ends = np.iinfo(dtype)
    X = np.column_stack([np.where(y == j, ends.max, ends.min) for j in range(3)]).astype(dtype)
    clf = CleanSEClassifier(scaling=scaling, **QUICK).fit(X, S)
    assert clf.score(X, S, truth=y) == 1.0


def test_equal_rows_in_any_order_give_the_same_model(rng):
    X = rng.randint(3, size=(60, 2)).astype(float)
    S = (rng.uniform(size=(60, 3)) < 0.5).astype(int)
    S[:, 0] |= S.sum(axis=1) == 0
    order = rng.permutation(60)
    for vote in ("soft", "hard"):
        params = {**QUICK, "vote": vote, "vote_start": 0.0}
        first = CleanSEClassifier(**params).fit(X, S)
        assert same(first, CleanSEClassifier(**params).fit(X[order], S[order]), X)


def test_float32_float64_and_integers_agree(blobs):
    X, S, _ = blobs
    X = np.round(4 * X)
    expected = CleanSEClassifier(**QUICK).fit(X, S).predict_proba(X)
    for dtype in (np.float32, np.int64, np.int16, np.float16):
        clf = CleanSEClassifier(**QUICK).fit(X.astype(dtype), S)
        got = clf.predict_proba(X.astype(dtype))
        np.testing.assert_allclose(got.sum(axis=1), 1)
        assert (got.argmax(axis=1) == expected.argmax(axis=1)).mean() > 0.9


@pytest.mark.parametrize("shift", [0.0, 1e9])
@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_raw_features_of_any_scale_train(shift, scale, blobs):
    X, S, y = blobs
    clf = CleanSEClassifier(**{**QUICK, "max_epochs": 15})
    X = X * scale + shift * scale
    assert clf.fit(X, S).score(X, S, truth=y) > 0.9


# -- attributes and methods ----------------------------------------------------------------------


def test_candidate_proba_is_the_disambiguation_of_the_training_rows(blobs):
    X, S, _ = blobs
    clf = CleanSEClassifier(**QUICK).fit(X, S)
    _, proba = clf.disambiguate(X, S, return_proba=True)
    np.testing.assert_allclose(clf.candidate_proba_, proba, atol=1e-6)
    sparse = CleanSEClassifier(**QUICK).fit(X, sp.csr_array(S)).candidate_proba_
    assert sp.issparse(sparse)
    np.testing.assert_array_equal(sparse.toarray(), clf.candidate_proba_)


def test_history_tells_each_epoch(blobs):
    X, S, _ = blobs
    clf = CleanSEClassifier(**NEIGHBORS, **QUICK).fit(X, S)
    assert clf.n_iter_ == len(clf.history_) == 6
    assert [epoch["epoch"] for epoch in clf.history_] == [1, 2, 3, 4, 5, 6]
    keys = {"loss", "base_loss", "count_loss", "covering_rate", "clean_voter_share", "seconds"}
    for epoch in clf.history_:
        assert set(epoch) == keys | {"epoch"}
        assert 0 <= epoch["covering_rate"] <= 1
        voting = (epoch["epoch"] - 1) / 6 >= 0.3
        assert np.isnan(epoch["clean_voter_share"]) != voting
        assert not epoch["clean_voter_share"] > 1
        assert epoch["seconds"] > 0


class _Covered(Callback):
    """Count, batch by batch, the rows whose prediction is a candidate."""

    def on_epoch_begin(self, net, **kwargs):
        self.rows = 0

    def on_batch_end(self, net, batch=None, y_pred=None, **kwargs):
        best = y_pred[0].softmax(dim=-1).mean(dim=1).argmax(dim=1)
        self.rows += batch[1].candidates[torch.arange(len(best)), best].sum().item()


def test_covering_rate_of_the_history_is_that_of_the_batches(blobs):
    X, S, _ = blobs
    clf = CleanSEClassifier(**QUICK, callbacks=[_Covered()]).fit(X, S)
    (counted,) = [cb for _, cb in clf.net_.callbacks_ if isinstance(cb, _Covered)]
    assert clf.history_[-1]["covering_rate"] == pytest.approx(counted.rows / len(X))


def test_part_of_a_dict_is_not_a_parameter():
    with pytest.raises(
        ValueError, match=r"loss_params__beta cannot be set.*loss_params={'beta': …}"
    ):
        CleanSEClassifier("lws").set_params(loss_params__beta=2.0)
    assert CleanSEClassifier("lws").set_params(loss_params={"beta": 2.0}).loss_params["beta"] == 2
