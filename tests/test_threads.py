"""Fits in threads: as if each were alone, and as if it were not there; and how many they use."""

import copy
import os
import pickle
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from skorch.callbacks import Callback
from torch.utils.checkpoint import checkpoint

from sklearn_cleanse import (
    CleanSEClassifier,
    CleanSEKernelClassifier,
    PartialLabelClassifier,
)
from sklearn_cleanse._device import as_tensor
from sklearn_cleanse.deep import MLP, _random, _threads
from sklearn_cleanse.deep._random import OwnRandom

QUICK = {"hidden_layer_sizes": (32, 32), "max_epochs": 4}


class Dropping(torch.nn.Module):
    """All that a module of one's own may draw: weights, noise, dropout of every kind."""

    def __init__(self, n_features, n_classes):
        super().__init__()
        self.embed = torch.nn.Linear(n_features, 8)
        self.recur = torch.nn.LSTM(8, 8, num_layers=2, dropout=0.3, batch_first=True)
        self.attend = torch.nn.TransformerEncoderLayer(8, 2, 16, dropout=0.2, batch_first=True)
        self.drop = torch.nn.Dropout(0.3)
        self.head = torch.nn.Linear(8, n_classes)
        torch.nn.init.orthogonal_(self.head.weight)

    def forward(self, X):
        H = self.attend(self.recur(self.embed(X)[:, None])[0])[:, 0]
        if self.training:
            H = H + 0.01 * torch.randn_like(H) * torch.rand(len(H), 1)
        return self.head(self.drop(H))


def noisy(logits, candidates, weights, sample_weight):
    logits = logits + 0.1 * torch.randn(logits.shape)
    return -(weights * logits.log_softmax(dim=1)).sum(dim=1).mean()


ESTIMATORS = {
    "cleanse": CleanSEClassifier(**QUICK),
    "neighbours": CleanSEClassifier("proden", vote="soft", vote_start=0.0, **QUICK),
    "plain": PartialLabelClassifier("rc", early_stopping=True, **QUICK),
    "own module": PartialLabelClassifier("rc", module=Dropping, max_epochs=2),
    "own loss": PartialLabelClassifier(noisy, **QUICK),
    "kernel": CleanSEKernelClassifier(n_landmarks=40),
}


def fit(estimator, seed, X, S):
    """Fit, go on where that is possible, and return what is predicted."""
    estimator = copy.deepcopy(estimator).set_params(random_state=seed).fit(X, S)
    if hasattr(estimator, "partial_fit"):
        estimator.partial_fit(X, S)
    return estimator.predict_proba(X)


@pytest.mark.parametrize("estimator", ESTIMATORS.values(), ids=ESTIMATORS)
def test_fits_in_threads_are_those_one_after_another(estimator, blobs):
    X, S, _ = blobs
    seeds = [0, 1, 2, 0]
    alone = [fit(estimator, seed, X, S) for seed in seeds]
    before = torch.get_rng_state()
    caller = torch.Generator()
    caller.set_state(before)
    with ThreadPoolExecutor(4) as pool:
        fits = [pool.submit(fit, estimator, seed, X, S) for seed in seeds]
        drawn = []
        while not all(future.done() for future in fits):  # the caller draws meanwhile
            drawn.append(torch.rand(1000))
        together = [future.result() for future in fits]
    np.testing.assert_array_equal(alone, together)
    assert not np.array_equal(alone[0], alone[1])
    for numbers in drawn:
        assert torch.equal(numbers, torch.rand(1000, generator=caller))
    assert torch.equal(torch.get_rng_state(), caller.get_state())


@pytest.mark.parametrize("estimator", ESTIMATORS.values(), ids=ESTIMATORS)
def test_what_a_fit_draws_does_not_depend_on_the_callers_generator(estimator, blobs):
    X, S, _ = blobs
    with torch.random.fork_rng():
        torch.random.manual_seed(1)
        before = torch.get_rng_state()
        first = fit(estimator, 0, X, S)
        assert torch.equal(torch.get_rng_state(), before)
        torch.random.manual_seed(2)
        np.testing.assert_array_equal(fit(estimator, 0, X, S), first)


@pytest.mark.parametrize("again", [copy.deepcopy, lambda clf: pickle.loads(pickle.dumps(clf))])
@pytest.mark.parametrize("name", ["cleanse", "own module"])
def test_copies_go_on_like_the_original(name, again, blobs):
    X, S, _ = blobs
    clf = copy.deepcopy(ESTIMATORS[name]).set_params(warm_start=True, random_state=0).fit(X, S)
    copied = again(clf)
    np.testing.assert_array_equal(copied.predict_proba(X), clf.predict_proba(X))
    went_on = clf.fit(X, S).predict_proba(X)
    np.testing.assert_array_equal(copied.fit(X, S).predict_proba(X), went_on)


