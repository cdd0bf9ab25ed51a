"""Fits on several ranks, as cases that one process runs as well, with the rows of all.

``python tests/ranks.py FOLDER`` runs them on groups of two and of three processes, which meet in
the folder and write what came of it to ``SIZE-RANK.pickle``; then one rank is lost, and the others
write what they noticed to ``lost-SIZE-RANK.pickle``. Tests compare that with what a case
gives in their own process, which is a rank without others.
"""

import os
import pickle
import signal
import sys
import time
import warnings
from datetime import timedelta
from pathlib import Path

import numpy as np
import scipy.sparse as sp
import torch
import torch._dynamo  # which the first step of an optimiser would import in every process
import torch.distributed as dist
from skorch.callbacks import Callback, EarlyStopping

from sklearn_cleanse import CleanSEClassifier, CleanSEKernelClassifier, PartialLabelClassifier
from sklearn_cleanse.deep import _pool
from sklearn_cleanse.deep._training_rows import TrainingRows

N_ROWS, N_CLASSES = 150, 4

#: Where the rows of each rank begin and end: unequal numbers.
CUTS = {1: [0, N_ROWS], 2: [0, 50, N_ROWS], 3: [0, 30, 70, N_ROWS]}

#: Nothing random in a step, which is the whole set.
WHOLE = {
    "hidden_layer_sizes": (16, 12),
    "dropout": 0.0,
    "batch_size": N_ROWS,
    "max_epochs": 5,
    "random_state": 0,
}

#: The usual kind of training, made small.
USUAL = {"hidden_layer_sizes": (16,), "batch_size": 32, "max_epochs": 3, "random_state": 0}


def data():
    """Return features, candidates and labels; two rows of different ranks are equal."""
    rng = np.random.RandomState(0)
    y = np.arange(N_ROWS) % N_CLASSES
    X = 2 * np.eye(N_CLASSES, 6)[y] + rng.normal(size=(N_ROWS, 6))
    S = rng.uniform(size=(N_ROWS, N_CLASSES)) < 0.4
    S[np.arange(N_ROWS), y] = True
    X[140], S[140] = X[3], S[3]
    return X, S, y


def facts(clf, X):
    """Return what is known of a fitted estimator."""
    state = clf.net_.module_.state_dict()
    known = {
        "weights": {name: value.clone() for name, value in state.items()},
        "proba": clf.predict_proba(X),
        "classes": clf.classes_,
        "shares": clf.class_shares_,
        "scaling": clf.scaling_,
        "n_iter": clf.n_iter_,
        "history": [
            {key: value for key, value in epoch.items() if key != "seconds"}
            for epoch in clf.history_
        ],
        "candidate_proba": clf.candidate_proba_,
        "pickle": pickle.dumps(clf),
    }
    for name in ("dependence_", "count_strength_", "noise_", "n_landmarks_"):
        if hasattr(clf, name):
            known[name] = getattr(clf, name)
    return known


class StopsOnLast(Callback):
    """Asks to stop after the second epoch, on the last rank only."""

    def __init__(self, rank, size):
        self.stop = EarlyStopping("loss", patience=1, lower_is_better=False, sink=str)
        self.is_last = rank == size - 1

    def initialize(self):
        self.stop.initialize()
        return self

    def on_train_begin(self, net, **kwargs):
        self.stop.on_train_begin(net, **kwargs)

    def on_epoch_end(self, net, **kwargs):
        if self.is_last and len(net.history) >= 2:
            self.stop.misses_ = 0
            self.stop.dynamic_threshold_ = np.inf
            self.stop.on_epoch_end(net, **kwargs)


class Dies(Callback):
    """Ends the process in the second epoch, without a word."""

    def on_batch_begin(self, net, **kwargs):
        if len(net.history) == 2:
            os.kill(os.getpid(), signal.SIGKILL)


class Sleeps(Callback):
    """Does not answer for a while, in the second epoch."""

    def on_epoch_begin(self, net, **kwargs):
        if len(net.history) == 2:
            time.sleep(5)


class Fails(Callback):
    """Cannot write its checkpoint."""

    def on_epoch_end(self, net, **kwargs):
        raise OSError("the disk is full")


class Skips(torch.nn.Module):
    """Leaves one of its layers out of most steps, on one rank and not on the other."""

    def __init__(self, input_dim, n_classes):
        super().__init__()
        self.first = torch.nn.Linear(input_dim, n_classes)
        self.norm = torch.nn.BatchNorm1d(n_classes, momentum=None)
        self.second = torch.nn.Linear(n_classes, n_classes)

    def forward(self, X):
        Y = self.norm(self.first(X))
        return Y if self.training and torch.rand(()) < 0.7 else Y + self.second(Y)


