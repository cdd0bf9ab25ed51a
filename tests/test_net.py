"""The training loop in skorch's frame, and the loss of its steps."""

import dataclasses
import pickle

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from skorch.callbacks import Callback, Checkpoint
from torch.utils._python_dispatch import TorchDispatchMode

from sklearn_cleanse import CleanSEClassifier, PartialLabelClassifier
from sklearn_cleanse.calibration import Calibration, Calibrator
from sklearn_cleanse.datasets import make_partial_classification
from sklearn_cleanse.deep import _net, _training_rows
from sklearn_cleanse.deep._net import CleanSENet, Training, step_loss
from sklearn_cleanse.losses import LOSSES, candidate_confidences, check_loss_params

QUICK = {"hidden_layer_sizes": (16,), "max_epochs": 6, "random_state": 0}


# -- the frame -----------------------------------------------------------------------------------


class LogitsOnly(torch.nn.Module):
    def __init__(self, n_features, n_classes, width=8):
        super().__init__()
        self.layers = torch.nn.Sequential(
            torch.nn.Linear(n_features, width), torch.nn.Tanh(), torch.nn.Linear(width, n_classes)
        )

    def forward(self, X):
        return self.layers(X)


def test_any_module_class_may_be_the_network(blobs):
    X, S, y = blobs
    clf = CleanSEClassifier(
        module=LogitsOnly, module_params={"width": 12}, max_epochs=30, random_state=0
    ).fit(X, S)
    assert clf.net_.module_.network.layers[0].out_features == 12
    assert clf.score(X, S, truth=y) > 0.9


def test_images_go_through_the_resnet(rng):
    y = np.arange(24) % 2
    X = rng.normal(size=(24, 1, 8, 8)).astype(np.float32) + 2 * y[:, None, None, None]
    clf = CleanSEClassifier(
        module="resnet34", module_params={"width": 4}, max_epochs=20, random_state=0
    ).fit(X, np.eye(2)[y])
    assert clf.score(X, y) > 0.9
    with pytest.raises(ValueError, match=r"samples of shape \(1, 4, 4\)"):
        clf.predict(X[:, :, :4, :4])
    assert CleanSEClassifier(**QUICK).fit(X, y).predict(X).shape == (24,)  # the mlp flattens


class Recorder(Callback):
    def on_train_begin(self, net, **kwargs):
        self.events_ = []

    def on_batch_end(self, net, loss, **kwargs):
        self.events_.append("batch")

    def on_epoch_end(self, net, **kwargs):
        self.events_.append(net.history[-1]["loss"])


@pytest.mark.parametrize("monitor", [None, "loss_best"])
def test_skorch_callbacks_and_checkpoints_work(monitor, blobs, tmp_path):
    X, S, _ = blobs
    checkpoint = Checkpoint(monitor=monitor, f_pickle=None, dirname=str(tmp_path))
    recorder = Recorder()
    clf = CleanSEClassifier(callbacks=[recorder, checkpoint], **QUICK).fit(X, S)
    used = dict(clf.net_.callbacks_)["Recorder"]
    assert not hasattr(recorder, "events_")  # parameters are left as they were given
    assert used.events_.count("batch") == 6 * 8
    assert [e for e in used.events_ if e != "batch"] == [epoch["loss"] for epoch in clf.history_]
    assert (tmp_path / "params.pt").exists()


class Gradients(Callback):
    def on_grad_computed(self, net, named_parameters, **kwargs):
        self.seen_ = [name for name, _ in named_parameters]


def test_every_callback_sees_the_gradients(blobs):
    X, S, _ = blobs
    callbacks = [("one", Gradients()), ("two", Gradients())]
    clf = CleanSEClassifier(callbacks=callbacks, **QUICK).fit(X, S)
    expected = [name for name, _ in clf.net_.module_.named_parameters()]
    assert [callback.seen_ for _, callback in clf.net_.callbacks_] == [expected, expected]


def test_a_callback_may_predict_without_changing_the_training(blobs):
    class Predict(Callback):
        def on_batch_end(self, net, **kwargs):
            net.log_proba(X[:2])
            net.most_likely(X[:2])

    X, S, _ = blobs
    params = {**QUICK, "dropout": 0.0}  # what is drawn ahead for dropout would be drawn anew
    plain = CleanSEClassifier(**params).fit(X, S)
    watched = CleanSEClassifier(callbacks=[Predict()], **params).fit(X, S)
    np.testing.assert_array_equal(plain.predict_proba(X), watched.predict_proba(X))


