"""The training loop in skorch's frame, and what it refuses."""

import pickle
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from sklearn.exceptions import NotFittedError
from skorch.callbacks import Callback, Checkpoint, EarlyStopping
from torch.utils._python_dispatch import TorchDispatchMode

from sklearn_cleanse import CleanSEClassifier, PartialLabelClassifier
from sklearn_cleanse.datasets import make_partial_classification
from sklearn_cleanse.deep import _net
from sklearn_cleanse.deep import _training_rows as _rows
from sklearn_cleanse.deep._net import CleanSENet
from sklearn_cleanse.losses import LOSSES, candidate_confidences

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
            net.infer_blocks(X[:2])

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


class Weights(Callback):
    """Keep the weights of the second epoch."""

    def on_epoch_begin(self, net, **kwargs):
        if len(net.history) == 2:
            values = net.rows_.weights.numpy().copy()
            self.table_ = sp.csr_array((values, net.rows_.indices, net.rows_.indptr)).toarray()


@pytest.mark.parametrize("keeps", [False, True])
@pytest.mark.parametrize("vote", ["soft", "hard"])
@pytest.mark.parametrize("neighbors_from", ["dataset", "batch"])
def test_weights_are_eq_4_or_confidences_calibrated_by_it(
    neighbors_from, vote, keeps, blobs, monkeypatch
):
    X, S, _ = blobs
    params = {**QUICK, "max_epochs": 2, "batch_size": len(X), "vote_start": 0.0}
    seen, original = [], CleanSENet._batch_weights

    def note(self, *args):
        weights = original(self, *args)
        seen.append(weights.numpy())
        return weights

    monkeypatch.setattr(CleanSENet, "_batch_weights", note)
    clf = CleanSEClassifier(
        "proden" if keeps else "cc",
        vote=vote,
        neighbors_from=neighbors_from,
        callbacks=[Weights()],
        **params,
    ).fit(X, S)
    [(_, callback)] = clf.net_.callbacks_
    table = seen[-1] if neighbors_from == "batch" else callback.table_
    clean = (table > 0).sum(axis=1) == 1
    assert 0 < clean.sum() < len(X)
    if keeps:
        np.testing.assert_allclose(table.sum(axis=1), 1, rtol=1e-5)
        return
    assert (table[clean].max(axis=1) == clf.temperature).all()
    raised = table[table > 0] - 1
    assert (raised >= 0).all()
    assert (np.where(table > 0, table - 1, 0).sum(axis=1) <= clf.temperature - 1 + 1e-5).all()
    if vote == "hard":
        assert set(raised.tolist()) == {0.0, clf.temperature - 1}


def test_an_interrupted_fit_leaves_a_usable_model(blobs):
    class Interrupt(Callback):
        def on_batch_begin(self, net, **kwargs):
            if len(net.history) == 3:
                raise KeyboardInterrupt

    X, S, _ = blobs
    with pytest.warns(UserWarning, match="interrupted in epoch 3 of 6"):
        clf = CleanSEClassifier(callbacks=[Interrupt()], **QUICK).fit(X, S)
    assert clf.n_iter_ == 2
    assert clf.predict(X).shape == (len(X),)


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

    def on_batch_end(self, net, batch, y_pred, **kwargs):
        X, rows = batch
        with torch.no_grad():
            self.logits = {"before": y_pred.detach(), "after": net.module_.network(X)}
        self.candidates = rows.candidates
        self.kept = rows.dense(net.rows_.confidences[rows.entries])


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


