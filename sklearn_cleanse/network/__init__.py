"""The network estimators, and the networks that they train."""

from ._classifier import PartialLabelClassifier
from ._cleanse import CleanSEClassifier, paper_settings, reconstructed_settings
from ._modules import MLP, ResNet34

__all__ = [
    "MLP",
    "CleanSEClassifier",
    "PartialLabelClassifier",
    "ResNet34",
    "paper_settings",
    "reconstructed_settings",
]
