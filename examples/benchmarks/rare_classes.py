"""Accuracy and balanced accuracy where class sizes fall geometrically.

The training rows have a long tail; the accuracy is that on new rows with the same class shares, the
balanced accuracy the mean recall. "uniform" is the same model with ``class_prior="uniform"``.
"""

import argparse

import numpy as np
import ordinary_sets
from sklearn.metrics import recall_score

from sklearn_cleanse import CleanSEClassifier, CleanSEKernelClassifier, PartialLabelClassifier
from sklearn_cleanse.datasets import long_tail_rows, make_candidates

METHODS = {
    "CC": lambda seed: PartialLabelClassifier("cc", random_state=seed),
    "PRODEN": lambda seed: PartialLabelClassifier("proden", random_state=seed),
    "CleanSE": lambda seed: CleanSEClassifier(random_state=seed),
    "kernel": lambda seed: CleanSEKernelClassifier(random_state=seed),
}


def main(names, ratios, seeds, data_home):
    columns = [f"{name}{prior}" for name in METHODS for prior in ("", ", uniform")]
    print(f"{'set':<10}{'ratio':>6} ", *(f"{name:>16}" for name in columns))
    table = {}
    for name in names:
        X, y = ordinary_sets.load(name, data_home)
        for ratio in ratios:
            found = []
            for seed in range(seeds):
                X_train, y_train, X_test, y_test = ordinary_sets.split(X, y, seed)
                rows = long_tail_rows(y_train, ratio, random_state=seed)
                X_train, y_train = X_train[rows], y_train[rows]
                S = make_candidates(
                    y_train, "flip", flip_proba=0.3, classes=np.unique(y), random_state=seed
                )
                shares = np.bincount(y_train, minlength=len(np.unique(y))) / len(y_train)
                found.append([])
                for make in METHODS.values():
                    model = make(seed).fit(X_train, S)
                    for prior in (None, "uniform"):
                        predicted = model.set_params(class_prior=prior).predict(X_test)
                        recall = recall_score(y_test, predicted, average=None, labels=np.unique(y))
                        found[-1].append([100 * shares @ recall, 100 * recall.mean()])
            table[name, ratio] = np.mean(found, axis=0)
            _print(name, ratio, table[name, ratio])
    for ratio in ratios:
        _print("mean", ratio, np.mean([table[name, ratio] for name in names], axis=0))


def _print(name, ratio, values):
    cells = " ".join(f"{f'{accuracy:.1f} / {balanced:.1f}':>16}" for accuracy, balanced in values)
    print(f"{name:<10}{ratio:>6}  {cells}", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__.split("\n")[0], formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    parser.add_argument("--names", nargs="+", default=ordinary_sets.SETS)
    parser.add_argument("--ratios", type=int, nargs="+", default=[10, 100])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--data-home")
    main(**vars(parser.parse_args()))
