"""
A network of your own
=====================

**The problem.** The built-in network is a good default for tables. You may know better: that a
feature is an angle, that two halves of a row are alike, that a certain layer works on your data.
Then hand over a class of yours. Everything else, votes, counts, members, scaling, stays as it is.
"""

# %%
# The data
# --------
# Three spiral arms in the plane. Each point has its arm as a candidate, and each other arm with
# probability 0.4, so that about one point in three is clean.
import matplotlib.pyplot as plt
import numpy as np
import torch

from sklearn_cleanse import CleanSEClassifier
from sklearn_cleanse.datasets import make_candidates


def spirals(n_samples, seed):
    rng = np.random.RandomState(seed)
    y = rng.randint(3, size=n_samples)
    radius = np.sqrt(rng.uniform(0.02, 1, size=n_samples))
    angle = 15 * radius + 2 * np.pi * y / 3 + rng.normal(scale=0.2, size=n_samples)
    return radius[:, None] * np.stack([np.cos(angle), np.sin(angle)], axis=1), y


X, y = spirals(500, seed=0)
X_test, y_test = spirals(3000, seed=1)
S = make_candidates(y, "flip", flip_proba=0.4, random_state=0)

# %%
# The network
# -----------
# The class is called with the number of features and of classes, and whatever ``module_params``
# holds. It returns logits, or logits and a representation. This one first turns each feature into
# waves of random frequencies, which lets a network bend its borders sharply.


class Waves(torch.nn.Module):
    """Random Fourier features and one hidden layer."""

    def __init__(self, n_features, n_classes, n_waves=128, frequency=1.0):
        super().__init__()
        self.register_buffer("waves", frequency * torch.randn(n_features, n_waves))
        self.body = torch.nn.Sequential(torch.nn.Linear(2 * n_waves, 64), torch.nn.ReLU())
        self.head = torch.nn.Linear(64, n_classes)

    def forward(self, X):
        angles = X @ self.waves
        representation = self.body(torch.cat([angles.sin(), angles.cos()], dim=1))
        return self.head(representation), representation


# %%
# The fits
# --------
# To see the networks themselves, the kernel has no say in predictions (``kernel_share=0``).
common = {
    "kernel_share": 0,
    "max_epochs": 30,
    "n_members": 1,
    "scaling": "standard",
    "random_state": 0,
}
models = {
    "the built-in network": CleanSEClassifier(**common),
    "Waves": CleanSEClassifier(module=Waves, **common),
    "Waves, frequency 4": CleanSEClassifier(
        module=Waves, module_params={"frequency": 4.0}, **common
    ),
}
for model in models.values():
    model.fit(X, S)

# %%
# The picture
# -----------
# What each network predicts in the plane, and the training points in their true colours. Pale
# points are those with several candidates.
COLOURS = ["#0072B2", "#E69F00", "#009E73"]
grid = np.stack(np.meshgrid(np.linspace(-1.15, 1.15, 220), np.linspace(-1.15, 1.15, 220)), axis=-1)
clean = S.sum(axis=1) == 1
figure, axes = plt.subplots(1, 3, figsize=(11, 4), sharey=True, layout="constrained")
for ax, (name, model) in zip(axes, models.items(), strict=True):
    proba = model.predict_proba(grid.reshape(-1, 2)).reshape(*grid.shape[:2], 3)
    shade = proba @ np.array([[0, 0.45, 0.70], [0.90, 0.62, 0], [0, 0.62, 0.45]])
    ax.imshow(0.45 * shade + 0.55, extent=(-1.15, 1.15, -1.15, 1.15), origin="lower")
    for label, colour in enumerate(COLOURS):
        for mask, style in (
            (clean, {"s": 16, "edgecolors": "white"}),
            (~clean, {"s": 8, "alpha": 0.45}),
        ):
            ax.scatter(*X[(y == label) & mask].T, color=colour, linewidths=0.5, **style)
    ax.set(title=f"{name}: {model.score(X_test, y_test):.1%}", xticks=[], yticks=[])
plt.show()

# %%
# The measure
# -----------
# Accuracy on new points is in the titles. Without true labels you would choose by the covering
# rate of held-out candidates, as in :doc:`/auto_examples/plot_tune_without_truth`; here, on new
# points with candidates drawn in the same way:
S_test = make_candidates(y_test, "flip", flip_proba=0.4, random_state=1)
for name, model in models.items():
    covered, right = model.score(X_test, S_test), model.score(X_test, y_test)
    print(f"{name:<24}{covered:.1%} covered, {right:.1%} right")

# %%
# The caveat
# ----------
# A network of your own is saved by reference to its class, so put it into a module that can be
# imported where the model is loaded. Your module gets features that are scaled already
# (``scaling=`` says how), and it is trained with the same recipe as the built-in one: ``lr``,
# ``schedule``, ``weight_decay`` and ``batch_size`` may need another value.