def test_dropout_differs_from_call_to_call(blobs, monkeypatch):
    X, S, _ = blobs
    seeds, init = [], OwnRandom.__init__

    def note(self, seed):
        seeds.append(seed)
        init(self, seed)

    monkeypatch.setattr(_random.OwnRandom, "__init__", note)
    clf = PartialLabelClassifier(random_state=0, **QUICK)
    for _ in range(3):
        clf.partial_fit(X, S)
    assert len(set(seeds)) == 3


def test_a_network_pickled_in_the_midst_of_training_leaves_its_generator():
    network = MLP(5, 3, (6,), dropout=0.5)
    network.draw_from(torch.Generator())
    network(torch.zeros(2, 5))
    for copied in (copy.deepcopy(network), pickle.loads(pickle.dumps(network))):
        assert copied._generator is None
        assert copied._spare is None
        assert copied(torch.zeros(2, 5))[0].shape == (2, 3)


# -- threads of a step -----------------------------------------------------------------------------


class Watch(Callback):
    """Notes how many threads a step has, and how many one has that starts meanwhile."""

    def on_train_begin(self, net, **kwargs):
        self.seen_ = set()

    def on_batch_end(self, net, training=False, **kwargs):
        with ThreadPoolExecutor(1) as pool:
            elsewhere = pool.submit(torch.get_num_threads).result()
        self.seen_.add((torch.get_num_threads(), elsewhere))

    def on_epoch_end(self, net, **kwargs):
        self.after_epoch_ = torch.get_num_threads()


@pytest.fixture
def six_threads(monkeypatch):
    """As if torch had six threads, and nobody had said so."""
    for kind in ("OMP", "MKL"):
        monkeypatch.delenv(f"{kind}_NUM_THREADS", raising=False)
    before = torch.get_num_threads()
    torch.set_num_threads(6)
    monkeypatch.setattr(_threads, "_BY_ITSELF", 6)
    yield
    torch.set_num_threads(before)


def threads_of_a_fit(blobs, **params):
    X, S, _ = blobs
    clf = PartialLabelClassifier(max_epochs=1, callbacks=[("watch", Watch())], **params).fit(X, S)
    watch = dict(clf.net_.callbacks_)["watch"]
    assert watch.after_epoch_ == torch.get_num_threads() == 6
    return watch.seen_


def test_a_small_step_has_one_thread_and_leaves_other_threads_alone(blobs, six_threads):
    assert threads_of_a_fit(blobs, hidden_layer_sizes=(32,)) == {(1, 6)}


