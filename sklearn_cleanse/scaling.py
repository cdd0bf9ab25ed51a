"""Feature scaling that lives inside the model."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from ._model_file import ModelFile
from ._rows import SparseRows

__all__ = ["SCALINGS", "ScaledNetwork", "Scaling", "Views", "fit_scaling"]


def __dir__() -> list[str]:
    return __all__  # without the imports of this file


SCALINGS = ("standard", "sqrt", "minmax", "common", "rank")

_MOST_QUANTILES = 1000

#: Most quantiles of all features together, where these are sparse.
_SPARSE_QUANTILES = 2**23


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
    fill : ndarray of shape (n_features,), default=None
        What takes the place of a gap (NaN), before anything else. If None, gaps stay gaps.
    gaps : ndarray of shape (n_indicators,), dtype int, default=None
        Features for which a column is appended that is 1 where they had a gap, and else 0.

    Examples
    --------
    >>> import numpy as np, torch
    >>> from sklearn_cleanse.scaling import Scaling
    >>> Scaling(np.array([1.0, 0.0]), np.array([2.0, 10.0]))(torch.tensor([[3.0, 5.0]]))
    tensor([[1.0000, 0.5000]])
    """

    shift: Tensor
    inverse: Tensor
    gaps: Tensor
    quantiles: Tensor | None
    fill: Tensor | None

    def __init__(self, shift, scale, root=False, quantiles=None, fill=None, gaps=None):
        super().__init__()
        self.root = root
        self.register_buffer("shift", torch.as_tensor(np.asarray(shift, dtype=np.float64)))
        self.register_buffer("inverse", torch.as_tensor(1.0 / np.asarray(scale, dtype=np.float64)))
        quantiles = None if quantiles is None else torch.as_tensor(quantiles)
        self.register_buffer("quantiles", quantiles)
        self.register_buffer("fill", None if fill is None else torch.as_tensor(fill))
        has_gaps = gaps is not None and len(gaps)
        gaps = torch.as_tensor(gaps) if has_gaps else torch.zeros(0, dtype=torch.int64)
        self.register_buffer("gaps", gaps)

    @property
    def n_added(self) -> int:
        """Number of columns that tell of gaps."""
        return len(self.gaps)

    def forward(self, X: Tensor) -> Tensor:
        if not X.is_floating_point():
            X = X.float()
        missing = None
        if self.fill is not None:
            missing = X.isnan()
            X = torch.where(missing, self.fill.to(X.dtype), X)
        if self.root:
            X = X.sign() * X.abs().sqrt()
        if self.quantiles is not None:
            X = _normal_scores(X, self.quantiles.to(X.dtype))
        scaled = ((X - self.shift.to(X.dtype)) * self.inverse.to(X.dtype)).float()
        if missing is None or not self.n_added:
            return scaled
        return torch.cat([scaled, missing[:, self.gaps].float()], dim=1)

    def _state(self) -> dict:
        names = ("root", "shift", "inverse", "quantiles", "fill", "gaps")
        return {name: getattr(self, name) for name in names}

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
        fill = None
        if file.has(f"{place}.fill"):
            fill = file.array(f"{place}.fill", "f", sample_shape)
        gaps = file.array(f"{place}.gaps", "i", (None,))
        if len(gaps) and not 0 <= gaps.min() <= gaps.max() < sample_shape[0]:
            raise ValueError(f"{place}.gaps names features that are not there")
        if len(gaps) > sample_shape[0] or (len(gaps) and fill is None):
            raise ValueError(f"{place}.gaps are more than there are features, or have no fill")
        scaling = cls(0.0, 1.0, root, quantiles, fill, gaps)
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

    @property
    def n_added(self) -> int:
        """Number of columns that tell of gaps, in each view."""
        return self.scalings[0].n_added

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


