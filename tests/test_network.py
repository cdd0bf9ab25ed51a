"""The training in skorch's loop: modules, callbacks, the loss of a step, continuing."""

import pickle

import numpy as np
import pytest
import torch
from skorch.callbacks import Callback, Checkpoint
from torch.utils._python_dispatch import TorchDispatchMode

from sklearn_cleanse import CleanSEClassifier, NeighborVoter, PartialLabelClassifier
from sklearn_cleanse.candidates import check_candidates
from sklearn_cleanse.counts import interval_loss
from sklearn_cleanse.counts._poisson_binomial import _solve_tilted
from sklearn_cleanse.losses import LOSSES, average_networks, candidate_confidences
from sklearn_cleanse.metrics import approximated_accuracy
from sklearn_cleanse.network import MLP, ResNet34, _net, _rows
from sklearn_cleanse.network._net import Objective, PartialLabelNet
from sklearn_cleanse.network._rows import Batches, CandidateRows

QUICK = {"hidden_layer_sizes": (16,), "max_epochs": 6, "random_state": 0}
PLAIN = {"module_params": {"dropout": 0.0, "batch_norm": False}}


class LogitsOnly(torch.nn.Module):
    def __init__(self, n_features, n_classes, width=8):
        super().__init__()
        self.layers = torch.nn.Sequential(
            torch.nn.Linear(n_features, width), torch.nn.Tanh(), torch.nn.Linear(width, n_classes)
        )

    def forward(self, X):
        return self.layers(X)


# -- modules -------------------------------------------------------------------------------------


def test_networks_side_by_side_are_separate():
    """Each computes what a network of its own weights computes; gradients do not mix."""
    together = MLP(5, 3, (8, 6), n_networks=2).eval()
    X = torch.randn(7, 5)
    logits, representation = together(X)
    for i in range(2):
        alone = MLP(5, 3, (8, 6)).eval()
        state = {}
        for name, value in together.state_dict().items():
            if value.dim() == 3:
                value = value[[i]]
            elif value.dim() == 1:  # batch norm: one network's units after another's
                value = value.unflatten(0, (2, -1))[i]
            state[name] = value
        alone.load_state_dict(state)
        expected, hidden = alone(X)
        torch.testing.assert_close(logits[:, [i]], expected)
        torch.testing.assert_close(representation[:, [i]], hidden)
    logits[:, 0].sum().backward()
    assert (together.head.weight.grad[1] == 0).all()
    assert (together.head.weight.grad[0] != 0).any()


@pytest.mark.parametrize("p", [0.2, 0.5])
def test_dropout_from_bytes_drops_its_proportion_and_keeps_the_mean(p):
    network = MLP(1, 2, (1000,), dropout=p, generator=torch.Generator().manual_seed(0))
    dropout = network.body[-1]
    signal = torch.ones(1, 1000, 50)
    dropped = dropout(signal)
    assert abs((dropped == 0).float().mean() - p) < 0.01
    assert abs(dropped.mean() - 1) < 0.01
    assert len(dropped.unique()) == 2
    assert torch.equal(dropout.eval()(signal), signal)


def test_the_resnet_learns_images_and_draws_its_own_weights(rng):
    y = np.arange(24) % 2
    X = rng.normal(size=(24, 1, 8, 8)).astype(np.float32) + 2 * y[:, None, None, None]
    clf = CleanSEClassifier(
        module="resnet34", module_params={"width": 4}, max_epochs=20, random_state=0
    ).fit(X, np.eye(2)[y])
    assert clf.score(X, y) > 0.9
    with pytest.raises(ValueError, match=r"samples of shape \(1, 8, 8\)"):
        clf.predict(X[:, :, :4, :4])
    assert CleanSEClassifier(**QUICK).fit(X, y).predict(X).shape == (24,)  # the mlp flattens
    before = torch.get_rng_state()
    one, other = (ResNet34(1, 2, 4, torch.Generator().manual_seed(1)) for _ in range(2))
    assert all(map(torch.equal, one.parameters(), other.parameters()))
    assert torch.equal(torch.get_rng_state(), before)


