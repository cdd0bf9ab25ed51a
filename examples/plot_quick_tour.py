"""
Quick tour: digits with ambiguous labels
========================================

**The problem.** You want to classify handwritten digits, but nobody told you which digit each image
shows. What you have is a short list for each image: "a 3, a 5 or an 8". One entry of the list is
right. This is *partial label learning*; the lists are called *candidates*.
"""

# %%
# The data
# --------
#
# We take scikit-learn's digits and make the lists ourselves: the true digit, and each of the nine
# others with probability 0.3. The true labels `y` are kept for one purpose, to see at the end how
# well we did. No `fit` gets them.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from sklearn_cleanse import CleanSEClassifier, CleanSEKernelClassifier
from sklearn_cleanse.datasets import describe, make_candidates

X, y = load_digits(return_X_y=True)
S = make_candidates(y, "flip", flip_proba=0.3, random_state=0)
X_train, X_test, S_train, S_test, y_train, y_test = train_test_split(
    X, S, y, train_size=600, random_state=0
)
print(describe(S_train, X=X_train, name="digits"))

# %%
# Few images are *clean*, that is, have a single candidate. They are the only ones whose label is
# known.
#
# The fit
# -------
#
# `CleanSEClassifier` is an ordinary classifier, except that `fit` takes candidates. It lets all
# other images vote on the candidates of each, the clean ones being the anchor, weighs these votes
# by how often each digit is a candidate, and trains a network on them. Features need no scaling.

model = CleanSEClassifier(max_epochs=10, random_state=0)
model.fit(X_train, S_train)

# %%
# The picture
# -----------
#
# After training, the model has an opinion on every list. Here are six training images, from one of
# which it is sure to one of which it is not. The bars are its confidence in each candidate; digits
# that are no candidates are pale. The true digit, which the model never saw, is framed.

confidence = model.candidate_proba_
partial = np.flatnonzero(S_train.sum(axis=1) > 2)  # of a clean image everybody is sure
sureness = confidence[partial].max(axis=1)
chosen = [partial[np.abs(sureness - at).argmin()] for at in np.linspace(1, sureness.min(), 6)]

fig, axes = plt.subplots(2, 6, figsize=(11, 4), sharey="row", layout="constrained")
for (image, bars), row in zip(axes.T, chosen, strict=True):
    image.imshow(X_train[row].reshape(8, 8), cmap="gray_r")
    image.axis("off")
    bars.bar(range(10), confidence[row], color="#56B4E9", width=0.9)
    bars.set_xticks(range(10))
    for digit, label in enumerate(bars.get_xticklabels()):
        label.set_color("black" if S_train[row, digit] else "lightgrey")
        if digit == y_train[row]:
            label.set(fontweight="bold", bbox={"facecolor": "none", "pad": 1.5})
    bars.spines[["top", "right"]].set_visible(False)
    bars.set(ylim=(0, 1.05), xlabel="digit")
axes[1, 0].set_ylabel("confidence")
plt.show()

# %%
# Why does it believe what it believes of the last one? Here are the votes, and the training images
# that said most: how similar they are, and how much each speaks for a candidate (+) or against (−).

print(model.explain(X_train[chosen[-1:]], S_train[chosen[-1:]])[0])

# %%
# The measure
# -----------
#
# Without true labels you can measure the *covering rate*: how often a prediction lies among the
# candidates. It needs none, and the accuracy is never above it. In this example we do have the true
# labels, so we can look at the accuracy as well, and at the share of training lists whose true
# digit was found.

found = model.disambiguate(X_train, S_train) == y_train
print(f"covering rate on new images   {model.score(X_test, S_test):.3f}")
print(f"accuracy on new images        {model.score(X_test, y_test):.3f}")
print(f"training digits found         {found.mean():.3f}")

# %%
# The quick form
# --------------
#
# The votes alone already make a classifier, without a network and in a fraction of the time. Try it
# first on data of your own.

quick = CleanSEKernelClassifier().fit(X_train, S_train)
print(f"accuracy of the votes alone   {quick.score(X_test, y_test):.3f}")

# %%
# The caveat
# ----------
#
# Our wrong candidates were drawn at random, which is kind: no wrong digit keeps company with a
# true one. Real candidates are not like that, as :ref:`another page
# <sphx_glr_auto_examples_plot_worlds_of_candidates.py>` shows. Where two labels always occur
# together, no method can tell them apart, and no measure that needs candidates only will notice.
# Have at least a few rows checked by hand before you trust the rest.
