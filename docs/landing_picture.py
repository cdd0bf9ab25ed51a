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
BLUE, GREY, INK = "#0072B2", "#B8C1CC", "#22303C"
N_SHOWN = 6


def chosen_rows(confidence, S, y):
    """Return rows with three or four candidates and six true labels, from sure to unsure."""
    sureness = confidence.max(axis=1)
    rows = np.flatnonzero((S.sum(axis=1) == 3) | (S.sum(axis=1) == 4))
    chosen = []
    for at in np.linspace(sureness[rows].max(), np.quantile(sureness[rows], 0.02), N_SHOWN):
        free = rows[~np.isin(y[rows], y[chosen])]
        chosen.append(free[np.abs(sureness[free] - at).argmin()])
    return chosen


def draw(X, S, confidence, rows):
    figure, axes = plt.subplots(
        3, len(rows), figsize=(10, 4.3), height_ratios=(2.1, 0.8, 1.25), layout="constrained"
    )
    for (image, sets, bars), row in zip(axes.T, rows, strict=True):
        image.imshow(X[row].reshape(8, 8), cmap="Greys")
        candidates = np.flatnonzero(S[row])
        best = confidence[row].argmax()
        at = np.arange(len(candidates)) - (len(candidates) - 1) / 2
        for place, digit in zip(at, candidates, strict=True):
            chip = {"boxstyle": "round,pad=0.35", "facecolor": "#EEF2F6", "edgecolor": GREY}
            place_of = {"ha": "center", "va": "center", "fontsize": 14, "color": INK}
            sets.text(place, 0, str(digit), bbox=chip, **place_of)
        sets.set(xlim=(-2, 2), ylim=(-1, 1))
        colours = [BLUE if digit == best else GREY for digit in candidates]
        bars.bar(at, confidence[row, candidates], width=0.8, color=colours)
        for place, digit in zip(at, candidates, strict=True):
            share = confidence[row, digit]
            style = {"fontweight": "bold", "color": BLUE} if digit == best else {"color": INK}
            bars.text(place, share + 0.04, f"{share:.0%}", ha="center", fontsize=9, **style)
            bars.text(place, -0.07, str(digit), ha="center", va="top", fontsize=13, **style)
        bars.set(xlim=(-2, 2), ylim=(-0.35, 1.2))
        for ax in (image, sets, bars):
            ax.axis("off")
    titles = ("the sample", "its candidates:\none is right", "what to believe")
    for ax, title in zip(axes[:, 0], titles, strict=True):
        ax.text(-0.12, 0.5, title, transform=ax.transAxes, ha="right", va="center", fontsize=12)
    return figure


if __name__ == "__main__":
    X, y = load_digits(return_X_y=True)
    X, y = X[:900], y[:900]
    S = make_candidates(y, "flip", flip_proba=0.3, random_state=0)
    confidence = CleanSEKernelClassifier().fit(X, S).candidate_proba_
    rows = chosen_rows(confidence, S, y)
    print("right:", (confidence[rows].argmax(axis=1) == y[rows]).tolist())
    draw(X, S, confidence, rows).savefig(PICTURE, dpi=110)