def test_any_module_class_may_be_the_network(blobs):
    X, S, y = blobs
    params = {"module": LogitsOnly, "max_epochs": 30, "random_state": 0}
    clf = CleanSEClassifier(module_params={"width": 12}, **params).fit(X, S)
    assert clf.net_.module_.layers[0].out_features == 12
    assert clf.score(X, S, truth=y) > 0.9
    before = torch.get_rng_state()
    again = CleanSEClassifier(module_params={"width": 12}, **params).fit(X, S)
    np.testing.assert_array_equal(again.predict_proba(X), clf.predict_proba(X))
    assert torch.equal(torch.get_rng_state(), before)


def test_a_users_module_has_the_decay_asked_for_and_names_of_its_own(blobs):
    class Generator(LogitsOnly):
        def __init__(self, n_features, n_classes):
            super().__init__(n_features, n_classes)
            self.generator = torch.nn.Linear(1, 1)

    X, S, _ = blobs
    clf = PartialLabelClassifier(module=Generator, weight_decay=0.1, max_epochs=1).fit(X, S)
    assert clf.net_.optimizer_.param_groups[0]["weight_decay"] == 0.1
    assert isinstance(clf.net_.module_.generator, torch.nn.Linear)


@pytest.mark.parametrize("loss", LOSSES)
def test_a_module_may_compute_in_double_precision(loss, blobs):
    class Double(LogitsOnly):
        def forward(self, X):
            return self.layers.double()(X.double())

    X, S, y = blobs
    clf = CleanSEClassifier(loss, module=Double, max_epochs=30, random_state=0).fit(X, S)
    assert clf.score(X, S, truth=y) > 0.9


# -- callbacks -----------------------------------------------------------------------------------


class Recorder(Callback):
    def on_train_begin(self, net, **kwargs):
        self.events_, self.rates_ = [], []

    def on_grad_computed(self, net, named_parameters, **kwargs):
        self.seen_ = [name for name, _ in named_parameters]

    def on_batch_end(self, net, loss, **kwargs):
        self.events_.append("batch")
        self.rates_.append(net.optimizer_.param_groups[0]["lr"])

    def on_epoch_end(self, net, **kwargs):
        self.events_.append(net.history[-1]["loss"])


def test_skorch_callbacks_and_checkpoints_work(blobs, tmp_path):
    X, S, _ = blobs
    checkpoint = Checkpoint(monitor="loss_best", f_pickle=None, dirname=str(tmp_path))
    recorder = Recorder()
    callbacks = [("schedule", recorder), checkpoint]
    clf = CleanSEClassifier(callbacks=callbacks, lr=0.5, **QUICK).fit(X, S)
    used = dict(clf.net_.callbacks_)["schedule"]
    assert not hasattr(recorder, "events_")  # parameters stay as they were given
    assert used.events_.count("batch") == 6 * 8
    assert [e for e in used.events_ if e != "batch"] == [epoch["loss"] for epoch in clf.history_]
    assert used.seen_ == [name for name, _ in clf.net_.module_.named_parameters()]
    assert (tmp_path / "params.pt").exists()
    assert 0.49 < max(used.rates_) <= 0.5
    assert used.rates_[-1] < 0.005


@pytest.mark.parametrize("changed", [{"n_networks": 1}, {"hidden_layer_sizes": (9,)}])
def test_a_network_that_continues_keeps_its_layers(changed, blobs):
    X, S, _ = blobs
    clf = CleanSEClassifier(warm_start=True, **QUICK).fit(X, S).set_params(**changed)
    for method in (clf.fit, clf.partial_fit):
        with pytest.raises(ValueError, match=f"`{next(iter(changed))}` must be as in the first"):
            method(X, S)


def test_silent_by_default_and_one_bar_on_request(blobs, capfd):
    X, S, _ = blobs
    CleanSEClassifier(**QUICK).fit(X, S)
    assert capfd.readouterr() == ("", "")
    CleanSEClassifier(verbose=1, **QUICK).fit(X, S)
    out, err = capfd.readouterr()
    assert out == ""
    assert "6/6" in err
    assert len(err.strip().split("\n")) == 1


# -- the rows and the loss of a step -------------------------------------------------------------


class Identity(torch.nn.Module):
    def forward(self, X):
        return X.double()


def some_rows(n_rows=10, n_classes=4, seed=0):
    rng = np.random.RandomState(seed)
    S = rng.uniform(size=(n_rows, n_classes)) < 0.4
    S[np.arange(n_rows), np.arange(n_rows) % n_classes] = True
    X = rng.normal(size=(n_rows, 2))
    return CandidateRows(X, np.arange(n_rows), check_candidates(S), Identity(), "cpu")


