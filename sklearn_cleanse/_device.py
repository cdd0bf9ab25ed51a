"""Where tensors live, and how arrays get there."""

from __future__ import annotations

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
    return torch.from_numpy(X if X.flags.writeable else np.asarray(_Writable(X))).to(device)


class _Writable:
    """A read-only array, such as a mapped file, that says it may be written to.

    Torch warns of the others. We never write, and to silence a warning is no matter of one thread.
    """

    def __init__(self, X: np.ndarray) -> None:
        self.X = X
        self.__array_interface__ = {
            **X.__array_interface__,
            "data": (X.__array_interface__["data"][0], False),
        }


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
