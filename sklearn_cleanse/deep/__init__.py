"""The network estimators."""

from ._classifier import PartialLabelClassifier
from ._cleanse import PAPER_SETTINGS, CleanSEClassifier
from ._explain import Explanation

__all__ = ["PAPER_SETTINGS", "CleanSEClassifier", "Explanation", "PartialLabelClassifier"]
