"""How many threads a training step uses: no more than it has work for."""

from __future__ import annotations

import os
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from threadpoolctl import threadpool_limits

from ._modules import MLP

#: Multiplications of a step that keep a thread busy: up to there a second thread takes at most a
#: fifth off the time (``examples/benchmarks/threads.py``).
WORK_PER_THREAD = 30_000_000

#: Threads that torch has if nobody says otherwise.
_BY_ITSELF = torch.get_num_threads()


def step_threads(network: Any, device: torch.device, batch_size: int) -> AbstractContextManager:
    """Limit OpenMP, in the calling thread alone, to the threads that a step can make use of.

    ``torch.set_num_threads`` would change the number for threads that start meanwhile, too, and
    for good: after it, MKL no longer follows OpenMP's.

    Parameters
    ----------
    network : torch.nn.Module
        Only an "mlp" is limited: of others a parameter may cost any number of multiplications.
    device : torch.device
    batch_size : int

    Returns
    -------
    limit : context manager
        Does nothing on another device than the CPU, or where somebody has said how many threads
        there are to be: by ``OMP_NUM_THREADS``, ``MKL_NUM_THREADS`` or ``torch.set_num_threads``.
    """
    told = any(os.environ.get(f"{kind}_NUM_THREADS") for kind in ("OMP", "MKL"))
    told = told or torch.get_num_threads() != _BY_ITSELF
    if told or type(network) is not MLP or device.type != "cpu":
        return nullcontext()
    work = batch_size * sum(parameter.numel() for parameter in network.parameters())
    n_threads = max(1, work // WORK_PER_THREAD)
    if n_threads >= torch.get_num_threads():
        return nullcontext()
    return threadpool_limits(n_threads, user_api="openmp")
