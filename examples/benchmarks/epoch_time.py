"""Seconds per epoch of CleanSE beside plain networks: one run, one thread, side by side.

The shape is BirdSong's: 5000 rows, 38 features, 13 classes, about two candidates each; two hidden
layers of 256, batches of 64. Rounds of all methods alternate, and the median
round counts, so that what else the machine does falls on all alike. Seconds are those that the
process had the processor: on one thread of an idle machine the same as on the clock, on a busy one
nearer to it.
"""

import argparse
import time

import numpy as np
import torch
from sklearn.neural_network import MLPClassifier
from skorch import NeuralNetClassifier
from skorch.callbacks import Callback
from threadpoolctl import threadpool_limits

from sklearn_cleanse import CleanSEClassifier, PartialLabelClassifier
from sklearn_cleanse.datasets import make_partial_classification

NETWORK = {"hidden_layer_sizes": (256, 256), "batch_size": 64}


def make(n_samples, n_features, n_classes):
    X, S, y = make_partial_classification(
        n_samples, n_features, n_classes, kind="flip", flip_proba=1 / n_classes, random_state=0
    )
    return X.astype(np.float32), S, y


class Stopwatch(Callback):
    """Takes the seconds of the epochs alone."""

    def on_train_begin(self, net, **kwargs):
        self.began_ = time.process_time()

    def on_train_end(self, net, **kwargs):
        self.seconds_ = time.process_time() - self.began_


def ours(cls, X, S, epochs, **params):
    params = {**NETWORK, "max_epochs": epochs, "random_state": 0, **params}
    clf = cls(callbacks=[("watch", Stopwatch())], **params).fit(X, S)
    return dict(clf.net_.callbacks_)["watch"].seconds_ / epochs


def scikit_learn(X, y, epochs):
    clf = MLPClassifier(**NETWORK, max_iter=1, warm_start=True, random_state=0)
    seconds = []
    for _ in range(epochs):
        began = time.process_time()
        clf.partial_fit(X, y, classes=np.unique(y))
        seconds.append(time.process_time() - began)
    return np.mean(seconds)


def skorch(X, y, epochs):
    layers = torch.nn.Sequential(
        torch.nn.Linear(X.shape[1], 256),
        torch.nn.ReLU(),
        torch.nn.Linear(256, 256),
        torch.nn.ReLU(),
        torch.nn.Linear(256, int(y.max()) + 1),
    )
    watch = Stopwatch()
    NeuralNetClassifier(
        layers,
        criterion=torch.nn.CrossEntropyLoss,
        optimizer=torch.optim.Adam,
        lr=1e-3,
        batch_size=64,
        max_epochs=epochs,
        train_split=None,
        verbose=0,
        iterator_train__shuffle=True,
        callbacks=[watch],
    ).fit(X, y.astype(np.int64))
    return watch.seconds_ / epochs


def main(rounds, epochs, n_samples, n_features, n_classes):
    torch.set_num_threads(1)
    threadpool_limits(1)
    X, S, y = make(n_samples, n_features, n_classes)
    methods = {
        "scikit-learn MLPClassifier": lambda: scikit_learn(X, y, epochs),
        "skorch, cross-entropy": lambda: skorch(X, y, epochs),
        "CC, one network": lambda: ours(PartialLabelClassifier, X, S, epochs, loss="cc", **ONE),
        "RC, one network": lambda: ours(PartialLabelClassifier, X, S, epochs, loss="rc", **ONE),
        "PRODEN, one network": lambda: ours(
            PartialLabelClassifier, X, S, epochs, loss="proden", **ONE
        ),
        "CleanSE, one network": lambda: ours(CleanSEClassifier, X, S, epochs, **ONE),
        "CleanSE, defaults": lambda: ours(CleanSEClassifier, X, S, epochs),
        "CleanSE, no votes": lambda: ours(CleanSEClassifier, X, S, epochs, temperature=1),
        "CleanSE, no counts": lambda: ours(CleanSEClassifier, X, S, epochs, count_weight=0),
    }
    taken = {name: [] for name in methods}
    for _ in range(rounds):
        for name, run in methods.items():
            taken[name].append(run())
    base = np.median(taken["scikit-learn MLPClassifier"])
    print(
        f"{n_samples} × {n_features}, {n_classes} classes, {S.sum(1).mean():.2f} candidates, ",
        end="",
    )
    print(f"one thread, median of {rounds} rounds of {epochs} epochs\n")
    print(f"{'method':<28}{'s/epoch':>9}{'ratio':>8}")
    for name, seconds in taken.items():
        print(f"{name:<28}{np.median(seconds):>9.3f}{np.median(seconds) / base:>8.2f}")


ONE = {"n_members": 1, "scaling": "standard"}

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--n-samples", type=int, default=5000)
    parser.add_argument("--n-features", type=int, default=38)
    parser.add_argument("--n-classes", type=int, default=13)
    main(**vars(parser.parse_args()))
