"""Networks from features to ``(logits, representation)``."""

from __future__ import annotations

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
        rounded to a 256th.
    n_members : int, default=1
        Number of networks. With more than one, logits have shape (n_samples, n_members,
        n_classes), and each member gets its own view of the input if there are as many.

    Examples
    --------
    >>> import torch
    >>> from sklearn_cleanse.modules import MLP
    >>> logits, representation = MLP(4, 3, hidden_layer_sizes=(8, 5))(torch.zeros(2, 4))
    >>> logits.shape, representation.shape
    (torch.Size([2, 3]), torch.Size([2, 5]))
    >>> logits, representation = MLP(4, 3, (8, 5), n_members=2)(torch.zeros(2, 4))
    >>> logits.shape, representation.shape
    (torch.Size([2, 2, 3]), torch.Size([2, 2, 5]))
    """

    def __init__(
        self, n_features, n_classes, hidden_layer_sizes=(300, 300, 300), dropout=0.0, n_members=1
    ):
        super().__init__()
        self.n_members = n_members
        self.n_features = n_features
        layers = []
        width = n_features
        for hidden in hidden_layer_sizes:
            layers += [_Linears(n_members, width, hidden), nn.ReLU(), _BatchNorm(n_members, hidden)]
            if dropout:
                layers.append(_Dropout(dropout))
            width = hidden
        self.body = nn.Sequential(*layers)
        self.head = _Linears(n_members, width, n_classes)

    def forward(self, X: Tensor) -> tuple[Tensor, Tensor]:
        # Inside, tensors are (members, units, rows): no layer then has to move anything about.
        views = X.flatten(start_dim=1).T
        if len(views) == self.n_features:
            views = views.expand(self.n_members, *views.shape)
        representation = self.body(views.reshape(self.n_members, self.n_features, len(X)))
        logits = self.head(representation)
        if self.n_members == 1:
            return logits[0].T, representation[0].T
        return logits.permute(2, 0, 1), representation.permute(2, 0, 1)


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


class _BatchNorm(nn.BatchNorm1d):
    """Batch norm of (members, units, rows): as of one long signal with a channel for each unit."""

    def __init__(self, n_members, n_units):
        super().__init__(n_members * n_units)

    def forward(self, X: Tensor) -> Tensor:
        return super().forward(X.view(1, -1, X.shape[2])).view(X.shape)


class _Dropout(nn.Dropout):
    """Dropout that draws a byte per value; drawing floats takes a CPU longer than the layer."""

    def forward(self, X: Tensor) -> Tensor:
        if not self.training or X.device.type != "cpu":
            return super().forward(X)
        dropped = min(max(round(256 * self.p), 1), 255)
        words = torch.empty(-(-X.numel() // 8), dtype=torch.int64).random_(-(2**63), None)
        # numpy compares and converts bytes several times as fast as torch does
        factors = (words.numpy().view(np.uint8)[: X.numel()] >= dropped).astype(np.float32)
        factors *= np.float32(256 / (256 - dropped))
        return X * torch.from_numpy(factors).view(X.shape).to(X.dtype)


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
    >>> from sklearn_cleanse.modules import ResNet34
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
    if isinstance(output, tuple):
        return output
    return output, output


def per_member(logits: Tensor, *others: Tensor | None) -> list[Tensor | None]:
    """Give each member of an ensemble a row of its own; a single network is left as it is."""
    if logits.dim() == 2:
        return [logits, *others]
    n_members = logits.shape[1]
    repeated = [
        None if o is None else o[:, None].expand(-1, n_members, *o.shape[1:]).flatten(0, 1)
        for o in others
    ]
    return [logits.flatten(0, 1), *repeated]
