"""Kernel methods for partial labels, PL-CGR and DPCLS: matrix algebra, no network, no torch.

Both alternate between a kernel ridge regression on the present confidences and an update of the
confidences inside the candidate sets. They differ in the update alone.
"""

from ._dpcls import DPCLSClassifier
from ._plcgr import PLCGRClassifier

__all__ = ["DPCLSClassifier", "PLCGRClassifier"]
