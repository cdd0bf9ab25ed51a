"""
How do I get from a messy table to a model?
===========================================

Three people sorted the same items, and they disagree. The table has missing values, a column of
forty categories, and rows in another order than the annotators' sheet.
"""

# %%
# The table is generated, so that the truth is known. Ann knows 90 % of the labels, Bob 75 % and Cy
# 40 %; otherwise they guess, and Cy skips some items.
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.compose import make_column_transformer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from sklearn_cleanse import CleanSEClassifier
from sklearn_cleanse.datasets import annotator_quality, candidates_from_annotations
from sklearn_cleanse.inspection import disambiguate, find_candidate_issues
from sklearn_cleanse.plots import IssuesDisplay

rng = np.random.RandomState(0)
KINDS = np.array(["bolt", "nut", "screw", "washer"])


def make_table(n_items=600):
    y = rng.randint(4, size=n_items)
    X = pd.DataFrame(np.eye(4)[y] + rng.normal(scale=0.5, size=(n_items, 4)), columns=list("abcd"))
    X = X.mask(rng.uniform(size=X.shape) < 0.1)
    maker = np.where(rng.uniform(size=n_items) < 0.5, 10 * y, 0) + rng.randint(10, size=n_items)
    X["maker"] = [f"maker {number}" for number in maker]
    annotations = pd.DataFrame()
    for name, known in [("ann", 0.9), ("bob", 0.75), ("cy", 0.4)]:
        guess = rng.randint(4, size=n_items)
        annotations[name] = KINDS[np.where(rng.uniform(size=n_items) < known, y, guess)]
    annotations["cy"] = annotations["cy"].mask(rng.uniform(size=n_items) < 0.3)
    X.index = annotations.index = [f"item {i}" for i in rng.permutation(n_items)]
    return X, annotations.sample(frac=1, random_state=0), pd.Series(KINDS[y], index=X.index)


table, annotations, truth = make_table()
print(table.head(3), annotations.head(3), sep="\n\n")

# %%
# Accurate annotators count more with ``weights="accuracy"``. Rows are matched by position, so the
# candidates must have the order of the table: ``index=`` does that.
quality = annotator_quality(annotations)
S = candidates_from_annotations(annotations, weights="accuracy", index=table.index)

# %%
# Categories are encoded in a pipeline. Missing values need nothing: the model fills them with the
# mean and adds an indicator.
encode = make_column_transformer(
    (OneHotEncoder(handle_unknown="ignore"), ["maker"]), remainder="passthrough"
)
pipe = make_pipeline(encode, CleanSEClassifier(random_state=0)).fit(table, S)

new, _, new_truth = make_table(300)
print(f"new items right:                  {(pipe.predict(new) == new_truth).mean():.1%}")
print(f"items of the table right:         {(disambiguate(pipe, table, S) == truth).mean():.1%}")
print(f"the same by the annotators alone: {(S.idxmax(axis=1) == truth).mean():.1%}")

# %%
# Rows to check: the true label may be missing among the candidates. The index of the table is kept.
issues = find_candidate_issues(table, S, estimator=pipe, random_state=0)
figure, (left, right) = plt.subplots(
    ncols=2, figsize=(10, 4), width_ratios=(1, 2), layout="constrained"
)
quality["accuracy"].plot.barh(ax=left, color="#0072B2", xlim=(0, 1), xlabel="estimated accuracy")
left.invert_yaxis()
IssuesDisplay.from_issues(issues, n_rows=10, ax=right)
right.set_yticklabels(label.get_text().removeprefix("row ") for label in right.get_yticklabels())
right.set_xlabel("score")
plt.show()