def test_the_rate_rises_to_lr_and_falls_to_nothing(blobs):
    class Rates(Callback):
        def on_batch_end(self, net, **kwargs):
            rate = net.optimizer_.param_groups[0]["lr"]
            self.rates_ = [*getattr(self, "rates_", []), rate]

    X, S, _ = blobs
    clf = CleanSEClassifier(lr=0.5, callbacks=[Rates()], **QUICK).fit(X, S)
    [(_, callback)] = clf.net_.callbacks_
    rates = callback.rates_
    assert rates[0] == pytest.approx(0.5 / 25)
    assert 0.49 < max(rates) <= 0.5
    assert rates[-1] < 0.005


@pytest.mark.parametrize("loss", LOSSES)
def test_a_module_may_compute_in_double_precision(loss, blobs):
    class Double(LogitsOnly):
        def forward(self, X):
            return self.layers.double()(X.double())

    X, S, y = blobs
    clf = CleanSEClassifier(loss, module=Double, max_epochs=30, random_state=0).fit(X, S)
    assert clf.score(X, S, truth=y) > 0.9


@pytest.mark.parametrize("keeps", [False, True])
@pytest.mark.parametrize("vote", ["soft", "hard"])
@pytest.mark.parametrize("neighbors_from", ["dataset", "batch"])
def test_weights_are_eq_4_or_confidences_calibrated_by_it(
    neighbors_from, vote, keeps, blobs, monkeypatch
):
    X, S, _ = blobs
    params = {**QUICK, "max_epochs": 2, "batch_size": len(X), "vote_end": None}
    seen, original = [], _net.step_loss

    def note(training, logits, batch, weights):
        seen.append((batch.candidates.numpy(), weights.numpy()))
        return original(training, logits, batch, weights)

    monkeypatch.setattr(_net, "step_loss", note)
    clf = CleanSEClassifier(
        "proden" if keeps else "cc", vote=vote, neighbors_from=neighbors_from, **params
    ).fit(X, S)
    assert len(seen) == 2
    candidates, table = seen[-1]
    assert (table[~candidates] == 0).all()
    clean = candidates.sum(axis=1) == 1
    assert 0 < clean.sum() < len(X)
    if keeps:
        np.testing.assert_allclose(table.sum(axis=1), 1, rtol=1e-5)
        return
    assert (table[clean].max(axis=1) == clf.temperature).all()
    raised = table[candidates] - 1
    assert (raised >= 0).all()
    assert (np.where(candidates, table - 1, 0).sum(axis=1) <= clf.temperature - 1 + 1e-5).all()
    if vote == "hard":
        assert set(raised.tolist()) == {0.0, clf.temperature - 1}


# -- the loss of a step --------------------------------------------------------------------------


def a_step(loss, calibration=None, n_members=3):
    """Logits of an ensemble for a batch of ten rows, and the training they belong to."""
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(10, n_members, 4, generator=generator)
    S = torch.rand(10, 4, generator=generator) < 0.4
    S[torch.arange(10), torch.arange(10) % 4] = True
    rows = _training_rows.TrainingRows(
        np.zeros((10, 1)), sp.csr_array(S.numpy()), None, "cpu", np.arange(10), torch.Tensor.float
    )
    [batch] = rows.batches(np.arange(10), [10], bounds=calibration is not None)
    params = check_loss_params(loss, None, sp.csr_array(S.numpy()))
    training = Training(LOSSES[loss], params, calibration, 1, 10, 0.1, "constant", 0.0)
    return training, logits, batch, batch.dense(rows.confidences[batch.entries])


@pytest.mark.parametrize("loss", LOSSES)
def test_the_base_loss_of_a_step_is_the_members_mean(loss):
    training, logits, batch, weights = a_step(loss)
    found = step_loss(training, logits, batch, weights)
    each = [
        training.loss.function(member, batch.candidates, weights, None, **training.loss_params)
        for member in logits.unbind(1)
    ]
    torch.testing.assert_close(found.base, torch.stack(each).mean())
    assert found.total == found.base
    assert found.count == 0
    mean = logits.softmax(dim=2).mean(dim=1)
    torch.testing.assert_close(found.mean_logits.softmax(dim=1), mean)
    covered = batch.candidates[torch.arange(10), mean.argmax(dim=1)].float().mean()
    torch.testing.assert_close(found.covered, covered)


