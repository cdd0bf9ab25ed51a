"""
Five annotators disagree: which labels are right?
=================================================

Five people label images of digits. They differ in accuracy, each skips some images, and a majority
vote lets two careless annotators outvote a careful one. Instead, keep every label that an annotator
gave as a *candidate*, and let all images together decide which candidate is right.
"""

# %%
# The annotators are simulated, so that the truth is known. A wrong label is one that looks similar:
# an 8 becomes a 3 rather than a 0. Four labels in ten are missing.
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.datasets import load_digits
from sklearn.metrics import pairwise_distances

from sklearn_cleanse import CleanSEKernelClassifier
from sklearn_cleanse.datasets import annotator_quality, candidates_from_annotations

ACCURACY = {"ann": 0.9, "bob": 0.75, "cem": 0.6, "dee": 0.5, "eve": 0.4}
rng = np.random.RandomState(0)
X, y = load_digits(return_X_y=True)
X, y = X[:800], y[:800]
means = np.array([X[y == digit].mean(axis=0) for digit in range(10)])
confusion = np.exp(-pairwise_distances(means) / 8) * (1 - np.eye(10))
confusion /= confusion.sum(axis=1, keepdims=True)

table = pd.DataFrame(index=range(len(y)), columns=list(ACCURACY), dtype="Int64")
for name, accuracy in ACCURACY.items():
    wrong = np.array([rng.choice(10, p=confusion[digit]) for digit in y])
    table[name] = np.where(rng.uniform(size=len(y)) < accuracy, y, wrong)
table = table.mask(rng.uniform(size=table.shape) < 0.4).astype("Int64")
table = table[table.notna().any(axis=1)]
X, y = X[table.index], y[table.index]
print(table.head())

# %%
# A column per annotator is all that `candidates_from_annotations` needs. Each label gets the
# proportion of the answers as its weight. `annotator_quality` estimates accuracies from how
# annotators agree.
S = candidates_from_annotations(table)
labels = CleanSEKernelClassifier().fit(X, S).disambiguate(X, S)
majority = table.mode(axis=1)[0].to_numpy(dtype=int)
print(annotator_quality(table).round(2))

# %%
# Left: how many labels are right. The dotted line is the best possible, as some images lack the
# true label among their candidates. Right: images where the majority and the disambiguated label
# differ.
right = {name: (table[name] == y)[table[name].notna()].mean() for name in ACCURACY}
right |= {"majority": (majority == y).mean(), "disambiguated": (labels == y).mean()}
possible = (S.to_numpy()[np.arange(len(y)), y] > 0).mean()
print({name: round(float(value), 3) for name, value in right.items()}, f"possible: {possible:.3f}")

figure = plt.figure(figsize=(10, 5), layout="constrained")
left, images = figure.subfigures(1, 2, width_ratios=(1, 1.4))
ax = left.subplots()
bars = ax.barh(list(right), list(right.values()), color=["#9AA5B1"] * 5 + ["#D55E00", "#0072B2"])
ax.bar_label(bars, [f"{value:.0%}" for value in right.values()], padding=-32, color="white")
ax.axvline(possible, color="black", ls=":", lw=1)
ax.invert_yaxis()
ax.set(xlim=(0, 1), xlabel="proportion of right labels")
shown = rng.permutation(np.flatnonzero(majority != labels))[:8]
for ax, row in zip(images.subplots(2, 4).flat, shown, strict=True):
    ax.imshow(X[row].reshape(8, 8), cmap="Greys")
    given = ", ".join(str(label) for label in table.iloc[row].dropna())
    ax.set_title(f"given {given}", fontsize=9)
    ax.set(xticks=[], yticks=[])
    ax.set_xlabel(
        f"majority {majority[row]}\ndisambiguated {labels[row]}\ntrue {y[row]}", fontsize=9
    )
plt.show()

# %%
# Annotators who make the *same* mistake on the same kind of image are not corrected by other images
# of that kind: see :doc:`/auto_examples/plot_sources_of_wrong_candidates`.
