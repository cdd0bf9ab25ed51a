"""
Who says that this is a 6? Votes on one digit, explained
========================================================

**The problem.** A model picked one of the candidates of an image, and you are not convinced. "The
network says so" is no answer. CleanSE's labels come from other rows, so it can name them: these
images spoke for the label, those against.
"""

# %%
# A doubtful digit
# ----------------
# Digits with candidates that look likely to a simple classifier, so that wrong ones are
# plausible. We look at a training image with three candidates of which the model is neither sure
# nor clueless: its confidence in the best candidate is the one nearest to 60 per cent.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from sklearn_cleanse import CleanSEKernelClassifier
from sklearn_cleanse.datasets import make_candidates

X, y = load_digits(return_X_y=True)
X, y = X[:1000], y[:1000]
S = make_candidates(y, "instance", flip_proba=0.3, clean_rate=0.2, X=X, random_state=0)

model = CleanSEKernelClassifier().fit(X, S)
sureness = np.where(S.sum(axis=1) == 3, model.candidate_proba_.max(axis=1), np.inf)
row = np.abs(sureness - 0.6).argmin()
why = model.explain(X[[row]], S[[row]])[0]
print(why)

# %%
# The picture
# -----------
# Left the image, with the confidence in each candidate below. Right the ten training images that
# say most, the loudest first. The colour of a frame is the candidate that the image speaks for
# most, or against if it says so; a thick frame speaks loudly. A star marks a *clean* image, whose
# label is known. The others say what they say by what the rest, in turn, say of them.
COLOURS = dict(zip(why.labels, ("#E69F00", "#0072B2", "#CC79A7"), strict=True))
figure = plt.figure(figsize=(10.5, 4.6), layout="constrained")
left, right = figure.subfigures(1, 2, width_ratios=(1, 2.1))
image, bars = left.subplots(2, 1, height_ratios=(2, 1))
image.imshow(X[row].reshape(8, 8), cmap="Greys", interpolation="bicubic")
image.set(xticks=[], yticks=[], title=f"training row {row}")
bars.bar([str(label) for label in why.labels], why.confidences, color=list(COLOURS.values()))
bars.set(ylim=(0, 1), ylabel="confidence", xlabel="candidates")
bars.spines[["top", "right"]].set_visible(False)

loudness = [max(map(abs, ballot.values()), default=0) for ballot in why.ballots]
voters = list(zip(why.neighbors, why.similarity, why.clean, why.ballots, loudness, strict=True))
for ax, (voter, similarity, clean, ballot, loud) in zip(
    right.subplots(2, 5).flat, voters, strict=True
):
    label, said = max(ballot.items(), key=lambda item: abs(item[1]))
    ax.imshow(X[voter].reshape(8, 8), cmap="Greys", interpolation="bicubic")
    for spine in ax.spines.values():
        spine.set(color=COLOURS[label], linewidth=1 + 5 * loud / max(loudness))
    ax.set(xticks=[], yticks=[])
    ax.set_title(
        f"{'for' if said > 0 else 'against'} {label}: {said:+.2f}{'  ★' if clean else ''}",
        fontsize=10,
    )
    ax.set_xlabel(f"similarity {similarity:.2f}", fontsize=9)
plt.show()

# %%
# How to read it
# --------------
# The numbers add up: what the ten images say, and what all others say together, is what is known
# of each candidate before label counts weigh it. Large contributions may cancel, so the last line
# of the printed table matters more than any single image.
#
# Is it right? In this example we know.
print(f"believed: {why.labels[why.confidences.argmax()]}, true: {y[row]}")

# %%
# Over all training images, confidence tells where to look. Among the fifty that the model is least
# sure of, and among all others, this share is right:
order = model.candidate_proba_.max(axis=1).argsort()
right_ones = model.disambiguate(X, S) == y
print(f"the fifty least sure: {right_ones[order[:50]].mean():.0%}")
print(f"all others:           {right_ones[order[50:]].mean():.1%}")

# %%
# The caveat
# ----------
# An explanation says why the model believes something, not that it is so. Images that look alike
# and share a wrong candidate confirm each other: :doc:`/auto_examples/plot_worlds_of_candidates`
# shows when that happens, and how it is noticed without true labels.