@pytest.mark.parametrize(("n_rows", "size"), [(10, 3), (17, 16), (3, 2), (5, 2), (64, 64), (2, 99)])
def test_batches_visit_each_row_once_and_have_two_rows_at_least(n_rows, size):
    batches = list(Batches(some_rows(n_rows), size, torch.Generator().manual_seed(0)))
    sizes = [len(inputs) for inputs, _ in batches]
    assert sorted(torch.cat([batch.rows for _, batch in batches]).tolist()) == list(range(n_rows))
    assert min(sizes) >= 2
    assert max(sizes) - min(sizes) <= 1
    assert max(sizes) <= 1.5 * size


def a_net(loss, **objective):
    """A net in the midst of an epoch, a batch of all rows and three networks' logits for it."""
    rows = some_rows()
    params = LOSSES[loss].resolve(rows.mask.numpy(), None, "cpu")
    net = PartialLabelNet(LogitsOnly, criterion=torch.nn.Identity)
    net.objective_ = Objective(LOSSES[loss], params, **objective)
    net.temperature_, net.parts_, net.counts_, net.step_, net.n_steps_ = 1.0, [], [], 0, 1
    batch = rows[torch.arange(10)][1]
    logits = torch.randn(10, 3, 4, generator=torch.Generator().manual_seed(0))
    return net, logits, batch


@pytest.mark.parametrize("loss", LOSSES)
def test_the_loss_of_a_step_is_the_mean_over_networks(loss):
    net, logits, batch = a_net(loss)
    found = net.get_loss((logits, logits), batch, training=True)
    one = net.objective_.loss.function
    rows = batch.mask, batch.weights, None
    each = [one(z, *rows, **net.objective_.loss_params) for z in logits.unbind(1)]
    torch.testing.assert_close(found, torch.stack(each).mean())


