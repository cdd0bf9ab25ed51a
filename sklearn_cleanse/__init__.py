"""Partial label learning for scikit-learn: train on rows that have several possible labels."""

import importlib.util
from typing import TYPE_CHECKING

from ._version import __version__ as __version__

if TYPE_CHECKING:  # the names that `__getattr__` finds, so that a type checker rejects all others
    from . import candidates as candidates
    from . import comparison as comparison
    from . import counts as counts
    from . import datasets as datasets
    from . import inspection as inspection
    from . import losses as losses
    from . import metrics as metrics
    from . import model_selection as model_selection
    from . import plots as plots
    from . import scaling as scaling
    from .kernel import DPCLSClassifier as DPCLSClassifier
    from .kernel import PLCGRClassifier as PLCGRClassifier
    from .kernel._cleanse import CleanSEKernelClassifier as CleanSEKernelClassifier
    from .network import CleanSEClassifier as CleanSEClassifier
    from .network import PartialLabelClassifier as PartialLabelClassifier
    from .network import paper_settings as paper_settings
    from .network import reconstructed_settings as reconstructed_settings
    from .persistence import load_model as load_model
    from .votes import NeighborVoter as NeighborVoter

#: Where each public name lives. Modules are imported at first use, so that data, metrics and
#: PL-CGR do not wait for torch.
_MODULES = {
    "CleanSEClassifier": "network",
    "CleanSEKernelClassifier": "kernel",
    "DPCLSClassifier": "kernel",
    "NeighborVoter": "votes",
    "PLCGRClassifier": "kernel",
    "PartialLabelClassifier": "network",
    "load_model": "persistence",
    "paper_settings": "network",
    "reconstructed_settings": "network",
}

__all__ = [*_MODULES, "__version__"]

if not TYPE_CHECKING:

    def __getattr__(name):
        if name in _MODULES:
            return getattr(importlib.import_module(f".{_MODULES[name]}", __name__), name)
        if importlib.util.find_spec(f".{name}", __name__):
            return importlib.import_module(f".{name}", __name__)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
