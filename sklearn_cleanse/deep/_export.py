"""A fitted network estimator as one module, from raw features to probabilities, for other runtimes.

What a kernel's library functions do (pairwise distances, places among quantiles, the normal
quantile function) is written in operations that every runtime has.
"""

from __future__ import annotations

import copy
import json
import logging
import os
import uuid
import warnings
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor, nn

from ..scaling import ScaledNetwork, Scaling, Views
from ..votes import KernelModel
from ..votes._kernel_model import PROBABILITY_FLOOR
from ..votes._kernels import ABSOLUTE_FEATURES
from ._modules import split_output

#: Features whose absolute differences are summed at a time.
_FEATURES_AT_ONCE = 16


class PortableScaling(nn.Module):
    """The same as a `Scaling`, in simple operations and double precision.

    Parameters
    ----------
    scaling : Scaling
    """

    shift: Tensor
    inverse: Tensor
    quantiles: Tensor | None
    fill: Tensor | None

    def __init__(self, scaling: Scaling):
        super().__init__()
        self.root = scaling.root
        self.register_buffer("shift", scaling.shift.double())
        self.register_buffer("inverse", scaling.inverse.double())
        quantiles = None if scaling.quantiles is None else scaling.quantiles.double()
        self.register_buffer("quantiles", quantiles)
        fill = None if scaling.fill is None else scaling.fill.double()
        self.register_buffer("fill", fill)
        self.gaps = scaling.gaps.tolist()

    def forward(self, X: Tensor) -> Tensor:
        missing = X.isnan()
        if self.fill is not None:
            X = torch.where(missing, self.fill, X)
        if self.root:
            X = X.sign() * X.abs().sqrt()
        if self.quantiles is not None:
            X = normal_scores(X, self.quantiles)
        scaled = ((X - self.shift) * self.inverse).float()
        if not self.gaps:
            return scaled
        return torch.cat([scaled, missing[:, self.gaps].float()], dim=1)


def normal_scores(X: Tensor, quantiles: Tensor) -> Tensor:
    """Place values among their features' quantiles, as normal scores.

    Parameters
    ----------
    X : Tensor of shape (n_samples, n_features)
    quantiles : Tensor of shape (n_features, n_quantiles)

    Returns
    -------
    scores : Tensor of shape (n_samples, n_features)
    """
    last = quantiles.shape[1] - 1
    left = (quantiles < X[:, :, None]).sum(dim=2)
    right = (quantiles <= X[:, :, None]).sum(dim=2)
    upper = left.clamp(1, last)
    columns = torch.arange(quantiles.shape[0]).expand_as(upper)
    low, high = quantiles[columns, upper - 1], quantiles[columns, upper]
    share = ((X - low) / torch.where(high > low, high - low, 1.0)).clamp(0, 1)
    place = torch.where(right > left, (left + right - 1).double() / 2, (upper - 1).double() + share)
    return normal_quantile((place / last).clamp(0.00135, 0.99865))


#: Numerators and denominators of Wichura's algorithm AS 241, highest power first: for the middle
#: of the distribution and for its tails down to exp(-25).
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


def normal_quantile(place: Tensor) -> Tensor:
    """Return the quantiles of the normal distribution, in double precision.

    Parameters
    ----------
    place : Tensor
        Probabilities, not nearer to 0 or 1 than exp(-25).

    Returns
    -------
    quantiles : Tensor

    Examples
    --------
    >>> import torch
    >>> from sklearn_cleanse.deep._export import normal_quantile
    >>> normal_quantile(torch.tensor([0.025, 0.5, 0.975], dtype=torch.float64))
    tensor([-1.9600,  0.0000,  1.9600], dtype=torch.float64)
    """
    q = place - 0.5
    middle = q * _ratio(_MIDDLE, 0.180625 - q * q)
    root = (-torch.where(q < 0, place, 1 - place).log()).sqrt()
    tail = q.sign() * _ratio(_TAILS, root - 1.6)
    return torch.where(q.abs() <= 0.425, middle, tail)


def _ratio(coefficients, x: Tensor) -> Tensor:
    above, below = (_polynomial(row, x) for row in coefficients)
    return above / below


def _polynomial(coefficients, x: Tensor) -> Tensor:
    total = torch.full_like(x, coefficients[0])
    for coefficient in coefficients[1:]:
        total = total * x + coefficient
    return total


