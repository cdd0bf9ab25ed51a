"""
From annotators who disagree to labels
======================================

**The problem.** Five people label images of digits. They differ in skill, nobody labels
everything, and where they disagree there is no referee. The usual way out is a majority vote, in
which the two careless ones outvote the careful one. The other way is not to decide at once: keep
every label that somebody gave as a *candidate*, and let all images together say which to believe.
"""

# %%
# The annotators
# --------------
# Nobody gave us a table of annotators with true labels beside it, so we make one from
# scikit-learn's digits. Each annotator is right with some probability; a wrong label is one that
# looks similar: an 8 becomes a 3 rather than a 0. Four labels in ten are missing.
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.datasets import load_digits
from sklearn.metrics import pairwise_distances
from sklearn.model_selection import train_test_split
from sklearn.svm import SVC

from sklearn_cleanse import CleanSEKernelClassifier
from sklearn_cleanse.datasets import candidates_from_votes

SKILL = {"ann": 0.9, "bob": 0.75, "cem": 0.6, "dee": 0.5, "eve": 0.4}
rng = np.random.RandomState(0)

digits, labels = load_digits(return_X_y=True)
X, X_test, y, y_test = train_test_split(digits, labels, train_size=800, random_state=0)

means = np.array([X[y == digit].mean(axis=0) for digit in range(10)])
confusion = np.exp(-pairwise_distances(means) / 8)
np.fill_diagonal(confusion, 0)
confusion /= confusion.sum(axis=1, keepdims=True)

votes = pd.DataFrame(index=range(len(y)), columns=list(SKILL), dtype=object)
for name, skill in SKILL.items():
    wrong = np.array([rng.choice(10, p=confusion[digit]) for digit in y])
    votes[name] = np.where(rng.uniform(size=len(y)) < skill, y, wrong).astype(object)
votes = votes.mask(rng.uniform(size=votes.shape) < 0.4)
votes = votes[votes.notna().any(axis=1)]  # images that nobody labelled are of no use
X, y = X[votes.index], y[votes.index]
print(votes.head(8).to_string(na_rep="-"))

# %%
# Two ways to labels
# ------------------
# The majority, ties being broken by lot:
majority = np.array([rng.choice(row.dropna().mode()) for _, row in votes.iterrows()], dtype=int)

# %%
# And the candidates. `candidates_from_votes` makes a column per label; an image on which all agree
# has one candidate and is *clean*.
S = candidates_from_votes(votes)
sizes = S.sum(axis=1)
print(f"{sizes.mean():.1f} candidates per image, {(sizes == 1).mean():.0%} of the images clean")

model = CleanSEKernelClassifier().fit(X, S)
believed = model.disambiguate(X, S)

# %%
# The picture
# -----------
# Left, the share of right labels: of each annotator, of the majority, and of the candidates that
# CleanSE believes. The line is as far as one can get, as in some rows nobody gave the true label.
# Right, images on which the majority and CleanSE differ, drawn at random: what each annotator
# said, and what comes of it. The framed digit is true.
share = {name: (votes[name] == y)[votes[name].notna()].mean() for name in SKILL}
share |= {"majority": (majority == y).mean(), "CleanSE": (believed == y).mean()}
ceiling = S.to_numpy()[np.arange(len(y)), y].mean()
shown = rng.permutation(np.flatnonzero(majority != believed))[:8]

figure = plt.figure(figsize=(11, 4.6), layout="constrained")
left, right = figure.subfigures(1, 2, width_ratios=(1, 1.75))
ax = left.subplots()
colours = ["#B8C1CC"] * len(SKILL) + ["#D55E00", "#0072B2"]
ax.barh(list(share), list(share.values()), color=colours)
for place, value in enumerate(share.values()):
    ax.text(0.02, place, f"{value:.0%}", va="center", color="white", fontweight="bold")
ax.axvline(ceiling, color="black", ls=":", lw=1)
ax.invert_yaxis()
ax.set(xlim=(0, 1), xlabel="share of right labels", title="Who is right how often?")

for ax, row in zip(right.subplots(2, 4).flat, shown, strict=True):
    ax.imshow(X[row].reshape(8, 8), cmap="Greys")
    said = votes.iloc[row].dropna()
    lines = "  ".join(f"{name} {label}" for name, label in said.items())
    ax.set_title(lines.replace("  ", "\n", 2).replace("  ", ", "), fontsize=8, loc="left")
    for place, (name, label) in enumerate(
        {"majority": majority[row], "CleanSE": believed[row]}.items()
    ):
        is_true = {"boxstyle": "square,pad=0.15", "fc": "none"} if label == y[row] else None
        style = {"color": "#D55E00" if name == "majority" else "#0072B2", "fontsize": 9}
        ax.text(0.0, -0.1 - 0.15 * place, f"{name}:", transform=ax.transAxes, va="top", **style)
        ax.text(
            0.75,
            -0.1 - 0.15 * place,
            label,
            transform=ax.transAxes,
            va="top",
            bbox=is_true,
            **style,
        )
    ax.set(xticks=[], yticks=[], xlabel="\n\n")
plt.show()

# %%
# The measure
# -----------
# Better training labels are one thing, a better classifier for new images another. The same
# classifier on the majority's labels, and a support vector machine, for comparison:
same = CleanSEKernelClassifier().fit(X, majority)
rival = SVC().fit(X, majority)
print(
    f"CleanSE, kernel, on the candidates          {model.score(X_test, y_test):.1%} of new images"
)
print(f"CleanSE, kernel, on the majority's labels   {same.score(X_test, y_test):.1%}")
print(f"SVM on the majority's labels                {rival.score(X_test, y_test):.1%}")

# %%
# The candidates are worth some points to the same classifier. A support vector machine shrugs off
# labels that are wrong here and there, and does as well on *new* images. What it cannot tell is
# which of the labels you already have are right.
#
# The caveat
# ----------
# The true label must be among the candidates. Where nobody gave it, no choice among them is
# right; more annotators per image raise the dotted line. If a label that one person gave alone is
# mostly a slip, ask for a second opinion: ``candidates_from_votes(votes, min_votes=2)``. And
# annotators who all make the *same* mistake on the same kind of image cannot be corrected by
# other images of that kind: see :doc:`/auto_examples/plot_worlds_of_candidates`.
