"""Seconds per epoch, and to predict, beside plain networks: one run, one thread, side by side.

    python examples/benchmarks/epoch_time.py --out lines.jsonl

Prints a line for each method: seconds per epoch, their ratio to scikit-learn's MLPClassifier,
milliseconds to predict one row and seconds to predict many. The shape is BirdSong's: 5000 rows, 38
features, 13 classes, about two candidates each; two hidden layers of 256, batches of 64. Rounds of
all methods alternate, and the median counts, so that what else the machine does falls on all alike.
Seconds are processor time: on one thread of an idle machine the same as on the clock.
"""

import time
from itertools import pairwise

import numpy as np
import torch
from protocol import make_parser, report, use_one_thread
from sklearn.neural_network import MLPClassifier
from skorch import NeuralNetClassifier
from skorch.callbacks import Callback

from sklearn_cleanse import CleanSEClassifier, NeighborVoter, PartialLabelClassifier
from sklearn_cleanse.datasets import make_partial_classification

NETWORK = {"hidden_layer_sizes": (256, 256), "batch_size": 64}
ONE = {"n_networks": 1, "scaling": "standard"}
BASE = "scikit-learn MLPClassifier"
OURS = {
    "CC, one network": (PartialLabelClassifier, {"loss": "cc", **ONE}),
    "RC, one network": (PartialLabelClassifier, {"loss": "rc", **ONE}),
    "PRODEN, one network": (PartialLabelClassifier, {"loss": "proden", **ONE}),
    "CleanSE, one network": (CleanSEClassifier, ONE),
    "CleanSE, defaults": (CleanSEClassifier, {}),
    "CleanSE, no votes": (CleanSEClassifier, {"voter": None}),
    "CleanSE, neighbors": (CleanSEClassifier, {"voter": NeighborVoter()}),
    "CleanSE, no counts": (CleanSEClassifier, {"count_weight": 0}),
}


class Stopwatch(Callback):
    """Takes the seconds of the epochs alone."""

    def on_train_begin(self, net, **kwargs):
        self.began_ = time.process_time()

    def on_train_end(self, net, **kwargs):
        self.seconds_ = time.process_time() - self.began_


def fit_ours(name, X, S, epochs):
    """Return the seconds per epoch and the model."""
    cls, params = OURS[name]
    params = {**NETWORK, "max_epochs": epochs, "random_state": 0, **params}
    clf = cls(callbacks=[("watch", Stopwatch())], **params).fit(X, S)
    return dict(clf.net_.callbacks_)["watch"].seconds_ / epochs, clf


def fit_scikit_learn(X, y, epochs):
    clf = MLPClassifier(**NETWORK, max_iter=1, warm_start=True, random_state=0)
    began = time.process_time()
    for _ in range(epochs):
        clf.partial_fit(X, y, classes=np.unique(y))
    return (time.process_time() - began) / epochs, clf


def fit_skorch(X, y, epochs):
    sizes = [X.shape[1], *NETWORK["hidden_layer_sizes"], int(y.max()) + 1]
    layers = [torch.nn.Linear(*pair) for pair in pairwise(sizes)]
    layers = [part for layer in layers for part in (layer, torch.nn.ReLU())][:-1]
    clf = NeuralNetClassifier(
        torch.nn.Sequential(*layers),
        criterion=torch.nn.CrossEntropyLoss,
        optimizer=torch.optim.Adam,
        lr=1e-3,
        batch_size=NETWORK["batch_size"],
        max_epochs=epochs,
        train_split=None,
        verbose=0,
        iterator_train__shuffle=True,
        callbacks=[("watch", Stopwatch())],
    ).fit(X, y.astype(np.int64))
    return dict(clf.callbacks_)["watch"].seconds_ / epochs, clf


def predicting(clf, X, repeats):
    began = time.process_time()
    for _ in range(repeats):
        clf.predict(X)
    return (time.process_time() - began) / repeats


def compare(rounds, epochs, n_samples, n_features, n_classes, n_predicted):
    """Yield a row per method."""
    X, S, y = make_partial_classification(
        n_samples, n_features, n_classes, flip_proba=1 / n_classes, random_state=0
    )
    X = X.astype(np.float32)
    many = np.resize(X, (n_predicted, n_features))
    fits = {
        BASE: lambda: fit_scikit_learn(X, y, epochs),
        "skorch, cross-entropy": lambda: fit_skorch(X, y, epochs),
        **{name: lambda name=name: fit_ours(name, X, S, epochs) for name in OURS},
    }
    taken = {name: [] for name in fits}
    for _ in range(rounds):
        for name, fit in fits.items():
            seconds, clf = fit()
            taken[name].append([seconds, predicting(clf, X[:1], 200), predicting(clf, many, 1)])
    medians = {name: np.median(times, axis=0) for name, times in taken.items()}
    for name, (seconds, one, all_rows) in medians.items():
        row = {"method": name, "s/epoch": seconds, "ratio": seconds / medians[BASE][0]}
        yield row | {"one row, ms": 1e3 * one, f"{n_predicted:,} rows": all_rows}


if __name__ == "__main__":
    parser = make_parser(__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--n-samples", type=int, default=5000)
    parser.add_argument("--n-features", type=int, default=38)
    parser.add_argument("--n-classes", type=int, default=13)
    parser.add_argument("--n-predicted", type=int, default=10**6)
    args = vars(parser.parse_args())
    use_one_thread()
    out = args.pop("out")
    report(compare(**args), out)
