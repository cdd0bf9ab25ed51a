"""
Why did the model choose this label?
====================================

The labels of CleanSE come from other rows, so an explanation can show them: the most similar
training rows, and how each of them was resolved.
"""

# %%
# Digits with candidates that look likely to a simple classifier, so that wrong ones are plausible.
# We take a training image with three candidates whose best probability is close to 60 %.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from sklearn_cleanse import CleanSEKernelClassifier
from sklearn_cleanse.datasets import make_candidates
from sklearn_cleanse.inspection import explain

X, y = load_digits(return_X_y=True)
X, y = X[:1000], y[:1000]
source = {"flip_proba": 0.3, "clean_rate": 0.2, "X": X}
S = make_candidates(y, "instance-dependent", random_state=0, **source)
model = CleanSEKernelClassifier().fit(X, S)

best = np.where(S.sum(axis=1) == 3, model.candidate_proba_.max(axis=1), np.inf)
row = np.abs(best - 0.6).argmin()
explanations = explain(model, X, S, n_similar=8)
why = explanations[row]
print(why)

# %%
# Left: the image and the probability of each candidate. Right: the most similar images. The color
# of a frame is the label that the image was resolved as; gray is a label that is not a candidate
# here.
names = why.candidates.candidate.tolist()
COLORS = dict(zip(names, ("#0072B2", "#E69F00", "#CC79A7"), strict=True))
figure = plt.figure(figsize=(10, 4.2), layout="constrained")
left, right = figure.subfigures(1, 2, width_ratios=(1, 2))
image, bars = left.subplots(2, 1, height_ratios=(2, 1))
image.imshow(X[row].reshape(8, 8), cmap="Greys")
image.set(xticks=[], yticks=[], title=f"training row {row}: {why.label}, {why.verdict}")
bars.bar([str(name) for name in names], why.candidates.probability, color=list(COLORS.values()))
bars.set(ylim=(0, 1), ylabel="probability", xlabel="candidate")
for ax, near in zip(right.subplots(2, 4).flat, why.similar.itertuples(), strict=True):
    ax.imshow(X[near.row].reshape(8, 8), cmap="Greys")
    for spine in ax.spines.values():
        spine.set(color=COLORS.get(near.resolved, "#9AA5B1"), linewidth=4)
    ax.set(xticks=[], yticks=[])
    ax.set_title(f"{near.resolved} ({near.probability:.0%})", fontsize=10)
    ax.set_xlabel(f"similarity {near.similarity:.2f}", fontsize=9)
plt.show()

# %%
# The candidates depend on the features here, so no choice among several is called clear. The
# probability still orders the rows by how often the choice is right:
right_ones = model.disambiguate(X, S) == y
probability = np.array([explanation.probability for explanation in explanations])
for low, high in [(0.9, 1), (0.6, 0.9), (0, 0.6)]:
    rows = (probability > low) & (probability <= high) & (S.sum(axis=1) > 1)
    print(f"above {low:.0%}: {rows.sum():>4} rows, {right_ones[rows].mean():.0%} right")

# %%
# An explanation gives the reason for a choice and does not prove it. Similar images with the same
# wrong candidate support each other: see :doc:`/auto_examples/plot_sources_of_wrong_candidates`.
