"""Throughput of a search of eight fits on one process and on two, a thread each, in one run."""

import argparse
import time

import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import GridSearchCV
from threadpoolctl import threadpool_limits

from sklearn_cleanse import CleanSEClassifier
from sklearn_cleanse.datasets import make_candidates
from sklearn_cleanse.metrics import approximated_accuracy_scorer
from sklearn_cleanse.model_selection import CandidateKFold


def search(X, S, n_jobs, epochs):
    grid = {"temperature": [1, 3], "count_weight": [0, 1e-3]}
    began = time.perf_counter()
    GridSearchCV(
        CleanSEClassifier(max_epochs=epochs, random_state=0),
        grid,
        scoring=approximated_accuracy_scorer,
        cv=CandidateKFold(2, random_state=0),
        n_jobs=n_jobs,
        refit=False,
    ).fit(X, S)
    return time.perf_counter() - began


def main(epochs):
    torch.set_num_threads(1)  # joblib gives each of two processes on two cores one thread, too
    threadpool_limits(1)
    X, y = load_digits(return_X_y=True)
    S = make_candidates(y, "flip", flip_proba=0.3, random_state=0)
    for n_jobs in (1, 2):  # start the processes and import torch there, before the clock runs
        search(X, S, n_jobs, 1)
    seconds = {n_jobs: search(X, S, n_jobs, epochs) for n_jobs in (1, 2)}
    for n_jobs, taken in seconds.items():
        print(f"{n_jobs} process(es): {taken:6.1f} s, {8 / taken:.3f} fits/s")
    print(f"ratio: {seconds[1] / seconds[2]:.2f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=30)
    main(**vars(parser.parse_args()))
