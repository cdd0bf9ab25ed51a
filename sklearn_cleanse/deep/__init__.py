"""The network estimators, and the networks they train."""

from ..explanation import Explanation
from ._classifier import PartialLabelClassifier
from ._cleanse import PAPER_SETTINGS, RECONSTRUCTION, CleanSEClassifier
from ._modules import MLP, MODULES, ResNet34

__all__ = [
    "MLP",
    "MODULES",
    "PAPER_SETTINGS",
    "RECONSTRUCTION",
    "CleanSEClassifier",
    "Explanation",
    "PartialLabelClassifier",
    "ResNet34",
]