class Cases:
    """The cases, each a method that returns facts."""

    def __init__(self, rank=0, size=1):
        self.rank, self.size = rank, size
        X, S, y = data()
        self.all_X, self.numbers = X, np.arange(*CUTS[size][rank : rank + 2])
        self.X, self.S, self.y = X[self.numbers], S[self.numbers], y[self.numbers]

    def known(self, clf):
        return facts(clf, self.all_X)

    def whole(self):
        return self.known(CleanSEClassifier(**WHOLE).fit(self.X, self.S))

    def graded_noise(self):
        G = np.where(self.S, 0.25 + 0.75 * ((self.numbers[:, None] + np.arange(4)) % 3) / 2, 0.0)
        clf = CleanSEClassifier("proden", graded=True, noise=0.1, **WHOLE)
        return self.known(clf.fit(sp.csr_array(self.X), G))

    def weighted(self):
        weight = 0.5 + (self.numbers % 7)
        clf = CleanSEClassifier("rc", count_loss="proportion", count_weight=0.1, **WHOLE)
        return self.known(clf.fit(self.X, self.S, sample_weight=weight))

    def repeated(self):
        clf = PartialLabelClassifier("lws", scaling="rank", **WHOLE)
        return self.known(clf.fit(self.X, self.S, sample_weight=self.numbers % 3))

    def batches(self):
        # Row i is in batch i modulo 5, whichever rank has it.
        order = np.argsort(self.numbers % 5, kind="stable")
        kept, TrainingRows.shuffled = TrainingRows.shuffled, lambda rows, rng: order
        try:
            clf = CleanSEClassifier(**WHOLE | {"batch_size": N_ROWS // 5})
            return self.known(clf.fit(self.X, self.S))
        finally:
            TrainingRows.shuffled = kept

    def images(self):
        images = np.random.RandomState(1).normal(size=(N_ROWS, 2, 4, 4))
        images[:, :, 0, 0] += self.all_X[:, :2]
        params = {"module": "resnet34", "module_params": {"width": 2}, "lr": 1e-3, "max_epochs": 1}
        clf = PartialLabelClassifier(**WHOLE | params).fit(images[self.numbers], self.S)
        return facts(clf, images)

    def usual(self):
        return self.known(CleanSEClassifier(**USUAL).fit(self.X, self.S))

    def landmarks(self):
        # as if the rows were too many for each rank to see all of them
        kept, _pool.SHARED_ROWS = _pool.SHARED_ROWS, 80
        try:
            clf = CleanSEClassifier(n_landmarks=30, noise="auto", **WHOLE).fit(self.X, self.S)
        finally:
            _pool.SHARED_ROWS = kept
        return {**self.known(clf), "kernel": clf._kernel}

    def labels(self):
        # no rank has all labels
        y = np.array(["a", "bb", "ccc", "d"], dtype=object)[np.sort(self.y)]
        last = self.rank == self.size - 1
        y = np.where(y == "d", "ccc", y) if last else np.where(y == "ccc", "d", y)
        clf = PartialLabelClassifier(**USUAL | {"random_state": None})  # rank 0 has a seed for all
        return self.known(clf.fit(self.X, y))

    def early_stopping(self):
        params = {"early_stopping": True, "n_iter_no_change": 1, "validation_fraction": 0.2}
        clf = CleanSEClassifier(**USUAL | params | {"max_epochs": 9, "lr": 0.1})
        return self.known(clf.fit(self.X, self.S))

    def going_on(self):
        clf = CleanSEClassifier(**USUAL).partial_fit(self.X, self.S)
        return self.known(clf.partial_fit(self.X[::2], self.S[::2]))

    def stopped(self):
        callback = StopsOnLast(self.rank, self.size)
        return self.known(CleanSEClassifier(callbacks=[callback], **USUAL).fit(self.X, self.S))

    def other_threads(self):
        # sums are rounded otherwise
        torch.set_num_threads(1 + self.rank)
        try:
            return self.known(CleanSEClassifier(noise="auto", **USUAL).fit(self.X, self.S))
        finally:
            torch.set_num_threads(1)

    def own_module(self):
        params = {"module": Skips, "max_epochs": 2, "n_members": 1}
        clf = PartialLabelClassifier(**USUAL | params)
        return self.known(clf.fit(self.X, self.S))

    def going_on_warmly(self):
        clf = CleanSEClassifier(warm_start=True, **USUAL).fit(self.X, self.S)
        return self.known(clf.fit(self.X, self.S))

    def scarce(self):
        clf = PartialLabelClassifier("scarce", **USUAL)
        return self.known(clf.fit(self.X, (np.flatnonzero(row).tolist() for row in self.S)))

    # -- what is refused, on all ranks --

    def failing_callback(self):
        callbacks = [Fails()] if self.rank == self.size - 1 else None
        return error(CleanSEClassifier(callbacks=callbacks, **USUAL), self.X, self.S)

    def missing_classes(self):
        classes = range(N_CLASSES) if self.rank == 0 else None
        clf = CleanSEClassifier(**USUAL)
        try:
            clf.partial_fit(self.X, self.y, classes=classes)
        except Exception as refused:
            return type(refused).__name__, str(refused)

    def other_models(self):
        clf = CleanSEClassifier(**USUAL).partial_fit(self.X, self.S)
        if self.rank:
            clf.drop_training_state()
        try:
            clf.partial_fit(self.X, self.S)
        except ValueError as refused:
            return type(refused).__name__, str(refused)

    def same_rows(self):
        X, S, _ = data()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            PartialLabelClassifier(**USUAL).fit(X, S)
            CleanSEKernelClassifier().fit(X, S)
        return [str(warning.message) for warning in caught]

    def refused_rows(self):
        S = self.S.copy()
        if self.rank == self.size - 1:
            S[7] = False
        return error(CleanSEClassifier(**USUAL), self.X, S)

    def refused_weights(self):
        weight = np.where(self.numbers == N_ROWS - 1, -1.0, 1.0)
        return error(CleanSEClassifier(**USUAL), self.X, self.S, sample_weight=weight)

    def other_features(self):
        return error(CleanSEClassifier(**USUAL), self.X[:, : 6 - self.rank], self.S)

    def other_columns(self):
        S = np.hstack([self.S, self.S])[:, : 4 + self.rank]
        return error(CleanSEClassifier(**USUAL), self.X, S)

    def other_parameters(self):
        return error(CleanSEClassifier(**USUAL | {"lr": 0.01 * (1 + self.rank)}), self.X, self.S)

    def few_rows(self):
        n = 5 if self.rank == self.size - 1 else 30
        return error(CleanSEClassifier(**USUAL | {"batch_size": 4}), self.X[:n], self.S[:n])

    def neighbours(self):
        return error(CleanSEClassifier(vote="soft", **USUAL), self.X, self.S)


def error(clf, *rows, **others):
    """Return the error of a fit; None if it is not one, or has left something behind."""
    before = vars(clf).copy()
    try:
        clf.fit(*rows, **others)
    except Exception as refused:
        return (type(refused).__name__, str(refused)) if vars(clf) == before else None
    return None


AGREEING = ("whole", "graded_noise", "weighted", "repeated", "batches", "images")
RANDOM = (
    "usual",
    "landmarks",
    "labels",
    "early_stopping",
    "going_on",
    "going_on_warmly",
    "stopped",
    "other_threads",
    "own_module",
    "scarce",
)
FITTED = (*AGREEING, *RANDOM)
REFUSED = (
    "refused_rows",
    "refused_weights",
    "other_features",
    "other_columns",
    "other_parameters",
    "few_rows",
    "neighbours",
    "failing_callback",
    "missing_classes",
    "other_models",
    "same_rows",
)

#: Which of them a group of so many ranks runs.
CASES = {2: (*FITTED, *REFUSED), 3: ("whole", "batches", "usual", "refused_rows")}


def start_group(folder, name, rank, size, seconds):
    store = f"file://{folder}/{name}"
    limit = timedelta(seconds=seconds)
    dist.init_process_group("gloo", init_method=store, rank=rank, world_size=size, timeout=limit)


def lost(callback, cases):
    """Lose the last rank in mid-fit; return the error, and after how many seconds it came."""
    callbacks = [callback()] if cases.rank == cases.size - 1 else None
    clf, began = CleanSEClassifier(callbacks=callbacks, **USUAL), time.monotonic()
    return *error(clf, cases.X, cases.S), time.monotonic() - began


def run(folder, rank, size):
    """Run all cases as one rank, then one in which the last rank is lost; write what came of it."""
    start_group(folder, f"cases-{size}", rank, size, 120)
    cases = Cases(rank, size)
    results = {name: getattr(cases, name)() for name in CASES[size]}
    Path(folder, f"{size}-{rank}.pickle").write_bytes(pickle.dumps(results))
    dist.destroy_process_group()
    start_group(folder, f"lost-{size}", rank, size, 3 if size == 2 else 120)
    found = lost(Sleeps if size == 2 else Dies, cases)
    Path(folder, f"lost-{size}-{rank}.pickle").write_bytes(pickle.dumps(found))


def main(folder):
    torch.set_num_threads(1)
    children = []
    for size in CASES:
        for rank in range(size):
            # Imports take longer than all cases: they are done once.
            child = os.fork()
            if not child:
                run(folder, rank, size)
                return
            children.append(child)
    for child in children:
        os.waitpid(child, 0)


if __name__ == "__main__":
    main(sys.argv[1])
