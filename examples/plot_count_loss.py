"""
The count loss by itself: learning from counts alone
====================================================

**The problem.** Sometimes there are no labels at all, only counts. A clinic tells how many of its
eight patients were ill, not which. A polling station tells how its district voted, nobody tells
how you did. And often not even the number is certain: "two to four of them".

CleanSE uses counts to keep predictions within bounds. The function behind this can be used on its
own, and on its own it is enough to learn from: `interval_log_prob` is the exact probability that a
count lies in an interval, and it has a gradient.
"""

# %%
# Bags with counts
# ----------------
# Two half-moons. Points come in bags of eight, and of each bag we are told how many points are of
# the lower moon, give or take one.
import matplotlib.pyplot as plt
import numpy as np
import torch
from scipy.stats import binom
from sklearn.datasets import make_moons

from sklearn_cleanse.counts import interval_log_prob

N_BAGS, BAG_SIZE = 60, 8
X, y = make_moons(N_BAGS * BAG_SIZE, noise=0.15, random_state=0)
rng = np.random.RandomState(0)
# Bags differ: each has its own share of the lower moon.
shares = rng.beta(0.8, 0.8, size=N_BAGS)
pools = [list(rng.permutation(np.flatnonzero(y == label))) for label in (0, 1)]
bags = []
for share in shares:
    wanted = (rng.uniform(size=BAG_SIZE) < share).astype(int)
    bags.append([pools[label if pools[label] else 1 - label].pop() for label in wanted])
bags = np.array(bags)
counts = y[bags].sum(axis=1)
lower = np.clip(counts - 1, 0, BAG_SIZE)
upper = np.clip(counts + 1, 0, BAG_SIZE)

# %%
# The probability of a count
# --------------------------
# Eight points with the same probability have a binomial count, and there the result can be
# checked:
p, low, high = 0.3, 2, 4
logits = torch.full((BAG_SIZE, 1), float(np.log(p / (1 - p))), dtype=torch.float64)
ours = interval_log_prob(logits, torch.tensor([low]), torch.tensor([high])).exp().item()
exact = binom.cdf(high, BAG_SIZE, p) - binom.cdf(low - 1, BAG_SIZE, p)
print(f"P({low} <= count <= {high}) = {ours:.12f}, by scipy {exact:.12f}")

# %%
# Training on nothing else
# ------------------------
# A bag is a column: its eight logits, and its bounds. The loss is minus the log-probability that
# each count is within its bounds. No point has a label.
torch.manual_seed(0)
network = torch.nn.Sequential(
    torch.nn.Linear(2, 32),
    torch.nn.ReLU(),
    torch.nn.Linear(32, 32),
    torch.nn.ReLU(),
    torch.nn.Linear(32, 1),
)
optimizer = torch.optim.Adam(network.parameters(), lr=0.01, weight_decay=1e-4)
points = torch.tensor(X[bags], dtype=torch.float32)  # (bags, points of a bag, 2)
bounds = torch.tensor(lower), torch.tensor(upper)
losses = []
for _ in range(400):
    optimizer.zero_grad()
    loss = -interval_log_prob(network(points).squeeze(2).T, *bounds).mean()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())

# %%
# The picture
# -----------
# Left, what is known: a line joins the points of a bag with their centre, and its colour is the
# count. Four bags are drawn. Right, what was learnt: the probability of the lower moon. The
# colour of a point is its true label, which nothing has seen.
figure, (known, learnt) = plt.subplots(1, 2, figsize=(11, 4.2), sharey=True, layout="constrained")
colours = plt.get_cmap("coolwarm")
known.scatter(*X.T, s=6, color="#C9D0D8")
shown = counts.argsort()[np.linspace(3, N_BAGS - 4, 4).astype(int)]
for bag in shown:
    centre = X[bags[bag]].mean(axis=0)
    for point in X[bags[bag]]:
        known.plot(*np.array([centre, point]).T, color=colours(counts[bag] / BAG_SIZE), lw=1.2)
    known.scatter(*X[bags[bag]].T, s=26, color=[colours(counts[bag] / BAG_SIZE)], zorder=3)
    text = f"{lower[bag]} to {upper[bag]} of {BAG_SIZE}"
    box = {"boxstyle": "round,pad=0.25", "fc": "white", "ec": colours(counts[bag] / BAG_SIZE)}
    known.annotate(text, centre, ha="center", va="center", bbox=box, fontsize=9, zorder=4)
known.set_title("What is known: counts of bags")

grid = np.stack(np.meshgrid(np.linspace(-1.6, 2.6, 200), np.linspace(-1.1, 1.6, 150)), axis=-1)
with torch.no_grad():
    proba = network(torch.tensor(grid, dtype=torch.float32)).squeeze(-1).sigmoid().numpy()
learnt.contourf(grid[..., 0], grid[..., 1], proba, levels=20, cmap="coolwarm", alpha=0.6)
learnt.contour(grid[..., 0], grid[..., 1], proba, levels=[0.5], colors="black")
learnt.scatter(*X.T, s=10, c=y, cmap="coolwarm", edgecolors="white", linewidths=0.3)
learnt.set_title("What comes of it: a label for each point")
plt.show()

# %%
# The measure
# -----------
# New points, of which nothing was known:
X_new, y_new = make_moons(2000, noise=0.15, random_state=1)
with torch.no_grad():
    logits = network(torch.tensor(X_new, dtype=torch.float32)).squeeze(1).numpy()
print(f"loss {losses[0]:.2f} at first, {losses[-1]:.2f} at last")
print(f"accuracy on new points: {((logits > 0) == y_new).mean():.1%}")

# %%
# The caveat
# ----------
# It works because bags differ. If every bag had four points of eight, counts would say nothing
# about single points. In partial label learning the bounds are wide, from the clean rows of a
# label to its candidates, so there the count loss only holds back what is impossible; the votes
# do the rest. :doc:`Label counts </counts>` says how it is computed, and what it costs.