@pytest.mark.parametrize("counts_for", [1.0, 3.5])
def test_the_loss_of_a_step_is_equation_15(counts_for):
    calibration = Calibration(count_weight=0.5, count_loss="interval")
    training, logits, batch, weights = a_step("proden", calibration)
    batch.counts_for = counts_for
    found = step_loss(training, logits, batch, weights)
    count = calibration.count(found.mean_logits, batch.bounds)
    torch.testing.assert_close(found.count, count)
    torch.testing.assert_close(found.total, found.base + 0.5 * counts_for * count)


@pytest.mark.parametrize(
    ("calibration", "count_every"),
    [
        (None, 0),
        (Calibration(count_weight=0.0), 0),
        (Calibration(), 4),
        (Calibration(count_every=1), 1),
    ],
)
def test_how_often_a_training_counts(calibration, count_every):
    training, *_ = a_step("cc", calibration)
    assert training.count_every == count_every


def test_a_training_cannot_be_changed():
    training, *_ = a_step("cc")
    with pytest.raises(dataclasses.FrozenInstanceError):
        training.lr = 1.0


# -- what must not matter, and what must not happen ----------------------------------------------


def test_silent_by_default_and_one_bar_on_request(blobs, capfd):
    X, S, _ = blobs
    CleanSEClassifier(**QUICK).fit(X, S)
    assert capfd.readouterr() == ("", "")
    CleanSEClassifier(verbose=1, **QUICK).fit(X, S)
    out, err = capfd.readouterr()
    assert out == ""
    assert "6/6" in err
    assert "loss" in err
    assert len(err.strip().split("\n")) == 1


