"""The class of the scorers in `sklearn_cleanse.metrics`."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from sklearn.utils.metadata_routing import MetadataRequest

from ._predictions import without_grades


class Scorer:
    """A measure as ``scorer(estimator, X, y)``, with its metadata requests declared.

    scikit-learn's ``make_scorer`` does not hand the classes to the measure, and a fold need not
    show them all; hence our own.
    """

    def __init__(
        self,
        name: str,
        predict: Callable[..., Any],
        measure: Callable[..., float],
        *,
        sign: int = 1,
        needs_truth: bool = False,
    ):
        self._name = name
        self._predict = predict
        self._measure = measure
        self._sign = sign
        self._requests: dict[str, Any] = {"sample_weight": None}
        if needs_truth:
            self._requests["truth"] = True

    def __call__(self, estimator, X, y, *, sample_weight=None, **metadata) -> float:
        self._check_names(metadata)
        if "truth" in self._requests and metadata.get("truth") is None:
            raise ValueError(
                f"{self._name} needs true labels, and truth was not passed. Write "
                "sklearn.set_config(enable_metadata_routing=True) once, then "
                f'cross_val_score(estimator, X, S, scoring={self._name}, params={{"truth": y}}) '
                "or GridSearchCV(...).fit(X, S, truth=y)"
            )
        metadata |= {"classes": estimator.classes_, "sample_weight": sample_weight}
        predicted = self._predict(estimator, X, y)
        return self._sign * self._measure(without_grades(estimator, y), predicted, **metadata)

    def set_score_request(self, **requests):
        """Return a copy that asks for the given metadata, such as ``sample_weight=True``.

        The copy leaves the scorer that everybody imports as it is.
        """
        self._check_names(requests)
        changed = copy.copy(self)
        changed._requests = self._requests | requests
        return changed

    def get_metadata_routing(self) -> MetadataRequest:
        """Return the metadata that this scorer asks for, in scikit-learn's form."""
        routing = MetadataRequest(owner=self._name)
        for name, wanted in self._requests.items():
            routing.score.add_request(param=name, alias=wanted)
        return routing

    def _check_names(self, metadata: dict[str, Any]) -> None:
        unknown = sorted(set(metadata) - set(self._requests))
        if unknown:
            raise TypeError(f"{self._name} takes no {unknown[0]}, only {', '.join(self._requests)}")

    def _accept_sample_weight(self) -> bool:  # asked by scikit-learn where routing is off
        return True

    def __repr__(self) -> str:
        return self._name
