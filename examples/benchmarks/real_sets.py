"""Seconds to train CleanSE on real data beside RC without calibration, same network and recipe.

Needs the data sets: ``--data-home`` or the variable SKLEARN_CLEANSE_DATA. Both methods take turns,
a tenth of the epochs at a time, each going on from where it was, so that what else the machine
does falls on both alike.
"""

import argparse
import time

from sklearn_cleanse import CleanSEClassifier, PartialLabelClassifier
from sklearn_cleanse.datasets import load_pll


def seconds(clf, X, S):
    began = time.perf_counter()
    clf.fit(X, S)
    return time.perf_counter() - began


def main(epochs, data_home, names):
    rounds = min(10, epochs)
    epochs -= epochs % rounds
    print(f"{'data set':<10}{'RC':>9}{'CleanSE':>10}{'ratio':>7}   seconds for {epochs} epochs")
    for name in names:
        X, S, _ = load_pll(name, data_home=data_home, return_X_S_y=True)
        params = {"max_epochs": epochs // rounds, "warm_start": True, "random_state": 0}
        rc, cleanse = PartialLabelClassifier("rc", **params), CleanSEClassifier(**params)
        cleanse.set_params(vote_start=0)  # votes in every epoch
        taken = [0.0, 0.0]
        for _ in range(rounds):
            taken = [
                sum(pair)
                for pair in zip(taken, (seconds(rc, X, S), seconds(cleanse, X, S)), strict=True)
            ]
        print(f"{name:<10}{taken[0]:>9.1f}{taken[1]:>10.1f}{taken[1] / taken[0]:>7.2f}", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--epochs", type=int, default=250)
    parser.add_argument("--data-home")
    parser.add_argument("--names", nargs="+", default=["lost", "birdsong", "msrcv2"])
    main(**vars(parser.parse_args()))
