"""
Noisy sets and rare classes
===========================

**The problem.** Two things that textbooks exclude and real data have. A set of candidates may
lack the true label: the caption forgot a name. And some classes are rare: there is one nine for
every ten zeros. Each makes the other worse, as a few wrong sets are many for a class of few rows.
"""

# %%
# The data
# --------
# Digits, thinned out so that there are ten times as many zeros as nines. Each set has the true
# digit and others at a rate of 0.3; then a growing share of the sets loses the true one.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.metrics import recall_score
from sklearn.model_selection import train_test_split

from sklearn_cleanse import CleanSEKernelClassifier
from sklearn_cleanse.datasets import long_tail_rows, make_candidates

digits, labels = load_digits(return_X_y=True)
digits, X_test, labels, y_test = train_test_split(digits, labels, test_size=0.4, random_state=0)
rows = long_tail_rows(labels, imbalance=10, random_state=0)
X, y = digits[rows], labels[rows]
print("rows per digit:", *np.bincount(y))

# %%
# The fits
# --------
# ``noise=0``, the default, takes every set at its word. ``noise="auto"`` first estimates how many
# sets are wrong: what share makes them likeliest, given what the other rows say of each? Votes may
# then name labels outside a set. The test images are balanced, so that the accuracy is the mean
# over classes, rare ones included.
SHARES = (0.0, 0.1, 0.2, 0.3, 0.4)
accuracy = {"noise=0": [], 'noise="auto"': []}
recall, estimated = {}, []
for share in SHARES:
    S = make_candidates(y, "flip", flip_proba=0.3, noise=share, random_state=0)
    for name, noise in (("noise=0", 0.0), ('noise="auto"', "auto")):
        model = CleanSEKernelClassifier(noise=noise, random_state=0).fit(X, S)
        predicted = model.predict(X_test)
        accuracy[name].append((predicted == y_test).mean())
        recall[name, share] = recall_score(y_test, predicted, average=None)
    estimated.append(model.noise_)

# %%
# The picture
# -----------
# Left, the accuracy by the share of wrong sets. Middle, the share that is estimated without a
# true label. Right, the recall of each digit where a fifth of the sets are wrong, frequent digits
# first.
LOOKS = {"noise=0": "#D55E00", 'noise="auto"': "#0072B2"}
percent = 100 * np.array(SHARES)
figure, (left, middle, right) = plt.subplots(
    1, 3, figsize=(11.5, 3.9), width_ratios=(1, 0.8, 1.25), layout="constrained"
)
for name, colour in LOOKS.items():
    left.plot(percent, 100 * np.array(accuracy[name]), "o-", color=colour, label=name)
left.set(xlabel="wrong sets, %", ylabel="accuracy on new images, %")
left.legend(frameon=False)
middle.plot([0, 45], [0, 45], ls=":", color="#777777")
middle.plot(percent, 100 * np.array(estimated), "o", color="#0072B2", ms=8)
middle.set(xlabel="wrong sets, %", ylabel="noise_, %", xlim=(-2, 45), ylim=(-2, 45))
for shift, (name, colour) in zip((-0.2, 0.2), LOOKS.items(), strict=True):
    right.bar(np.arange(10) + shift, 100 * recall[name, 0.2], width=0.4, color=colour, label=name)
counts = np.bincount(y)
right.set_xticks(range(10), [f"{digit}\n{count}" for digit, count in enumerate(counts)])
right.set(xlabel="digit, and its training rows", ylabel="recall, %", ylim=(0, 100))
for ax in (left, middle, right):
    ax.grid(alpha=0.25)
    ax.spines[["top", "right"]].set_visible(False)
plt.show()

# %%
# The measure
# -----------
print(f"{'wrong sets':<14}" + "".join(f"{share:>8.0%}" for share in SHARES))
for name, values in accuracy.items():
    print(f"{name:<14}" + "".join(f"{value:>8.1%}" for value in values))
print(f"{'estimated':<14}" + "".join(f"{value:>8.1%}" for value in estimated))

# %%
# The caveat
# ----------
# This is one draw of each share, and the wrong sets were drawn at random. Where the wrong
# candidates look like the row itself, nothing in the data says that the true label is missing,
# and the estimate comes out far too low. For rare classes there is no remedy in the method alone:
# a class of few rows has few voters. To see which sets are wrong, ask
# :doc:`/auto_examples/plot_doubtful_labels`; figures on other data are in :doc:`Labels from the
# real world </real_labels>`.
