"""
Do I need a network, or is the kernel enough?
=============================================

`CleanSEKernelClassifier` takes about a second, and you tune nothing. `CleanSEClassifier` trains a
network on the same votes and takes longer. Which is better depends on the data, and candidates
alone can decide.
"""

# %%
# On digits, similar images mean similar labels, which suits a kernel. In the other set the label
# depends on the signs of three features, and 27 more carry nothing.
import time

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
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
    "signs of 3 features of 30": split(signs, (signs[:, :3] > 0) @ [1, 2, 4], 1200),
}

# %%
# The kernel once, and networks for two, five and twelve epochs: CleanSE, and CC, which has no
# votes.
EPOCHS = (2, 5, 12)
common = {"n_networks": 1, "scaling": "standard", "random_state": 0}
models = {"kernel": [CleanSEKernelClassifier()]}
models["CleanSE"] = [CleanSEClassifier(max_epochs=n, **common) for n in EPOCHS]
models["CC"] = [PartialLabelClassifier("cc", max_epochs=n, **common) for n in EPOCHS]
CleanSEClassifier(max_epochs=1).fit(signs[:99], signs[:99, 0] > 0)  # the first fit loads code
found = []
for name, (X, X_new, S, S_new, _, y_new) in problems.items():
    for method, fits in models.items():
        for model in fits:
            began = time.process_time()
            model.fit(X, S)
            row = {"data": name, "method": method, "seconds": time.process_time() - began}
            row["accuracy, %"] = 100 * model.score(X_new, y_new)
            found.append(row | {"covering rate, %": 100 * model.score(X_new, S_new)})
found = pd.DataFrame(found)

# %%
# Up is better, left is faster. Dots along a line are epochs.
LOOKS = {"kernel": ("#009E73", "*"), "CleanSE": ("#0072B2", "o"), "CC": ("#D55E00", "s")}
figure, axes = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
for ax, name in zip(axes, problems, strict=True):
    for method, (color, marker) in LOOKS.items():
        points = found[(found.data == name) & (found.method == method)]
        line = {"color": color, "marker": marker, "ms": 15 if marker == "*" else 7}
        ax.plot(points["seconds"], points["accuracy, %"], label=method, **line)
    ax.set(xlabel="seconds of CPU per fit", ylabel="accuracy on new rows, %", title=name)
    ax.grid(alpha=0.25)
axes[0].legend(frameon=False, loc="lower right")
plt.show()

# %%
# The covering rate needs candidates only. Does it order the methods as the accuracy does?
print(found.groupby(["data", "method"]).last().round(1))

# %%
# Begin with the kernel. Train a network where the covering rate on held-out rows is higher, or
# where rows have structure that a kernel cannot see: :doc:`/auto_examples/plot_own_network`.
