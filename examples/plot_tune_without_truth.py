"""
How do I tune without true labels?
==================================

Recipes for tuning begin with held-out labels. Here the labels are sets of candidates. What can
held-out *candidates* measure, and do they choose well?
"""

# %%
# The covering rate is the proportion of predictions that are candidates. A right prediction is
# always covered, a wrong one sometimes. `candidate_log_loss` is the same idea for probabilities.
# Pass `CandidateKFold`: scikit-learn's default folds do not shuffle a candidate matrix.
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.datasets import load_digits
from sklearn.model_selection import GridSearchCV, ParameterGrid, train_test_split

from sklearn_cleanse import CleanSEKernelClassifier, PartialLabelClassifier
from sklearn_cleanse.datasets import make_candidates
from sklearn_cleanse.losses import LOSSES
from sklearn_cleanse.metrics import candidate_log_loss, covering_rate, covering_rate_scorer
from sklearn_cleanse.model_selection import CandidateKFold

X, y = load_digits(return_X_y=True)
S = make_candidates(y, "instance-dependent", flip_proba=0.3, X=X, random_state=0)
X, X_new, S, S_new, y, y_new = train_test_split(X, S, y, train_size=350, random_state=0)
search = GridSearchCV(
    CleanSEKernelClassifier(),
    {"alpha": [0.005, 0.05, 0.5, 5], "count_strength": [0, 1, "auto"]},
    scoring=covering_rate_scorer,
    cv=CandidateKFold(3, random_state=0),
).fit(X, S)
print(f"chosen: {search.best_params_}, covering rate {search.best_score_:.1%}")
print(f"accuracy on new images: {search.score(X_new, y_new):.1%}")

# %%
# Does this choose well? Forty models, good and bad: those of the search, and small networks with
# every loss. Two measures use candidates only, the third the true labels.
small = {"hidden_layer_sizes": (50,), "n_networks": 1, "scaling": "minmax", "random_state": 0}
grid = ParameterGrid({"max_epochs": [3, 10], "lr": [0.001, 0.01]})
models = [CleanSEKernelClassifier(**params) for params in search.cv_results_["params"]]
models += [PartialLabelClassifier(loss, **small, **params) for loss in LOSSES for params in grid]
found = []
for model in models:
    proba = model.fit(X, S).predict_proba(X_new)
    predicted = proba.argmax(axis=1)
    covered, right = covering_rate(S_new, predicted), np.mean(predicted == y_new)
    found.append((100 * covered, candidate_log_loss(S_new, proba), 100 * right))
found = pd.DataFrame(found, columns=["covering rate, %", "candidate log loss", "accuracy, %"])
accuracy = found["accuracy, %"]
print(found.corr("spearman")["accuracy, %"].round(2).to_dict())

# %%
# Each dot is a model. The ring is the one that the measure chooses, the star the one that true
# labels would choose.
chosen = {"covering rate, %": accuracy.index[found["covering rate, %"].argmax()]}
chosen["candidate log loss"] = accuracy.index[found["candidate log loss"].argmin()]
is_kernel = accuracy.index < len(search.cv_results_["params"])
figure, axes = plt.subplots(1, 2, figsize=(10, 4.2), sharey=True, layout="constrained")
for ax, (name, row) in zip(axes, chosen.items(), strict=True):
    for mask, color, label in (
        (is_kernel, "#0072B2", "kernels"),
        (~is_kernel, "#E69F00", "networks"),
    ):
        ax.plot(found[name][mask], accuracy[mask], "o", color=color, alpha=0.6, label=label)
    ring = {"ms": 14, "mfc": "none", "mec": "#D55E00", "mew": 2, "label": "chosen"}
    ax.plot(found[name][row], accuracy[row], "o", **ring)
    ax.plot(found[name][accuracy.argmax()], accuracy.max(), "k*", ms=10, label="best")
    ax.set(xlabel=name, title=f"chosen: {accuracy[row]:.1f} %, best: {accuracy.max():.1f} %")
    ax.grid(alpha=0.25)
axes[1].set_xscale("log")
axes[0].set_ylabel("accuracy by true labels, %")
axes[0].legend(frameon=False)
plt.show()

# %%
# No measure on candidates sees an error *inside* the candidate set. Where candidates depend on the
# features, as here, the choice may be some points below the best. :doc:`Results </results>` has the
# same on real data.
