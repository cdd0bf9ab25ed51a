"""Partial label learning for scikit-learn: train on sets of candidate labels."""

from ._version import __version__
from .deep import PAPER_SETTINGS, CleanSEClassifier, PartialLabelClassifier
from .kernel import DPCLSClassifier, PLCGRClassifier

__all__ = [
    "PAPER_SETTINGS",
    "CleanSEClassifier",
    "DPCLSClassifier",
    "PLCGRClassifier",
    "PartialLabelClassifier",
    "__version__",
]
