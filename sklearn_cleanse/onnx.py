"""A fitted estimator as one ONNX graph, from raw features to probabilities.

Pairwise distances, ranks among quantiles and the normal quantile function are written in operations
that every runtime has. A kernel estimator, or a network that a kernel voter takes part in, contains
training rows, and so does its file.
"""

from __future__ import annotations

import copy
import json
import logging
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

import torch
from sklearn.utils.validation import check_is_fitted
from torch import Tensor, nn

from .kernel import CleanSEKernelClassifier
from .persistence import _regular, _write
from .scaling import Scaling
from .votes import KernelModel

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
    target, module = _regular(path), portable(estimator)
    try:
        import onnx
        import onnxscript  # noqa: F401 (the exporter needs it)
    except ImportError as error:
        raise ImportError(
            "`to_onnx` needs onnx and onnxscript: pip install 'sklearn-cleanse[export]'."
        ) from error
    dtype = torch.float32 if estimator._sample_dtype == "float32" else torch.float64
    example = torch.zeros(3, *estimator._sample_shape, dtype=dtype)
    with _quiet():
        program = torch.onnx.export(
            module,
            (example,),
            input_names=["X"],
            output_names=["probabilities"],
            dynamic_shapes={"X": {0: torch.export.Dim("rows", min=1)}},
            dynamo=True,
            verbose=False,
        )
    graph = cast(Any, program).model_proto
    classes = json.dumps(estimator.classes_.tolist(), default=str)
    onnx.helper.set_model_props(graph, {"classes": classes})
    _write(target, graph.SerializeToString())


def portable(estimator: Any) -> nn.Module:
    """Return a fitted estimator as one module on the CPU, from raw features to probabilities."""
    odds = None if estimator.class_prior is None else torch.from_numpy(estimator._prior_odds())
    parts: list[nn.Module] = []
    weights = [1.0]
    if isinstance(estimator, CleanSEKernelClassifier):
        parts = [_PortableKernel(estimator.model_)]
    else:
        parts, blend = [_PortableNetwork(estimator)], estimator._blend()
        if blend and not isinstance(estimator.voter_, CleanSEKernelClassifier):
            raise ValueError(
                "`to_onnx` must have a kernel voter or voter_blend=0, got "
                f"{type(estimator.voter_).__name__}. Set voter_blend=0."
            )
        if blend:
            parts.append(_PortableKernel(estimator.voter_.model_))
            weights = [1 - blend, blend]
    temperature = getattr(estimator, "proba_temperature_", 1.0)
    return _PortableModel(parts, weights, temperature, odds).eval()


class _PortableModel(nn.Module):
    """Blend log-probabilities, temper them, then apply the class prior."""

    odds: Tensor | None

    def __init__(self, parts, weights, temperature, odds):
        super().__init__()
        self.parts, self.weights, self.temperature = nn.ModuleList(parts), weights, temperature
        self.register_buffer("odds", odds)

    def forward(self, X: Tensor) -> Tensor:
        X = X.double()
        total = X.new_zeros(1)
        for part, weight in zip(self.parts, self.weights, strict=True):
            total = total + weight * part(X)
        proba = (total / self.temperature).softmax(dim=1)
        if self.odds is not None:
            proba = proba * self.odds
            proba = proba / proba.sum(dim=1, keepdim=True)
        return proba


class _PortableNetwork(nn.Module):
    """Log-probabilities of the network, the mean over several."""

    def __init__(self, estimator):
        super().__init__()
        self.scaling = _PortableScaling(estimator._scaler)
        self.network = copy.deepcopy(estimator.net_.module_).cpu()

    def forward(self, X: Tensor) -> Tensor:
        output = self.network(self.scaling(X).float())
        logits = output[0] if isinstance(output, tuple) else output
        proba = logits.double().softmax(dim=-1)
        return (proba.mean(dim=1) if proba.dim() == 3 else proba).clamp(min=1e-300).log()


