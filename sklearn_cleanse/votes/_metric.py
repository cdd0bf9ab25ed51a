"""A metric learned from votes: features count by how much the votes change along them.

A kernel regression predicts the votes. M is the mean outer product of the gradients of all class
scores. Rows are then compared by ``(x - x')' M (x - x')``, and M is computed once more.

See A. Radhakrishnan et al., Mechanism for feature learning in neural networks and
backpropagation-free machine learning models, Science 383 (2024).
"""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from ._fixed_point import KernelVotes, kernel_votes, trusted_votes
from ._kernels import MeanKernel, blocks
from ._ridge import ALPHA, METRIC_ROWS, ComponentRidge, ExactRidge, Ridge

#: Rows, at most, whose gradients are averaged.
_GRADIENT_ROWS = 1000

#: Times that M is computed from gradients.
_STEPS = 2

#: Of more features than the first figure, as many principal components as the second are compared.
_MANY_FEATURES, _FEW_FEATURES = 256, 128

#: Largest number of values, of features times coefficients, that are held at a time.
_BLOCK_VALUES = 2**24


class MetricKernel(MeanKernel):
    """Mean of a kernel and of ``exp(-distance / mean distance)`` in a learned metric.

    Parameters
    ----------
    plain : MeanKernel
        The other kernel. Its first view has the features that the metric is on.
    metric : Tensor of shape (n_components, n_components)
        M: symmetric, positive and of mean diagonal one.
    axes : Tensor of shape (n_features, n_components)
        Principal axes of the features, or the identity.
    width : float
        Mean distance in the metric.

    Examples
    --------
    >>> import numpy as np, torch
    >>> from sklearn_cleanse.votes import MeanKernel, learn_metric
    >>> X = np.random.RandomState(0).normal(size=(200, 3))
    >>> y = torch.from_numpy(np.stack([X[:, 0] > 0, X[:, 0] <= 0], axis=1)).double()
    >>> learn_metric(MeanKernel.fit(X), X, y).metric.diagonal().argmax()
    tensor(0)
    """

    def __init__(self, plain: MeanKernel, metric: Tensor, axes: Tensor, width: float) -> None:
        super().__init__(plain.kinds, plain.scalings, plain.widths)
        self.metric, self.width, self._project = metric, width, axes @ _root(metric)

    def views(self, X: np.ndarray) -> list[Tensor]:
        """Scale rows for comparison; the last view has distances in the metric."""
        views = super().views(X)
        return [*views, views[0] @ self._project]

    def _compare(self, A: list[Tensor], B: list[Tensor], dtype: torch.dtype) -> Tensor:
        return self._mix(super()._compare(A[:-1], B[:-1], dtype), A[-1], B[-1])

    def _mix(self, K: Tensor, a: Tensor, b: Tensor) -> Tensor:
        return K.add_(torch.cdist(a, b).mul_(-1 / self.width).to(K.dtype).exp_()).div_(2)

    def add_to(self, gram: Tensor, X: np.ndarray) -> Tensor:
        """Turn the lower triangle of the other kernel into that of this one, in place."""
        U = self.views(X)[-1]
        for rows in blocks(len(U)):
            self._mix(gram[rows, : rows.stop], U[rows], U[: rows.stop])
        return gram


@torch.no_grad()
def learn_metric(kernel: MeanKernel, X: np.ndarray, votes: Tensor) -> MetricKernel:
    """Learn a metric from votes.

    Parameters
    ----------
    kernel : MeanKernel
        The kernel that voted. Its first scaling is that of the metric's features.
    X : ndarray of shape (n_samples, ...)
        Rows in random order: of many, the first 2,000 are used.
    votes : Tensor of shape (n_samples, n_classes)
        Their votes.

    Returns
    -------
    kernel : MetricKernel
        The mean of the kernel and that of the metric.

    Examples
    --------
    >>> import numpy as np, torch
    >>> from sklearn_cleanse.votes import MeanKernel, learn_metric
    >>> X = np.array([[0.0, 5.0], [0.1, 2.0], [1.0, 3.0], [1.1, 4.0]])
    >>> votes = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, 1.0]]).double()
    >>> M = learn_metric(MeanKernel.fit(X), X, votes).metric
    >>> bool(M[0, 0] > M[1, 1])
    True
    """
    Z = kernel.views(X[:METRIC_ROWS])[0]
    if Z.shape[1] <= _MANY_FEATURES:
        axes = torch.eye(Z.shape[1], dtype=Z.dtype, device=Z.device)
    else:
        axes = Z[:_FEW_FEATURES].T
        for _ in range(4):  # subspace iteration: the axes span the largest components
            axes = torch.linalg.qr(Z.T @ (Z @ axes))[0]
        Z = Z @ axes
    Y = votes[: len(Z)] - votes[: len(Z)].mean(dim=0)
    M = torch.eye(Z.shape[1], dtype=Z.dtype, device=Z.device)
    for _ in range(_STEPS):
        M = _gradient_step(Z, Y, M)
    U = Z[:_GRADIENT_ROWS] @ _root(M)
    return MetricKernel(kernel, M, axes, float(torch.cdist(U, U).mean()) or 1.0)


