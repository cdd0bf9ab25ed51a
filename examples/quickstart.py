"""Train CleanSE and baselines on handwritten digits with ambiguous labels.

Every training image has a set of candidate labels: the true one, and others that look like it to a
simple classifier, about three of them. True labels only score. Prints a table and saves
``quickstart.png``.
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

from sklearn_cleanse import CleanSEClassifier, CleanSEKernelClassifier, PartialLabelClassifier
from sklearn_cleanse.datasets import make_candidates


def make_methods(epochs, seed):
    """Return the estimators by name, baselines first."""
    common = {"max_epochs": epochs, "random_state": seed}
    return {
        "PRODEN": PartialLabelClassifier("proden", **common),
        "CC": PartialLabelClassifier("cc", **common),
        "CleanSE, kernel": CleanSEKernelClassifier(random_state=seed),
        "CleanSE": CleanSEClassifier(**common),
    }


def main(epochs, seeds, picture):
    set_num_threads(1)  # the networks are small: more threads would mostly wait for each other
    X, y = load_digits(return_X_y=True)
    results = {name: [] for name in make_methods(epochs, 0)}
    for seed in range(seeds):
        S = make_candidates(y, "instance-dependent", flip_proba=0.3, X=X, random_state=seed)
        split = train_test_split(X, S, y, test_size=0.6, random_state=seed)
        X_train, X_new, S_train, _, y_train, y_new = split
        for name, model in make_methods(epochs, seed).items():
            began = time.perf_counter()
            model.fit(X_train, S_train)
            seconds = time.perf_counter() - began
            accuracy = model.score(X_new, y_new)
            found = np.mean(model.disambiguate(X_train, S_train) == y_train)
            results[name].append((accuracy, found, seconds))
            print(f"  seed {seed}  {name:<16}{accuracy:6.1%}  ({seconds:.0f} s)", flush=True)

    sizes = S_train.sum(axis=1)
    print(f"\n{len(sizes)} training images, {sizes.mean():.1f} candidates each, ", end="")
    print(f"{np.mean(sizes == 1):.1%} with a single one; mean over {seeds} seeds\n")
    print(f"{'method':<16}{'accuracy':>16}{'labels found':>16}{'seconds':>10}")
    for name, rows in results.items():
        (accuracy, found, seconds), (deviation, *_) = np.mean(rows, axis=0), np.std(rows, axis=0)
        print(f"{name:<16}{f'{accuracy:.1%} ± {deviation:.1%}':>16}{found:>16.1%}{seconds:>10.1f}")

    draw(results, model, X_train, S_train, y_train).savefig(picture, dpi=150)
    why = " instead of 30, to save time" * (epochs < 30)
    print(f"\nsaved {picture}; networks trained for {epochs} epochs{why}")


def draw(results, model, X, S, y):
    """Draw the accuracies, the training of a network, and images with their candidates."""
    figure = plt.figure(figsize=(10, 6), layout="constrained")
    top, bottom = figure.subfigures(2, 1, height_ratios=(1.45, 1))
    bars, curve = top.subplots(1, 2, width_ratios=(1.25, 1))

    means = [np.mean([row[0] for row in rows]) for rows in results.values()]
    deviations = [np.std([row[0] for row in rows]) for rows in results.values()]
    colors = ["#9AA5B1"] * (len(means) - 2) + ["#0072B2"] * 2
    least = min(0.8, 0.1 * np.floor(10 * min(means)))
    bars.barh(list(results), means, xerr=deviations, color=colors, height=0.6)
    for place, mean in enumerate(means):
        place = (least + 0.005, place)
        bars.text(*place, f"{mean:.1%}", va="center", color="white", fontweight="bold")
    bars.set(xlim=(least, 1), xlabel="accuracy on new images", title="Learning from candidates")
    bars.set_xticks(np.arange(least, 1.01, 0.05))
    bars.xaxis.set_major_formatter("{x:.0%}")
    bars.invert_yaxis()

    epochs = [epoch["epoch"] for epoch in model.history_]
    curve.plot(epochs, [epoch["base_loss"] for epoch in model.history_], color="#D55E00")
    curve.set(xlabel="epoch", title="CleanSE, training")
    curve.set_ylabel("loss", color="#D55E00")
    peak = 0.3 * len(epochs)
    curve.axvline(peak, color="#777777", ls=":")
    place = {"transform": curve.get_xaxis_transform(), "color": "#777777"}
    curve.text(1.05 * peak, 0.75, "the learning rate\nis highest here", **place)
    covered = curve.twinx()
    covered.plot(epochs, [epoch["covering_rate"] for epoch in model.history_], color="#0072B2")
    covered.set_ylabel("predictions that are candidates", color="#0072B2")
    covered.set_ylim(0, 1.02)

    bottom.suptitle("Candidates and their probabilities (bold: chosen; red: chosen and wrong)")
    proba, sizes = model.candidate_proba_, S.sum(axis=1)
    unsure = np.argsort(np.where(sizes == 1, 2.0, proba.max(axis=1)))[:2]
    shown = np.concatenate([np.flatnonzero(sizes >= 4)[:4], unsure])
    for ax, row in zip(bottom.subplots(1, len(shown)), shown, strict=True):
        ax.imshow(X[row].reshape(8, 8), cmap="Greys")
        ax.set(xticks=[], yticks=[], xlabel="\n\n")  # the candidates are written there
        chosen = proba[row].argmax()
        for place, label in enumerate(np.flatnonzero(S[row])):
            color = "black" if label != chosen else "#0072B2" if label == y[row] else "#D62728"
            ax.annotate(
                f"{label}: {proba[row, label]:.2f}",
                (0.36 * (place % 3) - 0.02, 0),
                xycoords="axes fraction",
                xytext=(0, -12 - 11 * (place // 3)),
                textcoords="offset points",
                fontsize=7.5,
                color=color,
                weight="bold" if label == chosen else "normal",
            )
    return figure


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--epochs", type=int, default=9)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--picture", default="quickstart.png")
    main(**vars(parser.parse_args()))
