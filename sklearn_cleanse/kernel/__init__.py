"""Closed-form methods for partial labels: kernels and matrix algebra, no network.

`CleanSEKernelClassifier` is the quick form of CleanSE, and the first to try. PL-CGR and DPCLS
alternate between a kernel ridge regression on the present confidences and an update of the
confidences inside the candidate sets; they need no torch.
"""

from typing import TYPE_CHECKING

from ._dpcls import DPCLSClassifier
from ._plcgr import PLCGRClassifier

__all__ = ["CleanSEKernelClassifier", "DPCLSClassifier", "PLCGRClassifier"]

if TYPE_CHECKING:  # what `__getattr__` finds
    from ._cleanse import CleanSEKernelClassifier
else:

    def __getattr__(name):
        if name == "CleanSEKernelClassifier":  # it imports torch
            from ._cleanse import CleanSEKernelClassifier

            return CleanSEKernelClassifier
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
