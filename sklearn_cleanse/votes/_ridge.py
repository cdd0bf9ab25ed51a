"""Left-out predictions in closed form: each row by ridge regression on all other rows.

With K the kernel between rows, M = (K + αI)⁻¹ and targets Y around a mean b, the prediction for
row i of a ridge regression that never saw row i is ``y_i - (M (Y - b))_i / M_ii``. With features Φ
of r components in place of K it is ``b + (ŷ_i - h_i (y_i - b)) / (1 - h_i)``, ŷ and h being fit and
leverage of all rows. Nothing is ever fitted twice.
"""

import numpy as np
import torch
from torch import Tensor

from ._kernels import STATISTICS_ROWS, MeanKernel, blocks

#: α, added to the kernel's diagonal of ones. Chosen on controlled sets.
ALPHA = 0.05

#: Up to so many rows the exact form is used: 0.8 GB and some seconds at its end.
EXACT_ROWS = 8000

#: α from which the kernel and its inverse are in single precision, which then gives the same votes.
SINGLE_ALPHA = 1e-3

#: Components beyond that, and most values of their features: fewer components for more rows.
COMPONENTS, FEATURE_VALUES = 1000, 2**28

#: Rows, at most, that the regression behind the metric is fitted to; 3,000 gain nothing.
METRIC_ROWS = 2000

_BLOCK = 4096


class ExactRidge:
    """Left-out kernel ridge regression with all rows.

    Parameters
    ----------
    kernel : MeanKernel
        Compares rows.
    X : ndarray of shape (n_samples, ...)
        The rows.
    alpha : float, default=0.05
        α, added to the kernel's diagonal of ones.
    dtype : torch.dtype, default=None
        Precision of the inverse; None takes float32, and float64 for α below 1e-3. Distances,
        targets and predictions are in double precision.
    gram : Tensor of shape (n_samples, n_samples), default=None
        The lower triangle of the kernel, if it is known. It is overwritten.

    Attributes
    ----------
    inverse : Tensor of shape (n_samples, n_samples)
        M.
    diagonal : Tensor of shape (n_samples, 1), dtype float64
        Diagonal of M.
    n_basis : int
        Number of rows that predictions are made from.
    noise_error : float
        Mean squared left-out error on targets that are noise of variance one.

    Examples
    --------
    >>> import numpy as np, torch
    >>> from sklearn_cleanse.votes import ExactRidge, MeanKernel
    >>> X = np.array([[0.0], [0.1], [1.0], [1.1]])
    >>> ridge = ExactRidge(MeanKernel.fit(X), X)
    >>> Y = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, 1.0]], dtype=torch.float64)
    >>> ridge.left_out(Y).argmax(dim=1)
    tensor([0, 0, 1, 1])
    """

    def __init__(self, kernel, X, alpha=ALPHA, dtype=None, gram=None):
        self.kernel, self.alpha, self.n_basis = kernel, alpha, len(X)
        dtype = dtype or (torch.float32 if alpha >= SINGLE_ALPHA else torch.float64)
        K = kernel.gram(kernel.views(X), dtype) if gram is None else gram
        self._gram = K.clone() if gram is None else None
        K.diagonal().fill_(1.0 + alpha)  # the mean of exactly equal rows, without rounding
        self.dtype = torch.float64
        self.inverse = _invert(K)
        self.diagonal = self.inverse.diagonal()[:, None].to(self.dtype, copy=True)
        errors = self.inverse.norm(dim=1, keepdim=True) / self.diagonal
        self.noise_error = float(errors.square().mean())

    def take_gram(self, X: np.ndarray) -> Tensor:
        """Return the lower triangle of the kernel between the rows, and do not keep it."""
        gram, self._gram = self._gram, None
        return self.kernel.gram(self.kernel.views(X), self.inverse.dtype) if gram is None else gram

    def coefficients(self, targets: Tensor) -> Tensor:
        """Fit all rows; predictions are the mean target plus kernel times coefficients.

        Parameters
        ----------
        targets : Tensor of shape (n_samples, n_outputs)

        Returns
        -------
        coefficients : Tensor of shape (n_basis, n_outputs)
        """
        centered = (targets - targets.mean(dim=0)).to(self.inverse.dtype)
        # M is symmetric, and by rows the product is twice as fast.
        return (centered.T @ self.inverse).T.to(targets.dtype)

    def left_out(self, targets: Tensor) -> Tensor:
        """Predict each row from all others.

        Parameters
        ----------
        targets : Tensor of shape (n_samples, n_outputs)

        Returns
        -------
        left_out : Tensor of shape (n_samples, n_outputs)
        """
        return targets - self.coefficients(targets) / self.diagonal

    def fitted(self, targets: Tensor) -> Tensor:
        """Predict each row from all, itself included.

        Parameters
        ----------
        targets : Tensor of shape (n_samples, n_outputs)

        Returns
        -------
        fitted : Tensor of shape (n_samples, n_outputs)
        """
        return targets - self.alpha * self.coefficients(targets)  # (K + αI) C = Y - b


