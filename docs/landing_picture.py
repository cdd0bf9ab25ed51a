"""Draw docs/_static/candidates.png, the picture of the README and the landing page.

python docs/landing_picture.py
"""

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from sklearn_cleanse import CleanSEKernelClassifier
from sklearn_cleanse.datasets import make_candidates

PICTURE = Path(__file__).parent / "_static" / "candidates.png"
BLUE, GRAY, INK = "#0072B2", "#B8C1CC", "#22303C"
N_SHOWN = 6


def chosen_rows(proba, S, y):
    """Return rows with three or four candidates, of six labels, the most probable choice first."""
    best_proba = proba.max(axis=1)
    rows = np.flatnonzero((S.sum(axis=1) == 3) | (S.sum(axis=1) == 4))
    chosen = []
    for at in np.linspace(best_proba[rows].max(), np.quantile(best_proba[rows], 0.01), N_SHOWN):
        free = rows[~np.isin(y[rows], y[chosen])]
        chosen.append(free[np.abs(best_proba[free] - at).argmin()])
    return chosen


def draw(X, S, proba, rows):
    figure, axes = plt.subplots(
        3, len(rows), figsize=(10, 4.3), height_ratios=(2.1, 0.8, 1.25), layout="constrained"
    )
    for (image, sets, bars), row in zip(axes.T, rows, strict=True):
        image.imshow(X[row].reshape(8, 8), cmap="Greys")
        candidates = np.flatnonzero(S[row])
        best = proba[row].argmax()
        at = np.arange(len(candidates)) - (len(candidates) - 1) / 2
        for place, digit in zip(at, candidates, strict=True):
            chip = {"boxstyle": "round,pad=0.35", "facecolor": "#EEF2F6", "edgecolor": GRAY}
            place_of = {"ha": "center", "va": "center", "fontsize": 14, "color": INK}
            sets.text(place, 0, str(digit), bbox=chip, **place_of)
        sets.set(xlim=(-2, 2), ylim=(-1, 1))
        colors = [BLUE if digit == best else GRAY for digit in candidates]
        bars.bar(at, proba[row, candidates], width=0.8, color=colors)
        for place, digit in zip(at, candidates, strict=True):
            height = proba[row, digit]
            style = {"fontweight": "bold", "color": BLUE} if digit == best else {"color": INK}
            bars.text(place, height + 0.04, f"{height:.0%}", ha="center", fontsize=9, **style)
            bars.text(place, -0.07, str(digit), ha="center", va="top", fontsize=13, **style)
        bars.set(xlim=(-2, 2), ylim=(-0.35, 1.2))
        for ax in (image, sets, bars):
            ax.axis("off")
    titles = ("the row", "its candidates:\none is right", "probability of\neach candidate")
    for ax, title in zip(axes[:, 0], titles, strict=True):
        ax.text(-0.12, 0.5, title, transform=ax.transAxes, ha="right", va="center", fontsize=12)
    return figure


if __name__ == "__main__":
    X, y = load_digits(return_X_y=True)
    X, y = X[:900], y[:900]
    S = make_candidates(y, "instance-dependent", flip_proba=0.3, X=X, random_state=4)
    proba = CleanSEKernelClassifier().fit(X, S).candidate_proba_
    rows = chosen_rows(proba, S, y)
    print("right:", (proba[rows].argmax(axis=1) == y[rows]).tolist())
    draw(X, S, proba, rows).savefig(PICTURE, dpi=110)
