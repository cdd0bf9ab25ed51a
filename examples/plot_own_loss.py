"""
How do I use my own loss, with and without CleanSE?
===================================================

A loss is a function. As an example, take a loss that is bounded: where the true label is missing
among the candidates, it costs less than a logarithm does.
"""

# %%
# Digits with candidates; then the true digit is removed from a proportion of the training sets.
import matplotlib.pyplot as plt
import numpy as np
import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from sklearn_cleanse import CleanSEClassifier, PartialLabelClassifier
from sklearn_cleanse.datasets import make_candidates
from sklearn_cleanse.losses import Loss, candidate_confidences

X, y = load_digits(return_X_y=True)
X, X_new, y, y_new = train_test_split(X, y, train_size=600, random_state=0)
RATES = (0.0, 0.1, 0.2)
sets = [make_candidates(y, "flip", flip_proba=0.3, noise_rate=r, random_state=0) for r in RATES]

# %%
# The function takes logits, candidates, weights and sample weights, and returns a scalar. Weights
# are zero outside the candidates. With P the probability of the candidates, CC is -log P. This loss
# is :math:`(1 - P^q) / q`, which is CC for q = 0 and at most 1 / q.


def bounded(logits, candidates, weights, sample_weight, *, q=0.7):
    log_p = (logits.log_softmax(dim=1) + weights.log()).logsumexp(dim=1)
    losses = -torch.expm1(q * log_p) / q
    if sample_weight is None:
        return losses.mean()
    return (losses * sample_weight).sum() / sample_weight.sum()


# %%
# `Loss` adds parameters, and confidences: the weights are then the network's own probabilities of
# the candidates, renewed at each visit. It goes where a name would go, with CleanSE or without.
own = Loss(bounded, confidences=candidate_confidences, q=0.7)
small = {"hidden_layer_sizes": (100,), "n_networks": 1, "max_epochs": 15, "random_state": 0}
models = {
    "CC": PartialLabelClassifier("cc", **small),
    "own loss": PartialLabelClassifier(own, **small),
    "CC with CleanSE": CleanSEClassifier("cc", **small),
    "own loss with CleanSE": CleanSEClassifier(own, **small),
}
accuracy = {
    name: [100 * model.fit(X, S).score(X_new, y_new) for S in sets]
    for name, model in models.items()
}
print(f"{'wrong sets':<24}" + "".join(f"{rate:>8.0%}" for rate in RATES))
for name, row in accuracy.items():
    print(f"{name:<24}" + "".join(f"{value:>8.1f}" for value in row))

# %%
# Left: what a set costs. Right: accuracy on new images.
figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
p = np.linspace(0.005, 1, 200)
left.plot(p, -np.log(p), color="#0072B2", label="CC")
left.plot(p, (1 - p**0.7) / 0.7, color="#D55E00", label="own loss, q = 0.7")
left.set(xlabel="probability of the candidates", ylabel="loss")
for name, row in accuracy.items():
    color, line = "#0072B2" if "CC" in name else "#D55E00", "-" if "CleanSE" in name else "--"
    right.plot(100 * np.array(RATES), row, line, marker="o", color=color, label=name)
right.set(xlabel="wrong sets, %", ylabel="accuracy on new images, %", xticks=[0, 10, 20])
for ax in (left, right):
    ax.grid(alpha=0.25)
    ax.legend(frameon=False)
plt.show()

# %%
# One split shows little: differences of a point mean nothing. Choose q, as any parameter, by a
# measure that needs candidates only (:doc:`/selection`).
