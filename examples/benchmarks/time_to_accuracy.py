"""Accuracy against seconds of a fit, for every method and for ours at several numbers of epochs.

Needs the data sets: ``--data-home`` or the variable SKLEARN_CLEANSE_DATA. One split of each, one
thread, all settings the defaults; accuracy is reported and chooses nothing. Seconds are those that
the process had the processor, which a busy machine changes less than those on the clock; each fit
is done in several rounds and its quickest counts.
"""

import argparse
import time

import matplotlib.pyplot as plt
import numpy as np
import torch
from sklearn.model_selection import ShuffleSplit
from threadpoolctl import threadpool_limits

from sklearn_cleanse import (
    CleanSEClassifier,
    CleanSEKernelClassifier,
    DPCLSClassifier,
    PartialLabelClassifier,
    PLCGRClassifier,
)
from sklearn_cleanse.datasets import load_pll

NAMES = {"lost": "Lost", "birdsong": "BirdSong", "msrcv2": "MSRCv2"}
LOSSES = ["cc", "rc", "proden", "lws", "cavl", "scarce"]


def methods(epochs):
    """Return what makes each method, by name, and the names of ours."""
    others = {loss.upper(): lambda loss=loss: PartialLabelClassifier(loss) for loss in LOSSES}
    others |= {"PL-CGR": PLCGRClassifier, "DPCLS": DPCLSClassifier}
    ours = {
        f"CleanSE, {n} epochs": lambda n=n: CleanSEClassifier(max_epochs=n, random_state=0)
        for n in epochs
    }
    ours["CleanSE kernel"] = CleanSEKernelClassifier
    return others | ours, set(ours)


def measure(make, X, S, y, train, test):
    clf = make()
    if "random_state" in clf.get_params():
        clf.set_params(random_state=0)
    began = time.process_time()
    clf.fit(X[train], S[train])
    seconds = time.process_time() - began
    return seconds, 100 * np.mean(clf.predict(X[test]) == y[test])


def beaten_by(name, points):
    """Return which other methods are both faster and more accurate."""
    seconds, accuracy = points[name]
    return [other for other, (s, a) in points.items() if s < seconds and a > accuracy]


def draw(ax, points, ours):
    """Plot all methods; ours are labelled above, by their epochs, the others beside."""
    low, high = (f([accuracy for _, accuracy in points.values()]) for f in (min, max))
    place = {"textcoords": "offset points", "fontsize": 7}
    lowest = np.inf
    for name, point in sorted(points.items(), key=lambda item: -item[1][1]):
        is_ours = name in ours
        ax.plot(*point, "o" if is_ours else "s", color="C3" if is_ours else "C0")
        if is_ours:
            label = name.removeprefix("CleanSE").strip(", ").removesuffix(" epochs")
            ax.annotate(label, point, (0, 6), ha="center", color="C3", **place)
        else:
            lowest = min(point[1], lowest - (high - low) / 25)
            down = (lowest - point[1]) / (high - low) * 180 - 3
            ax.annotate(name, point, (6, down), **place)
    line = sorted(points[name] for name in ours if name != "CleanSE kernel")
    ax.plot(*zip(*line, strict=True), color="C3", linewidth=1, label="CleanSE, by epochs")
    ax.set(xscale="log", xlabel="seconds of a fit", ylim=(None, high + (high - low) / 10))
    ax.legend(loc="lower left", fontsize=7, frameon=False)


def main(names, epochs, seed, rounds, data_home, picture):
    torch.set_num_threads(1)
    threadpool_limits(1)
    makers, ours = methods(epochs)
    figure, axes = plt.subplots(1, len(names), figsize=(4 * len(names), 3.6), squeeze=False)
    for ax, name in zip(axes[0], names, strict=True):
        X, S, y = load_pll(name, data_home=data_home, return_X_S_y=True)
        train, test = next(ShuffleSplit(1, test_size=0.1, random_state=seed).split(X))
        points = {}
        for _ in range(rounds):
            for method, make in makers.items():
                found = measure(make, X, S, y, train, test)
                points[method] = min(points.get(method, found), found)
        print(f"\n{name}, {len(train)} rows, split {seed}, quickest of {rounds}\n")
        print(f"{'method':<20}{'seconds':>9}{'accuracy':>10}  faster and more accurate")
        for method, (seconds, accuracy) in sorted(points.items(), key=lambda item: item[1]):
            better = beaten_by(method, points) if method in ours else []
            told = (", ".join(better) or "none") if method in ours else ""
            print(f"{method:<20}{seconds:>9.1f}{accuracy:>10.1f}  {told}", flush=True)
        draw(ax, points, ours)
        ax.set_title(f"{NAMES.get(name, name)}, {len(train):,} rows")
    axes[0, 0].set_ylabel("accuracy, %")
    if picture:
        figure.savefig(picture, bbox_inches="tight", dpi=120)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--names", nargs="+", default=["lost", "birdsong", "msrcv2"])
    parser.add_argument("--epochs", type=int, nargs="+", default=[10, 20, 30, 60])
    parser.add_argument("--seed", type=int, default=130)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--data-home")
    parser.add_argument("--picture")
    main(**vars(parser.parse_args()))
