"""A fitted estimator as one ONNX graph, from raw features to probabilities.

A kernel estimator, or a network that a kernel voter takes part in, contains training rows, and so
does its file.
"""

import copy
import json
import logging
import os
import warnings
from contextlib import ExitStack
from functools import reduce
from importlib.util import find_spec
from typing import Any

import numpy as np
import torch
from numpy.polynomial import Chebyshev
from scipy.special import expit, ndtri
from sklearn.utils.validation import check_is_fitted
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from .kernel import CleanSEKernelClassifier
from .losses import average_networks
from .persistence import _regular, _write
from .votes._kernels import _distances, blocks

__all__ = ["write_onnx"]

#: Features whose absolute differences are summed at a time: they take much memory.
FEATURES_AT_ONCE = 16


def write_onnx(estimator: Any, path: str | os.PathLike[str]) -> None:
    """Write a fitted network or kernel estimator as an ONNX file, whole or not at all.

    Parameters
    ----------
    estimator : CleanSEClassifier, PartialLabelClassifier or CleanSEKernelClassifier
        Fitted.
    path : str or path-like
        The file, which is replaced if it exists. Its input ``X`` has the precision of the training
        features, its output is called ``probabilities``, and its metadata hold ``classes`` as JSON.
    """
    check_is_fitted(estimator)
    target, module = _regular(path), _Model(estimator).eval()
    if not all(map(find_spec, ("onnx", "onnxscript"))):  # which the exporter needs
        raise ImportError("`to_onnx` needs the extra: pip install 'sklearn-cleanse[export]'.")
    dtype = torch.float32 if estimator._sample_dtype == "float32" else torch.float64
    graph = _export(module, torch.zeros(3, *estimator._sample_shape, dtype=dtype))
    classes = json.dumps(estimator.classes_.tolist(), default=str)
    graph.metadata_props.add(key="classes", value=classes)
    _write(target, graph.SerializeToString())


def _export(module: nn.Module, example: Tensor) -> Any:
    options: Any = {"input_names": ["X"], "output_names": ["probabilities"], "verbose": False}
    options["dynamic_shapes"] = {"X": {0: torch.export.Dim("rows", min=1)}}
    log = logging.getLogger("torch.onnx")  # names each optional package that is not installed
    # Its own calls give FutureWarnings.
    with ExitStack() as stack, warnings.catch_warnings(action="ignore", category=FutureWarning):
        stack.callback(log.setLevel, log.level)
        log.setLevel(logging.ERROR)
        program: Any = torch.onnx.export(module, (example,), dynamo=True, **options)
        return program.model_proto


class _Model(nn.Module):
    """The parts of an estimator that predict, on the CPU."""

    log_odds: Tensor

    def __init__(self, estimator: Any) -> None:
        super().__init__()
        self.network, self.blend, voter = None, 1.0, estimator
        if not isinstance(estimator, CleanSEKernelClassifier):
            parts = estimator._scaler, estimator.net_.module_
            self.scaler, self.network = (copy.deepcopy(part).cpu() for part in parts)
            self.blend, voter = estimator._blend(), estimator.voter_
        if self.blend and not isinstance(voter, CleanSEKernelClassifier):
            raise ValueError(
                "`to_onnx` must have a kernel voter or voter_blend=0, got "
                f"{type(voter).__name__}. Set voter_blend=0."
            )
        self.model = voter.model_ if self.blend else None
        self.basis = voter.model_._basis() if self.blend else []
        self.temperature = getattr(estimator, "proba_temperature_", 1.0)
        odds = 1.0 if estimator.class_prior is None else estimator._prior_odds()
        self.register_buffer("log_odds", torch.as_tensor(odds).log())

    def forward(self, X: Tensor) -> Tensor:
        """Blend log-probabilities, temper them, then apply the class prior."""
        log_proba = X.new_zeros(1, dtype=torch.float64)
        if self.network is not None:
            with _Portable():
                inputs = self.scaler(X)
            output = self.network(inputs.float())
            logits = output[0] if isinstance(output, tuple) else output
            log_proba = (1 - self.blend) * average_networks(logits.double())
        if self.model is not None:
            with _Portable():
                scores = _kernel_scores(self.model, self.basis, X)
            log_proba = log_proba + self.blend * scores.clamp(min(1e-2, 1 / scores.shape[1])).log()
        return (log_proba / self.temperature + self.log_odds).softmax(dim=1)


def _kernel_scores(model: Any, basis: list[Tensor], X: Tensor) -> Tensor:
    """Return what `KernelModel.scores` does; tiles of the kernel would fix the number of rows."""
    total = torch.zeros(1, dtype=torch.float64)
    for a, b, widths in zip(model.kernel.views(X), basis, model.kernel.widths, strict=True):
        (angular, euclidean, absolute), (turn, far, apart) = _distances(a, b), widths
        total = total + (-0.5 * (angular / turn) ** 2).exp()
        total = total + (-euclidean / far).exp() + (-absolute / apart).exp()
    return total / (3 * len(basis)) @ model.coef + model.intercept


class _Portable(TorchFunctionMode):
    """Replace functions that the exporter of torch 2.13 has no translation of."""

    def __torch_function__(self, function, types, args=(), kwargs=None):
        return _PORTABLE.get(function, function)(*args, **(kwargs or {}))


def _cdist(a: Tensor, b: Tensor, p: float, compute_mode: str) -> Tensor:
    if p == 2:
        sums = (a * a).sum(dim=1, keepdim=True) + (b * b).sum(dim=1)
        return (sums - 2 * a @ b.T).clamp(min=0).sqrt()
    parts = blocks(b.shape[1], FEATURES_AT_ONCE)
    return reduce(torch.add, ((a[:, None, f] - b[:, f]).abs().sum(dim=2) for f in parts))


def _searchsorted(rows: Tensor, values: Tensor, right: bool = False) -> Tensor:
    return (torch.le if right else torch.lt)(rows[:, None], values[:, :, None]).sum(dim=2)


def _normal_quantile(proba: Tensor) -> Tensor:
    """Return quantiles of the normal distribution, for probabilities from 0.001 to 0.999.

    They are nearly proportional to the logarithm of the odds, t. A polynomial of t² gives the
    ratio to 1e-13. Runtimes have erf in single precision only.
    """
    t = (proba / (1 - proba)).log() / 7
    x = 2 * t * t - 1
    last, before = torch.zeros_like(x), torch.zeros_like(x)
    for coefficient in _RATIO[:0:-1]:  # Clenshaw's recurrence
        last, before = coefficient + 2 * x * last - before, last
    return t * (_RATIO[0] + x * last - before)


_RATIO = Chebyshev.interpolate(
    lambda squares: ndtri(expit(7 * np.sqrt(squares))) / np.sqrt(squares), 30, domain=[0, 1]
).coef.tolist()

_PORTABLE = {
    torch.cdist: _cdist,
    torch.searchsorted: _searchsorted,
    torch.special.ndtri: _normal_quantile,
    torch.tensor: lambda rows, **_: rows,  # a copy, which warns
}