@pytest.mark.parametrize("n_steps", [1, 7])
def test_the_loss_of_a_step_is_equation_15(n_steps):
    net, logits, batch = a_net("proden", count_weight=0.5, count_every=4)
    net.n_steps_ = n_steps
    plain = a_net("proden")[0].get_loss((logits, logits), batch, training=True)
    S = batch.mask
    lower, upper = S[S.sum(dim=1) == 1].sum(dim=0), S.sum(dim=0)
    count = interval_loss(average_networks(logits), lower, upper)
    stands_for = n_steps / -(-n_steps // 4)
    found = net.get_loss((logits, logits), batch, training=True)
    torch.testing.assert_close(found, plain + 0.5 * stands_for * count)
    net.step_ = 3
    torch.testing.assert_close(net.get_loss((logits, logits), batch, training=True), plain)


class Steps(Callback):
    """Keep the logits of a step, and those of the same rows after it."""

    def on_batch_end(self, net, batch, y_pred, **kwargs):
        inputs, self.batch = batch
        net.module_.eval()
        with torch.no_grad():
            self.logits = {"before": y_pred[0].detach(), "after": net.infer(inputs)[0]}
        self.kept = self.batch.source.confidences[self.batch.rows]


@pytest.mark.parametrize(("loss", "whose"), [("rc", "after"), ("proden", "before")])
def test_confidences_come_from_the_step_or_from_a_pass_after_it(loss, whose, blobs):
    X, S, _ = blobs
    clf = PartialLabelClassifier(loss, module=LogitsOnly, max_epochs=1, callbacks=[Steps()])
    clf.set_params(batch_size=len(X), random_state=0).fit(X, S)
    step = dict(clf.net_.callbacks_)["Steps"]
    found = {
        when: candidate_confidences(z, step.batch.mask).float() for when, z in step.logits.items()
    }
    torch.testing.assert_close(step.kept, found.pop(whose))
    (other,) = found.values()
    assert (step.kept - other).abs().max() > 1e-3


class NoWaiting(TorchDispatchMode):
    """Fails on what would make the host wait for an accelerator."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        waits = ("_local_scalar_dense", "nonzero", "masked_select", "_unique2")
        assert func.overloadpacket.__name__ not in waits, func
        if func in (torch.ops.aten.index.Tensor, torch.ops.aten.index_put_.default):
            assert not [i for i in args[1] if i is not None and i.dtype == torch.bool], func
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("voter", [NeighborVoter(), NeighborVoter(within="batch", hard=True)])
@pytest.mark.parametrize("loss", LOSSES)
def test_no_step_waits_for_the_device(loss, voter, blobs, monkeypatch):
    step = PartialLabelNet.train_step

    def guarded(*args, **kwargs):
        with NoWaiting():
            return step(*args, **kwargs)

    monkeypatch.setattr(PartialLabelNet, "train_step", guarded)
    monkeypatch.setattr(_net, "largest_bound", lambda upper, n_rows: n_rows)
    monkeypatch.setattr("sklearn_cleanse.counts._losses.solve", _solve_tilted)  # as elsewhere
    X, S, _ = blobs
    clf = CleanSEClassifier(loss, voter=voter, **{**QUICK, "max_epochs": 1}).fit(X, S)
    assert clf.n_iter_ == 1


def test_results_depend_neither_on_blocks_nor_on_keeping_scaled_features(blobs, monkeypatch):
    X, S, _ = blobs
    clf = CleanSEClassifier(**QUICK)
    expected = clf.fit(X, S).predict_log_proba(X)
    monkeypatch.setattr(_rows, "MAX_SCALED_VALUES", 0)
    monkeypatch.setattr(_rows, "BLOCK_VALUES", 1)
    np.testing.assert_allclose(clf.predict_log_proba(X), expected, rtol=0, atol=1e-5)
    np.testing.assert_allclose(clf.fit(X, S).predict_log_proba(X), expected, rtol=0, atol=1e-4)


def test_a_memory_mapped_X_trains_the_same_model_without_a_warning(blobs, tmp_path, recwarn):
    X, S, _ = blobs
    np.save(tmp_path / "X.npy", X)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    found = CleanSEClassifier(**QUICK).fit(mapped, S).predict_proba(mapped)
    np.testing.assert_array_equal(found, CleanSEClassifier(**QUICK).fit(X, S).predict_proba(X))
    assert not recwarn.list


# -- early stopping ------------------------------------------------------------------------------


class Weights(Callback):
    def on_epoch_end(self, net, **kwargs):
        bias = net.module_.head.bias.detach().clone()
        self.seen_ = [*getattr(self, "seen_", []), bias]


def test_early_stopping_stops_and_restores_the_best_epoch(blobs):
    X, S, _ = blobs
    params = {**QUICK, "max_epochs": 200, "schedule": "constant", "callbacks": [Weights()]}
    clf = CleanSEClassifier(early_stopping=True, n_iter_no_change=3, **params).fit(X, S)
    scores = [epoch["validation_score"] for epoch in clf.history_]
    assert clf.n_iter_ < 200
    best = int(np.argmax(scores))
    assert best == len(scores) - 4
    seen = dict(clf.net_.callbacks_)["Weights"].seen_
    assert torch.equal(clf.net_.module_.head.bias, seen[best])
    assert clf.candidate_proba_.shape == S.shape


def test_held_out_rows_are_scored_without_truth_and_never_trained_on(blobs, monkeypatch):
    X, S, _ = blobs
    made, original = [], _rows.CandidateRows.__init__

    def note(self, X, used, candidates, *args, **kwargs):
        made.append((used, candidates))
        original(self, X, used, candidates, *args, **kwargs)

    monkeypatch.setattr(_rows.CandidateRows, "__init__", note)
    clf = PartialLabelClassifier(early_stopping=True, **QUICK).fit(X, S)
    (used, _), (held_out, candidates) = made
    assert sorted([*used, *held_out]) == list(range(len(X)))
    best = max(epoch["validation_score"] for epoch in clf.history_)  # whose weights are kept
    found = approximated_accuracy(candidates.mask, clf.predict_proba(X[held_out]))
    assert best == pytest.approx(found, abs=1e-6)


# -- continuing ----------------------------------------------------------------------------------


@pytest.mark.parametrize("again", ["fit", "partial_fit"])
@pytest.mark.parametrize("schedule", ["onecycle", "constant"])
def test_training_continues_under_every_schedule(schedule, again, blobs):
    X, S, y = blobs
    clf = CleanSEClassifier(warm_start=True, schedule=schedule, **QUICK)
    clf.partial_fit(X, S).fit(X, S)
    getattr(clf, again)(X[:90], S[:90], sample_weight=np.full(90, 0.5))
    clf.set_params(loss="cc", weight_decay=0.0, batch_size=32, lr=1e-3).fit(X, S)
    assert clf.n_iter_ == 1 + 6 + (6 if again == "fit" else 1) + 6
    assert clf.history_[-1]["loss"] < clf.history_[0]["loss"]
    assert clf.net_.optimizer_.param_groups[0]["weight_decay"] == 0
    assert clf.score(X, S, truth=y) > 0.9
    assert CleanSEClassifier(**QUICK).fit(X, S).fit(X, S).n_iter_ == 6


def test_partial_fit_learns_from_parts_and_keeps_no_voter(blobs):
    X, S, y = blobs
    clf = CleanSEClassifier(hidden_layer_sizes=(16,), random_state=0)
    for _ in range(30):
        for start in (0, 60):
            clf.partial_fit(X[start : start + 60], S[start : start + 60])
    assert clf.n_iter_ == 60
    assert clf.voter_ is None
    assert clf.score(X, S, truth=y) > 0.9


def test_partial_fit_needs_all_classes_once(blobs):
    X, _, y = blobs
    clf = PartialLabelClassifier(**QUICK)
    with pytest.raises(ValueError, match="`classes` must be passed in the first call"):
        clf.partial_fit(X, y)
    clf.partial_fit(X[y < 2], y[y < 2], classes=[0, 1, 2]).partial_fit(X, y)
    assert clf.classes_.tolist() == [0, 1, 2]
    with pytest.raises(ValueError, match="which is not the same"):
        clf.partial_fit(X, y, classes=[0, 1])


class Fail(Callback):
    def __init__(self, epoch):
        self.epoch = epoch

    def on_batch_end(self, net, **kwargs):
        if len(net.history) == self.epoch:
            raise RuntimeError("the callback failed")


def state(clf, X):
    """All that a user could see of a fitted model."""
    return {
        "proba": clf.predict_proba(X),
        "candidates": clf.candidate_proba_,
        "history": repr(clf.history_),
        "features": clf.n_features_in_,
        "attributes": sorted(vars(clf)),
        "weights": [p.detach().numpy().copy() for p in clf.net_.module_.parameters()],
        "optimizer": repr(clf.net_.optimizer_.state_dict()),
    }


@pytest.mark.parametrize("method", ["fit", "partial_fit"])
@pytest.mark.parametrize(
    ("error", "params", "columns", "n_classes"),
    [
        (FloatingPointError, {"lr": 1e38, "schedule": "constant"}, 4, 3),
        (RuntimeError, {"callbacks": [Fail(7)]}, 4, 3),
        (ValueError, {}, 3, 3),
        (ValueError, {}, 4, 5),
        (ValueError, {"loss": "prodenn"}, 4, 3),
    ],
)
def test_a_failed_continuation_leaves_the_model_as_it_was(
    method, error, params, columns, n_classes, blobs
):
    X, S, _ = blobs
    clf = CleanSEClassifier(warm_start=True, **QUICK).fit(X, S)
    asked = {name: clf.get_params()[name] for name in params}
    before = state(clf, X)
    wide = np.hstack([S, np.ones((len(S), 2), dtype=int)])
    clf.set_params(**params)
    with pytest.raises(error):
        getattr(clf, method)(X[:, :columns], wide[:, :n_classes])
    clf.set_params(**asked)
    np.testing.assert_equal(state(clf, X), before)
    undisturbed = CleanSEClassifier(warm_start=True, **QUICK).fit(X, S)
    for one in (clf, undisturbed):
        getattr(one, method)(X, S)
    np.testing.assert_array_equal(clf.predict_proba(X), undisturbed.predict_proba(X))


@pytest.mark.parametrize(
    ("clf", "most"),
    [
        (PartialLabelClassifier("proden", early_stopping=True), 1.2),
        (CleanSEClassifier(voter_blend=0.0), 1.2),
        (CleanSEClassifier(), 1.4),  # the voter predicts as well
    ],
)
def test_a_pickle_without_training_state_is_little_more_than_the_parameters(clf, most, blobs):
    X, S, _ = blobs
    clf.set_params(max_epochs=2, random_state=0).fit(X, S)
    expected = clf.predict_proba(X)
    n_bytes = 4 * sum(p.numel() for p in clf.net_.module_.parameters())
    assert 2.9 * n_bytes < len(pickle.dumps(clf)) < 3.5 * n_bytes  # weights once, two moments
    assert clf.drop_training_state() is clf
    assert len(pickle.dumps(clf)) < most * n_bytes
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(clf)).predict_proba(X), expected)
    assert clf.set_params(warm_start=True).fit(X, S).n_iter_ == 4
