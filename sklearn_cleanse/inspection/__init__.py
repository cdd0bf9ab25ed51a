"""Decisions and their reasons, from any fitted estimator, pipeline or search."""

from ._decide import disambiguate, predict_set, rank_for_labeling
from ._explain import explain
from ._explanation import Explanation
from ._issues import find_candidate_issues

__all__ = [
    "Explanation",
    "disambiguate",
    "explain",
    "find_candidate_issues",
    "predict_set",
    "rank_for_labeling",
]
