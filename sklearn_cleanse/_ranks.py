"""What the processes of one training, the ranks of a torch process group, tell each other.

Before and after training they exchange Python objects (`Ranks.gather` and what is built on it), so
that a rank that refuses its rows is heard by the others wherever they are. In a training step they
add up tensors (`Ranks.add_`). One process is a rank without others, and none of this costs it
anything.
"""

from __future__ import annotations

import copy
import functools
import operator
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor


class RankError(RuntimeError):
    """Another rank cannot go on, so this one cannot either."""


class AgreedStop(KeyboardInterrupt):
    """All ranks stop here: a callback of one has asked to, in the way of skorch's callbacks."""


@dataclass(frozen=True)
class Ranks:
    """This process among those that train together.

    Parameters
    ----------
    rank : int, default=0
        Number of this process.
    size : int, default=1
        How many there are.

    Examples
    --------
    >>> from sklearn_cleanse._ranks import Ranks
    >>> Ranks.now()  # no process group is initialised
    Ranks(rank=0, size=1)
    >>> Ranks.now().gather("mine")
    ['mine']
    """

    rank: int = 0
    size: int = 1

    @classmethod
    def now(cls) -> Ranks:
        """Return the ranks of torch's process group, if one is initialised."""
        if dist.is_available() and dist.is_initialized():
            return cls(dist.get_rank(), dist.get_world_size())
        return ALONE

    @property
    def several(self) -> bool:
        return self.size > 1

    # -- before and after training: objects ------------------------------------------------------

    def gather(self, value: Any) -> list[Any]:
        """Return what each rank has given, in their order."""
        if not self.several:
            return [value]
        told = self._tell(None, value)
        for rank, (failure, _) in enumerate(told):
            if failure is not None:
                raise RankError(
                    f"rank {rank} has refused to go on, so rank {self.rank} cannot either: "
                    f"{failure}"
                )
        return [value for _, value in told]

    def _tell(self, failure: str | None, value: Any) -> list[tuple[str | None, Any]]:
        told: list[Any] = [None] * self.size
        self._call(dist.all_gather_object, told, (failure, value))
        return told

    def _call(self, function: Any, *args: Any) -> None:
        try:
            function(*args)
        except RuntimeError as error:
            raise RankError(
                f"{error}. Rank {self.rank} of {self.size} cannot reach the others: probably one "
                "of them has ended, or has not called fit or answered within the timeout of the "
                "process group. The output of that rank tells why; start all of them again"
            ) from error

    @contextmanager
    def together(self) -> Iterator[None]:
        """Let an error of one rank end all of them; inside, ranks may `gather` but not `add_`."""
        try:
            yield
        except Exception as error:
            self._tell_failure(error)
            raise
        self.gather(None)

    def _tell_failure(self, error: Exception) -> None:
        if self.several and not isinstance(error, RankError):
            self._tell(f"{type(error).__name__}: {error}", None)

    @contextmanager
    def stop_together(self, is_asked: Callable[[KeyboardInterrupt], bool]) -> Iterator[None]:
        """Let a callback that fails or asks to stop on one rank end all; Ctrl-C does not count."""
        try:
            yield
        except Exception as error:
            self._tell_failure(error)
            raise
        except KeyboardInterrupt as stop:
            if not (self.several and is_asked(stop)):
                raise
            self.gather(True)
            raise AgreedStop from stop
        if any(self.gather(False)):
            raise AgreedStop

    def agree(self, facts: Mapping[str, Any]) -> None:
        """Refuse, on all ranks, facts that differ between them."""
        if not self.several:
            return
        first, *others = self.gather(dict(facts))
        for rank, other in enumerate(others, start=1):
            for name in (*first, *other):
                ours, theirs = first.get(name), other.get(name)
                if ours != theirs:
                    raise ValueError(
                        f"the ranks differ in {name}: rank 0 has {ours!r:.200}, rank {rank} has "
                        f"{theirs!r:.200}; all ranks must train the same model, on rows of one kind"
                    )

    def check_device(self, device: str) -> None:
        """Refuse a device whose tensors the process group cannot send."""
        if not self.several:
            return
        backend, kind = dist.get_backend(), torch.device(device).type
        if kind == "mps" or (backend == "nccl" and kind != "cuda"):
            remedy = "use device='cuda'" if backend == "nccl" else "use device='cpu'"
            raise ValueError(
                f"device={device!r} cannot be used in a process group of backend {backend!r}; "
                f"{remedy}, or start the group with a backend for this device"
            )

    def first(self, value: Any) -> Any:
        """Return what rank 0 has given."""
        found = self.gather(value if self.rank == 0 else None)[0]
        return value if self.rank == 0 else found

    def total(self, value: Any) -> Any:
        """Return the sum of all ranks' numbers or arrays."""
        return functools.reduce(operator.add, self.gather(value))

    def totals(self, *tensors: Tensor) -> list[Tensor]:
        """Return the sum of all ranks' tensors, each by itself; few and small: they are pickled."""
        if not self.several:
            return list(tensors)
        told = zip(*self.gather([tensor.cpu() for tensor in tensors]), strict=True)
        sums = [functools.reduce(operator.add, parts) for parts in told]
        return [found.to(tensor.device) for found, tensor in zip(sums, tensors, strict=True)]

    def join(self, rows: Tensor) -> Tensor:
        """Return the rows of all ranks, one rank's after the other's."""
        if not self.several:
            return rows
        return torch.cat(self.gather(rows.cpu())).to(rows.device)

    def mean(self, rows: Tensor) -> Tensor:
        """Return the mean over the rows of all ranks."""
        if not self.several:
            return rows.mean(dim=0)
        [total], n_rows = self.totals(rows.sum(dim=0)), self.total(len(rows))
        return total / n_rows

    def fork(self, rng: np.random.RandomState) -> np.random.RandomState:
        """Return a generator of this rank's own, from one that is the same on all."""
        if not self.several:
            return rng
        return np.random.RandomState([copy.deepcopy(rng).randint(2**31 - 1), self.rank])

    # -- while training: tensors -----------------------------------------------------------------

    def add_(self, tensor: Tensor) -> Tensor:
        """Replace a tensor by the sum of all ranks' and return it."""
        if self.several:
            self._call(dist.all_reduce, tensor)
        return tensor

    def stack(self, values: Tensor) -> Tensor:
        """Return the values of all ranks, of one shape (n,), as rows of a tensor."""
        table = values.new_zeros(self.size, len(values))
        table[self.rank] = values
        return self.add_(table)

    def add_gradients(self, module: torch.nn.Module) -> None:
        """Replace the gradients of a module by the sums of all ranks', in one message."""
        if not self.several:
            return
        parameters = [p for p in module.parameters() if p.requires_grad]
        is_there = [p.grad is not None for p in parameters]
        # one that took no part in the loss is sent all the same: messages have one length
        flat = [torch.zeros_like(p) if p.grad is None else p.grad for p in parameters]
        flags = torch.tensor(is_there, dtype=flat[0].dtype, device=flat[0].device)
        message = self.add_(torch.cat([*(gradient.flatten() for gradient in flat), flags]))
        *pieces, flags = message.split([*(p.numel() for p in parameters), len(parameters)])
        if not all(is_there):  # only then wait for the device: another rank may have it
            is_there = (flags > 0).tolist()
        for parameter, piece, has_gradient in zip(parameters, pieces, is_there, strict=True):
            if has_gradient:
                parameter.grad = piece.view_as(parameter).to(parameter.dtype)

    @torch.no_grad()
    def take_first(self, module: torch.nn.Module) -> None:
        """Give a module the parameters and buffers that rank 0 has."""
        if not self.several:
            return
        for tensor in (*module.parameters(), *module.buffers()):
            self._call(dist.broadcast, tensor, 0)


#: One process.
ALONE = Ranks()


class RowsOfAll(torch.autograd.Function):
    """The rows of all ranks, one rank's after the other's; gradients pass to our own.

    ``RowsOfAll.apply(rows, start, n_rows, ranks)``: ours begin at ``start`` of all ``n_rows``.
    """

    @staticmethod
    def forward(ctx: Any, rows: Tensor, start: int, n_rows: int, ranks: Ranks) -> Tensor:
        ctx.ours = slice(start, start + len(rows))
        everyone = rows.new_zeros(n_rows, *rows.shape[1:])
        everyone[ctx.ours] = rows
        return ranks.add_(everyone)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        return gradient[ctx.ours], None, None, None
