"""Partial label learning for scikit-learn: train on sets of candidate labels."""

import importlib

from ._version import __version__

#: Where each public name lives. Rooms are entered when first asked for, so that somebody who uses
#: data, metrics or kernel methods alone never waits for torch.
_ROOMS = {
    "PAPER_SETTINGS": "deep",
    "RECONSTRUCTION": "deep",
    "CleanSEClassifier": "deep",
    "CleanSEKernelClassifier": "kernel",
    "DPCLSClassifier": "kernel",
    "PLCGRClassifier": "kernel",
    "PartialLabelClassifier": "deep",
    "load": "_load",
    "final_step": "pipelines",
    "find_candidate_issues": "issues",
}

_SUBMODULES = (
    "calibration",
    "candidates",
    "comparison",
    "counts",
    "datasets",
    "deep",
    "explanation",
    "issues",
    "kernel",
    "losses",
    "metrics",
    "model_selection",
    "pipelines",
    "plots",
    "scaling",
    "votes",
)

__all__ = [*_ROOMS, "__version__"]


def __getattr__(name):
    if name in _ROOMS:
        value = getattr(importlib.import_module(f".{_ROOMS[name]}", __name__), name)
        globals()[name] = value  # asked for once
        return value
    if name in _SUBMODULES:
        return importlib.import_module(f".{name}", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__():
    return sorted({*__all__, *_SUBMODULES})
