"""Measures of a classifier by candidate sets, with true labels where there are any.

Every measure takes the candidates first, in any form that ``fit`` takes, then the predictions.
Those that need true labels call them ``truth``. The scorers at the end go into ``scoring=``, and
more is always better. They serve any classifier that has ``classes_``:

>>> from sklearn.datasets import load_iris
>>> from sklearn.linear_model import LogisticRegression
>>> from sklearn.model_selection import cross_val_score
>>> from sklearn_cleanse.metrics import covering_scorer
>>> from sklearn_cleanse.model_selection import CandidateKFold
>>> X, y = load_iris(return_X_y=True)
>>> folds = CandidateKFold(3, random_state=0)
>>> cross_val_score(LogisticRegression(max_iter=500), X, y, scoring=covering_scorer, cv=folds)
array([...])

Those that need true labels ask for them through scikit-learn's metadata routing, which ``fit``
never gets to see:

>>> import sklearn
>>> from sklearn_cleanse.metrics import truth_scorer
>>> with sklearn.config_context(enable_metadata_routing=True):
...     accuracy = cross_val_score(
...         LogisticRegression(max_iter=500), X, y, scoring=truth_scorer, cv=folds,
...         params={"truth": y},
...     )
>>> float(accuracy.mean()) > 0.9
True
"""

from ._measures import (
    approximated_accuracy,
    approximated_accuracy_scorer,
    balanced_truth_scorer,
    candidate_log_loss,
    candidate_log_loss_scorer,
    candidate_report,
    covering_rate,
    covering_scorer,
    disambiguation_accuracy,
    disambiguation_scorer,
    expected_calibration_error,
    truth_scorer,
)
from ._temperature import candidate_temperature

__all__ = [
    "approximated_accuracy",
    "approximated_accuracy_scorer",
    "balanced_truth_scorer",
    "candidate_log_loss",
    "candidate_log_loss_scorer",
    "candidate_report",
    "candidate_temperature",
    "covering_rate",
    "covering_scorer",
    "disambiguation_accuracy",
    "disambiguation_scorer",
    "expected_calibration_error",
    "truth_scorer",
]
