"""Adam and its schedule, as torch has them, at the cost of their arithmetic.

A step of a small network takes a millisecond or two; what torch does around Adam's kernel and in
its scheduler would be a fifth of that.
"""

from __future__ import annotations

import math

import torch


class FusedAdam(torch.optim.Optimizer):
    """`torch.optim.Adam` with ``fused=True``: the same kernel on the same numbers.

    torch gathers and groups all tensors anew for each step, and counts steps for each of them.
    Here one count serves all, also for a parameter that now and then has no gradient.

    Parameters
    ----------
    params : iterable
        As for `torch.optim.Adam`, on a CPU or CUDA device.
    lr, betas, eps, weight_decay : float
        As for `torch.optim.Adam`.
    """

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0):
        # "fused" makes torch load a saved count of steps onto the parameters' device
        defaults = {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay}
        super().__init__(params, {**defaults, "fused": True})

    def zero_grad(self, set_to_none=True):
        for group in self.param_groups:
            for param in group["params"]:
                if set_to_none:
                    param.grad = None
                elif param.grad is not None:
                    param.grad.zero_()

    @torch.no_grad()
    def step(self, closure=None):
        loss = None if closure is None else torch.enable_grad()(closure)()
        for group in self.param_groups:
            first = self.state[group["params"][0]]
            if not first:
                self._begin(group["params"])
            used = [param for param in group["params"] if param.grad is not None]
            if used:
                first["step"] += 1
            for dtype in {param.dtype for param in used}:  # CUDA's kernel takes one at a time
                same = [param for param in used if param.dtype == dtype]
                self._update(same, first["step"], group)
        return loss

    def _update(self, params, step, group):
        states = [self.state[param] for param in params]
        torch._fused_adam_(
            params,
            [param.grad for param in params],
            [state["exp_avg"] for state in states],
            [state["exp_avg_sq"] for state in states],
            [],
            [step] * len(params),
            lr=group["lr"],
            beta1=group["betas"][0],
            beta2=group["betas"][1],
            weight_decay=group["weight_decay"],
            eps=group["eps"],
            amsgrad=False,
            maximize=False,
        )

    def _begin(self, params):
        for param in params:
            self.state[param]["exp_avg"] = torch.zeros_like(param)
            self.state[param]["exp_avg_sq"] = torch.zeros_like(param)
        self.state[params[0]]["step"] = torch.zeros((), device=params[0].device)


def one_cycle(step: int, n_steps: int, peak: float) -> tuple[float, float]:
    """Tell the learning rate and beta1 of one step, as torch's ``OneCycleLR`` sets them.

    The rate rises from a 25th of the peak over the first three tenths of the steps and then falls
    to nothing, along half a cosine each; beta1 goes from 0.95 to 0.85 and back.

    Parameters
    ----------
    step : int
        Which, from 0 to n_steps - 1.
    n_steps : int
        All steps of the schedule.
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
