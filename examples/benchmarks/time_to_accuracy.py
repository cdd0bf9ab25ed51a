"""Accuracy against seconds of a fit, for every method and for ours at several numbers of epochs.

    python examples/benchmarks/time_to_accuracy.py --picture time_to_accuracy.png --out lines.jsonl

Prints a line for each set and method: seconds, accuracy in percent and, for ours, the methods that
are both faster and more accurate. Needs the real sets (``--data-home``). One split of each, one
thread, all settings the defaults; accuracy is reported and chooses nothing. Seconds are processor
time, which other processes change less than time on the clock; the quickest of several rounds
counts.
"""

import time

import matplotlib.pyplot as plt
import numpy as np
from protocol import make_parser, report, use_one_thread
from sklearn.model_selection import ShuffleSplit

from sklearn_cleanse import (
    CleanSEClassifier,
    CleanSEKernelClassifier,
    DPCLSClassifier,
    PartialLabelClassifier,
    PLCGRClassifier,
)
from sklearn_cleanse.datasets import fetch_pll
from sklearn_cleanse.losses import LOSSES

KERNEL = "CleanSE kernel"


def methods(epochs):
    """Return what makes each method, by name, and the names of ours."""
    names = [loss for loss in LOSSES if loss != "average"]
    others = {
        loss.upper(): lambda loss=loss: PartialLabelClassifier(loss, random_state=0)
        for loss in names
    }
    others |= {"PL-CGR": lambda: PLCGRClassifier(random_state=0), "DPCLS": DPCLSClassifier}
    ours = {
        f"CleanSE, {n} epochs": lambda n=n: CleanSEClassifier(max_epochs=n, random_state=0)
        for n in epochs
    }
    ours[KERNEL] = lambda: CleanSEKernelClassifier(random_state=0)
    return others | ours, set(ours)


def measure(make, X, S, y, train, test):
    began = time.process_time()
    clf = make().fit(X[train], S[train])
    seconds = time.process_time() - began
    return seconds, 100 * np.mean(clf.predict(X[test]) == y[test])


def compare(name, makers, ours, seed, rounds, data_home):
    """Yield a row per method, quickest first."""
    X, S, y = fetch_pll(name, data_home=data_home, return_X_S_y=True)
    train, test = next(ShuffleSplit(1, test_size=0.1, random_state=seed).split(X))
    points = {}
    for _ in range(rounds):
        for method, make in makers.items():
            found = measure(make, X, S, y, train, test)
            points[method] = min(points.get(method, found), found)
    for method, (seconds, accuracy) in sorted(points.items(), key=lambda item: item[1]):
        better = [other for other, (s, a) in points.items() if s < seconds and a > accuracy]
        row = {"set": name, "method": method, "seconds": seconds, "accuracy": accuracy}
        yield row | {"faster, more accurate": ", ".join(better) if method in ours else "-"}


def draw(ax, rows, ours):
    """Plot all methods, each with its name."""
    for row in rows:
        color, marker = ("C3", "o") if row["method"] in ours else ("C0", "s")
        point = row["seconds"], row["accuracy"]
        ax.plot(*point, marker, color=color)
        label = row["method"].removeprefix("CleanSE").strip(", ")
        place = {"textcoords": "offset points", "fontsize": 7, "color": color}
        ax.annotate(label, point, (5, 4), **place)
    line = [row for row in rows if row["method"] in ours - {KERNEL}]
    line = sorted((row["seconds"], row["accuracy"]) for row in line)
    ax.plot(*zip(*line, strict=True), color="C3", linewidth=1, label="CleanSE, by epochs")
    ax.set(xscale="log", xlabel="seconds of a fit", ylabel="accuracy, %", title=rows[0]["set"])
    ax.legend(loc="lower left", fontsize=7, frameon=False)


def main(names, epochs, seed, rounds, data_home, picture, out):
    use_one_thread()
    makers, ours = methods(epochs)
    figure, axes = plt.subplots(1, len(names), figsize=(4 * len(names), 3.6), squeeze=False)
    for ax, name in zip(axes[0], names, strict=True):
        rows = report(compare(name, makers, ours, seed, rounds, data_home), out)
        draw(ax, rows, ours)
    if picture:
        figure.savefig(picture, bbox_inches="tight", dpi=120)


if __name__ == "__main__":
    parser = make_parser(__doc__, data=True)
    parser.add_argument("--names", nargs="+", default=["lost", "birdsong", "msrcv2"])
    parser.add_argument("--epochs", type=int, nargs="+", default=[10, 20, 30, 60])
    parser.add_argument("--seed", type=int, default=130)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--picture", help="where to save a picture")
    main(**vars(parser.parse_args()))
