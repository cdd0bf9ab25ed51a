"""Networks from features to ``(logits, representation)``."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor, nn

__all__ = ["MLP", "MODULES", "ResNet34"]


class MLP(nn.Module):
    """Fully connected network, or several side by side: linear layer, ReLU, batch norm, dropout.

    Batch norm comes *after* the activation: before it, training on candidate sets is markedly
    worse. Several members are trained at once by batched matrix products, which costs little more
    than one, as small batches are bound by overhead.

    Parameters
    ----------
    n_features : int
        Number of inputs. Inputs of more dimensions, such as images, are flattened.
    n_classes : int
        Number of outputs.
    hidden_layer_sizes : tuple of int, default=(300, 300, 300)
        Units of each hidden layer.
    dropout : float, default=0.0
        Share of the activations dropped after each hidden layer while training; on a CPU it is
        rounded to a 256th, and to one at least.
    n_members : int, default=1
        Number of networks. With more than one, logits have shape (n_samples, n_members,
        n_classes), and each member gets its own view of the input if there are as many.
    batch_norm : bool, default=True
        Whether activations are normalised after each hidden layer.

    Examples
    --------
    >>> import torch
    >>> from sklearn_cleanse.deep import MLP
    >>> logits, representation = MLP(4, 3, hidden_layer_sizes=(8, 5))(torch.zeros(2, 4))
    >>> logits.shape, representation.shape
    (torch.Size([2, 3]), torch.Size([2, 5]))
    >>> logits, representation = MLP(4, 3, (8, 5), n_members=2)(torch.zeros(2, 4))
    >>> logits.shape, representation.shape
    (torch.Size([2, 2, 3]), torch.Size([2, 2, 5]))
    """

    def __init__(
        self,
        n_features,
        n_classes,
        hidden_layer_sizes=(300, 300, 300),
        dropout=0.0,
        n_members=1,
        batch_norm=True,
    ):
        super().__init__()
        self.n_members = n_members
        self.n_features = n_features
        self.dropout = dropout
        widths = [n_features, *hidden_layer_sizes]
        self.body = nn.ModuleList(
            _Hidden(n_members, *pair, batch_norm) for pair in itertools.pairwise(widths)
        )
        self.head = _Linears(n_members, widths[-1], n_classes)
        self.layer_sizes = [n_members * size for size in hidden_layer_sizes]
        self.draw_from(None)

    def forward(self, X: Tensor) -> tuple[Tensor, Tensor]:
        # Inside, tensors are (members, units, rows): no layer then has to move anything about.
        H = X.flatten(start_dim=1).T
        if H.shape[0] == self.n_features:
            H = H.expand(self.n_members, *H.shape)
        H = H.reshape(self.n_members, self.n_features, X.shape[0])
        for hidden, factors in zip(self.body, self._draw(H), strict=True):
            H = hidden(H, factors)
        logits = self.head(H)
        if self.n_members == 1:
            return logits[0].T, H[0].T
        return logits.permute(2, 0, 1), H.permute(2, 0, 1)

    def draw_from(self, generator: torch.Generator | None) -> None:
        """Choose where dropout draws from.

        Parameters
        ----------
        generator : torch.Generator or None
            A generator on the network's device; None for torch's global one.
        """
        self._generator = generator
        self.forget_draws()

    def forget_draws(self) -> None:
        """Drop what has been drawn for steps to come: each epoch begins with draws of its own."""
        self._spare: Tensor | None = None

    def __getstate__(self):
        return {**self.__dict__, "_generator": None, "_spare": None}  # of one training only

    def _draw(self, like: Tensor) -> Sequence[Tensor | None]:
        """Return the factors of dropout for each layer; they are drawn for some steps at a time."""
        n_rows, n_units = like.shape[2], sum(self.layer_sizes)
        size = n_rows * n_units
        if not (self.training and self.dropout > 0 and size > 0):
            return [None] * len(self.layer_sizes)
        spare = self._spare
        if spare is None or len(spare) < size or spare.device != like.device:
            n_drawn = size * max(1, _DRAWN_AT_ONCE // size)
            spare = dropout_factors(n_drawn, self.dropout, like, self._generator)
        factors, self._spare = spare[:size], spare[size:]
        return factors.view(1, n_units, n_rows).split(self.layer_sizes, dim=1)


#: So many factors of dropout are drawn at a time, where a step needs fewer. What a seed gives
#: depends on it.
_DRAWN_AT_ONCE = 2**18


def dropout_factors(
    size: int, p: float, like: Tensor, generator: torch.Generator | None = None
) -> Tensor:
    """Draw the factors of dropout: zero with probability p, and of mean one.

    On a CPU they are drawn a byte each, with p rounded to a 256th: drawing floats takes longer than
    the layer.

    Parameters
    ----------
    size : int
        How many.
    p : float
        Share of zeros.
    like : Tensor
        Has the device and the dtype wanted.
    generator : torch.Generator, default=None
        Where to draw from, on the same device; by default torch's global generator.

    Returns
    -------
    factors : Tensor of shape (size,)

    Examples
    --------
    >>> import torch
    >>> from sklearn_cleanse.deep._modules import dropout_factors
    >>> factors = dropout_factors(1000, 0.5, like=torch.zeros(0))
    >>> factors.unique()
    tensor([0., 2.])
    """
    if like.device.type != "cpu":
        return like.new_empty(size).bernoulli_(1 - p, generator=generator).div_(1 - p)
    dropped = min(max(round(256 * p), 1), 255)
    words = torch.empty(-(-size // 8), dtype=torch.int64)
    words.random_(-(2**63), None, generator=generator)
    # numpy compares and converts bytes several times as fast as torch does
    kept = words.numpy().view(np.uint8)[:size] >= dropped
    return torch.from_numpy(kept * np.float32(256 / (256 - dropped))).to(like.dtype)


class _Linears(nn.Module):
    """Linear layers side by side, from (members, inputs, rows) to (members, outputs, rows)."""

    def __init__(self, n_members, n_inputs, n_outputs):
        super().__init__()
        bound = n_inputs**-0.5
        self.weight = nn.Parameter(torch.empty(n_members, n_outputs, n_inputs))
        self.bias = nn.Parameter(torch.empty(n_members, n_outputs, 1))
        nn.init.uniform_(self.weight, -bound, bound)
        nn.init.uniform_(self.bias, -bound, bound)

    def forward(self, X: Tensor) -> Tensor:
        return torch.baddbmm(self.bias, self.weight, X)


class _Hidden(_Linears):
    """Linear layers, ReLU and, if wanted, batch norm, to (members, units, rows)."""

    def __init__(self, n_members, n_inputs, n_units, batch_norm):
        super().__init__(n_members, n_inputs, n_units)
        self.norm = nn.BatchNorm1d(n_members * n_units) if batch_norm else None

    def forward(self, X: Tensor, factors: Tensor | None = None) -> Tensor:
        H = super().forward(X).relu_()
        signal = H.view(1, -1, H.shape[2])  # a channel for each unit, as batch norm wants it
        if self.norm is not None:
            signal = self.normalise(signal)
        if factors is not None:
            signal = signal * factors
        return signal.view_as(H)

    def normalise(self, signal: Tensor) -> Tensor:
        """Apply batch norm; calling the norm itself would count batches, too."""
        norm = self.norm
        statistics = norm.running_mean, norm.running_var
        settings = self.training, norm.momentum, norm.eps, False
        return torch.batch_norm(signal, norm.weight, norm.bias, *statistics, *settings)


class ResNet34(nn.Module):
    """ResNet-34 for small images: a 3×3 stem without pooling, then 3, 4, 6 and 3 residual blocks.

    Parameters
    ----------
    n_channels : int
        Number of image channels.
    n_classes : int
        Number of outputs.
    width : int, default=64
        Channels of the first stage; each further stage has twice as many.

    Examples
    --------
    >>> import torch
    >>> from sklearn_cleanse.deep import ResNet34
    >>> logits, representation = ResNet34(3, 10, width=4)(torch.zeros(2, 3, 8, 8))
    >>> logits.shape, representation.shape
    (torch.Size([2, 10]), torch.Size([2, 32]))
    """

    def __init__(self, n_channels, n_classes, width=64):
        super().__init__()
        layers = [_convolution(n_channels, width), nn.BatchNorm2d(width), nn.ReLU()]
        channels = width
        for stage, n_blocks in enumerate((3, 4, 6, 3)):
            wider = width * 2**stage
            for block in range(n_blocks):
                layers.append(_Residual(channels, wider, stride=2 if stage and not block else 1))
                channels = wider
        self.body = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten())
        self.head = nn.Linear(channels, n_classes)

    def forward(self, X: Tensor) -> tuple[Tensor, Tensor]:
        representation = self.body(X)
        return self.head(representation), representation


class _Residual(nn.Module):
    def __init__(self, channels, wider, stride):
        super().__init__()
        self.body = nn.Sequential(
            _convolution(channels, wider, stride=stride),
            nn.BatchNorm2d(wider),
            nn.ReLU(),
            _convolution(wider, wider),
            nn.BatchNorm2d(wider),
        )
        self.shortcut = nn.Identity()
        if stride != 1 or channels != wider:
            self.shortcut = nn.Sequential(
                nn.Conv2d(channels, wider, 1, stride=stride, bias=False), nn.BatchNorm2d(wider)
            )

    def forward(self, X: Tensor) -> Tensor:
        return torch.relu(self.body(X) + self.shortcut(X))


def _convolution(channels, wider, stride=1):
    return nn.Conv2d(channels, wider, 3, stride=stride, padding=1, bias=False)


MODULES = {"mlp": MLP, "resnet34": ResNet34}


def split_output(output) -> tuple[Tensor, Tensor]:
    """Take a module's output apart; logits stand in for a representation it does not give."""
    if isinstance(output, Tensor):
        return output, output
    if isinstance(output, tuple) and len(output) == 2:
        return output
    form = f"{len(output)} outputs" if isinstance(output, tuple) else type(output).__name__
    raise ValueError(
        f"the module returned {form}; it must return logits, or a tuple of logits and a "
        "representation"
    )


