"""
Can I learn from counts alone?
==============================

Sometimes only counts are known: how many of eight patients were ill, not which. `interval_log_prob`
is the exact probability that a count lies in an interval, with a gradient. CleanSE uses it to keep
predictions within bounds; by itself it is enough to learn from.
"""

# %%
# Two half-moons, in bags of eight points. Of each bag it is known how many points belong to the
# lower moon, give or take one.
import matplotlib.pyplot as plt
import numpy as np
import torch
from sklearn.datasets import make_moons

from sklearn_cleanse.counts import interval_log_prob

N_BAGS, BAG_SIZE = 60, 8
X, y = make_moons(N_BAGS * BAG_SIZE, noise=0.15, random_state=0)
rng = np.random.RandomState(0)
pools = [list(rng.permutation(np.flatnonzero(y == label))) for label in (0, 1)]
bags = []
for proportion in rng.beta(0.8, 0.8, size=N_BAGS):  # bags differ
    wanted = (rng.uniform(size=BAG_SIZE) < proportion).astype(int)
    bags.append([pools[label if pools[label] else 1 - label].pop() for label in wanted])
bags = np.array(bags)
counts = y[bags].sum(axis=1)
lower, upper = np.clip(counts - 1, 0, BAG_SIZE), np.clip(counts + 1, 0, BAG_SIZE)

# %%
# A bag is a column: the log-odds of its eight points, and its bounds. The loss is minus the
# log-probability that each count is within its bounds. No point has a label.
torch.manual_seed(0)
layers = [torch.nn.Linear(2, 32), torch.nn.ReLU(), torch.nn.Linear(32, 32), torch.nn.ReLU()]
network = torch.nn.Sequential(*layers, torch.nn.Linear(32, 1))
optimizer = torch.optim.Adam(network.parameters(), lr=0.01, weight_decay=1e-4)
points = torch.tensor(X[bags], dtype=torch.float32)  # (bags, points, 2)
bounds = torch.tensor(lower), torch.tensor(upper)
for _ in range(400):
    optimizer.zero_grad()
    loss = -interval_log_prob(network(points).squeeze(2).T, *bounds).mean()
    loss.backward()
    optimizer.step()

X_new, y_new = make_moons(2000, noise=0.15, random_state=1)
with torch.no_grad():
    predicted = network(torch.tensor(X_new, dtype=torch.float32)).squeeze(1).numpy() > 0
print(f"accuracy on new points: {(predicted == y_new).mean():.1%}")

# %%
# Left: four bags and their counts. Right: the learned probability of the lower moon, and the true
# labels, which nothing has seen.
figure, (known, learned) = plt.subplots(1, 2, figsize=(10, 4), sharey=True, layout="constrained")
colors = plt.get_cmap("coolwarm")
known.scatter(*X.T, s=6, color="#C9D0D8")
for bag in counts.argsort()[np.linspace(3, N_BAGS - 4, 4).astype(int)]:
    color, center = colors(counts[bag] / BAG_SIZE), X[bags[bag]].mean(axis=0)
    for point in X[bags[bag]]:
        known.plot(*np.array([center, point]).T, color=color, lw=1.2)
    known.scatter(*X[bags[bag]].T, s=26, color=[color], zorder=3)
    box = {"boxstyle": "round,pad=0.25", "fc": "white", "ec": color}
    text = f"{lower[bag]} to {upper[bag]} of {BAG_SIZE}"
    known.annotate(text, center, ha="center", va="center", bbox=box, fontsize=9, zorder=4)
known.set_title("known: counts of bags")
grid = np.stack(np.meshgrid(np.linspace(-1.6, 2.6, 200), np.linspace(-1.1, 1.6, 150)), axis=-1)
with torch.no_grad():
    proba = network(torch.tensor(grid, dtype=torch.float32)).squeeze(-1).sigmoid().numpy()
learned.contourf(grid[..., 0], grid[..., 1], proba, levels=20, cmap="coolwarm", alpha=0.6)
learned.scatter(*X.T, s=10, c=y, cmap="coolwarm", edgecolors="white", linewidths=0.3)
learned.set_title("learned: a label for each point")
plt.show()

# %%
# It works because bags differ. With four points of eight in every bag, counts would carry nothing
# about single points.