# -- refusals ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"temperature": 0.5}, r"'temperature' .* range \[1.0, inf\). Got 0.5"),
        ({"count_weight": -1}, r"'count_weight'"),
        ({"n_neighbors": 0}, r"'n_neighbors'"),
        ({"neighbors_from": "all"}, r"'neighbors_from' .*'batch'"),
        ({"neighbor_space": "logits"}, r"'neighbor_space'"),
        ({"vote": "loud"}, r"'vote'"),
        ({"count_loss": "none"}, r"'count_loss'"),
        ({"loss": "mse"}, r"'loss'"),
        ({"loss_params": {"beta": 1.0}}, r"loss_params has 'beta'; .*loss='proden' are: none"),
        ({"loss": "lws", "loss_params": {"betta": 1.0}}, r"has 'betta'; .* are: beta, form"),
        ({"loss": "lws", "loss_params": {1: 2, "x": 3}}, r"has 1; .* are: beta, form"),
        ({"loss": "lws", "loss_params": {"beta": -1.0}}, r"beta is -1.0; it must be a number"),
        ({"loss": "lws", "loss_params": {"beta": True}}, r"beta is True; it must be a number"),
        ({"loss": "lws", "loss_params": {"form": "x"}}, r"form is 'x'; .*'sigmoid'"),
        ({"loss": "scarce", "loss_params": {"class_prior": "x"}}, r"class_prior is 'x'"),
        ({"loss": "scarce", "loss_params": {"class_prior": [1.0]}}, r"an array of 3 probabilities"),
        ({"loss": "scarce", "loss_params": {"class_prior": None}}, r"class_prior is None; it must"),
        (
            {"loss": "scarce", "loss_params": {"class_prior": list("abc")}},
            r"is \['a', 'b', 'c'\]; ",
        ),
        ({"loss": "scarce", "loss_params": {"class_prior": [0, 1.5, -0.5]}}, r"1.5 for class 1"),
        ({"loss": "scarce", "loss_params": {"class_prior": [0.5, 0.2, 0.2]}}, r"sums to 0.9"),
        ({"loss": "scarce", "loss_params": {"correction": "x"}}, r"correction is 'x'; .*'abs'"),
        ({"scaling": "robust"}, r"'scaling'"),
        ({"scaling": ["rank", "robust"]}, r"scaling=\['rank', 'robust'\] must name"),
        ({"scaling": []}, r"scaling=\[\] must name"),
        ({"scaling": ["rank"], "module": LogitsOnly}, r"a single scaling for module"),
        ({"max_epochs": 0}, r"'max_epochs'"),
        ({"batch_size": 1.5}, r"'batch_size'"),
        ({"lr": 0}, r"'lr'"),
        ({"dropout": 1.0}, r"'dropout'"),
        ({"module": "transformer"}, r"'module'"),
        ({"module": "resnet34"}, r"module='resnet34' needs images"),
        ({"hidden_layer_sizes": (0,)}, r"hidden_layer_sizes"),
        ({"device": "tpu9"}, r"device"),
        ({"early_stopping": True, "validation_fraction": 0.999}, r"leaves too few"),
    ],
)
def test_bad_parameters_are_refused_by_name(params, message, blobs):
    X, S, _ = blobs
    with pytest.raises(ValueError, match=message):
        CleanSEClassifier(**{**QUICK, **params}).fit(X, S)


def test_a_diverging_loss_is_reported_not_hidden(blobs):
    X, S, _ = blobs
    with pytest.raises(FloatingPointError, match=r"became .* in epoch .*; lower lr"):
        PartialLabelClassifier(
            "scarce", module=LogitsOnly, lr=1e38, schedule="constant", max_epochs=5
        ).fit(X, S)


@pytest.mark.parametrize("value", [1e300, -1e40])
def test_values_beyond_single_precision_are_refused_by_row(value, blobs):
    X, S, _ = blobs
    clf = CleanSEClassifier(**QUICK).fit(X, S)
    X = X.copy()
    X[7, 2] = value
    with pytest.raises(ValueError, match="row 7 of X has a value beyond"):
        CleanSEClassifier(**QUICK).fit(X, S)
    with pytest.raises(ValueError, match="row 7 of X has a value beyond"):
        clf.predict(X)


def test_weights_that_leave_one_row(blobs):
    X, S, _ = blobs
    with pytest.raises(ValueError, match="one sample is not enough"):
        CleanSEClassifier(**QUICK).fit(X, S, sample_weight=np.arange(len(X)) == 3)


def test_a_failed_fit_leaves_nothing_behind(blobs):
    X, S, _ = blobs
    clf = PartialLabelClassifier(
        "scarce", module=LogitsOnly, lr=1e38, schedule="constant", max_epochs=5
    )
    with pytest.raises(FloatingPointError):
        clf.fit(X, S)
    with pytest.raises(NotFittedError):
        clf.predict(X)


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


