"""
Where do wrong candidates come from?
====================================

**The problem.** A candidate set says more than "one of these". A face goes with a caption that
names the host and a rare guest. The host is named in every caption, so it is probably the
guest's. Whether such reasoning by *counts* is sound depends on how wrong candidates arise, and
nobody tells you that. This page looks at four worlds, and at the number by which CleanSE tells
them apart without a true label.
"""

# %%
# Four worlds
# -----------
#
# - **flip**: every wrong label joins every set at the same rate. The set says no more of one of
#   its labels than of another: counts have nothing to add, and do no harm.
# - **bag**: rows come in groups, and each has the labels of its whole group: the faces in a photo
#   with the names in its caption, the birds in a recording. Frequent labels are in most sets,
#   many times wrongly; a rare label needs a better reason to be there. Counts help.
# - **instance**: the labels that look likely for a row join its set. Similar rows have similar
#   wrong candidates, and so confirm each other's errors.
# - **dictionary**: a set belongs to a *kind* of row, as every occurrence of a word has the tags
#   that a dictionary lists for the word. Near-duplicates share their set and repeat the same
#   evidence. Whoever takes them for independent witnesses is misled.
#
# We make all four from scikit-learn's digits, thinned out so that there are ten times as many
# zeros as nines. Counts matter most where classes differ in size.

import matplotlib.pyplot as plt
import numpy as np
from scipy.cluster.hierarchy import leaves_list, linkage
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from sklearn_cleanse import CleanSEKernelClassifier
from sklearn_cleanse.datasets import long_tail_rows, make_candidates

digits, labels = load_digits(return_X_y=True)
rows = long_tail_rows(labels, imbalance=10, random_state=0)
digits, labels = digits[rows], labels[rows]
WORLDS = ("flip", "bag", "instance", "dictionary")


def draw(world, seed):
    """Split the digits, and draw candidates for the training rows."""
    X, X_test, y, y_test = train_test_split(digits, labels, test_size=0.4, random_state=seed)
    S = make_candidates(y, world, flip_proba=0.3, X=X, random_state=seed)
    return X, S, y, X_test, y_test


for world in WORLDS:
    _, S, *_ = draw(world, 0)
    sizes = S.sum(axis=1)
    clean = (sizes == 1).mean()
    print(f"{world:<11}{len(S)} rows, {sizes.mean():.1f} candidates each, {clean:.0%} clean")

# %%
# The measure
# -----------
#
# `CleanSEKernelClassifier` lets all other rows vote on each row. ``count_strength`` says how far
# the likelihood of the set under each label weighs these votes: 1 trusts it, 0 leaves counts out.
# ``"auto"``, the default, measures first, and the measure is ``dependence_``: take the
# candidates, subtract what is usual for rows of the same label, and let the other rows predict
# the rest from the features. Where wrong labels join by label alone there is nothing to predict,
# and the dependence is about 0. Where similar rows share wrong labels it goes towards 1. The
# labels for this are the votes so far; no true label is used.
#
# Five draws of each world, three settings:

STRENGTHS = (0, 1, "auto")
SEEDS = range(5)
accuracy = {world: np.empty((len(SEEDS), len(STRENGTHS))) for world in WORLDS}
measured = {world: [] for world in WORLDS}
for world in WORLDS:
    for seed in SEEDS:
        X, S, y, X_test, y_test = draw(world, seed)
        for column, strength in enumerate(STRENGTHS):
            model = CleanSEKernelClassifier(count_strength=strength, random_state=0).fit(X, S)
            accuracy[world][seed, column] = model.score(X_test, y_test)
        measured[world].append((model.dependence_, model.count_strength_))

print("world      dependence  strength   accuracy:   0       1      auto")
for world in WORLDS:
    dependence, strength = np.mean(measured[world], axis=0)
    shares = "  ".join(f"{share:6.1%}" for share in accuracy[world].mean(axis=0))
    print(f"{world:<11}{dependence:10.2f}{strength:10.2f}             {shares}")

# %%
# The picture
# -----------
#
# Above, the candidates of all training images of one digit, a line per image. Images that look
# alike are next to each other. In the first two worlds lines differ at random: within a label,
# looks say nothing about the wrong candidates, though in bags the frequent digits (left) join
# more often. In the other two there are blocks, as similar images share their wrong candidates;
# the dictionary has the larger ones.
#
# Below, the accuracy on new images for each strength; small dots are single draws.

DIGIT = 1
COLOURS = ("#999999", "#D55E00", "#0072B2")
TITLES = {
    "flip": "flip: all join alike",
    "bag": "bag: labels of a group",
    "instance": "instance: what looks likely",
    "dictionary": "dictionary: sets by kind",
}
figure, axes = plt.subplots(
    2, 4, figsize=(11, 6), sharey="row", height_ratios=(1.5, 1), layout="constrained"
)
for world, (sets, dots) in zip(WORLDS, axes.T, strict=True):
    X, S, y, *_ = draw(world, 0)
    X, S = X[y == DIGIT], S[y == DIGIT]
    order = leaves_list(linkage(X, "average", optimal_ordering=True))
    shade = S[order] * np.where(np.arange(10) == DIGIT, 1.0, 0.6)
    sets.imshow(shade, aspect="auto", cmap="Blues", vmin=0, vmax=1.2, interpolation="nearest")
    sets.set(title=TITLES[world], xticks=range(10), yticks=[], xlabel="candidates")

    dependence, strength = np.mean(measured[world], axis=0)
    for column, colour in enumerate(COLOURS):
        single = 100 * accuracy[world][:, column]
        dots.scatter([column] * len(single), single, s=12, color=colour, alpha=0.5, lw=0)
        dots.plot(column, single.mean(), "o", ms=10, color=colour)
        dots.annotate(
            f"{single.mean():.1f}", (column, single.mean()), (9, -4), textcoords="offset points"
        )
    dots.set(xticks=range(3), xticklabels=["0", "1", '"auto"'], xlim=(-0.5, 2.7), ylim=(40, 100))
    dots.set_xlabel("count_strength")
    found = f"dependence_ {dependence:.2f}\ncount_strength_ {strength:.2f}"
    dots.text(0.04, 0.05, found, transform=dots.transAxes)
    dots.grid(axis="y", alpha=0.25)
axes[0, 0].set_ylabel(f"images of a {DIGIT}, similar ones together")
axes[1, 0].set_ylabel("accuracy, %")
plt.show()

# %%
# Where candidates join by label, trusting counts costs nothing, and in bags it pays. In the
# dictionary it costs dearly. ``"auto"`` is near the better of both in each world, or above.
# Another part of the counts is on in all settings but 0: a label that takes more of the votes
# than of the candidates is held back. This is why ``"auto"`` can be better than 0 where its
# strength is small.
#
# The caveat
# ----------
#
# The measure is only as good as the features. With noisy ones similar rows are hard to find, the
# dependence comes out lower, and a dictionary may pass for bags. The worlds overlap, too: some
# instance-dependent candidates cannot be told from chance. If you know how your candidates arose,
# say so by ``count_strength``; if you have a few dozen true labels, compare 0, 1 and ``"auto"``.