class NoWaiting(TorchDispatchMode):
    """Fails on what would make the host wait for the device."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        assert func not in (
            torch.ops.aten._local_scalar_dense.default,
            torch.ops.aten.nonzero.default,
            torch.ops.aten.masked_select.default,
            torch.ops.aten._unique2.default,
            torch.ops.aten.repeat_interleave.Tensor,
        ), func
        if func in (torch.ops.aten.index.Tensor, torch.ops.aten.index_put_.default):
            masks = [i for i in args[1] if i is not None and i.dtype == torch.bool]
            assert not masks, func
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("neighbors_from", ["dataset", "batch"])
@pytest.mark.parametrize("vote", ["soft", "hard"])
@pytest.mark.parametrize("loss", LOSSES)
def test_no_step_waits_for_the_device(loss, vote, neighbors_from, blobs, monkeypatch):
    step = CleanSENet.train_step

    def guarded(*args, **kwargs):
        with NoWaiting():
            return step(*args, **kwargs)

    monkeypatch.setattr(CleanSENet, "train_step", guarded)
    X, S, _ = blobs
    params = {"vote": vote, "vote_start": 0.0, "neighbors_from": neighbors_from}
    params.update(QUICK, max_epochs=1)
    assert CleanSEClassifier(loss, **params).fit(X, S).n_iter_ == 1


class Steps(Callback):
    """Keep the logits of a step, and those of the same rows after it."""

    def on_train_begin(self, net, X, **kwargs):
        self.rows = X

    def on_batch_end(self, net, batch, y_pred, **kwargs):
        X, batch = batch
        with torch.no_grad():
            self.logits = {"before": y_pred.detach(), "after": net.module_.network(X)}
        self.candidates = batch.candidates
        self.kept = batch.dense(self.rows.confidences[batch.entries])


@pytest.mark.parametrize(("loss", "whose"), [("rc", "after"), ("proden", "before")])
def test_confidences_come_from_the_step_or_from_a_pass_after_it(loss, whose, blobs):
    X, S, _ = blobs
    clf = PartialLabelClassifier(loss, module=LogitsOnly, max_epochs=1, callbacks=[Steps()])
    clf.set_params(batch_size=len(X), random_state=0).fit(X, S)
    step = dict(clf.net_.callbacks_)["Steps"]
    found = {
        when: candidate_confidences(logits, step.candidates) for when, logits in step.logits.items()
    }
    torch.testing.assert_close(step.kept, found.pop(whose))
    (other,) = found.values()
    assert (step.kept - other).abs().max() > 1e-3


def test_no_generator_but_the_devices_own_is_seeded(blobs, monkeypatch):
    def refuse(*args):
        raise AssertionError("another device's generator was seeded")

    monkeypatch.setattr(torch.cuda, "manual_seed_all", refuse)
    monkeypatch.setattr(torch.cuda, "manual_seed", refuse)
    X, S, _ = blobs
    assert CleanSEClassifier(device="cpu", **QUICK).fit(X, S).n_iter_ == 6


@pytest.mark.parametrize("params", [{}, {"early_stopping": True}, {"schedule": "constant"}])
def test_a_pickle_holds_the_weights_once(params, blobs):
    X, S, _ = blobs
    clf = PartialLabelClassifier(**{**QUICK, "hidden_layer_sizes": (300, 300)}, **params)
    clf.fit(X, S)
    n_values = sum(p.numel() for p in clf.net_.module_.parameters())
    # The optimiser keeps two moments of each weight, to go on from.
    assert len(pickle.dumps(clf)) < 1.2 * 3 * 4 * n_values


@pytest.mark.parametrize("block_values", [2**18, 2**17, 1])  # of 256, 128 and 64 rows
@pytest.mark.parametrize("max_epochs", [2, 30])
def test_results_do_not_depend_on_the_size_of_blocks(max_epochs, block_values, monkeypatch):
    """A search and a prediction may be cut into blocks anywhere."""
    X, S, _ = make_partial_classification(300, 12, 8, class_sep=0.7, random_state=0)  # close calls
    clf = CleanSEClassifier(max_epochs=max_epochs, vote="soft", vote_start=0.0, random_state=0)
    clf.fit(X, S)

    def results():
        votes = np.concatenate([why.votes for why in clf.explain(X, S)])
        return clf.predict_proba(X), clf.predict(X), *clf.disambiguate(X, S, True), votes

    expected, kept = results(), clf.candidate_proba_
    monkeypatch.setattr(_training_rows, "BLOCK_VALUES", block_values)
    for one, other in zip(expected, results(), strict=True):  # equal up to rounding in sums
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-5)
    # Training magnifies what is rounded differently, so that only its beginning can be compared.
    if max_epochs == 2:
        clf.fit(X, S)
        np.testing.assert_allclose(clf.predict_proba(X), expected[0], rtol=0, atol=1e-5)
        np.testing.assert_allclose(clf.candidate_proba_, kept, rtol=0, atol=1e-5)


def test_results_do_not_depend_on_whether_scaled_features_are_kept(blobs, monkeypatch):
    X, S, _ = blobs
    clf = CleanSEClassifier(**QUICK)
    expected = clf.fit(X, S).predict_log_proba(X)
    monkeypatch.setattr(_training_rows, "MAX_SCALED_VALUES", 0)
    np.testing.assert_allclose(clf.fit(X, S).predict_log_proba(X), expected, rtol=0, atol=1e-5)


def test_skorchs_own_prediction_is_the_estimators(blobs):
    X, S, _ = blobs
    clf = CleanSEClassifier(kernel_share=0.0, **QUICK).fit(X, S)
    np.testing.assert_allclose(clf.net_.predict_proba(X), clf.predict_proba(X), atol=1e-6)


@pytest.mark.parametrize(
    ("params", "expected"),
    [
        ({"vote_start": 0.0}, [0, 3, 12]),
        ({"vote_start": 0.5}, [10, 13]),
        ({"neighbor_space": "input", "vote_start": 0.0}, [0]),
        ({"neighbors_from": "batch"}, []),
        ({"temperature": 1.0}, []),
    ],
)
def test_neighbours_are_sought_ever_more_rarely(params, expected, blobs, monkeypatch):
    X, S, _ = blobs
    now, searched = [], []
    weigh, search = Calibrator.epoch_weights, Calibrator._search

    def look(self, done):
        now.append(round(20 * done))
        return weigh(self, done)

    def note(self):
        searched.append(now[-1])
        search(self)

    monkeypatch.setattr(Calibrator, "epoch_weights", look)
    monkeypatch.setattr(Calibrator, "_search", note)
    params = {"vote": "soft", "neighbors_from": "dataset", **params}
    CleanSEClassifier(**{**QUICK, "max_epochs": 20, **params}).fit(X, S)
    assert now == list(range(20))
    assert searched == expected


def test_clean_data_are_never_searched(blobs, monkeypatch):
    X, _, y = blobs

    def refuse(self):
        raise AssertionError("nobody needs a vote here")

    monkeypatch.setattr(Calibrator, "_search", refuse)
    clf = CleanSEClassifier(vote="soft", vote_start=0.0, **QUICK).fit(X, y)
    assert np.isnan([epoch["clean_voter_share"] for epoch in clf.history_]).all()
