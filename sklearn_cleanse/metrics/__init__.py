"""Measures of a classifier by candidates, with true labels where there are any.

Every measure takes the candidates first, in any form that ``fit`` takes, then the predictions. True
labels are called ``truth``. The scorers go into ``scoring=``; higher is always better. They work
with any classifier that has ``classes_``:

>>> from sklearn.datasets import load_iris
>>> from sklearn.linear_model import LogisticRegression
>>> from sklearn.model_selection import KFold, cross_val_score
>>> from sklearn_cleanse.metrics import covering_rate_scorer
>>> X, y = load_iris(return_X_y=True)
>>> folds = KFold(3, shuffle=True, random_state=0)
>>> cross_val_score(LogisticRegression(max_iter=500), X, y, scoring=covering_rate_scorer, cv=folds)
array([...])

Those that need true labels get them through scikit-learn's metadata routing. ``fit`` never sees
them:

>>> import sklearn
>>> from sklearn_cleanse.metrics import true_accuracy_scorer
>>> with sklearn.config_context(enable_metadata_routing=True):
...     accuracy = cross_val_score(
...         LogisticRegression(max_iter=500), X, y, scoring=true_accuracy_scorer, cv=folds,
...         params={"truth": y},
...     )
>>> float(accuracy.mean()) > 0.9
True
"""

from ._measures import (
    approximated_accuracy,
    candidate_log_loss,
    candidate_report,
    covering_rate,
    disambiguation_accuracy,
    expected_calibration_error,
)
from ._scorers import (
    approximated_accuracy_scorer,
    balanced_true_accuracy_scorer,
    candidate_log_loss_scorer,
    covering_rate_scorer,
    disambiguation_accuracy_scorer,
    true_accuracy_scorer,
)

__all__ = [
    "approximated_accuracy",
    "approximated_accuracy_scorer",
    "balanced_true_accuracy_scorer",
    "candidate_log_loss",
    "candidate_log_loss_scorer",
    "candidate_report",
    "covering_rate",
    "covering_rate_scorer",
    "disambiguation_accuracy",
    "disambiguation_accuracy_scorer",
    "expected_calibration_error",
    "true_accuracy_scorer",
]
