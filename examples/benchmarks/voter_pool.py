"""What is lost when not all rows vote: accuracy by the number of voters, or of landmarks.

Beyond 5,000 rows some of them, the landmarks, stand for all in kernel votes (``n_landmarks``), and
beyond 16,384 rows a pool of clean rows and a sample of the others votes where neighbours do
(``max_voters``). Here the same data are learnt with several numbers of either. The first column of
figures is the share of partial rows whose first choice by votes is the true label, the second the
accuracy on new rows. Landmarks are measured without a network, neighbours with one.
"""

import argparse
import time

import numpy as np

from sklearn_cleanse import CleanSEClassifier, CleanSEKernelClassifier
from sklearn_cleanse.datasets import make_partial_classification


def main(n_samples, n_test, epochs, seeds, kinds, landmarks, voters):
    print(f"{n_samples} rows, mean of {seeds} data sets")
    for kind in kinds:
        print(f"\n{kind:>10}{'votes right, %':>16}{'accuracy, %':>13}{'seconds':>9}")
        for size in landmarks if kind == "landmarks" else [*voters, n_samples]:
            runs = [run(kind, size, n_samples, n_test, epochs, seed) for seed in range(seeds)]
            size, votes, accuracy, seconds = np.mean(runs, axis=0)
            row = f"{size:>10.0f}{100 * votes:>16.1f}{100 * accuracy:>13.1f}{seconds:>9.1f}"
            print(row, flush=True)


def run(kind, size, n_samples, n_test, epochs, seed):
    X, S, y = make_partial_classification(
        n_samples + n_test, 40, 20, kind="flip", flip_proba=0.2, random_state=seed
    )
    train, test = slice(n_samples), slice(n_samples, None)
    if kind == "landmarks":
        clf = CleanSEKernelClassifier(n_landmarks=size, random_state=seed)
    else:
        params = {"vote": "soft", "vote_start": 0.3, "max_voters": size}
        clf = CleanSEClassifier(**params, max_epochs=epochs, random_state=seed)
    began = time.perf_counter()
    clf.fit(X[train], S[train])
    seconds = time.perf_counter() - began
    asked = np.flatnonzero(S[train].sum(axis=1) > 1)[:2000]
    right = [
        why.labels[why.votes.argmax()] == truth
        for why, truth in zip(clf.explain(X[asked], S[asked]), y[asked], strict=True)
    ]
    used = clf.n_landmarks_ if kind == "landmarks" else clf.n_voters_
    return used, np.mean(right), (clf.predict(X[test]) == y[test]).mean(), seconds


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--n-samples", type=int, default=16_000)
    parser.add_argument("--n-test", type=int, default=4_000)
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--kinds", nargs="+", default=["landmarks", "neighbours"])
    parser.add_argument("--landmarks", type=int, nargs="+", default=[100, 300, 1000, 3000])
    parser.add_argument("--voters", type=int, nargs="+", default=[256, 1024, 4096])
    main(**vars(parser.parse_args()))