def test_a_step_has_as_many_threads_as_it_has_work_for(blobs, six_threads, monkeypatch):
    # 4 · 10 + 10 weights, twice 10 of batch norm, 10 · 3 + 3: 103 parameters in batches of 20
    size = {"hidden_layer_sizes": (10,), "batch_size": 20, "n_members": 1}
    for work, n_threads in ((103 * 20 // 3, 3), (103 * 20 // 3 + 1, 2), (1, 6)):
        monkeypatch.setattr(_threads, "WORK_PER_THREAD", work)
        assert threads_of_a_fit(blobs, **size) == {(n_threads, 6)}


@pytest.mark.parametrize("kind", ["OMP", "MKL"])
def test_the_environment_decides_on_threads_if_it_says_so(kind, blobs, six_threads, monkeypatch):
    monkeypatch.setenv(f"{kind}_NUM_THREADS", "6")
    assert threads_of_a_fit(blobs, hidden_layer_sizes=(32,)) == {(6, 6)}


def test_torch_decides_on_threads_if_it_was_told(blobs, six_threads, monkeypatch):
    monkeypatch.setattr(_threads, "_BY_ITSELF", 8)
    assert threads_of_a_fit(blobs, hidden_layer_sizes=(32,)) == {(6, 6)}


def test_a_step_that_fails_leaves_the_number_of_threads(blobs, six_threads):
    X, S, _ = blobs

    class Failing(Callback):
        def on_batch_end(self, net, **kwargs):
            raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        PartialLabelClassifier(callbacks=[Failing()], hidden_layer_sizes=(32,)).fit(X, S)
    assert torch.get_num_threads() == 6


def test_only_the_cpu_is_limited(six_threads):
    small = MLP(4, 3, (8,))
    for device, n_threads in (("cpu", 1), ("meta", 6)):
        with _threads.step_threads(small, torch.device(device), 16):
            assert torch.get_num_threads() == n_threads


def test_products_of_a_small_step_keep_to_one_thread():
    """By the processor's clock, in a process of its own: nobody has told torch anything there."""
    script = """
import time, torch
from sklearn_cleanse.deep import MLP
from sklearn_cleanse.deep._threads import step_threads
network, X = MLP(50, 10, (300, 300)), torch.randn(64, 50)
with step_threads(network, torch.device("cpu"), 64):
    network(X)
    own, everyone = time.thread_time(), time.process_time()
    for _ in range(200):
        network(X)[0].sum().backward()
    print((time.process_time() - everyone) / (time.thread_time() - own))
"""
    untold = {k: v for k, v in os.environ.items() if not k.endswith("_NUM_THREADS")}
    run = [sys.executable, "-c", script]
    done = subprocess.run(run, capture_output=True, text=True, check=True, env=untold)
    assert float(done.stdout) < 1.2


def test_a_module_of_ones_own_keeps_all_threads(blobs, six_threads):
    assert threads_of_a_fit(blobs, module=Dropping) == {(6, 6)}


# -- generators of one's own ---------------------------------------------------------------------

DRAWS = {
    "rand": lambda: torch.rand(5),
    "randn": lambda: torch.randn(5),
    "randint": lambda: torch.randint(9, (5,)),
    "randint from": lambda: torch.randint(3, 9, (5,)),
    "randperm": lambda: torch.randperm(9),
    "rand_like": lambda: torch.rand_like(torch.zeros(5, dtype=torch.float64)),
    "randn_like": lambda: torch.randn_like(torch.zeros(5, dtype=torch.float16)),
    "normal": lambda: torch.normal(torch.zeros(5), 1.0),
    "bernoulli": lambda: torch.bernoulli(torch.full((9,), 0.5)),
    "multinomial": lambda: torch.multinomial(torch.ones(9), 3),
    "rrelu": lambda: torch.nn.functional.rrelu(-torch.ones(5), training=True),
    "gumbel": lambda: torch.nn.functional.gumbel_softmax(torch.zeros(5)),
    "alpha": lambda: torch.nn.functional.alpha_dropout(torch.ones(9), training=True),
    "dropout2d": lambda: torch.nn.functional.dropout2d(torch.ones(1, 9, 1, 1)),
    "native": lambda: torch.native_dropout(torch.ones(9), 0.5, True)[0],
    "gamma": lambda: torch.distributions.Gamma(1.0, 1.0).sample((5,)),
    "truncated": lambda: torch.nn.init.trunc_normal_(torch.empty(5)),
    "layer": lambda: torch.nn.Conv2d(1, 1, 3).weight.detach(),
}


@pytest.mark.parametrize("draw", DRAWS.values(), ids=DRAWS)
def test_all_that_draws_draws_from_the_own_generator(draw):
    before = torch.get_rng_state()
    with OwnRandom(0):
        first, second = draw(), draw()
    with OwnRandom(0):
        again = draw()
    with OwnRandom(1):
        other = draw()
    assert torch.equal(first, again)
    assert not torch.equal(first, second)
    assert not torch.equal(first, other)
    assert torch.equal(torch.get_rng_state(), before)


def test_a_generator_that_is_given_is_used():
    given = torch.rand(5, generator=torch.Generator().manual_seed(3))
    with OwnRandom(0):
        assert torch.equal(torch.rand(5, generator=torch.Generator().manual_seed(3)), given)


def test_dropout_of_other_devices_drops_its_share_and_passes_gradients():
    X = torch.ones(10_000, requires_grad=True)
    with OwnRandom(0):
        dropped, kept = torch.native_dropout(X, 0.25, True)
        assert torch.equal(torch.native_dropout(X, 0.25, False)[0], X)
    dropped.sum().backward()
    assert torch.equal(dropped.detach(), kept / 0.75)
    assert torch.equal(X.grad, kept / 0.75)
    assert abs(kept.float().mean() - 0.75) < 0.02


class Checkpointed(Dropping):
    def forward(self, X):
        return checkpoint(super().forward, X, use_reentrant=False)


def test_dropout_that_would_be_drawn_twice_is_refused(blobs):
    X, S, _ = blobs
    with pytest.raises(RuntimeError, match=r"inside torch.utils.checkpoint.* leave out one"):
        PartialLabelClassifier(module=Checkpointed, max_epochs=1).fit(X, S)


def test_read_only_arrays_are_shared_without_a_warning(recwarn, tmp_path):
    np.save(tmp_path / "X.npy", np.arange(12.0).reshape(4, 3))
    for X in (np.load(tmp_path / "X.npy", mmap_mode="r"), np.broadcast_to(np.ones(3), (4, 3))):
        assert not X.flags.writeable
        shared = as_tensor(X, "cpu")
        assert shared.data_ptr() == X.__array_interface__["data"][0]
        np.testing.assert_array_equal(shared.numpy(), X)
    assert not recwarn.list
