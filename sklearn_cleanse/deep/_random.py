"""Random numbers from generators of one's own: torch's global ones are left alone."""

from __future__ import annotations

import sys
from types import FrameType

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

_aten = torch.ops.aten


class OwnRandom(TorchDispatchMode):
    """Let torch code draw from generators of its own, in this thread alone.

    Inside ``with``, all that draws without a generator gets one: initialisers, dropout, also inside
    recurrent layers and attention. Torch's global generators are neither seeded nor advanced, so
    threads do not disturb each other. (Only fused kernels of CUDA that take no generator, such as
    attention with dropout, still draw from that device's global one.)

    Parameters
    ----------
    seed : int
        Fixes all that is drawn.

    Examples
    --------
    >>> import torch
    >>> from sklearn_cleanse.deep._random import OwnRandom
    >>> with OwnRandom(0):
    ...     first = torch.nn.Linear(3, 2).weight
    >>> with OwnRandom(0):
    ...     again = torch.nn.Linear(3, 2).weight
    >>> torch.equal(first, again)
    True
    """

    def __init__(self, seed: int):
        super().__init__()
        self._seed = seed
        self._generators: dict[torch.device, torch.Generator] = {}

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        return True  # or torch.compile would be off in all threads meanwhile

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if torch.Tag.nondeterministic_seeded not in func.tags:
            return func(*args, **kwargs)
        own_form = _WITH_GENERATOR.get(func, func)
        names = [argument.name for argument in own_form._schema.arguments]
        takes_one = "generator" in names and len(args) <= names.index("generator")
        if kwargs.get("generator") is not None or not (takes_one or func in _REWRITTEN):
            return func(*args, **kwargs)
        if _is_checkpointed():
            raise RuntimeError(
                f"the module draws random numbers ({func}) inside torch.utils.checkpoint, which "
                "would draw others when it computes gradients; leave out one of the two"
            )
        draw = _REWRITTEN.get(func, own_form)
        generator = self.generator(_device_of(args, kwargs))
        return draw(*args, **{**kwargs, "generator": generator})

    def wrap(self, function):
        """Return a function that draws from these generators."""

        def drawing(*args, **kwargs):
            with self:
                return function(*args, **kwargs)

        return drawing

    def generator(self, device: torch.device | str | None) -> torch.Generator:
        """Return the generator of a device, None being the CPU."""
        device = torch.empty(0, device=device).device  # with its number
        if device not in self._generators:
            seed = self._seed + (device.index or 0)
            self._generators[device] = torch.Generator(device).manual_seed(seed)
        return self._generators[device]


def _is_checkpointed() -> bool:
    """Return whether we are called from a part of a module that will be computed twice."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_globals.get("__name__") != "torch.utils.checkpoint":
        frame = frame.f_back
    return frame is not None


def _device_of(args, kwargs) -> torch.device | None:
    return next((a.device for a in args if isinstance(a, Tensor)), kwargs.get("device"))


#: Operations that draw, but take a generator in another form only.
_WITH_GENERATOR = {
    _aten.rand.default: _aten.rand.generator,
    _aten.randn.default: _aten.randn.generator,
    _aten.randperm.default: _aten.randperm.generator,
    _aten.randint.default: _aten.randint.generator,
    _aten.randint.low: _aten.randint.low_generator,
}


def _rand_like(X: Tensor, generator: torch.Generator, **kwargs) -> Tensor:
    return torch.empty_like(X, **kwargs).uniform_(generator=generator)


def _randn_like(X: Tensor, generator: torch.Generator, **kwargs) -> Tensor:
    return torch.empty_like(X, **kwargs).normal_(generator=generator)


def _dropout(
    X: Tensor, p: float, train: bool | None, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    if train is False:
        return X.clone(), torch.ones_like(X, dtype=torch.bool)
    kept = torch.empty_like(X, dtype=torch.bool).bernoulli_(1 - p, generator=generator)
    return X * kept * (1 / (1 - p) if p < 1 else 0.0), kept


#: Operations that draw and take no generator at all, and the same with one.
_REWRITTEN = {
    _aten.rand_like.default: _rand_like,
    _aten.randn_like.default: _randn_like,
    _aten.native_dropout.default: _dropout,
}