def fit_scaling(X: np.ndarray | SparseRows, kind: str | None) -> Scaling:
    """Learn a scaling from training rows.

    A gap (NaN) becomes the mean of its feature, and each feature that has gaps in these rows gets
    a further column, which tells where they are. A feature that is nothing but gaps in these rows
    is 0 ever after.

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
    if kind is not None and kind not in SCALINGS:
        raise ValueError(f"kind is {kind!r}; it must be one of {', '.join(SCALINGS)}, or None")
    if isinstance(X, SparseRows):
        n_quantiles = max(11, _SPARSE_QUANTILES // X.shape[1])
        parts = [_Statistics.of(block, kind, n_quantiles) for block in X.column_blocks()]
        found = _Statistics(*map(_join, zip(*parts, strict=True)))
    else:
        found = _Statistics.of(X, kind)
    fill = found.mean if X.ndim == 2 else None
    gaps = None if found.has_gap is None else np.flatnonzero(found.has_gap & ~found.is_empty)
    shift, scale = found.shift, found.scale
    if scale is None:
        shift, scale = np.zeros(()), np.ones(())
    elif kind == "common":
        scale = np.full_like(scale, np.sqrt(np.mean(scale**2)))
    shift, scale = _round(shift), _round(np.where(scale > 0, scale, 1.0))
    if found.has_gap is not None and found.is_empty.any():
        # nothing is known of such a feature, so whatever it is in new rows becomes 0
        shift, scale = np.where(found.is_empty, 0.0, shift), np.where(found.is_empty, np.inf, scale)
    return Scaling(shift, scale, kind == "sqrt", found.quantiles, fill, gaps)


class _Statistics(NamedTuple):
    """What a scaling needs to know of each feature."""

    mean: np.ndarray
    has_gap: np.ndarray | None
    is_empty: np.ndarray | None
    shift: np.ndarray | None = None
    scale: np.ndarray | None = None
    quantiles: np.ndarray | None = None

    @classmethod
    def of(cls, X: np.ndarray, kind: str | None, n_quantiles: int = _MOST_QUANTILES) -> _Statistics:
        if X.dtype.kind in "iub":
            X = X.astype(np.float32)  # small integers overflow where they are squared or negated
        axes = (0, *range(2, X.ndim))
        has_gap = np.isnan(X).any(axis=0) if X.ndim == 2 else None
        is_empty = np.isnan(X).all(axis=0) if X.ndim == 2 else None
        with_gaps = has_gap is not None and bool(has_gap.any())
        if with_gaps:
            X = np.where(is_empty, X.dtype.type(0), X)
        names = ("mean", "std", "min", "max", "quantile")
        mean, std, least, most, quantile = (
            getattr(np, f"nan{name}" if with_gaps else name) for name in names
        )
        centre = mean(X, axis=axes, dtype=np.float64, keepdims=True)[0]
        if kind is None:
            return cls(centre, has_gap, is_empty)
        if kind == "rank" and X.ndim == 2:
            places = np.linspace(0, 1, min(len(X), _MOST_QUANTILES, n_quantiles))
            quantiles = np.ascontiguousarray(quantile(X, places, axis=0).T)
            return cls(centre, has_gap, is_empty, quantiles=quantiles)
        if kind == "sqrt":
            X = np.sign(X) * np.sqrt(np.abs(X))
        if kind == "minmax":
            shift = least(X, axis=axes, keepdims=True)[0].astype(np.float64)
            return cls(
                centre, has_gap, is_empty, shift, most(X, axis=axes, keepdims=True)[0] - shift
            )
        shift = mean(X, axis=axes, dtype=np.float64, keepdims=True)[0] if kind == "sqrt" else centre
        scale = std(X, axis=axes, dtype=np.float64, keepdims=True)[0]
        # Rounding gives a constant feature a tiny deviation, which must not be blown up.
        scale[scale <= 1e-12 * np.abs(shift)] = 0.0
        return cls(centre, has_gap, is_empty, shift, scale)


def _join(parts: tuple) -> np.ndarray | None:
    return None if parts[0] is None else np.concatenate(parts)


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
