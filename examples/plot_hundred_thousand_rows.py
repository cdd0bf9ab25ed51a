"""
A hundred thousand rows
=======================

**The problem.** All other rows vote on each row, and comparing all rows with each other takes
time that grows with the cube of their number. A hundred thousand rows would need about a day, and
80 GB. They need neither: from 5,000 rows on, a thousand rows drawn at random stand for all
(*landmarks*), and time and memory grow in proportion to the data.
"""

# %%
# The data
# --------
# Eight classes in 20 dimensions, each of several clusters. A row has between two and three
# candidates on average, one row in ten is clean for certain.
import time

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_classification

from sklearn_cleanse import CleanSEKernelClassifier
from sklearn_cleanse.datasets import make_candidates

N_TEST = 5_000
X, y = make_classification(
    100_000 + N_TEST,
    n_features=20,
    n_informative=8,
    n_classes=8,
    n_clusters_per_class=3,
    class_sep=1.8,
    random_state=0,
)
X = X.astype(np.float32)
S = make_candidates(y, "flip", flip_proba=0.2, clean_rate=0.1, random_state=0)
X, X_test, S, y, y_test = X[N_TEST:], X[:N_TEST], S[N_TEST:], y[N_TEST:], y[:N_TEST]
print(f"{len(X):,} rows, {S.sum(axis=1).mean():.1f} candidates each, {X.nbytes / 2**20:.0f} MiB")

# %%
# The fits
# --------
# The same call for all sizes. ``n_landmarks="auto"`` compares all rows with each other up to
# 5,000 of them, and takes 1,000 landmarks beyond.
rows = [1_000, 10_000, 100_000]
seconds, accuracy = [], []
for n in rows:
    began = time.process_time()
    model = CleanSEKernelClassifier(random_state=0).fit(X[:n], S[:n])
    seconds.append(time.process_time() - began)
    accuracy.append(model.score(X_test, y_test))
    found = (model.candidate_proba_.argmax(axis=1) == y[:n]).mean()
    print(f"{n:>8,} rows {seconds[-1]:6.1f} s   {accuracy[-1]:.1%} of new rows, ", end="")
    print(f"{found:.1%} of the training labels")

# %%
# The picture
# -----------
figure, (time_ax, right_ax) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
time_ax.loglog(rows, seconds, "o-", color="#D55E00", lw=2)
steady = seconds[-1] * np.array(rows) / rows[-1]
time_ax.loglog(rows, steady, ":", color="#777777", label="in proportion to the rows")
for n, value in zip(rows, seconds, strict=True):
    time_ax.annotate(f"{value:.1f} s", (n, value), (-8, 5), textcoords="offset points", ha="right")
time_ax.set(
    xlabel="training rows",
    ylabel="seconds of CPU per fit",
    ylim=(min(steady) / 2, max(seconds) * 3),
)
time_ax.axvspan(5_000, 2e5, color="#0072B2", alpha=0.08)
time_ax.text(5_600, min(steady) / 1.6, "with landmarks", color="#0072B2")
time_ax.set_xlim(350, 1.5e5)
time_ax.legend(frameon=False, loc="upper left")
right_ax.semilogx(rows, 100 * np.array(accuracy), "o-", color="#0072B2", lw=2)
for n, value in zip(rows, accuracy, strict=True):
    right_ax.annotate(
        f"{value:.1%}", (n, 100 * value), (-8, 5), textcoords="offset points", ha="right"
    )
right_ax.set(xlabel="training rows", ylabel="accuracy on new rows, %")
right_ax.margins(0.25)
for ax in (time_ax, right_ax):
    ax.grid(alpha=0.25)
    ax.spines[["top", "right"]].set_visible(False)
plt.show()

# %%
# Time includes everything: the choice of scalings, the measure of where wrong candidates come
# from, the votes, and the regression that predicts. What rows buy is on the right: much from one
# thousand to ten, less from there on, as the landmarks are as many as before. Ten times the rows
# take ten times as long; whether the last points are worth it is for you to say.
#
# The caveat
# ----------
# A thousand landmarks can only bend a border so often. Where more rows no longer help, more
# landmarks may (``n_landmarks=3000`` takes nine times as long), or a network does, which goes on
# learning from every row: `CleanSEClassifier` takes the same votes and trains batch by batch.
# :doc:`Speed and large data </speed>` goes up to a million rows.
