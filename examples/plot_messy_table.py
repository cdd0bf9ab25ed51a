"""
From a messy table to a model
=============================

**The problem.** Three people sorted the same items, and they disagree. The table has gaps, a column
with forty categories, and rows in no order. The annotators' sheet has the rows in another one. What
do we believe, whom do we trust, and what will the next item be?
"""

# %%
# The table
# ---------
#
# It is made here, so that the truth is known and can score what comes out. The numbers tell most of
# the label, the category a little. Ann knows nine labels out of ten, Bob three out of four and Cy
# two out of five; else they guess, and Cy skipped some items.

import joblib
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.compose import make_column_transformer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from sklearn_cleanse import CleanSEClassifier, final_step, find_candidate_issues
from sklearn_cleanse.datasets import annotator_quality, candidates_from_votes
from sklearn_cleanse.plots import IssuesDisplay

rng = np.random.RandomState(0)
KINDS = np.array(["bolt", "nut", "screw", "washer"])


def make_table(n_items=600):
    y = rng.randint(4, size=n_items)
    X = pd.DataFrame(np.eye(4)[y] + rng.normal(scale=0.5, size=(n_items, 4)), columns=list("abcd"))
    X = X.mask(rng.uniform(size=X.shape) < 0.1)
    maker = np.where(rng.uniform(size=n_items) < 0.5, 10 * y, 0) + rng.randint(10, size=n_items)
    X["maker"] = [f"maker {number}" for number in maker]
    votes = pd.DataFrame()
    for name, right in [("ann", 0.9), ("bob", 0.75), ("cy", 0.4)]:
        guess = rng.randint(4, size=n_items)
        votes[name] = KINDS[np.where(rng.uniform(size=n_items) < right, y, guess)]
    votes["cy"] = votes["cy"].mask(rng.uniform(size=n_items) < 0.3)
    X.index = votes.index = [f"item {i}" for i in rng.permutation(n_items)]
    return X, votes.sample(frac=1, random_state=0), pd.Series(KINDS[y], index=X.index)


table, votes, truth = make_table()
print(table.head(3), votes.head(3), sep="\n\n")

# %%
# Whom to trust
# -------------
#
# Nobody knows the truth, but those who agree with the others are more likely to be right.
# "accuracy" is how often each annotator is, as far as that can be told; lucky guesses count.

quality = annotator_quality(votes)
print(quality.round(2))

# %%
# Candidates
# ----------
#
# What anybody said is a candidate, and what good annotators said has better odds. Rows are matched
# by position, so they must be brought into the same order. An estimator that is given both frames
# refuses rows in another order; behind a transformer it no longer sees their names, and cannot.

S = candidates_from_votes(votes, grade="quality").loc[table.index]

# %%
# The model
# ---------
#
# Categories are encoded in the pipeline, which gives sparse features. Gaps need nothing at all: the
# model fills them by the mean and remembers where they were.

encode = make_column_transformer(
    (OneHotEncoder(handle_unknown="ignore"), ["maker"]), remainder="passthrough"
)
pipe = make_pipeline(encode, CleanSEClassifier(graded=True, random_state=0)).fit(table, S)

# %%
# What it says
# ------------
#
# Of new items it predicts the kind; of those in the table it also knows the candidates. The best
# that can be done with votes alone is the label of the best odds.

new, _, new_truth = make_table(300)
model, X = final_step(pipe, table)
print(f"right about new items:          {(pipe.predict(new) == new_truth).mean():.3f}")
print(f"right about the table's items:  {(model.disambiguate(X, S) == truth).mean():.3f}")
print(f"the same by votes alone:        {(S.idxmax(axis=1) == truth).mean():.3f}")

# %%
# Doubtful labels
# ---------------
#
# Where nobody was right, the truth is no candidate. These are the items to look at first. Bars are
# the belief that the set is wrong, which ranks well but is too low to be a probability.

issues = find_candidate_issues(X, S, random_state=0)
print(*issues["reason"][:3], sep="\n")

fig, (left, right) = plt.subplots(ncols=2, figsize=(9, 4), layout="constrained")
quality["accuracy"].plot.barh(ax=left, color="tab:blue", xlim=(0, 1), xlabel="estimated accuracy")
left.invert_yaxis()
left.set(title="whom to trust", ylabel="")
IssuesDisplay.from_issues(issues, n_rows=10, ax=right)

# %%
# Saved, with its encoder and its scaling, it predicts the same.

joblib.dump(pipe, "messy.joblib")
assert (joblib.load("messy.joblib").predict(new) == pipe.predict(new)).all()

# %%
# .. note::
#    Estimated accuracies rest on agreement. Annotators who make the same mistakes, because they
#    copied from each other or were told the same rule, look better than they are.
