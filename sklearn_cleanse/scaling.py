"""Feature scaling that lives inside the model."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from ._model_file import ModelFile

__all__ = ["SCALINGS", "ScaledNetwork", "Scaling", "Views", "fit_scaling"]


def __dir__() -> list[str]:
    return __all__  # without the imports of this file


SCALINGS = ("standard", "sqrt", "minmax", "common", "rank")

_MOST_QUANTILES = 1000


class Scaling(nn.Module):
    """Fixed input scaling, learnt from training rows and saved with the network.

    Parameters
    ----------
    shift, scale : ndarray broadcastable to one sample
        The input becomes ``(x - shift) / scale``.
    root : bool, default=False
        Whether to take the signed square root first.
    quantiles : ndarray of shape (n_features, n_quantiles), default=None
        If given, the input is first replaced by its place among these, as a normal score.

    Examples
    --------
    >>> import numpy as np, torch
    >>> from sklearn_cleanse.scaling import Scaling
    >>> Scaling(np.array([1.0, 0.0]), np.array([2.0, 10.0]))(torch.tensor([[3.0, 5.0]]))
    tensor([[1.0000, 0.5000]])
    """

    shift: Tensor
    inverse: Tensor
    quantiles: Tensor | None

    def __init__(self, shift, scale, root=False, quantiles=None):
        super().__init__()
        self.root = root
        self.register_buffer("shift", torch.as_tensor(np.asarray(shift, dtype=np.float64)))
        self.register_buffer("inverse", torch.as_tensor(1.0 / np.asarray(scale, dtype=np.float64)))
        quantiles = None if quantiles is None else torch.as_tensor(quantiles)
        self.register_buffer("quantiles", quantiles)

    def forward(self, X: Tensor) -> Tensor:
        if not X.is_floating_point():
            X = X.float()
        if self.root:
            X = X.sign() * X.abs().sqrt()
        if self.quantiles is not None:
            X = _normal_scores(X, self.quantiles.to(X.dtype))
        return ((X - self.shift.to(X.dtype)) * self.inverse.to(X.dtype)).float()

    def _state(self) -> dict:
        return {"root": self.root, **dict(self.named_buffers()), "quantiles": self.quantiles}

    @classmethod
    def _restored(cls, file: ModelFile, place: str, sample_shape: tuple[int, ...]) -> Scaling:
        root, quantiles = file.value(f"{place}.root", bool), None
        shift = file.array(f"{place}.shift", "f", None)
        if np.broadcast_shapes(shift.shape, sample_shape) != sample_shape:
            raise ValueError(f"{place}.shift does not fit samples of shape {sample_shape}")
        if file.has(f"{place}.quantiles"):
            quantiles = file.array(f"{place}.quantiles", "f", (*sample_shape, None))
            if quantiles.shape[-1] < 2:
                raise ValueError(f"{place}.quantiles has fewer than two for a feature")
        scaling = cls(0.0, 1.0, root, quantiles)
        scaling.shift = torch.tensor(shift)
        scaling.inverse = torch.tensor(file.array(f"{place}.inverse", "f", shift.shape))
        return scaling


class Views(nn.Module):
    """Several scalings of the same features, side by side.

    Parameters
    ----------
    scalings : list of Scaling

    Examples
    --------
    >>> import torch
    >>> from sklearn_cleanse.scaling import Scaling, Views
    >>> Views([Scaling(0.0, 1.0), Scaling(0.0, 10.0)])(torch.tensor([[3.0, 5.0]]))
    tensor([[[3.0000, 5.0000],
             [0.3000, 0.5000]]])
    """

    def __init__(self, scalings):
        super().__init__()
        self.scalings = nn.ModuleList(scalings)

    def forward(self, X: Tensor) -> Tensor:
        return torch.stack([scaling(X).flatten(start_dim=1) for scaling in self.scalings], dim=1)


def _normal_scores(X: Tensor, quantiles: Tensor) -> Tensor:
    """Place each value among its feature's quantiles, between two of them by proportion."""
    n_quantiles = quantiles.shape[1]
    values = X.flatten(start_dim=1).T.contiguous()
    # A value that ties with several quantiles is put into their middle.
    left = torch.searchsorted(quantiles, values)
    right = torch.searchsorted(quantiles, values, right=True)
    upper = left.clamp(1, n_quantiles - 1)
    low, high = quantiles.gather(1, upper - 1), quantiles.gather(1, upper)
    between = (upper - 1) + ((values - low) / (high - low).where(high > low, 1.0)).clamp(0, 1)
    place = torch.where(right > left, (left + right - 1) / 2, between) / (n_quantiles - 1)
    scores = torch.special.ndtri(place.clamp(0.00135, 0.99865))  # three standard deviations
    return scores.T.reshape(X.shape)


