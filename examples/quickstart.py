"""Train CleanSE and two rivals on handwritten digits with ambiguous labels.

Every training image gets a set of candidate labels, one of which is right: the true one, and others
that look like it to a simple classifier, about three of them. The true labels only score. Prints a
table and saves ``quickstart.png``.
"""

import argparse
import time

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import set_num_threads

from sklearn_cleanse import (
    CleanSEClassifier,
    CleanSEKernelClassifier,
    PartialLabelClassifier,
)
from sklearn_cleanse.datasets import make_candidates

METHODS = {
    "PRODEN": lambda **common: PartialLabelClassifier("proden", **common),
    "CC": lambda **common: PartialLabelClassifier("cc", **common),
    "CleanSE kernel": lambda random_state, **_: CleanSEKernelClassifier(random_state=random_state),
    "CleanSE": lambda **common: CleanSEClassifier(**common),
}


def main(epochs, seeds, picture):
    set_num_threads(1)  # the network is small: more threads would mostly wait for each other
    X, y = load_digits(return_X_y=True)
    results = {name: [] for name in METHODS}
    for seed in range(seeds):
        S = make_candidates(y, "instance", flip_proba=0.3, X=X, random_state=seed)
        split = train_test_split(X, S, y, test_size=0.6, random_state=seed)
        X_train, X_test, S_train, _, y_train, y_test = split
        for name, make in METHODS.items():
            began = time.perf_counter()
            clf = make(max_epochs=epochs, random_state=seed).fit(X_train, S_train)
            seconds = time.perf_counter() - began
            test = clf.score(X_test, y_test)
            identified = np.mean(clf.disambiguate(X_train, S_train) == y_train)
            results[name].append((test, identified, seconds))
            print(f"  seed {seed}  {name:<14} {test:6.1%}  ({seconds:.0f} s)", flush=True)

    print(
        f"\n{len(X_train)} training images, {S_train.sum(1).mean():.1f} candidates each, ", end=""
    )
    print(f"{np.mean(S_train.sum(1) == 1):.1%} clean; mean over {seeds} seeds\n")
    print(f"{'method':<15}{'test accuracy':>16}{'labels identified':>20}{'seconds':>10}")
    for name, rows in results.items():
        (test, identified, seconds), (sd, *_) = np.mean(rows, axis=0), np.std(rows, axis=0)
        print(f"{name:<15}{f'{test:.1%} ± {sd:.1%}':>16}{identified:>20.1%}{seconds:>10.1f}")

    draw(results, clf, X_train, S_train, y_train, picture)
    print(f"\nsaved {picture}")


def draw(results, clf, X, S, y, picture):
    """Accuracy of each method, training of the last, and the digits it had to decide on."""
    figure = plt.figure(figsize=(10, 6.2), layout="constrained")
    top, bottom = figure.subfigures(2, 1, height_ratios=(1.1, 1))
    bars, curve = top.subplots(1, 2, width_ratios=(1.25, 1))

    names = list(results)
    tests = np.array([[row[0] for row in results[name]] for name in names])
    colours = ["#9aa5b1"] * (len(names) - 2) + ["#0072b2"] * 2
    bars.barh(names, tests.mean(axis=1), xerr=tests.std(axis=1), color=colours, height=0.6)
    for i, value in enumerate(tests.mean(axis=1)):
        bars.text(0.03, i, f"{value:.1%}", va="center", color="white", fontweight="bold")
    bars.set(xlim=(0, 1), xlabel="test accuracy", title="Learning from candidate sets")

    epochs = [epoch["epoch"] for epoch in clf.history_]
    curve.plot(epochs, [epoch["base_loss"] for epoch in clf.history_], color="#d55e00")
    curve.set(xlabel="epoch", title="CleanSE, training")
    curve.set_ylabel("loss", color="#d55e00")
    share = curve.twinx()
    share.plot(epochs, [epoch["covering_rate"] for epoch in clf.history_], color="#0072b2")
    share.set_ylabel("predictions among candidates", color="#0072b2")
    share.set_ylim(0, 1.02)

    bottom.suptitle("What CleanSE makes of the candidates (bold: its choice; red: a wrong one)")
    proba = clf.candidate_proba_
    unsure = np.argsort(np.where(S.sum(axis=1) == 1, 2.0, proba.max(axis=1)))[:2]
    shown = np.concatenate([np.flatnonzero(S.sum(axis=1) >= 4)[:4], unsure])
    for axis, i in zip(bottom.subplots(1, len(shown)), shown, strict=True):
        axis.imshow(X[i].reshape(8, 8), cmap="Greys")
        axis.set(xticks=[], yticks=[])
        axis.set_xlabel("\n" * 3)  # room for three lines of candidates
        chosen = proba[i].argmax()
        for place, j in enumerate(np.flatnonzero(S[i])):
            colour = "black" if j != chosen else "#0072b2" if j == y[i] else "#d62728"
            weight = "bold" if j == chosen else "normal"
            axis.annotate(
                f"{j}: {proba[i, j]:.2f}",
                (0.36 * (place % 3) - 0.02, 0),
                xycoords="axes fraction",
                xytext=(0, -12 - 11 * (place // 3)),
                textcoords="offset points",
                fontsize=7.5,
                color=colour,
                weight=weight,
            )
    figure.savefig(picture, dpi=150)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--epochs", type=int, default=9)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--picture", default="quickstart.png")
    main(**vars(parser.parse_args()))
