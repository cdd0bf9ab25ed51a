"""Partial label learning for scikit-learn: train on rows that have several possible labels."""

import importlib

from ._version import __version__

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

_SUBMODULES = (
    "candidates",
    "comparison",
    "counts",
    "datasets",
    "inspection",
    "kernel",
    "losses",
    "metrics",
    "model_selection",
    "network",
    "plots",
    "scaling",
    "votes",
)

__all__ = [*_MODULES, "__version__"]


def __getattr__(name):
    if name in _MODULES:
        value = getattr(importlib.import_module(f".{_MODULES[name]}", __name__), name)
        globals()[name] = value  # looked up once
        return value
    if name in _SUBMODULES:
        return importlib.import_module(f".{name}", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