def metric_votes(
    ridge: Ridge, X: np.ndarray, prior: Tensor, order: np.ndarray | None = None, **params: Any
) -> KernelVotes:
    """Compute votes twice: by the ridge's kernel, and with the metric learned from the first votes.

    The ridge stays as it is, because predictions with the metric are worse.

    Parameters
    ----------
    ridge : ExactRidge or ComponentRidge
        The regression on all rows.
    X : ndarray of shape (n_samples, ...)
        Its rows.
    prior : Tensor of shape (n_samples, n_classes)
        Prior weights: zero outside the candidates; rows sum to one.
    order : ndarray of shape (n_samples,), dtype int, default=None
        Rows in random order, as for `make_ridge`.
    **params
        Passed to `trusted_votes`. The first votes fix the noise rate, and whether counts are used.

    Returns
    -------
    votes : KernelVotes
        The second votes, and the predictions that they are made from.

    Examples
    --------
    >>> import numpy as np, torch
    >>> from sklearn_cleanse.votes import make_ridge, metric_votes
    >>> X = np.array([[0.0], [0.1], [0.2], [1.0], [1.1], [1.2]])
    >>> S = torch.tensor([[1, 0], [1, 1], [1, 1], [0, 1], [1, 1], [1, 1]])
    >>> metric_votes(make_ridge(X), X, S / S.sum(dim=1, keepdim=True)).proba.argmax(dim=1)
    tensor([0, 0, 0, 1, 1, 1])
    """
    order = np.arange(len(X)) if order is None else order
    first = trusted_votes(ridge, prior, **params)
    some = order[:METRIC_ROWS]
    kernel = learn_metric(ridge.kernel, X[some], first.proba[torch.from_numpy(some)])
    if isinstance(ridge, ExactRidge):
        gram = kernel.add_to(ridge.take_gram(X), X)
        again: Ridge = ExactRidge(kernel, X, ridge.alpha, gram=gram)
    else:
        again = ComponentRidge(kernel, X, order[: ridge.n_basis], ridge.alpha)
    params["noise_rate"] = first.noise_rate
    if not first.log_bonus.any():
        params["count_strength"] = 0.0
    return kernel_votes(again, prior, **params)


def _gradient_step(Z: Tensor, Y: Tensor, M: Tensor) -> Tensor:
    """Return the mean outer product of the gradients of a regression in a metric."""
    U = Z @ _root(M)
    K = U.new_empty(len(U), len(U), dtype=torch.float32)
    for rows in blocks(len(U)):
        K[rows] = torch.cdist(U[rows], U)
    width, near = float(K.mean()) or 1.0, K[:_GRADIENT_ROWS].clone()
    K.mul_(-1 / width).exp_()
    # Equal rows have no direction, and those almost equal would lose all digits.
    W = torch.where(near > 1e-3 * width, K[:_GRADIENT_ROWS] / near, 0.0)
    K.diagonal().fill_(1.0 + ALPHA)
    A = torch.cholesky_solve(Y.float(), torch.linalg.cholesky(K))
    Z = Z.float()
    G = torch.zeros_like(M)
    for coef in A.split(max(1, _BLOCK_VALUES // Z.numel()), dim=1):  # some classes at a time
        pulls = (W @ (coef[:, :, None] * Z[:, None]).flatten(start_dim=1)).view(len(W), -1, len(M))
        gradients = (Z[: len(W), None] * (W @ coef)[:, :, None] - pulls).flatten(end_dim=1)
        G += (gradients.T @ gradients).to(G.dtype)
    G = M @ G @ M
    scale = G.diagonal().mean()
    return (G + G.T) / (2 * scale) if scale > 0 else M  # flat where all votes are equal


def _root(M: Tensor) -> Tensor:
    """Return the square root of a symmetric positive matrix."""
    values, vectors = torch.linalg.eigh(M)
    return vectors * values.clamp(min=0).sqrt() @ vectors.T
