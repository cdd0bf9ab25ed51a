"""The scorers: measures as ``scorer(estimator, X, y)``."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Self

import numpy as np
from sklearn.utils.metadata_routing import MetadataRequest

from ..candidates import check_index
from . import _measures
from ._predictions import disambiguate, predict_labels, predict_log_proba
from ._readers import check_weight, read_labels


@dataclass(frozen=True, eq=False, repr=False)
class Scorer:
    """A measure as ``scorer(estimator, X, y)``, with its metadata requests declared.

    scikit-learn's ``make_scorer`` does not pass ``classes_`` to the measure, and a fold need not
    contain every class; hence our own class.
    """

    name: str
    predict: Callable[..., Any]
    measure: Callable[..., float]
    requests: dict[str, Any] = field(default_factory=lambda: {"sample_weight": None})

    def __call__(self, estimator: Any, X: Any, y: Any, **metadata: Any) -> float:
        self._check_names(metadata)
        if "truth" in self.requests and metadata.get("truth") is None:
            raise ValueError(
                f"{self.name} needs true labels, but `truth` was not passed. Call "
                "sklearn.set_config(enable_metadata_routing=True) once, then "
                f'cross_val_score(estimator, X, S, scoring={self.name}, params={{"truth": y}}) '
                "or GridSearchCV(...).fit(X, S, truth=y)."
            )
        for name, values in (("y", y), *metadata.items()):
            check_index(X, values, name)
        predicted = self.predict(estimator, X, y)
        return self.measure(y, predicted, classes=estimator.classes_, **metadata)

    def set_score_request(self, **requests: Any) -> Self:
        """Return a copy that asks for the given metadata, such as ``sample_weight=True``."""
        self._check_names(requests)
        return replace(self, requests=self.requests | requests)  # the scorer itself is shared

    def get_metadata_routing(self) -> MetadataRequest:
        """Return the metadata that this scorer asks for, in scikit-learn's form."""
        routing = MetadataRequest(owner=self.name)
        for name, wanted in self.requests.items():
            routing.score.add_request(param=name, alias=wanted)
        return routing

    def _check_names(self, metadata: dict[str, Any]) -> None:
        for name in sorted(set(metadata) - set(self.requests)):
            raise TypeError(f"{self.name} has no parameter {name!r}, only {[*self.requests]}.")

    def _accept_sample_weight(self) -> bool:  # scikit-learn calls it if routing is off
        return True

    def __repr__(self) -> str:
        return self.name


def _log_likelihood(y: Any, log_proba: Any, *, classes: Any, sample_weight: Any = None) -> float:
    """Compute minus `candidate_log_loss` over samples that have a candidate among the classes."""
    candidates, _ = read_labels(y, classes)
    known = candidates.mask[:, : len(classes)].any(axis=1)
    for row in np.flatnonzero(~known)[:1]:
        labels = candidates.classes[candidates.mask[row]].tolist()
        found = (
            f"{np.sum(~known)} of {len(candidates)} rows have no candidate that the classifier was "
            f"trained on, such as row {row} with {labels}"
        )
        remedy = "Pass S as a matrix, or merge rare labels, so that every fold has every class."
        if not known.any():
            raise ValueError(f"{found}, so that there is nothing to score. {remedy}")
        warnings.warn(f"{found}. candidate_log_loss_scorer ignores them. {remedy}", stacklevel=2)
        sample_weight = check_weight(y, sample_weight, len(candidates)) * known
    return -_measures.candidate_log_loss(
        y, log_proba, log=True, classes=classes, sample_weight=sample_weight
    )


covering_rate_scorer = Scorer("covering_rate_scorer", predict_labels, _measures.covering_rate)
_accuracy_of_log = partial(_measures.approximated_accuracy, log=True)
approximated_accuracy_scorer = Scorer(
    "approximated_accuracy_scorer", predict_log_proba, _accuracy_of_log
)
candidate_log_loss_scorer = Scorer("candidate_log_loss_scorer", predict_log_proba, _log_likelihood)
_with_truth = partial(Scorer, requests={"sample_weight": None, "truth": True})
true_accuracy_scorer = _with_truth("true_accuracy_scorer", predict_labels, _measures.true_accuracy)
balanced_true_accuracy_scorer = _with_truth(
    "balanced_true_accuracy_scorer", predict_labels, _measures.balanced_true_accuracy
)
disambiguation_accuracy_scorer = _with_truth(
    "disambiguation_accuracy_scorer", disambiguate, _measures.true_accuracy
)
