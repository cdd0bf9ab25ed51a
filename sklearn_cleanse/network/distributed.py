"""One fit by several processes: torch's DistributedDataParallel around the same net.

Each rank calls ``fit`` with *all* rows, inside an initialized process group; a memory-mapped X is
shared. Rank 0 fits voter and scaling and broadcasts them. All ranks shuffle alike, each visits its
own batches of ``batch_size`` rows, and gradients are averaged. Count loss and batch norm see the
rows of their own rank. A rank that fails ends the others by the group's own timeout.
"""

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from skorch.callbacks import Callback
from torch.nn.parallel import DistributedDataParallel

__all__ = ["Distributed", "by_first", "rank_and_size"]


def rank_and_size() -> tuple[int, int]:
    """Return this process's rank and the number of ranks: 0 and 1 without a process group."""
    grouped = dist.is_available() and dist.is_initialized()
    return (dist.get_rank(), dist.get_world_size()) if grouped else (0, 1)


def by_first(function: Callable, *args: Any) -> Any:
    """Call a function on rank 0 and return its result, or raise its error, on all ranks."""
    rank, size = rank_and_size()
    if size == 1:
        return function(*args)
    sent: list[Any] = [None, None]
    if rank == 0:
        try:
            sent = [function(*args), None]
        except Exception as error:
            sent = [None, error]
    dist.broadcast_object_list(sent)
    if sent[1] is not None:
        raise sent[1]
    return sent[0]


class Distributed(Callback):
    """Wrap the module in training, and combine the confidences that the ranks have changed."""

    def on_train_begin(self, net, **kwargs):
        # All start from the weights of rank 0. The wrapper trains, whatever its module does.
        net.module_ = DistributedDataParallel(net.module_.train())

    def on_epoch_begin(self, net, dataset_train=None, **kwargs):
        self.before_ = dataset_train.confidences.clone()

    def on_epoch_end(self, net, dataset_train=None, **kwargs):
        change = dataset_train.confidences - self.before_  # one rank has visited each row
        dist.all_reduce(change)
        dataset_train.confidences = self.before_ + change

    def on_train_end(self, net, **kwargs):
        net.module_ = net.module_.module
        with torch.no_grad():
            for buffer in net.module_.buffers():  # running means are of a rank's own rows
                dist.broadcast(buffer, 0)