class _PortableKernel(nn.Module):
    """Log-probabilities of a kernel regression, before calibration."""

    coef: Tensor
    intercept: Tensor

    def __init__(self, model: KernelModel):
        super().__init__()
        kernel = model.kernel
        self.scalings = nn.ModuleList(_PortableScaling(scaling) for scaling in kernel.scalings)
        self.kinds, self.widths = list(kernel.kinds), kernel.widths
        views = kernel.views(model.X)
        for i, view in enumerate(views):
            self.register_buffer(f"view{i}", view.double())
        self.register_buffer("coef", model.coef.double())
        self.register_buffer("intercept", model.intercept.double())
        self.floor = min(1e-2, 1 / model.coef.shape[1])
        self.step = -(-views[0].shape[1] // 128)

    def forward(self, X: Tensor) -> Tensor:
        total = X.new_zeros(1)
        parts = zip(self.kinds, self.scalings, self.widths, strict=True)
        for i, (kind, scaling, (turn, far, apart)) in enumerate(parts):
            a, b = scaling(X).flatten(start_dim=1), getattr(self, f"view{i}")
            a = 2 * a - 1 if kind == "minmax" else a
            total = total + (_squares(_unit(a), _unit(b)) * (-0.5 / turn**2)).exp()
            total = total + (_squares(a, b).sqrt() * (-1 / far)).exp()
            distance = _absolute(a[:, :: self.step], b[:, :: self.step])
            total = total + (distance * (-1 / apart)).exp()
        scores = total / (3 * len(self.kinds)) @ self.coef + self.intercept
        proba = scores.clamp(min=self.floor)
        return (proba / proba.sum(dim=1, keepdim=True)).log()


class _PortableScaling(nn.Module):
    """The same as a `Scaling`, whose ranks need no search."""

    def __init__(self, scaling: Scaling):
        super().__init__()
        self.scaling = copy.deepcopy(scaling).cpu().double()
        self.missing = scaling.missing.tolist()

    def forward(self, X: Tensor) -> Tensor:
        scaling = self.scaling
        is_missing = X.isnan()
        X = torch.where(is_missing, scaling.fill, X)
        if scaling.root:
            X = X.sign() * X.abs().sqrt()
        if scaling.quantiles is not None:
            X = _normal_scores(X, scaling.quantiles)
        X = (X - scaling.shift) * scaling.inverse
        return torch.cat([X, is_missing[:, self.missing].double()], dim=1) if self.missing else X


def _normal_scores(X: Tensor, quantiles: Tensor) -> Tensor:
    last = quantiles.shape[1] - 1
    left = (quantiles < X[:, :, None]).sum(dim=2)
    right = (quantiles <= X[:, :, None]).sum(dim=2)
    upper = left.clamp(1, last)
    columns = torch.arange(quantiles.shape[0]).expand_as(upper)
    low, high = quantiles[columns, upper - 1], quantiles[columns, upper]
    between = ((X - low) / torch.where(high > low, high - low, 1.0)).clamp(0, 1)
    middle = (left + right - 1).double() / 2
    position = torch.where(right > left, middle, (upper - 1).double() + between)
    return normal_quantile((position / last).clamp(0.00135, 0.99865))


#: Numerators and denominators of Wichura's algorithm AS 241, highest power first, for the middle of
#: the distribution and for its tails down to exp(-25).
_MIDDLE = (
    (2509.0809287301226727, 33430.575583588128105, 67265.770927008700853, 45921.953931549871457,
     13731.693765509461125, 1971.5909503065514427, 133.14166789178437745, 3.387132872796366608),
    (5226.495278852854561, 28729.085735721942674, 39307.89580009271061, 21213.794301586595867,
     5394.1960214247511077, 687.1870074920579083, 42.313330701600911252, 1.0),
)  # fmt: skip
_TAILS = (
    (7.7454501427834140764e-4, 0.0227238449892691845833, 0.24178072517745061177,
     1.27045825245236838258, 3.64784832476320460504, 5.7694972214606914055, 4.6303378461565452959,
     1.42343711074968357734),
    (1.05075007164441684324e-9, 5.475938084995344946e-4, 0.0151986665636164571966,
     0.14810397642748007459, 0.68976733498510000455, 1.6763848301838038494, 2.05319162663775882187,
     1.0),
)  # fmt: skip


def normal_quantile(proba: Tensor) -> Tensor:
    """Return quantiles of the normal distribution, for probabilities from exp(-25)."""
    q = proba - 0.5
    middle = q * _ratio(_MIDDLE, 0.180625 - q * q)
    root = (-torch.where(q < 0, proba, 1 - proba).log()).sqrt()
    return torch.where(q.abs() <= 0.425, middle, q.sign() * _ratio(_TAILS, root - 1.6))


def _ratio(coefficients, x: Tensor) -> Tensor:
    totals = []
    for row in coefficients:
        total = torch.full_like(x, row[0])
        for coefficient in row[1:]:
            total = total * x + coefficient
        totals.append(total)
    return totals[0] / totals[1]


def _squares(a: Tensor, b: Tensor) -> Tensor:
    sums = (a * a).sum(dim=1, keepdim=True) + (b * b).sum(dim=1)
    return (sums - 2 * a @ b.T).clamp(min=0)


def _absolute(a: Tensor, b: Tensor) -> Tensor:
    total = a.new_zeros(1)
    for start in range(0, b.shape[1], FEATURES_AT_ONCE):
        some = slice(start, start + FEATURES_AT_ONCE)
        total = total + (a[:, None, some] - b[:, some]).abs().sum(dim=2)
    return total


def _unit(rows: Tensor) -> Tensor:
    return rows / (rows * rows).sum(dim=1, keepdim=True).sqrt().clamp(min=1e-12)


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence the exporter's messages on old calls and optional packages."""
    log = logging.getLogger("torch.onnx")
    level = log.level
    log.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)
            warnings.simplefilter("ignore", DeprecationWarning)
            yield
    finally:
        log.setLevel(level)
