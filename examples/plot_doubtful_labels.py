"""
Fifty labels worth a look
=========================

**The problem.** You have labels, and some are wrong. Looking at all of them again would take a
week; looking at fifty takes an hour. Which fifty?

`find_candidate_issues` ranks rows by how far all *other* rows contradict their label, or their set
of candidates. It needs no true label and no model of yours.
"""

# %%
# Labels with slips
# -----------------
# scikit-learn's digits, in which we turn one label in twenty into the digit that the image
# resembles most after its own: the kind of slip that people make. We know which; the function does
# not.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.metrics import pairwise_distances

from sklearn_cleanse import find_candidate_issues

X, y = load_digits(return_X_y=True)
X, y = X[:1200], y[:1200]
rng = np.random.RandomState(0)
labels = y.copy()
slips = rng.choice(len(y), size=len(y) // 20, replace=False)
means = np.array([X[y == digit].mean(axis=0) for digit in range(10)])
distances = pairwise_distances(X[slips], means)
distances[np.arange(len(slips)), y[slips]] = np.inf
labels[slips] = distances.argmin(axis=1)
is_wrong = labels != y

# %%
# The ranking
# -----------
# ``min_score=0`` ranks every row; by default only those are listed that are worth a look.
issues = find_candidate_issues(X, labels, min_score=0)
sets = issues[issues.kind != "unsupported candidate"]
print(sets[["row", "score", "label", "suggestion"]].head(5).to_string(index=False))
print(sets.reason.iloc[0])

# %%
# The picture
# -----------
# Left, the ten rows at the top of the list: the label given, and what the other rows say. Right,
# how many wrong labels are found by looking at the first rows of the list, and by looking at rows
# in any order.
figure = plt.figure(figsize=(11, 4.2), layout="constrained")
left, right = figure.subfigures(1, 2, width_ratios=(1.5, 1))
for ax, issue in zip(left.subplots(2, 5).flat, sets.head(10).itertuples(), strict=True):
    ax.imshow(X[issue.row].reshape(8, 8), cmap="Greys", interpolation="bicubic")
    ax.set_title(f"given {issue.label}", color="#D55E00", fontsize=10)
    ax.set_xlabel(f"others say {issue.suggestion}", color="#0072B2", fontsize=10)
    ax.set(xticks=[], yticks=[])
ax = right.subplots()
found = is_wrong[sets.row.to_numpy()].cumsum() / is_wrong.sum()
looked_at = np.arange(1, len(found) + 1)
ax.plot(looked_at, 100 * found, color="#0072B2", lw=2, label="by this list")
ax.plot([0, len(y)], [0, 100], ls=":", color="#777777", label="in any order")
ax.set(xlim=(0, 300), ylim=(0, 103), xlabel="rows looked at", ylabel="wrong labels found, %")
ax.grid(alpha=0.25)
ax.legend(frameon=False, loc="lower right")
ax.spines[["top", "right"]].set_visible(False)
plt.show()

# %%
# The measure
# -----------
first = sets.row.to_numpy()[: is_wrong.sum()]
mended = (sets.suggestion.to_numpy()[: len(first)] == y[first])[is_wrong[first]].mean()
print(f"{is_wrong.sum()} labels of {len(y)} are wrong")
print(f"among the first {len(first)} of the list, {is_wrong[first].mean():.0%} are")
print(f"of these the suggestion is right for {mended:.0%}")
print(f"score above 0.5: {(sets.score > 0.5).sum()} rows")

# %%
# The same function takes sets of candidates. There a doubtful row is one of which *none* of the
# candidates seems right, and what can be said against a single candidate comes at the end of the
# list.
#
# The caveat
# ----------
# A slip is found because it disagrees with similar rows. If everybody labels a certain kind of
# image wrongly in the same way, the rows agree and nothing is found. And a rare row that is
# right, but like no other, looks like a slip: that is why the list is for looking at, and not for
# mending by itself. :doc:`Labels from the real world </real_labels>` has more, with figures on
# other data.
