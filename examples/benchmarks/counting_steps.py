"""What it costs to count labels in some steps only: accuracy and seconds, side by side.

Ordinary data, whose candidates are generated: the count loss in every step, in every k-th with k
times the weight, and not at all, on the same rows with the same seed.
"""

import argparse
import time

import numpy as np
import ordinary_sets
import torch
from threadpoolctl import threadpool_limits

from sklearn_cleanse import CleanSEClassifier
from sklearn_cleanse.datasets import make_candidates


def measure(parts, params, seed):
    """Train once; return the accuracy on test rows in % and the seconds of the processor."""
    X, S, X_test, y_test = parts
    began = time.process_time()
    clf = CleanSEClassifier(random_state=seed, **params).fit(X, S)
    seconds = time.process_time() - began
    return 100 * np.mean(clf.predict(X_test) == y_test), seconds


def main(names, kinds, seeds, steps, data_home):
    torch.set_num_threads(1)
    threadpool_limits(1)
    forms = {f"every {k}": {"count_every": k} for k in steps} | {"none": {"count_weight": 0}}
    found = []
    for seed in seeds:
        for kind in kinds:
            for name in names:
                rows = ordinary_sets.split(*ordinary_sets.load(name, data_home), seed, most=1000)
                X, y, X_test, y_test = rows
                S = make_candidates(y, kind, flip_proba=0.3, X=X, random_state=seed)
                parts = X, S, X_test, y_test
                found.append([measure(parts, params, seed) for params in forms.values()])
                cells = "".join(f"{accuracy:8.1f}" for accuracy, _ in found[-1])
                print(f"{name:<18}{kind:<12}{seed:>3}{cells}", flush=True)
    accuracy, seconds = np.moveaxis(np.array(found), 2, 0)
    print(f"\n{len(found)} pairs{'accuracy':>12}{'less that of the first':>28}{'seconds':>10}")
    for name, own, taken in zip(forms, accuracy.T, seconds.T, strict=True):
        gain = own - accuracy[:, 0]
        error = gain.std(ddof=1) / len(gain) ** 0.5
        print(
            f"{name:<10}{own.mean():>11.2f}{gain.mean():>18.2f} ± {error:.2f}{taken.mean():>13.1f}"
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    add = parser.add_argument
    add("--names", nargs="+", default=[*ordinary_sets.SETS, "movement_libras"])
    add("--kinds", nargs="+", default=["flip", "bag"])
    add("--seeds", type=int, nargs="+", default=[0, 1])
    add("--steps", type=int, nargs="+", default=[1, 4])
    add("--data-home")
    main(**vars(parser.parse_args()))
