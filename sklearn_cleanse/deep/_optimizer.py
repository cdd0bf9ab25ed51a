"""Adam and its schedule, as torch has them, without overhead that a small network would notice."""

from __future__ import annotations

import math

import torch


class FusedAdam(torch.optim.Adam):
    """`torch.optim.Adam` with ``fused=True``, which drops gradients in a plain loop.

    Parameters
    ----------
    params : iterable
        As for `torch.optim.Adam`, on a device for which torch has a fused Adam.
    **kwargs
        As for `torch.optim.Adam`.
    """

    def __init__(self, params, **kwargs):
        super().__init__(params, fused=True, **kwargs)

    def zero_grad(self, set_to_none=True):
        if not set_to_none:
            return super().zero_grad(set_to_none=False)
        for group in self.param_groups:
            for param in group["params"]:
                param.grad = None


def one_cycle(step: int, n_steps: int, peak: float) -> tuple[float, float]:
    """Return the learning rate and beta1 of one step, as torch's ``OneCycleLR`` sets them.

    The rate rises from a 25th of the peak over the first three tenths of the steps and then falls
    to nothing, along half a cosine each; beta1 goes from 0.95 to 0.85 and back.

    Parameters
    ----------
    step : int
        Number of the step, from 0 to n_steps - 1.
    n_steps : int
        Number of steps of the schedule.
    peak : float
        The highest learning rate.

    Returns
    -------
    lr, beta1 : float
    """
    first, top, last = peak / 25, 0.3 * n_steps - 1, n_steps - 1
    if step <= top:
        share = step / top
        return _half_cosine(first, peak, share), _half_cosine(0.95, 0.85, share)
    share = (step - top) / (last - top)
    return _half_cosine(peak, first / 1e4, share), _half_cosine(0.85, 0.95, share)


def _half_cosine(start: float, end: float, share: float) -> float:
    return end + (start - end) / 2.0 * (math.cos(math.pi * share) + 1)
