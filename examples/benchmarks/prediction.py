"""Seconds to predict one row and many, beside scikit-learn's MLPClassifier: one run, one thread.

The shape is BirdSong's: 38 features, 13 classes, two hidden layers of 256. Rounds alternate, and
the median counts.
"""

import argparse
import time

import numpy as np
import torch
from epoch_time import NETWORK, ONE, make
from sklearn.neural_network import MLPClassifier
from threadpoolctl import threadpool_limits

from sklearn_cleanse import CleanSEClassifier


def seconds(clf, X, repeats):
    began = time.perf_counter()
    for _ in range(repeats):
        clf.predict(X)
    return (time.perf_counter() - began) / repeats


def main(n_rows, rounds):
    torch.set_num_threads(1)
    threadpool_limits(1)
    X, S, y = make(2000, 38, 13)
    methods = {
        "CleanSE, one network": CleanSEClassifier(**NETWORK, **ONE, max_epochs=2).fit(X, S),
        "CleanSE, defaults": CleanSEClassifier(**NETWORK, max_epochs=2).fit(X, S),
        "scikit-learn MLPClassifier": MLPClassifier(**NETWORK).partial_fit(
            X, y, classes=np.unique(y)
        ),
    }
    many = np.tile(X, (-(-n_rows // len(X)), 1))[:n_rows]
    one, all_rows = ({name: [] for name in methods} for _ in range(2))
    for _ in range(rounds):
        for name, clf in methods.items():
            one[name].append(seconds(clf, X[:1], repeats=200))
            all_rows[name].append(seconds(clf, many, repeats=1))
    print(f"{'method':<28}{'one row, ms':>12}{f'{n_rows:,} rows, s':>20}")
    for name in methods:
        print(f"{name:<28}{1e3 * np.median(one[name]):>12.3f}{np.median(all_rows[name]):>20.2f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--n-rows", type=int, default=10**6)
    parser.add_argument("--rounds", type=int, default=3)
    main(**vars(parser.parse_args()))
