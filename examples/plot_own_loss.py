"""
A loss of your own, and CleanSE on top of it
============================================

**The problem.** Every method here takes it for granted that the true label is among the candidates.
Sometimes it is not: a list was cut short, or an annotator slipped. A loss with a logarithm then
insists, for nothing costs it more than a list that gets no probability. We write a loss that gives
up on such lists, and compare it with CC.
"""

# %%
# The data
# --------
# Digits with lists of candidates: the true digit, and each other one with probability 0.3. Then the
# true digit is struck from a share of the training lists that have others. Test labels stay as they
# are, and no `fit` sees a true label.
import matplotlib.pyplot as plt
import numpy as np
import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from sklearn_cleanse import CleanSEClassifier, PartialLabelClassifier
from sklearn_cleanse.datasets import make_candidates
from sklearn_cleanse.losses import Loss, candidate_confidences

X, y = load_digits(return_X_y=True)
S = make_candidates(y, "flip", flip_proba=0.3, random_state=0)
X_train, X_test, S_train, _, y_train, y_test = train_test_split(
    X, S, y, train_size=600, random_state=0
)


def strike(candidates, truth, share):
    """Strike the true label from a share of the lists that have another one."""
    rng = np.random.RandomState(0)
    struck = (rng.uniform(size=len(truth)) < share) & (candidates.sum(axis=1) > 1)
    candidates = candidates.copy()
    candidates[struck, truth[struck]] = 0
    return candidates


# %%
# The loss
# --------
# A loss is a function of logits, candidates, weights and sample weights that returns a scalar.
# Weights are zero outside the candidates. With :math:`P = \sum_j w_j p_j`, the probability that the
# candidates get, CC is :math:`-\log P`. Ours is :math:`(1 - P^q) / q`, which is CC for q → 0 and
# never exceeds 1/q.


def bounded(logits, candidates, weights, sample_weight, *, q):
    log_p = (logits.log_softmax(dim=1) + weights.log()).logsumexp(dim=1)
    losses = -torch.expm1(q * log_p) / q
    if sample_weight is None:
        return losses.mean()
    return (losses * sample_weight).sum() / sample_weight.sum()


# %%
# The function by itself could be passed as ``loss=`` if it had no parameter. A record says more:
# that q is 0.7 unless ``loss_params`` says otherwise, and that the weights are confidences, the
# softmax over the candidates, renewed at each visit of a row.
own = Loss(bounded, candidate_confidences, defaults={"q": 0.7})

# %%
# The fits
# --------
# The record goes where a name would go, and CleanSE goes on top of it as on any loss: votes of
# neighbours change its weights, and label counts are kept in their bounds.
settings = {
    "hidden_layer_sizes": (100,),
    "n_members": 1,
    "max_epochs": 15,
    "scaling": "minmax",
    "random_state": 0,
}
on_top = {"vote": "soft", "vote_start": 0.3, **settings}
models = {
    "CC": PartialLabelClassifier("cc", **settings),
    "CC + CleanSE": CleanSEClassifier("cc", **on_top),
    "own loss": PartialLabelClassifier(own, **settings),
    "own loss + CleanSE": CleanSEClassifier(own, **on_top),
}
shares = [0.0, 0.1, 0.2]
accuracy = {name: [] for name in models}
for share in shares:
    struck = strike(S_train, y_train, share)
    for name, model in models.items():
        accuracy[name].append(100 * model.fit(X_train, struck).score(X_test, y_test))

# %%
# The picture
# -----------
# Left: what a list costs by the probability that the network gives it. Right: what comes of it.
looks = {
    "CC": ("#0072B2", "--"),
    "CC + CleanSE": ("#0072B2", "-"),
    "own loss": ("#D55E00", "--"),
    "own loss + CleanSE": ("#D55E00", "-"),
}
figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
p = np.linspace(0.005, 1, 200)
left.plot(p, -np.log(p), color="#0072B2", label="CC: −log P")
left.plot(p, (1 - p**0.7) / 0.7, color="#D55E00", label="own loss, q = 0.7")
left.set(xlabel="P, the probability of the candidates", ylabel="loss")
for name, (color, line) in looks.items():
    right.plot(100 * np.array(shares), accuracy[name], line, marker="o", color=color, label=name)
right.set(
    xlabel="lists of two or more that lack the true digit (%)",
    ylabel="test accuracy (%)",
    xticks=[0, 10, 20],
)
for ax in (left, right):
    ax.grid(alpha=0.25)
    ax.legend(frameon=False)
plt.show()

# %%
# The measure
# -----------
# Accuracy on new images, in per cent:
print(f"{'true digit struck from':<24}" + "".join(f"{share:>8.0%}" for share in shares))
for name, row in accuracy.items():
    print(f"{name:<24}" + "".join(f"{value:>8.1f}" for value in row))

# %%
# With lists that hold the truth there is little between the losses, and CC needs no parameter. The
# more lists lack it, the more the bounded loss is worth. CleanSE takes either as its base
# loss; on a single split like this one its differences are small.
#
# The caveat
# ----------
# This is one split of one data set, with lists struck at random: differences of a point mean
# nothing. How many of *your* lists lack the truth you do not know, and so not q either: treat it as
# any other parameter, and choose by a measure that needs candidates only
# (:doc:`Scoring and selection </selection>`). The losses themselves cannot be compared, as a
# bounded one is lower by design.
