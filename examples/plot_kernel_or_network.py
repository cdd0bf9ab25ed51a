"""
Kernel or network? Accuracy against seconds
===========================================

**The problem.** `CleanSEKernelClassifier` takes a second and has nothing to tune.
`CleanSEClassifier` trains a network on the same votes, takes several times as long, and has
many parameters. Is it worth it? That depends on the data. Here are two data sets on which the
answers differ, and a way to find out without true labels.
"""

# %%
# Two data sets
# -------------
# Digits are kind to kernels: similar images mean similar labels. The other set is not: the label
# is made of the signs of three features, and 27 more say nothing. To a kernel all features are
# alike, so that rows look similar for no reason; a network can learn which ones matter.
import time

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.ticker import NullFormatter
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from sklearn_cleanse import CleanSEClassifier, CleanSEKernelClassifier, PartialLabelClassifier
from sklearn_cleanse.datasets import make_candidates


def split(X, y, train_size):
    S = make_candidates(y, "flip", flip_proba=0.3, random_state=0)
    return train_test_split(X, S, y, train_size=train_size, test_size=700, random_state=0)


signs = np.random.RandomState(0).normal(size=(1900, 30))
problems = {
    "digits": split(*load_digits(return_X_y=True), 500),
    "signs of 3 features in 30": split(signs, (signs[:, :3] > 0) @ [1, 2, 4], 1200),
}

# %%
# The fits
# --------
# The kernel once, and networks for two, five and twelve epochs: CleanSE, which has votes to learn
# from, and plain CC, which has not. One network each (``n_members=1``) to save time.
EPOCHS = (2, 5, 12)
common = {"n_members": 1, "scaling": "standard", "random_state": 0}
curves = {name: {} for name in problems}
X, _, S, *_ = problems["digits"]
CleanSEClassifier(max_epochs=1).fit(X, S)  # the first fit of a process also loads code
for name, (X, X_test, S, S_test, _, y_test) in problems.items():
    models = {"kernel": [CleanSEKernelClassifier()]}
    models["CleanSE"] = [CleanSEClassifier(max_epochs=n, **common) for n in EPOCHS]
    models["CC"] = [PartialLabelClassifier("cc", max_epochs=n, **common) for n in EPOCHS]
    for method, fits in models.items():
        points = []
        for model in fits:
            began = time.process_time()
            model.fit(X, S)
            seconds = time.process_time() - began
            points.append((seconds, model.score(X_test, y_test), model.score(X_test, S_test)))
        curves[name][method] = np.array(points)

# %%
# The picture
# -----------
# Up is better, left is faster. The numbers along a line are epochs.
LOOKS = {"kernel": ("#009E73", "*", 16), "CleanSE": ("#0072B2", "o", 7), "CC": ("#D55E00", "s", 6)}
figure, axes = plt.subplots(1, 2, figsize=(10, 4.2), layout="constrained")
for ax, (name, by_method) in zip(axes, curves.items(), strict=True):
    for method, points in by_method.items():
        colour, marker, size = LOOKS[method]
        ax.plot(points[:, 0], 100 * points[:, 1], marker + "-", ms=size, color=colour, label=method)
        if len(points) > 1:
            for n, point in zip(EPOCHS, points, strict=True):
                ax.annotate(
                    n, (point[0], 100 * point[1]), (4, -12), textcoords="offset points", fontsize=8
                )
    ax.set(
        xscale="log", xlabel="seconds of CPU per fit", ylabel="accuracy on new rows, %", title=name
    )
    ax.xaxis.set_major_formatter("{x:g}")
    ax.xaxis.set_minor_formatter(NullFormatter())
    ax.grid(alpha=0.25)
    ax.spines[["top", "right"]].set_visible(False)
axes[0].legend(frameon=False, loc="lower right")
plt.show()

# %%
# Finding out without true labels
# -------------------------------
# The covering rate, the share of predictions that lie in the candidate set, needs candidates
# only. Do both measures agree on who is better?
print(f"{'':<28}{'method':<10}{'accuracy':>10}{'covering rate':>16}{'seconds':>10}")
for name, by_method in curves.items():
    for method, points in by_method.items():
        seconds, right, covered = points[-1]
        print(f"{name:<28}{method:<10}{right:>10.1%}{covered:>16.1%}{seconds:>10.1f}")
for name, by_method in curves.items():
    ratio = by_method["CleanSE"][-1, 0] / by_method["kernel"][0, 0]
    print(f"{name}: {EPOCHS[-1]} epochs took {ratio:.0f} times as long as the kernel")

# %%
# The caveat
# ----------
# Start with the kernel: it is the cheapest way to learn what your candidates are worth. Train a
# network where the covering rate on held-out rows says that it is better, or where there is
# structure that no kernel on your features sees, as in images:
# :doc:`/auto_examples/plot_images_cnn`. Seconds are those of this machine; with a small network
# and few rows, one thread is fastest.