class ComponentRidge:
    """Left-out kernel ridge regression on components: some rows stand for all (Nyström).

    Parameters
    ----------
    kernel : MeanKernel
        Compares rows.
    X : ndarray of shape (n_samples, ...)
        The rows.
    components : ndarray of shape (n_components,), dtype int
        Rows that stand for all. All of them give the exact form.
    alpha : float, default=0.05
        α, as for `ExactRidge`.

    Attributes
    ----------
    n_basis : int
        Number of rows that predictions are made from.
    noise_error : float
        Mean squared left-out error on targets that are noise of variance one.

    Examples
    --------
    >>> import numpy as np, torch
    >>> from sklearn_cleanse.votes import ComponentRidge, MeanKernel
    >>> X = np.linspace(0, 1, 200)[:, None]
    >>> ridge = ComponentRidge(MeanKernel.fit(X), X, np.arange(0, 200, 10))
    >>> Y = torch.from_numpy(np.hstack([X < 0.5, X >= 0.5]).astype(float))
    >>> bool((ridge.left_out(Y).argmax(dim=1) == Y.argmax(dim=1)).float().mean() > 0.95)
    True
    """

    def __init__(self, kernel, X, components, alpha=ALPHA):
        self.kernel, self.alpha, self.n_basis = kernel, alpha, len(components)
        basis = kernel.views(X[components])
        K = kernel(basis, basis)
        K.diagonal().fill_(1.0)
        self._root = _inverse_root(K)
        # Single precision halves the memory of what has a row per sample; sums are in double.
        self.dtype = K.dtype if self.n_basis == len(X) else torch.float32
        self._phi = K.new_empty(len(X), self.n_basis, dtype=self.dtype)
        gram = torch.zeros_like(K)
        gram.diagonal().fill_(alpha)
        for rows in blocks(len(X), _BLOCK):
            block = kernel(kernel.views(X[rows]), basis) @ self._root
            self._phi[rows] = block.to(self.dtype)
            gram += block.T @ block
        self._inverse = torch.cholesky_inverse(torch.linalg.cholesky(gram))
        self._leverage, noise = K.new_empty(len(X), 1), 0.0
        for rows in blocks(len(X), _BLOCK):
            block = self._phi[rows].to(K.dtype)
            solved = block @ self._inverse
            h = (block * solved).sum(dim=1, keepdim=True)
            self._leverage[rows] = h
            # (I - H)² has the diagonal 1 - 2h + (h - α φ'A⁻²φ)
            squared = 1 - h - alpha * solved.square().sum(dim=1, keepdim=True)
            noise += float((squared / (1 - h).square()).sum())
        self.noise_error = noise / len(X)

    def coefficients(self, targets: Tensor) -> Tensor:
        """Fit all rows; predictions are the mean target plus kernel times coefficients.

        Parameters
        ----------
        targets : Tensor of shape (n_samples, n_outputs)

        Returns
        -------
        coefficients : Tensor of shape (n_basis, n_outputs)
        """
        return self._root @ self._solve(targets - targets.mean(dim=0))

    def _solve(self, centered: Tensor) -> Tensor:
        """Return the coefficients of the features."""
        total = self._inverse.new_zeros(self.n_basis, centered.shape[1])
        for rows in blocks(len(centered), _BLOCK):
            total += (self._phi[rows].T @ centered[rows].to(self.dtype)).to(total.dtype)
        return self._inverse @ total

    def left_out(self, targets: Tensor) -> Tensor:
        """Predict each row from all others.

        Parameters
        ----------
        targets : Tensor of shape (n_samples, n_outputs)

        Returns
        -------
        left_out : Tensor of shape (n_samples, n_outputs)
        """
        mean, h = targets.mean(dim=0), self._leverage.to(targets.dtype)
        return mean + (self.fitted(targets) - mean - h * (targets - mean)) / (1 - h)

    def fitted(self, targets: Tensor) -> Tensor:
        """Predict each row from all, itself included.

        Parameters
        ----------
        targets : Tensor of shape (n_samples, n_outputs)

        Returns
        -------
        fitted : Tensor of shape (n_samples, n_outputs)
        """
        mean = targets.mean(dim=0)
        solved = self._solve(targets - mean).to(self.dtype)
        return mean + (self._phi @ solved).to(targets.dtype)


