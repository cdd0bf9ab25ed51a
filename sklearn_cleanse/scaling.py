"""Feature scaling that is part of the model."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

__all__ = ["SCALINGS", "Scaling", "fit_scaling"]

#: Names of the scalings.
SCALINGS = ("standard", "sqrt", "minmax", "common", "rank")

#: Most quantiles of a feature, for "rank".
_N_QUANTILES = 1000

#: Largest number of values that are copied to float64 at a time.
_BLOCK_VALUES = 2**24


class Scaling(nn.Module):
    """Fixed input scaling, fitted to training rows.

    Parameters
    ----------
    shift, scale : array-like broadcastable to one sample
        The input becomes ``(x - shift) / scale``.
    fill : array-like broadcastable to one sample, default=0.0
        Replaces missing values (NaN) before anything else.
    missing : sequence of int, default=()
        Features for which an input is appended that is 1 where the value is missing, and else 0.
    root : bool, default=False
        Whether to take the signed square root first.
    quantiles : array-like of shape (n_features, n_quantiles), default=None
        If given, values are first replaced by their position among these, as a normal score.

    Notes
    -----
    Inputs of any real type are converted to the type of the buffers, which is float64. The result
    has that type, too. ``scaling.float()`` makes it float32, for devices without float64.

    Examples
    --------
    >>> import torch
    >>> from sklearn_cleanse.scaling import Scaling
    >>> Scaling([1.0, 0.0], [2.0, 10.0])(torch.tensor([[3.0, 5.0]]))
    tensor([[1.0000, 0.5000]], dtype=torch.float64)
    """

    shift: Tensor
    inverse: Tensor
    fill: Tensor
    missing: Tensor
    quantiles: Tensor | None

    def __init__(
        self,
        shift: Any,
        scale: Any,
        *,
        fill: Any = 0.0,
        missing: Any = (),
        root: bool = False,
        quantiles: Any = None,
    ) -> None:
        super().__init__()
        self.root = root
        self.register_buffer("shift", _float64(shift))
        self.register_buffer("inverse", 1.0 / _float64(scale))
        self.register_buffer("fill", _float64(fill))
        self.register_buffer("missing", torch.as_tensor(np.asarray(missing, dtype=np.int64)))
        self.register_buffer("quantiles", None if quantiles is None else _float64(quantiles))

    def __getstate__(self) -> dict[str, Any]:
        return {"root": self.root, **dict(self.named_buffers())}

    def __setstate__(self, state: dict[str, Any]) -> None:
        Scaling.__init__(self, 0.0, 1.0, root=state.pop("root"))
        for name, values in state.items():
            self.register_buffer(name, values)

    @property
    def n_indicators(self) -> int:
        """Number of inputs that indicate missing values."""
        return len(self.missing)

    def forward(self, X: Tensor) -> Tensor:
        """Scale samples of shape (n_samples, ...)."""
        X, parts = X.to(self.shift.dtype), (self.shift, self.inverse, self.fill)
        if np.broadcast_shapes(X.shape[1:], *(part.shape for part in parts)) != X.shape[1:]:
            raise ValueError(f"Scalings must fit samples of shape {tuple(X.shape[1:])}. Fit again.")
        is_missing = X.isnan()
        X = torch.where(is_missing, self.fill, X)
        if self.root:
            X = X.sign() * X.abs().sqrt()
        if self.quantiles is not None:
            X = _normal_scores(X, self.quantiles)
        X = (X - self.shift) * self.inverse
        if self.n_indicators:
            X = torch.cat([X, is_missing[:, self.missing].to(X.dtype)], dim=1)
        return X


def _float64(values: Any) -> Tensor:
    return torch.tensor(np.asarray(values, dtype=np.float64))


def _normal_scores(X: Tensor, quantiles: Tensor) -> Tensor:
    """Return each value's position among its feature's quantiles, linear between two of them.

    scikit-learn's QuantileTransformer puts all values that equal the least one, such as the zeros
    of a histogram, at the far end: 1.8 points less on MSRCv2.
    """
    last = quantiles.shape[1] - 1
    values = X.T.contiguous()
    # A value that ties with several quantiles gets their middle.
    left = torch.searchsorted(quantiles, values)
    right = torch.searchsorted(quantiles, values, right=True)
    upper = left.clamp(1, last)
    low, high = quantiles.gather(1, upper - 1), quantiles.gather(1, upper)
    between = (upper - 1) + ((values - low) / (high - low).where(high > low, 1.0)).clamp(0, 1)
    position = torch.where(right > left, (left + right - 1) / 2, between) / last
    return torch.t(torch.special.ndtri(position.clamp(0.00135, 0.99865)))  # 3 standard deviations


def fit_scaling(X: np.ndarray, kind: str | None) -> Scaling:
    """Fit a scaling to training rows.

    Missing values (NaN) are replaced by the mean of their feature. Each feature with missing values
    in these rows gets an indicator input. A feature without any value in these rows is always 0.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features) or (n_samples, n_channels, ...)
        Training rows. Each channel of images is scaled as a whole.
    kind : {"standard", "sqrt", "minmax", "common", "rank"} or None
        - "standard": each feature to mean 0 and standard deviation 1.
        - "sqrt": signed square roots first, then as "standard"; for counts and histograms.
        - "minmax": each feature to the range 0 to 1.
        - "common": each feature to mean 0, and all divided by one common factor; for features
          whose relative scale is informative, such as principal components.
        - "rank": each value's rank among the training values, as a normal score; for features
          of any distribution. Images get "standard" instead.
        - None: unchanged.

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
            [1., 1.]], dtype=torch.float64)
    """
    if kind is not None and kind not in SCALINGS:
        raise ValueError(f"`kind` must be one of {', '.join(SCALINGS)} or None, got {kind!r}.")
    if X.ndim > 2 and kind == "rank":
        kind = "standard"
    parts = [_statistics(block, kind) for block in _blocks(X)]
    fill, shift, scale, n_missing = (np.concatenate([part[i] for part in parts]) for i in range(4))
    if kind == "common":
        scale = np.full_like(scale, np.sqrt(np.mean(scale**2)))
    scale = np.where(scale > 0, scale, 1.0)
    is_empty = n_missing == X.size // len(fill)
    shift, scale = np.where(is_empty, 0.0, shift), np.where(is_empty, np.inf, scale)
    shape = (-1, *[1] * (X.ndim - 2))
    shift, scale, fill = (values.reshape(shape) for values in (shift, scale, fill))
    missing = () if X.ndim > 2 else np.flatnonzero((n_missing > 0) & ~is_empty)
    quantiles = np.concatenate([part[4] for part in parts]) if kind == "rank" else None
    root = kind == "sqrt"
    return Scaling(shift, scale, fill=fill, missing=missing, root=root, quantiles=quantiles)


def _blocks(X: np.ndarray) -> Iterator[np.ndarray]:
    """Yield features as float64 columns, a few at a time, or each channel as one column."""
    if X.ndim > 2:
        for channel in range(X.shape[1]):
            yield X[:, channel].reshape(-1, 1).astype(np.float64)
        return
    n_columns = max(1, _BLOCK_VALUES // len(X))
    for start in range(0, X.shape[1], n_columns):
        yield X[:, start : start + n_columns].astype(np.float64)


def _statistics(X: np.ndarray, kind: str | None) -> tuple[np.ndarray, ...]:
    """Return mean, shift, scale, number of missing values and, for "rank", quantiles."""
    n_missing = np.isnan(X).sum(axis=0)
    has_missing = bool(n_missing.any())
    if has_missing:
        X[:, n_missing == len(X)] = 0.0
    mean, std, least, most, quantile = (
        getattr(np, f"nan{name}" if has_missing else name)
        for name in ("mean", "std", "min", "max", "quantile")
    )
    fill = mean(X, axis=0)
    unchanged = np.zeros_like(fill), np.ones_like(fill)
    if kind is None:
        return fill, *unchanged, n_missing
    if kind == "rank":
        points = np.linspace(0, 1, min(len(X), _N_QUANTILES))
        quantiles = np.ascontiguousarray(quantile(X, points, axis=0).T)
        return fill, *unchanged, n_missing, quantiles
    if kind == "minmax":
        shift = least(X, axis=0)
        return fill, shift, most(X, axis=0) - shift, n_missing
    if kind == "sqrt":
        X = np.sign(X) * np.sqrt(np.abs(X))
    shift, scale = mean(X, axis=0), std(X, axis=0)
    # A constant feature has a tiny deviation by rounding, which must not be magnified.
    scale[scale <= 1e-12 * np.abs(shift)] = 0.0
    return fill, shift, scale, n_missing
