"""
Counts and votes: looking at what CleanSE computes
==================================================

CleanSE adds two things to a base loss. Both can be looked at on a small example: how many rows of a
batch belong to a class (*counts*), and which candidate the other rows name (*votes*).
"""

# %%
# A batch with candidates
# -----------------------
# Twelve rows, four classes. A row with a single candidate is *clean*. For each class the number of
# clean rows is a lower bound of how many rows have it, and the number of rows that list it as a
# candidate is an upper bound.
import matplotlib.pyplot as plt
import numpy as np
import torch
from scipy.signal import convolve
from skorch.callbacks import Callback

from sklearn_cleanse import CleanSEClassifier, CleanSEKernelClassifier
from sklearn_cleanse.candidates import candidate_counts, check_candidates
from sklearn_cleanse.counts import (
    entropy_loss,
    interval_log_prob,
    interval_loss,
    one_vs_rest_logits,
)
from sklearn_cleanse.datasets import make_partial_classification
from sklearn_cleanse.metrics import disambiguation_accuracy
from sklearn_cleanse.votes import cosine_directions, hard_votes, nearest

_, S, _ = make_partial_classification(12, clean_rate=0.25, flip_proba=0.4, random_state=3)
classes, candidates = check_candidates(S)
lower, upper = (torch.from_numpy(bound) for bound in candidate_counts(candidates))
for label in classes:
    print(f"class {label}: between {lower[label]} and {upper[label]} of {len(S)} rows")

# %%
# The distribution of a count
# ---------------------------
# A network's probabilities make each count a sum of independent coin tosses: a Poisson-binomial
# distribution. Its exact probabilities are a chain of small convolutions; `interval_log_prob` gives
# the same without the table, in logarithms, and with a gradient. Green bars lie inside the bounds.
# These logits are random, from a network that has learnt nothing.
logits = 1.5 * torch.randn(len(S), len(classes), generator=torch.Generator().manual_seed(0))
proba = logits.double().softmax(dim=1).numpy()

figure, axes = plt.subplots(1, 4, figsize=(9, 2.6), sharey=True, layout="constrained")
log_inside = interval_log_prob(one_vs_rest_logits(logits.double()), lower, upper)
for label, ax in zip(classes, axes, strict=True):
    distribution = np.ones(1)
    for p in proba[:, label]:
        distribution = convolve(distribution, [1 - p, p], method="direct")
    counts = np.arange(len(distribution))
    inside = (counts >= int(lower[label])) & (counts <= int(upper[label]))
    ax.bar(counts, distribution, color=np.where(inside, "#009E73", "#BBBBBB"))
    ax.set(title=f"class {label}\nP(inside) = {distribution[inside].sum():.3f}", xlabel="rows")
    assert np.isclose(distribution[inside].sum(), log_inside[label].exp())
axes[0].set_ylabel("probability")

# %%
# The loss
# --------
# The count loss is −log of the probability of the green bars, summed over classes. What Eq. (10) of
# the paper prints is −P log P, which is zero at P = 0 as well: below P = 1/e its gradient pushes
# *away* from the bounds. Shifting one class's logits shows both.
shifts = torch.linspace(-8, 8, 161)
curves = {"−log P": [], "−P log P, as printed": []}
for shift in shifts:
    moved = logits.double().clone()
    moved[:, 0] += shift
    curves["−log P"].append(float(interval_loss(moved, lower, upper)))
    curves["−P log P, as printed"].append(float(entropy_loss(moved, lower, upper)))

figure, axes = plt.subplots(1, 2, figsize=(9, 3), layout="constrained")
for ax, (name, values) in zip(axes, curves.items(), strict=True):
    ax.plot(shifts, values, color="#0072B2")
    ax.set(title=name, xlabel="added to the logits of class 0", ylabel="count loss")
    ax.grid(alpha=0.25)

# %%
# Far to the right every row is called class 0: more than its upper bound, and the other classes get
# no row, less than the lower bound of those with clean rows. −log P grows there and pulls back; the
# printed form falls to zero and lets go.
#
# Votes, epoch by epoch
# ---------------------
# In the paper, the enhanced label of a row is the candidate that its nearest neighbours name, clean
# ones first (``vote="hard"``; ``"soft"`` is a gentler form). A callback looks at it after each
# epoch, in the space that the network has learnt so far, and compares it with the truth, which
# training itself never sees. Beside it stand the votes that are the default: those of all other
# rows, taken once and before training (``vote="kernel"``).
X, S, y = make_partial_classification(
    600, 20, 6, clean_rate=0.1, flip_proba=0.4, class_sep=1.2, random_state=0
)
own = torch.from_numpy(S)
partial = S.sum(axis=1) > 1


def enhanced_label_accuracy(directions):
    """Share of partial rows whose enhanced label is true."""
    neighbors, similarity = nearest(directions, directions, 10, own=torch.arange(len(directions)))
    votes = hard_votes(neighbors, similarity, own, own).numpy()
    return (votes.argmax(axis=1) == y)[partial & votes.any(axis=1)].mean()


class Watch(Callback):
    """Look on while the network trains."""

    def on_train_begin(self, net, **kwargs):
        self.votes_, self.network_ = [], []

    def on_epoch_end(self, net, **kwargs):
        directions = torch.from_numpy(net.directions(X, "representation"))
        self.votes_.append(enhanced_label_accuracy(directions))
        log_proba = net.log_proba(X)
        self.network_.append(
            disambiguation_accuracy(S, log_proba, y, log=True, sample_weight=partial)
        )


model = CleanSEClassifier(
    vote="soft", vote_start=0.3, max_epochs=30, batch_size=32, callbacks=[Watch()], random_state=0
).fit(X, S)
watch = next(callback for _, callback in model.net_.callbacks_ if isinstance(callback, Watch))

scaled = torch.from_numpy((X - X.mean(axis=0)) / X.std(axis=0))
at_first = enhanced_label_accuracy(cosine_directions(scaled))

kernel = CleanSEKernelClassifier(random_state=0).fit(X, S)
by_all = (kernel.candidate_proba_.argmax(axis=1) == y)[partial].mean()

figure, ax = plt.subplots(figsize=(7, 3.6), layout="constrained")
epochs = np.arange(1, len(watch.votes_) + 1)
ax.plot(epochs, watch.votes_, color="#D55E00", label="neighbours, learnt space")
ax.plot(epochs, watch.network_, color="#0072B2", label="the network itself")
ax.axhline(at_first, color="#777777", ls="--", label="neighbours, scaled features")
ax.axhline(by_all, color="#009E73", ls="--", label="all other rows, before training")
ax.set(xlabel="epoch", ylabel="partial rows identified", ylim=(None, 1.01))
ax.grid(alpha=0.25)
ax.legend(frameon=False)

# %%
# How often the truth is named, among the rows that have a choice:
print(f"neighbours by scaled features: {at_first:.1%}")
print(f"neighbours in the learnt space, last epoch: {watch.votes_[-1]:.1%}")
print(f"the network, last epoch: {watch.network_[-1]:.1%}")
print(f"all other rows, before training: {by_all:.1%}")

# %%
# Neighbours know more than a network that has just begun, and the learnt space makes them better
# still. All other rows, asked before training, already know about as much as neighbours do at its
# end. On data where the network alone is already better than its neighbours, votes have less to
# give, and may do harm: compare their lines before you raise ``temperature``.

plt.show()