def test_weights_that_leave_no_row(blobs):
    X, S, _ = blobs
    with pytest.raises(ValueError, match="at least one non-zero"):
        CleanSEClassifier(**QUICK).fit(X, S, sample_weight=np.zeros(len(X)))


@pytest.mark.parametrize("block_values", [2**18, 2**17, 1])  # of 256, 128 and 64 rows
def test_results_do_not_depend_on_the_size_of_blocks(block_values, monkeypatch):
    """A search and a prediction may be cut into blocks anywhere."""
    X, S, _ = make_partial_classification(300, 12, 8, class_sep=0.7, random_state=0)  # close calls
    clf = CleanSEClassifier(max_epochs=30, vote_start=0.0, random_state=0)
    clf.fit(X, S)
    expected = clf.predict_log_proba(X), clf.candidate_proba_, *clf.disambiguate(X, S, True)
    monkeypatch.setattr(_net, "BLOCK_VALUES", block_values)
    clf.fit(X, S)
    found = clf.predict_log_proba(X), clf.candidate_proba_, *clf.disambiguate(X, S, True)
    for one, other in zip(expected, found, strict=True):  # equal up to rounding in sums
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-5)


def test_results_do_not_depend_on_whether_scaled_features_are_kept(blobs, monkeypatch):
    X, S, _ = blobs
    clf = CleanSEClassifier(**QUICK)
    expected = clf.fit(X, S).predict_log_proba(X)
    monkeypatch.setattr(_rows, "MOST_SCALED_VALUES", 0)
    np.testing.assert_allclose(clf.fit(X, S).predict_log_proba(X), expected, rtol=0, atol=1e-5)


def test_skorchs_own_prediction_is_the_estimators(blobs):
    X, S, _ = blobs
    clf = CleanSEClassifier(**QUICK).fit(X, S)
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
    epochs, search = [], _net.CleanSENet._find_neighbors

    def note(self):
        epochs.append(len(self.history) - 1)
        search(self)

    monkeypatch.setattr(_net.CleanSENet, "_find_neighbors", note)
    CleanSEClassifier(**{**QUICK, "max_epochs": 20, **params}).fit(X, S)
    assert epochs == expected


def test_clean_data_are_never_searched(blobs, monkeypatch):
    X, _, y = blobs

    def refuse(self):
        raise AssertionError("nobody needs a vote here")

    monkeypatch.setattr(_net.CleanSENet, "_find_neighbors", refuse)
    clf = CleanSEClassifier(**QUICK).fit(X, y)
    assert np.isnan([epoch["clean_voter_share"] for epoch in clf.history_]).all()


@pytest.mark.parametrize(
    "params",
    [
        {"early_stopping": True, "n_iter_no_change": 1},
        {"callbacks": [EarlyStopping(monitor="loss", patience=1, threshold=100, sink=str)]},
    ],
)
def test_stopping_early_is_no_interruption(params, blobs):
    X, S, _ = blobs
    clf = CleanSEClassifier(**{**QUICK, "max_epochs": 50}, warm_start=True, **params)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        epochs = [clf.fit(X, S).n_iter_ for _ in range(2)]
    assert 0 < epochs[0] < epochs[1] < 100


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("early_stopping", [False, True])
@pytest.mark.parametrize("weight", [None, np.arange(300) % 3, np.linspace(0.0, 1.0, 300)])
def test_a_fit_maps_features_from_a_file(weight, early_stopping, dtype, tmp_path):
    """Also where some rows are left out or repeated."""
    X, S, _ = make_partial_classification(300, 12, 3, random_state=0)
    X = X.astype(dtype)
    X.tofile(tmp_path / "X")
    mapped = np.memmap(tmp_path / "X", dtype=dtype, mode="r", shape=X.shape)
    where = []

    class Look(Callback):
        def on_train_begin(self, net, X=None, **kwargs):
            where.append(np.shares_memory(X.X.numpy(), mapped))

    clf = CleanSEClassifier(**QUICK, early_stopping=early_stopping, callbacks=[Look()])
    clf.fit(mapped, S, sample_weight=weight)
    assert where == [True]
