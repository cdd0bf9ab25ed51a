"""Where tensors live, and how arrays get there."""

from __future__ import annotations

import warnings

import numpy as np
import torch
from torch import Tensor


def as_tensor(X: np.ndarray, device) -> Tensor:
    """Put features on the device, sharing memory where possible.

    Floats keep their precision until they are scaled (single precision would lose, say, time
    stamps); only a device without double precision gets single.
    """
    device = torch.device(device)
    if X.dtype == np.float64 and device.type == "mps":
        X = X.astype(np.float32)
    if any(stride < 0 for stride in X.strides) or not X.dtype.isnative:
        X = np.ascontiguousarray(X, dtype=X.dtype.newbyteorder("="))
    with warnings.catch_warnings():
        # torch warns about read-only arrays, such as a mapped file; we never write.
        warnings.filterwarnings("ignore", "The given NumPy array is not writable")
        return torch.from_numpy(X).to(device)


def choose_device(device: str) -> str:
    """Return the device to use: for "auto" the best there is, CUDA, then MPS, then CPU."""
    if device != "auto":
        try:
            return str(torch.zeros(0, device=device).device)
        except (RuntimeError, AssertionError) as error:
            raise ValueError(
                f"device={device!r} cannot be used here ({error}); use 'auto' or 'cpu'"
            ) from error
    if torch.cuda.is_available():
        return "cuda"
    return "mps" if torch.backends.mps.is_available() else "cpu"
