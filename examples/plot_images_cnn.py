"""
Images with a convolutional network
===================================

**The problem.** Rows of pixels are images, and an image shows the same thing when it is moved a
little to the side. A kernel on pixels, or a dense network, has to learn that anew for every
place. A convolutional network knows. Here is one of thirty lines, trained on images with
candidate labels.
"""

# %%
# The images
# ----------
# scikit-learn's digits, each put at a random place of a larger canvas, so that pixels no longer
# say where the strokes are. Images go to `fit` as they are, in the shape (images, channels,
# height, width).
import time

import matplotlib.pyplot as plt
import numpy as np
import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from sklearn_cleanse import CleanSEClassifier, CleanSEKernelClassifier
from sklearn_cleanse.datasets import make_candidates

SIZE = 12
rng = np.random.RandomState(0)
digits, y = load_digits(return_X_y=True)
X = np.zeros((len(digits), 1, SIZE, SIZE), dtype=np.float32)
for canvas, digit in zip(X, digits.reshape(-1, 8, 8), strict=True):
    top, left = rng.randint(0, SIZE - 8 + 1, size=2)
    canvas[0, top : top + 8, left : left + 8] = digit / 16
S = make_candidates(y, "flip", flip_proba=0.3, random_state=0)
X, X_test, S, _, y, y_test = train_test_split(X, S, y, train_size=900, random_state=0)

# %%
# The network
# -----------
# A module is called with the number of channels and of classes. It returns logits; what else it
# does is its own affair.


class SmallCNN(torch.nn.Module):
    """Three convolutions, then the maximum over all places."""

    def __init__(self, n_channels, n_classes, width=16):
        super().__init__()
        layers, n_inputs = [], n_channels
        for n_outputs in (width, 2 * width, 2 * width):
            convolution = torch.nn.Conv2d(n_inputs, n_outputs, kernel_size=3, padding=1)
            layers += [convolution, torch.nn.BatchNorm2d(n_outputs), torch.nn.ReLU()]
            n_inputs = n_outputs
        self.body = torch.nn.Sequential(*layers)
        self.head = torch.nn.Linear(n_inputs, n_classes)

    def forward(self, X):
        return self.head(self.body(X).amax(dim=(2, 3)))


# %%
# The fits
# --------
# A kernel on pixels is of little use here: a 3 on the left resembles a 0 on the left more than a
# 3 on the right. So it has no say in predictions (``kernel_share=0``). Its votes still guide the
# network at the beginning of training; to see whether that helps, one fit goes without
# (``temperature=1``).
common = {"n_members": 1, "max_epochs": 10, "batch_size": 64, "kernel_share": 0, "random_state": 0}
models = {
    "kernel on pixels": CleanSEKernelClassifier(),
    "dense network": CleanSEClassifier(**common),
    "CNN": CleanSEClassifier(module=SmallCNN, **common),
    "CNN, no votes": CleanSEClassifier(module=SmallCNN, temperature=1, **common),
}
accuracy = {}
for name, model in models.items():
    flat = "CNN" not in name
    began = time.perf_counter()
    model.fit(X.reshape(len(X), -1) if flat else X, S)
    seconds = time.perf_counter() - began
    accuracy[name] = model.score(X_test.reshape(len(X_test), -1) if flat else X_test, y_test)
    print(f"{name:<18}{accuracy[name]:6.1%} of new images, {seconds:4.1f} s")

# %%
# The picture
# -----------
# Training images with their candidates, the digit that the CNN believes in bold, and the accuracy
# on new images.
model = models["CNN"]
believed = model.disambiguate(X, S)
figure = plt.figure(figsize=(11, 4), layout="constrained")
left, right = figure.subfigures(1, 2, width_ratios=(1.5, 1))
shown = np.flatnonzero(S.sum(axis=1) == 4)[:10]
for ax, row in zip(left.subplots(2, 5).flat, shown, strict=True):
    ax.imshow(X[row, 0], cmap="Greys")
    ax.set(xticks=[], yticks=[])
    for place, digit in enumerate(np.flatnonzero(S[row])):
        style = (
            {"weight": "bold", "color": "#0072B2"}
            if digit == believed[row]
            else {"color": "#777777"}
        )
        ax.text(0.14 + 0.24 * place, -0.14, digit, transform=ax.transAxes, ha="center", **style)
ax = right.subplots()
colours = ["#5F6B78", "#5F6B78", "#0072B2", "#0072B2"]
ax.barh(list(accuracy), list(accuracy.values()), color=colours)
for place, value in enumerate(accuracy.values()):
    ax.text(0.02, place, f"{value:.1%}", va="center", weight="bold", color="white")
ax.invert_yaxis()
ax.set(xlim=(0, 1), xlabel="accuracy on new images")
plt.show()

# %%
# The caveat
# ----------
# This is one split. Votes are as good as the features they are taken from: here they are right
# about half the time, which the network can use while it knows nothing, and outgrows later.
# Compare with ``temperature=1`` on your own data. Where you have embeddings from a trained
# network, votes are good, and the kernel alone may do: it takes seconds. ``module="resnet34"`` is
# there for larger images, and for that you will want ``device="cuda"``.
