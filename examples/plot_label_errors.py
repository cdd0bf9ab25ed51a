"""
Some labels are wrong: which ones should I check?
=================================================

Checking all labels takes a week, checking fifty takes an hour. `find_candidate_issues` ranks rows
by how far all *other* rows contradict their label, or their set of candidates. It needs neither
true labels nor a model of yours.
"""

# %%
# scikit-learn's digits, in which one label in twenty becomes the digit that the image resembles
# most after its own. The function does not know which.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.metrics import pairwise_distances

from sklearn_cleanse.inspection import find_candidate_issues

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

issues = find_candidate_issues(X, labels)
print(issues.head().to_string(index=False))

# %%
# The list holds the rows that are worth a look, worst first. ``include="all"`` ranks every row.
ranked = find_candidate_issues(X, labels, include="all").row.to_numpy()
first = ranked[: is_wrong.sum()]
print(f"{is_wrong.sum()} of {len(y)} labels are wrong, {len(issues)} rows are listed")
print(f"of the first {len(first)} rows, {is_wrong[first].mean():.0%} are wrong")
right = issues.set_index("row").suggested == y[issues.row]
print(
    f"of the wrong ones listed, {right[is_wrong[issues.row]].mean():.0%} have the right suggestion"
)

# %%
# Left: the first ten rows. Right: how many of the wrong labels are found, by the number of rows
# checked.
figure = plt.figure(figsize=(10, 4), layout="constrained")
images, curve = figure.subfigures(1, 2, width_ratios=(1.5, 1))
for ax, issue in zip(images.subplots(2, 5).flat, issues.head(10).itertuples(), strict=True):
    ax.imshow(X[issue.row].reshape(8, 8), cmap="Greys")
    ax.set_title(f"given {issue.given}", color="#D55E00", fontsize=10)
    ax.set_xlabel(f"suggested {issue.suggested}", color="#0072B2", fontsize=10)
    ax.set(xticks=[], yticks=[])
ax = curve.subplots()
found = 100 * is_wrong[ranked].cumsum() / is_wrong.sum()
ax.plot(np.arange(1, len(y) + 1), found, color="#0072B2", lw=2, label="in this order")
ax.plot([0, len(y)], [0, 100], ls=":", color="#777777", label="in random order")
ax.set(xlim=(0, 300), ylim=(0, 103), xlabel="rows checked", ylabel="wrong labels found, %")
ax.grid(alpha=0.25)
ax.legend(frameon=False, loc="center right")
plt.show()

# %%
# An error that many similar rows share is not found, and a rare row that is right may be listed.
# Look at the rows before you change them. For rows to label *next*, use `rank_for_labeling`.
