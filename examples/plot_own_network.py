"""
How do I train my own network, on images?
=========================================

A convolutional network recognizes a stroke wherever it is; a kernel on pixels does not.
`CleanSEClassifier` takes any ``torch.nn.Module`` class. Votes, counts and scaling stay as they are.
"""

# %%
# scikit-learn's digits, each at a random place of a larger canvas. Images have the shape (images,
# channels, height, width).
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
X, X_new, S, _, y, y_new = train_test_split(X, S, y, train_size=900, random_state=0)

# %%
# The class is called with the number of channels and of classes, and with ``module_params``. It
# returns logits.


class SmallCNN(torch.nn.Module):
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
# The kernel's votes on pixels guide the network at the beginning. They do not share in its
# predictions: ``voter_blend=0``. To see whether they help, one fit has no voter.
common = {"n_networks": 1, "max_epochs": 10, "batch_size": 64, "random_state": 0}
models = {
    "kernel on pixels": CleanSEKernelClassifier(),
    "dense network": CleanSEClassifier(voter_blend=0, **common),
    "CNN": CleanSEClassifier(module=SmallCNN, voter_blend=0, **common),
    "CNN without votes": CleanSEClassifier(module=SmallCNN, voter=None, **common),
}
accuracy = {name: model.fit(X, S).score(X_new, y_new) for name, model in models.items()}
print({name: f"{value:.1%}" for name, value in accuracy.items()})

# %%
# Training images with their candidates and the one that the CNN chose, and the accuracy on new
# images.
chosen = models["CNN"].disambiguate(X, S)
figure = plt.figure(figsize=(10, 3.6), layout="constrained")
images, right = figure.subfigures(1, 2, width_ratios=(1.4, 1))
for ax, row in zip(images.subplots(2, 5).flat, np.flatnonzero(S.sum(axis=1) == 4), strict=False):
    ax.imshow(X[row, 0], cmap="Greys")
    ax.set(xticks=[], yticks=[], xlabel=f"{', '.join(map(str, np.flatnonzero(S[row])))}")
    ax.set_title(f"chosen: {chosen[row]}", fontsize=10, color="#0072B2")
ax = right.subplots()
bars = ax.barh(list(accuracy), list(accuracy.values()), color="#0072B2")
ax.bar_label(bars, [f"{value:.1%}" for value in accuracy.values()], padding=-40, color="white")
ax.invert_yaxis()
ax.set(xlim=(0, 1), xlabel="accuracy on new images")
plt.show()
