"""
Where do my wrong candidates come from, and does it matter?
===========================================================

A caption names the host and a rare guest. The host is named in every caption, so the face is
probably the guest's. Whether such reasoning by counts is right depends on how wrong candidates
arise. CleanSE measures it without true labels.
"""

# %%
# Four sources, on digits with ten times as many zeros as nines. *Flip*: every wrong label joins at
# the same rate. *Bag*: a row has the labels of its whole group, as in captions.
# *Instance-dependent*: labels that look likely join. *Lexicon*: a set belongs to a kind of row, as
# every occurrence of a word has its tags.
import matplotlib.pyplot as plt
import pandas as pd
from scipy.cluster.hierarchy import leaves_list, linkage
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from sklearn_cleanse import CleanSEKernelClassifier
from sklearn_cleanse.datasets import long_tail_rows, make_candidates

digits, labels = load_digits(return_X_y=True)
rows = long_tail_rows(labels, imbalance=10, random_state=0)
digits, labels = digits[rows], labels[rows]
SOURCES = ("flip", "bag", "instance-dependent", "lexicon")


def draw(source, seed):
    """Split the digits, and draw candidates for the training rows."""
    X, X_new, y, y_new = train_test_split(digits, labels, test_size=0.4, random_state=seed)
    S = make_candidates(y, source, flip_proba=0.3, X=X, random_state=seed)
    return X, S, y, X_new, y_new


# %%
# ``count_strength`` is how far label counts weight the votes: 0 not at all, 1 in full. ``"auto"``
# measures ``instance_dependence_``: how far features predict candidates beyond labels.
found = []
for source in SOURCES:
    for seed in range(3):
        X, S, y, X_new, y_new = draw(source, seed)
        for strength in (0, 1, "auto"):
            model = CleanSEKernelClassifier(count_strength=strength, random_state=0).fit(X, S)
            row = {
                "source": source,
                "strength": str(strength),
                "accuracy": model.score(X_new, y_new),
            }
            found.append(row | {"dependence": model.instance_dependence_})
found = pd.DataFrame(found)
table = found.pivot_table(index="source", columns="strength", values="accuracy").loc[list(SOURCES)]
dependence = found[found.strength == "auto"].groupby("source").dependence.mean()
print(table.assign(instance_dependence_=dependence).round(3))

# %%
# Above: the candidates of all training images of the digit 1, similar images side by side. In flips
# and bags the lines differ at random; the others have blocks, as similar images share wrong
# candidates. Below: accuracy on new images, small dots for single draws.
figure, axes = plt.subplots(
    2, 4, figsize=(11, 6), sharey="row", height_ratios=(1.4, 1), layout="constrained"
)
for source, (sets, dots) in zip(SOURCES, axes.T, strict=True):
    X, S, y, *_ = draw(source, 0)
    order = leaves_list(linkage(X[y == 1], "average", optimal_ordering=True))
    sets.imshow(S[y == 1][order], aspect="auto", cmap="Blues", vmax=1.4, interpolation="nearest")
    sets.set(title=source, xticks=range(10), yticks=[], xlabel="candidates")
    single = found[found.source == source]
    dots.plot(single.strength, 100 * single.accuracy, ".", color="#9AA5B1")
    dots.plot(table.columns, 100 * table.loc[source], "o", ms=10, color="#0072B2")
    dots.set(xlabel=f"count_strength\n(dependence {dependence[source]:.2f})")
    dots.margins(x=0.15)
    dots.grid(axis="y", alpha=0.25)
axes[1, 0].set_ylabel("accuracy, %")
plt.show()

# %%
# The measure is as good as the features: with noisy ones a lexicon may pass for bags. If you know
# how your candidates arose, set ``count_strength`` by hand.