def fit_scaling(X: np.ndarray, kind: str | None) -> Scaling:
    """Learn a scaling from training rows.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features) or (n_samples, n_channels, ...)
        Training rows. Images are scaled by channel.
    kind : {"standard", "sqrt", "minmax", "common", "rank"} or None
        - "standard": each feature to mean 0 and standard deviation 1.
        - "sqrt": signed square roots first, then as "standard"; for counts and histograms.
        - "minmax": each feature to the range 0 to 1.
        - "common": each feature to mean 0, and all divided by one common factor; for features
          whose relative scale means something, such as principal components.
        - "rank": each value's place among the training values, as a normal score; for features
          of any distribution. Images get "standard" instead.
        - None: as they are.

    Returns
    -------
    scaling : Scaling

    Examples
    --------
    >>> import numpy as np, torch
    >>> from sklearn_cleanse.scaling import fit_scaling
    >>> X = np.array([[0.0, 10.0], [2.0, 30.0]])
    >>> fit_scaling(X, "minmax")(torch.from_numpy(X))
    tensor([[0., 0.],
            [1., 1.]])
    """
    if kind is None:
        return Scaling(0.0, 1.0)
    if kind not in SCALINGS:
        raise ValueError(f"kind is {kind!r}; it must be one of {', '.join(SCALINGS)}, or None")
    if X.dtype.kind in "iub":
        X = X.astype(np.float32)  # small integers overflow where they are squared or negated
    if kind == "rank" and X.ndim == 2:
        places = np.linspace(0, 1, min(len(X), _MOST_QUANTILES))
        quantiles = np.quantile(X, places, axis=0).T
        return Scaling(0.0, 1.0, quantiles=np.ascontiguousarray(quantiles))
    axes = (0, *range(2, X.ndim))
    if kind == "sqrt":
        X = np.sign(X) * np.sqrt(np.abs(X))
    if kind == "minmax":
        shift = X.min(axis=axes, keepdims=True)[0].astype(np.float64)
        scale = X.max(axis=axes, keepdims=True)[0] - shift
    else:
        shift = X.mean(axis=axes, dtype=np.float64, keepdims=True)[0]
        scale = X.std(axis=axes, dtype=np.float64, keepdims=True)[0]
        # Rounding gives a constant feature a tiny deviation, which must not be blown up.
        scale[scale <= 1e-12 * np.abs(shift)] = 0.0
        if kind == "common":
            scale = np.full_like(scale, np.sqrt(np.mean(scale**2)))
    return Scaling(_round(shift), _round(np.where(scale > 0, scale, 1.0)), root=kind == "sqrt")


def _round(values: np.ndarray) -> np.ndarray:
    """Keep forty bits: enough for any feature, and the order of summation no longer shows."""
    fraction, exponent = np.frexp(np.asarray(values, dtype=np.float64))
    return np.ldexp(np.round(fraction * 2.0**40) / 2.0**40, exponent)


class ScaledNetwork(nn.Module):
    """A scaling and the network behind it.

    Parameters
    ----------
    scaling : Scaling or Views
    network : torch.nn.Module

    Examples
    --------
    >>> import torch
    >>> from sklearn_cleanse.deep import MLP
    >>> from sklearn_cleanse.scaling import ScaledNetwork, Scaling
    >>> logits, _ = ScaledNetwork(Scaling(0.0, 1.0), MLP(4, 3))(torch.zeros(2, 4))
    >>> logits.shape
    torch.Size([2, 3])
    """

    def __init__(self, scaling: Scaling | Views, network: nn.Module):
        super().__init__()
        self.scaling = scaling
        self.network = network

    def forward(self, X: Tensor):
        return self.network(self.scaling(X))
