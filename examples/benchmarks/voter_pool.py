"""What is lost when not all rows vote: accuracy by the size of the pool of voters.

Beyond 16,384 rows CleanSE lets a pool vote: clean rows and a sample of the others. Here the same
data are learnt with pools of several sizes and with all rows. The first column of figures is the
share of partial rows whose first choice by votes is the true label, the second the accuracy on new
rows.
"""

import argparse
import time

import numpy as np

from sklearn_cleanse import CleanSEClassifier, calibration
from sklearn_cleanse.datasets import make_partial_classification


def main(n_samples, n_test, epochs, seeds, sizes):
    print(f"{n_samples} rows, mean of {seeds} data sets\n")
    print(f"{'voters':>8}{'votes right, %':>16}{'accuracy, %':>13}{'seconds':>9}")
    for size in [*sizes, n_samples]:
        found = np.mean([run(size, n_samples, n_test, epochs, seed) for seed in range(seeds)], 0)
        votes, accuracy, seconds = found
        print(f"{size:>8}{100 * votes:>16.1f}{100 * accuracy:>13.1f}{seconds:>9.1f}", flush=True)


def run(size, n_samples, n_test, epochs, seed):
    X, S, y = make_partial_classification(
        n_samples + n_test, 40, 20, kind="flip", flip_proba=0.2, random_state=seed
    )
    train, test = slice(n_samples), slice(n_samples, None)
    calibration.MAX_PAIRS, calibration.MIN_VOTERS = 0, size  # so that the pool has just this size
    clf = CleanSEClassifier(vote="soft", vote_start=0.3, max_epochs=epochs, random_state=seed)
    began = time.perf_counter()
    clf.fit(X[train], S[train])
    seconds = time.perf_counter() - began
    asked = np.flatnonzero(S[train].sum(axis=1) > 1)[:2000]
    right = [
        why.labels[why.votes.argmax()] == truth
        for why, truth in zip(clf.explain(X[asked], S[asked]), y[asked], strict=True)
    ]
    return np.mean(right), (clf.predict(X[test]) == y[test]).mean(), seconds


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--n-samples", type=int, default=16_000)
    parser.add_argument("--n-test", type=int, default=4_000)
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--sizes", type=int, nargs="+", default=[256, 1024, 4096])
    main(**vars(parser.parse_args()))