Ridge = ExactRidge | ComponentRidge


def _invert(K: Tensor) -> Tensor:
    """Invert a positive definite matrix, of which the lower triangle is given, in place."""
    columns = K.mT  # LAPACK reads by columns
    try:
        torch.linalg.cholesky(columns, upper=True, out=columns)
    except torch.linalg.LinAlgError as error:  # type: ignore[attr-defined]
        message = "`alpha` must be larger, as the kernel of these rows is singular."
        raise ValueError(message) from error
    return torch.cholesky_inverse(columns, upper=True, out=columns).mT


def _inverse_root(K: Tensor) -> Tensor:
    """Return K^(-1/2), without the directions that stem from rounding."""
    values, vectors = torch.linalg.eigh(K)
    kept = values > values[-1] * 1e-10
    return vectors * torch.where(kept, values.clamp(min=1e-300).rsqrt(), 0.0) @ vectors.T


def make_ridge(
    X: np.ndarray,
    order: np.ndarray | None = None,
    *,
    n_components: int | str | None = "auto",
    alpha: float = ALPHA,
    device: torch.device | str = "cpu",
) -> Ridge:
    """Choose between all rows and components.

    Parameters
    ----------
    X : ndarray of shape (n_samples, ...)
        The rows.
    order : ndarray of shape (n_samples,), dtype int, default=None
        Rows in random order: the kernel is fitted to the first ones, which are the components, too.
        If None, X is in random order.
    n_components : int, "auto" or None, default="auto"
        None takes all rows, "auto" all up to 8,000 and then 1,000 components, fewer where their
        features would take more than 1 GiB.
    alpha : float, default=0.05
        α of the regression.
    device : torch.device or str, default="cpu"

    Returns
    -------
    ridge : ExactRidge or ComponentRidge

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_cleanse.votes import make_ridge
    >>> X = np.random.RandomState(0).normal(size=(50, 3))
    >>> type(make_ridge(X)).__name__, type(make_ridge(X, n_components=10)).__name__
    ('ExactRidge', 'ComponentRidge')
    """
    order = np.arange(len(X)) if order is None else order
    count = count_components(len(X), n_components)
    kernel = MeanKernel.fit(X[order[:STATISTICS_ROWS]], device)
    if count == len(X):
        return ExactRidge(kernel, X, alpha)
    return ComponentRidge(kernel, X, order[:count], alpha)


def count_components(n_samples: int, n_components: int | str | None) -> int:
    """Return the number of rows that stand for all, which is all of them in the exact form."""
    if n_components is None or (n_components == "auto" and n_samples <= EXACT_ROWS):
        return n_samples
    if n_components == "auto":
        return min(COMPONENTS, max(1, FEATURE_VALUES // n_samples))
    return min(int(n_components), n_samples)


def memory_needed(
    n_samples: int, n_features: int, n_classes: int, n_components: int, alpha: float = ALPHA
) -> float:
    """Estimate the memory of a fit in bytes, beyond the data."""
    size = 4.0 if alpha >= SINGLE_ALPHA or n_components < n_samples else 8.0
    # two ridges, as votes are taken twice, and the metric between them
    ridges = 2 * size * n_samples * n_components + 24.0 * min(n_samples, METRIC_ROWS) ** 2
    parts = 8.0 * (4 * n_features * n_components + 6 * n_classes * n_samples)
    if n_components == n_samples:
        return ridges + parts
    block = _BLOCK * (2 * n_components + 6 * n_features)
    return ridges + parts + 8.0 * (6 * n_components**2 + block)