class PortableKernel(nn.Module):
    """The log-probabilities of a `KernelModel`, in simple operations.

    Parameters
    ----------
    model : KernelModel
    """

    coef: Tensor
    intercept: Tensor

    def __init__(self, model: KernelModel):
        super().__init__()
        kernel = model.kernel
        self.scalings = nn.ModuleList(PortableScaling(scaling) for scaling in kernel.scalings)
        self.kinds, self.widths = list(kernel.kinds), kernel.widths
        views = kernel.scale(model.X[:])
        for i, view in enumerate(views):
            self.register_buffer(f"view{i}", view.double())
        self.register_buffer("coef", model.coef.double())
        self.register_buffer("intercept", model.intercept.double())
        self.floor = float(min(PROBABILITY_FLOOR, 1 / model.coef.shape[1]))
        self.every = -(-views[0].shape[1] // ABSOLUTE_FEATURES)

    def forward(self, X: Tensor) -> Tensor:
        total = X.new_zeros(1)
        parts = zip(self.kinds, self.scalings, self.widths, strict=True)
        for i, (kind, scaling, (turn, far, apart)) in enumerate(parts):
            a, b = scaling(X).flatten(start_dim=1).double(), getattr(self, f"view{i}")
            a = 2 * a - 1 if kind == "minmax" else a
            total = total + (_squares(_unit(a), _unit(b)) * (-0.5 / turn**2)).exp()
            total = total + (_squares(a, b).sqrt() * (-1 / far)).exp()
            distance = _absolute(a[:, :: self.every], b[:, :: self.every])
            total = total + (distance * (-1 / apart)).exp()
        scores = total / (3 * len(self.kinds)) @ self.coef + self.intercept
        proba = scores.clamp(min=self.floor)
        return (proba / proba.sum(dim=1, keepdim=True)).log()


def _squares(a: Tensor, b: Tensor) -> Tensor:
    """Return squared distances of rows to rows."""
    sums = (a * a).sum(dim=1, keepdim=True) + (b * b).sum(dim=1)
    return (sums - 2 * a @ b.T).clamp(min=0)


def _absolute(a: Tensor, b: Tensor) -> Tensor:
    """Return sums of absolute differences, some features at a time: they take much room."""
    total = a.new_zeros(1)
    for start in range(0, b.shape[1], _FEATURES_AT_ONCE):
        some = slice(start, start + _FEATURES_AT_ONCE)
        total = total + (a[:, None, some] - b[:, some]).abs().sum(dim=2)
    return total


def _unit(rows: Tensor) -> Tensor:
    return rows / (rows * rows).sum(dim=1, keepdim=True).sqrt().clamp(min=1e-12)


class PortableModel(nn.Module):
    """What a network estimator predicts, from raw features in double precision.

    Parameters
    ----------
    network : ScaledNetwork
        The network and its scaling.
    kernel : KernelModel or None
        The kernel regression, if it has a say.
    share : float
        Its say.
    odds : Tensor of shape (n_classes,) or None
        What probabilities are multiplied by, for the class shares that are asked for.
    """

    odds: Tensor | None

    def __init__(
        self,
        network: ScaledNetwork,
        kernel: KernelModel | None,
        share: float,
        odds: Tensor | None = None,
    ):
        super().__init__()
        self.register_buffer("odds", odds)
        scaling: Any = network.scaling
        self.views = isinstance(scaling, Views)
        scalings = scaling.scalings if self.views else [scaling]
        self.scalings = nn.ModuleList(PortableScaling(one) for one in scalings)
        self.network, self.share = network.network, share
        self.kernel = PortableKernel(kernel) if kernel is not None and share else None

    def forward(self, X: Tensor) -> Tensor:
        if self.views:
            scaled = torch.stack([one(X).flatten(start_dim=1) for one in self.scalings], dim=1)
        else:
            scaled = self.scalings[0](X)
        logits, _ = split_output(self.network(scaled))
        proba = logits.double().softmax(dim=-1)
        if proba.dim() == 3:
            proba = proba.mean(dim=1)
        if self.kernel is not None:
            log_proba = proba.clamp(min=1e-300).log()
            proba = ((1 - self.share) * log_proba + self.share * self.kernel(X)).softmax(dim=1)
        if self.odds is not None:
            proba = proba * self.odds
            proba = proba / proba.sum(dim=1, keepdim=True)
        return proba


def portable(estimator) -> PortableModel:
    """Return a fitted network estimator as one module, on the CPU.

    Parameters
    ----------
    estimator : PartialLabelClassifier
        Fitted.

    Returns
    -------
    model : PortableModel
        From raw features, in double precision, to probabilities.
    """
    network = copy.deepcopy(estimator.net_.module_).cpu()
    odds = None
    if estimator.class_prior is not None:
        odds = torch.from_numpy(estimator._prior_odds())
    return PortableModel(network, estimator._kernel, estimator._kernel_share(), odds).eval()


@contextmanager
def _quiet():
    """Keep from the user what the exporter says of itself: old calls, packages it could use."""
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


def write_onnx(estimator, path: str | os.PathLike) -> None:
    """Write a fitted network estimator as an ONNX file, which appears when it is complete.

    Parameters
    ----------
    estimator : PartialLabelClassifier
        Fitted.
    path : str or path-like
    """
    try:
        import onnx
        import onnxscript  # noqa: F401 (the exporter needs it)
    except ImportError as error:
        raise ImportError(
            'to_onnx needs onnx and onnxscript: pip install "sklearn-cleanse[export]"'
        ) from error
    model = portable(estimator)
    example = torch.zeros(3, *estimator._sample_shape, dtype=torch.float64)
    rows = torch.export.Dim("rows", min=1)
    with _quiet():
        program = torch.onnx.export(
            model,
            (example,),
            input_names=["X"],
            output_names=["probabilities"],
            dynamic_shapes={"X": {0: rows}},
            dynamo=True,
            verbose=False,
        )
    graph = cast(Any, program).model_proto
    classes = json.dumps(estimator.classes_.tolist(), default=str)
    onnx.helper.set_model_props(graph, {"classes": classes})
    path = Path(path)
    partial = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    try:
        onnx.save(graph, partial)
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)