def check_output(network: Callable, X: Tensor, n_classes: int) -> None:
    """Refuse a network that cannot be trained on such rows, by what it says of them.

    Parameters
    ----------
    network : callable
        From scaled inputs to logits, or to logits and a representation.
    X : Tensor of shape (n_rows, ...)
        Some scaled inputs.
    n_classes : int
        Number of columns that logits must have.
    """
    try:
        output = network(X)
    except Exception as error:
        hint = "; images need a channel axis, as in X[:, None]" if X.dim() == 3 else ""
        raise ValueError(
            f"the module failed on inputs of shape {tuple(X.shape)}, which X gives it: "
            f"{type(error).__name__}: {error}{hint}"
        ) from error
    logits, representation = split_output(output)
    shape = tuple(logits.shape)
    if logits.dim() not in (2, 3) or (shape[0], shape[-1]) != (len(X), n_classes):
        raise ValueError(
            f"the module returned logits of shape {shape} for {len(X)} rows and {n_classes} "
            f"classes; it must return ({len(X)}, {n_classes}), or ({len(X)}, n_members, "
            f"{n_classes}) for an ensemble"
        )
    if not (logits.is_floating_point() and logits.requires_grad):
        raise ValueError(
            f"the module's logits ({logits.dtype}) pass no gradient to its parameters; return "
            "floating-point logits without detach, argmax or no_grad"
        )
    if representation.dim() < 2 or len(representation) != len(X):
        raise ValueError(
            f"the module returned a representation of shape {tuple(representation.shape)} for "
            f"{len(X)} rows; it must have a row for each"
        )


def per_member(logits: Tensor, *others: Tensor | None) -> list[Tensor | None]:
    """Give each member of an ensemble a row of its own; a single network is left as it is."""
    if logits.dim() == 2:
        return [logits, *others]
    n_members = logits.shape[1]
    repeated = [
        None if o is None else torch.stack([o] * n_members, dim=1).flatten(0, 1) for o in others
    ]
    return [logits.flatten(0, 1), *repeated]
