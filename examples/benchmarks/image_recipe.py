"""How the recipe does on many rows: accuracy on held-out training images, for several settings.

    python examples/benchmarks/image_recipe.py fashion_mnist weight_decay=2e-4 weight_decay=2e-5
    python examples/benchmarks/image_recipe.py mnist --method cleanse kernel_share=0 lr=0.003

50,000 training images with uniform candidates train, the other 10,000 are scored by their true
labels, and so is what the model believes of those it was trained on; the test images are not
touched. A setting is a list of arguments: ``lr=0.003,dropout=0``.
"""

from __future__ import annotations

import argparse
import ast
import time

import numpy as np
import torch
from skorch.callbacks import Callback

from sklearn_cleanse import CleanSEClassifier, PartialLabelClassifier
from sklearn_cleanse.datasets import load_images, make_candidates


class Predictions(Callback):
    """The network's predictions after each of the last ten epochs."""

    def __init__(self, X):
        self.X = X

    def on_train_begin(self, net, **kwargs):
        self.found_ = []

    def on_epoch_end(self, net, **kwargs):
        if len(net.history) > net.max_epochs - 10:
            self.found_.append(net.most_likely(self.X))


def measure(parts, method, settings, seed) -> str:
    """Train once; return the accuracies as a row of the table."""
    X, S, y, X_out, y_out = parts
    watch = Predictions(X_out)
    common = {"batch_size": 256, "random_state": seed, "callbacks": [watch]}
    if method == "cleanse":
        model = CleanSEClassifier(**common | settings)
    else:
        model = PartialLabelClassifier(method, **common | settings)
    began = time.perf_counter()
    model.fit(X, S)
    seconds = time.perf_counter() - began
    found = next(c.found_ for _, c in model.net_.callbacks_ if isinstance(c, Predictions))
    last = [(predicted == y_out).mean() for predicted in found]
    final = (model.predict(X_out) == y_out).mean()
    believed = (model.candidate_proba_.argmax(axis=1) == y).mean()
    cells = [100 * np.mean(last), 100 * last[-1], 100 * final, 100 * believed, seconds]
    return "".join(f"{cell:12.2f}" for cell in cells)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("dataset", help="mnist, fashion_mnist or kmnist")
    parser.add_argument("settings", nargs="*", default=[""], help="such as lr=0.003,dropout=0")
    parser.add_argument("--method", default="cc", help="cleanse, or a loss (default: cc)")
    parser.add_argument("--rows", type=int, default=50_000, help="training rows (default: 50000)")
    parser.add_argument("--seed", type=int, default=5)
    options = parser.parse_args()
    torch.set_num_threads(1)
    images = load_images(options.dataset, download_if_missing=False)
    rows = np.random.RandomState(options.seed).permutation(images.n_train)
    train, out = rows[: options.rows], rows[-10_000:]
    S = make_candidates(images.target[train], "uniform", random_state=options.seed)
    held_out = images.data[out], images.target[out]
    parts = images.data[train], S, images.target[train], *held_out
    heads = ("last ten", "last epoch", "whole model", "of training", "seconds")
    print(f"{options.dataset}, {options.method}".ljust(40) + "".join(f"{h:>12}" for h in heads))
    for text in options.settings:
        pairs = (pair.split("=") for pair in text.split(",") if pair)
        settings = {name.strip(): ast.literal_eval(value) for name, value in pairs}
        print(text.ljust(40) + measure(parts, options.method, settings, options.seed), flush=True)


if __name__ == "__main__":
    main()
