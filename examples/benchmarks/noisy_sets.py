"""Accuracy where a share of the candidate sets does not hold the true label.

Candidates are generated on ordinary data: wrong labels join by chance, and in a share of the rows a
wrong label takes the true one's place. PRODEN and CC are the same network as CleanSE's, with the
same recipe, without its votes and counts. "told" knows which sets are wrong and takes every label
for possible there: roughly what could be had.
"""

import argparse

import numpy as np
import ordinary_sets

from sklearn_cleanse import CleanSEClassifier, CleanSEKernelClassifier, PartialLabelClassifier
from sklearn_cleanse.datasets import make_candidates

METHODS = {
    "CC": lambda seed: PartialLabelClassifier("cc", random_state=seed),
    "PRODEN": lambda seed: PartialLabelClassifier("proden", random_state=seed),
    "CleanSE": lambda seed: CleanSEClassifier(random_state=seed),
    "CleanSE, auto": lambda seed: CleanSEClassifier(noise="auto", random_state=seed),
    "kernel": lambda seed: CleanSEKernelClassifier(random_state=seed),
    "kernel, auto": lambda seed: CleanSEKernelClassifier(noise="auto", random_state=seed),
    "kernel, told": lambda seed: CleanSEKernelClassifier(random_state=seed),
}


def main(names, shares, seeds, flip, methods, data_home):
    print(f"{'set':<16}{'wrong sets':>10}", *(f"{name:>14}" for name in methods), "   noise_")
    table = {}
    for name in names:
        X, y = ordinary_sets.load(name, data_home)
        for share in shares:
            found, rates = [], []
            for seed in range(seeds):
                X_train, y_train, X_test, y_test = ordinary_sets.split(X, y, seed)
                S = make_candidates(
                    y_train,
                    "flip",
                    flip_proba=flip,
                    noise=share,
                    classes=np.unique(y),
                    random_state=seed,
                )
                is_right = S[np.arange(len(S)), y_train][:, None]
                found.append([])
                for method in methods:
                    sets = S | ~is_right if "told" in method else S
                    model = METHODS[method](seed).fit(X_train, sets)
                    found[-1].append(100 * model.score(X_test, y_test))
                    if method.endswith("auto"):
                        rates.append(model.noise_)
            table[name, share] = np.mean(found, axis=0)
            _print(name, share, table[name, share], f"{np.mean(rates or 0):9.2f}")
    for share in shares:
        _print("mean", share, np.mean([table[name, share] for name in names], axis=0))


def _print(name, share, accuracies, rest=""):
    cells = " ".join(f"{value:14.1f}" for value in accuracies)
    print(f"{name:<16}{share:>10.0%} {cells}{rest}", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__.split("\n")[0], formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    parser.add_argument("--names", nargs="+", default=ordinary_sets.SETS)
    parser.add_argument("--shares", type=float, nargs="+", default=[0.0, 0.1, 0.2, 0.4])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--flip", type=float, default=0.3, help="probability of a wrong label")
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--data-home")
    main(**vars(parser.parse_args()))
