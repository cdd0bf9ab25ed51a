"""Networks from features to ``(logits, representation)``."""

from itertools import pairwise

import numpy as np
import torch
from torch import Tensor, nn


class MLP(nn.Module):
    """Several fully connected networks side by side: linear layer, ReLU, batch norm, dropout.

    Batch norm comes *after* the activation: before it, training on candidates is markedly less
    accurate. Batched products train several networks at little more than the time of one.

    Parameters
    ----------
    n_features : int
        Number of inputs. Inputs of more dimensions, such as images, are flattened.
    n_classes : int
        Number of outputs.
    hidden_layer_sizes : tuple of int, default=(300, 300, 300)
        Units of each hidden layer.
    dropout : float, default=0.2
        Proportion of activations dropped after each hidden layer in training; on a CPU it is
        rounded to a 256th.
    n_networks : int, default=1
        Number of networks.
    batch_norm : bool, default=True
        Whether activations are normalized after each hidden layer.
    generator : torch.Generator, default=None
        Draws weights and dropout, so that fits in other threads do not disturb this one.

    Examples
    --------
    >>> import torch
    >>> from sklearn_cleanse.network import MLP
    >>> mlp = MLP(4, 3, hidden_layer_sizes=(8, 5), n_networks=2)
    >>> logits, representation = mlp(torch.ones(6, 4))
    >>> logits.shape, representation.shape
    (torch.Size([6, 2, 3]), torch.Size([6, 2, 5]))
    """

    def __init__(
        self,
        n_features,
        n_classes,
        hidden_layer_sizes=(300, 300, 300),
        *,
        dropout=0.2,
        n_networks=1,
        batch_norm=True,
        generator=None,
    ):
        super().__init__()
        self.n_networks = n_networks
        widths = [n_features, *hidden_layer_sizes]
        layers: list[nn.Module] = []
        for n_inputs, n_units in pairwise(widths):
            layers += [_Linears(n_networks, n_inputs, n_units, generator, relu=True)]
            layers += [nn.BatchNorm1d(n_networks * n_units)] if batch_norm else []
            layers += [ByteDropout(dropout, generator)] if dropout else []
        self.body = nn.Sequential(*layers)
        self.head = _Linears(n_networks, widths[-1], n_classes, generator)

    def forward(self, X: Tensor) -> tuple[Tensor, Tensor]:
        # Inside, a channel of a signal over the rows is one unit of one network, so that torch's
        # own layers treat all networks at once.
        H = self.body(X.flatten(start_dim=1).T.expand(self.n_networks, -1, -1))
        return self._by_row(self.head(H)), self._by_row(H)

    def _by_row(self, signal: Tensor) -> Tensor:
        return signal.reshape(self.n_networks, -1, signal.shape[-1]).permute(2, 0, 1)


class _Linears(nn.Module):
    """Linear layers side by side, on a signal of shape (1, networks * units, rows)."""

    def __init__(self, n_networks, n_inputs, n_outputs, generator, relu=False):
        super().__init__()
        self.relu = relu
        self.weight = nn.Parameter(torch.empty(n_networks, n_outputs, n_inputs))
        self.bias = nn.Parameter(torch.empty(n_networks, n_outputs, 1))
        for values in self.parameters():
            nn.init.uniform_(values, -(n_inputs**-0.5), n_inputs**-0.5, generator=generator)

    def forward(self, signal: Tensor) -> Tensor:
        n_networks, _, n_inputs = self.weight.shape
        H = torch.baddbmm(self.bias, self.weight, signal.reshape(n_networks, n_inputs, -1))
        H = H.relu_() if self.relu else H  # in place on a view, it would cost three copies
        return H.view(1, -1, signal.shape[-1])


class ByteDropout(nn.Dropout):
    """Dropout drawn from bytes: F.dropout takes 12 times as long, 7 to 16 % of a step on a CPU."""

    def __init__(self, p, generator):
        super().__init__(p)
        self.generator = generator
        self.n_dropped = min(max(round(256 * p), 1), 255)
        self.factor = np.float32(256 / (256 - self.n_dropped))

    def __getstate__(self):
        return {**self.__dict__, "generator": None}  # of one training only

    def forward(self, signal: Tensor) -> Tensor:
        if not self.training:
            return signal
        if signal.device.type != "cpu":
            return super().forward(signal)
        words = torch.empty(-(-signal.numel() // 8), dtype=torch.int64)
        words.random_(-(2**63), None, generator=self.generator)
        # numpy compares and converts bytes several times as fast as torch
        kept = words.numpy().view(np.uint8)[: signal.numel()] >= self.n_dropped
        return signal * torch.from_numpy(kept * self.factor).view_as(signal)


class ResNet34(nn.Module):
    """ResNet-34 for small images: a 3 × 3 stem without pooling, then 3, 4, 6 and 3 blocks.

    Parameters
    ----------
    n_channels : int
        Number of image channels.
    n_classes : int
        Number of outputs.
    width : int, default=64
        Channels of the first stage; each further stage has twice as many.
    generator : torch.Generator, default=None
        Draws the weights.

    Examples
    --------
    >>> import torch
    >>> from sklearn_cleanse.network import ResNet34
    >>> logits, representation = ResNet34(3, 10, width=4)(torch.zeros(2, 3, 8, 8))
    >>> logits.shape, representation.shape
    (torch.Size([2, 10]), torch.Size([2, 32]))
    """

    def __init__(self, n_channels, n_classes, width=64, generator=None):
        super().__init__()
        widths = np.repeat([width, 2 * width, 4 * width, 8 * width], [3, 4, 6, 3]).tolist()
        blocks = [_Residual(*pair) for pair in pairwise([width, *widths])]
        stem = [*_convolution(n_channels, width), nn.ReLU()]
        self.body = nn.Sequential(*stem, *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten())
        # skip_init: torch would draw from its global generator
        self.head = nn.utils.skip_init(nn.Linear, widths[-1], n_classes)
        for part in self.modules():
            if isinstance(part, (nn.Conv2d, nn.Linear)):
                bound = part.weight[0].numel() ** -0.5
                for values in part.parameters():
                    nn.init.uniform_(values, -bound, bound, generator=generator)

    def forward(self, X: Tensor) -> tuple[Tensor, Tensor]:
        representation = self.body(X)
        return self.head(representation), representation


class _Residual(nn.Module):
    """Two convolutions beside a shortcut; where channels double, the image shrinks by half."""

    def __init__(self, channels, wider):
        super().__init__()
        stride = 1 if channels == wider else 2
        first, second = _convolution(channels, wider, stride), _convolution(wider, wider)
        self.body = nn.Sequential(*first, nn.ReLU(), *second)
        shortcut = [] if stride == 1 else _convolution(channels, wider, stride, size=1)
        self.shortcut = nn.Sequential(*shortcut)

    def forward(self, X: Tensor) -> Tensor:
        return torch.relu(self.body(X) + self.shortcut(X))


def _convolution(channels, wider, stride=1, size=3):
    """Return a convolution, whose weights are not drawn yet, and its batch norm."""
    where = {"stride": stride, "padding": size // 2, "bias": False}
    return nn.utils.skip_init(nn.Conv2d, channels, wider, size, **where), nn.BatchNorm2d(wider)


MODULES = {"mlp": MLP, "resnet34": ResNet34}
