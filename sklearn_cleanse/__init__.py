"""Partial label learning for scikit-learn: train on sets of candidate labels."""

from ._version import __version__
from .deep import PAPER_SETTINGS, CleanSEClassifier, PartialLabelClassifier

__all__ = [
    "PAPER_SETTINGS",
    "CleanSEClassifier",
    "PartialLabelClassifier",
    "__version__",
]
