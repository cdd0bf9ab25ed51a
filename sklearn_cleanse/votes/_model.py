"""The kernel regression on votes, kept for new rows."""

import hashlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..features import row_keys
from ._fixed_point import KernelVotes, label_weights, votes_from_scores
from ._ridge import ExactRidge, Ridge

#: Largest number of kernel values computed at a time.
_BLOCK_VALUES = 2**22

#: Rows whose bytes are compared at a time.
_BLOCK = 4096


class KernelModel:
    """Predict new rows, and vote on their candidates, as on the training rows.

    Parameters
    ----------
    ridge : ExactRidge or ComponentRidge
        The regression.
    votes : KernelVotes
        The votes on its rows, which it is fitted to.
    X : ndarray of shape (n_basis, ...)
        The rows that predictions are made from: all that voted, or the components.
    prior : ndarray of shape (n_basis, n_classes), dtype float32
        The prior weights of their candidates.
    rows : ndarray of shape (n_basis,), dtype int
        Their row numbers in the training data.

    Attributes
    ----------
    coef : Tensor of shape (n_basis, n_classes)
        Contribution of each of these rows to (or, if negative, against) each class.
    intercept : Tensor of shape (n_classes,)
        Mean of the votes.

    Examples
    --------
    >>> import numpy as np, torch
    >>> from sklearn_cleanse.votes import KernelModel, kernel_votes, make_ridge
    >>> X = np.array([[0.0], [0.1], [1.0], [1.1]])
    >>> prior = np.array([[1, 0], [0.5, 0.5], [0.5, 0.5], [0, 1]], dtype=np.float32)
    >>> ridge = make_ridge(X)
    >>> votes = kernel_votes(ridge, torch.from_numpy(prior))
    >>> model = KernelModel(ridge, votes, X, prior, np.arange(4))
    >>> model.scores(np.array([[0.05], [1.05]])).argmax(dim=1)
    tensor([0, 1])
    """

    def __init__(
        self, ridge: Ridge, votes: KernelVotes, X: np.ndarray, prior: np.ndarray, rows: np.ndarray
    ) -> None:
        self.coef = ridge.coefficients(votes.proba).cpu()
        self.intercept = votes.proba.mean(dim=0).cpu().to(self.coef.dtype)
        self.kernel, self.alpha = ridge.kernel.to("cpu"), ridge.alpha
        self.X, self.prior, self.rows = X, prior, rows
        self.log_rates = votes.log_rates.cpu().to(self.coef.dtype)
        self.log_bonus = votes.log_bonus.cpu().to(self.coef.dtype)
        self.count_strength = votes.count_strength
        # With components the others' predictions cannot be separated from those by all rows.
        self.left_out = votes.left_out.cpu() if isinstance(ridge, ExactRidge) else None
        self._views: list[Tensor] | None = None
        self._positions: dict[bytes, int] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_views": None, "_positions": None}  # computed again from X

    @property
    def is_exact(self) -> bool:
        """Whether predictions are made from all rows that voted."""
        return self.left_out is not None

    def similarity(self, X: np.ndarray) -> Tensor:
        """Compare new rows with those that predictions are made from.

        Parameters
        ----------
        X : ndarray of shape (n_samples, ...)

        Returns
        -------
        similarity : Tensor of shape (n_samples, n_basis)
        """
        return self.kernel(self.kernel.views(X), self._basis())

    def _basis(self) -> list[Tensor]:
        if self._views is None:
            self._views = self.kernel.views(self.X)
        return self._views

    def scores(self, X: np.ndarray) -> Tensor:
        """Predict a score for each class.

        Parameters
        ----------
        X : ndarray of shape (n_samples, ...)

        Returns
        -------
        scores : Tensor of shape (n_samples, n_classes)
            Rows sum to one; single scores may be negative.
        """
        size = max(1, _BLOCK_VALUES // max(len(self.coef), int(np.prod(X.shape[1:]))))
        scores = []
        for start in range(0, len(X), size):
            views = self.kernel.views(X[start : start + size])
            # Infinite distances would not show: the kernel of such a row is zero everywhere.
            far = ~torch.stack([view.norm(dim=1) for view in views]).isfinite().all(dim=0)
            if far.any():
                raise ValueError(
                    "X must not be too far from the training rows to compute distances, got "
                    f"overflow in row {start + int(far.nonzero()[0])}. Check its units, or drop "
                    "the row."
                )
            # In place: a damaged intercept must not widen the result.
            scores.append((self.kernel(views, self._basis()) @ self.coef).add_(self.intercept))
        return _check_finite(torch.cat(scores))

    def left_out_scores(self, X: np.ndarray, prior: np.ndarray) -> tuple[Tensor, Tensor]:
        """Predict rows as in training: a training row has no vote on itself.

        Parameters
        ----------
        X : ndarray of shape (n_samples, ...)
        prior : ndarray of shape (n_samples, n_classes), dtype float32
            Prior weights of the candidates.

        Returns
        -------
        scores : Tensor of shape (n_samples, n_classes)
            With components those of `scores`.
        own : Tensor of shape (n_samples,), dtype int64
            Position of each row among those that predictions are made from, -1 for other rows:
            a training row is recognized by equal features and candidates.
        """
        scores = self.scores(X)
        if self._positions is None:
            self._positions = {key: i for i, key in enumerate(self._keys(self.X, self.prior))}
        own = torch.tensor([self._positions.get(key, -1) for key in self._keys(X, prior)])
        if self.left_out is not None:
            left_out = self.left_out[own].reshape(scores.shape)
            scores = torch.where((own >= 0)[:, None], left_out, scores)
        return _check_finite(scores), own

    def _keys(self, X: np.ndarray, prior: np.ndarray) -> Iterator[bytes]:
        dtype = self.X.dtype if self.X.dtype.kind == "f" else np.float64
        return keys_of_rows(X, prior, dtype)

    @torch.no_grad()
    def left_out_coef(self, own: Tensor) -> Iterator[Tensor]:
        """Compute the contribution of each row if one of them were left out.

        Parameters
        ----------
        own : Tensor of shape (n_samples,), dtype int64
            Position of the row to leave out, -1 for none.

        Yields
        ------
        coef : Tensor of shape (n_basis, n_classes)
            For each sample; with components always the coefficients of all rows.
        """
        left = own[own >= 0]
        if not self.is_exact or not len(left):
            yield from [self.coef] * len(own)
            return
        system = self.kernel(self._basis(), self._basis())
        system.diagonal().fill_(1 + self.alpha)
        unit = torch.zeros(len(system), len(left), dtype=system.dtype)
        unit[left, torch.arange(len(left))] = 1.0
        columns = iter(torch.cholesky_solve(unit, torch.linalg.cholesky(system)).T)
        for position in own.tolist():
            if position < 0:
                yield self.coef
                continue
            column = next(columns)
            yield self.coef - torch.outer(column / column[position], self.coef[position])

    def vote_on(self, scores: Tensor, prior: np.ndarray) -> Tensor:
        """Turn scores into votes by the formula of the training rows.

        Parameters
        ----------
        scores : Tensor of shape (n_samples, n_classes)
        prior : ndarray of shape (n_samples, n_classes)
            Prior weights of the candidates.

        Returns
        -------
        votes : Tensor of shape (n_samples, n_classes)
            Zero outside the candidates; rows sum to one.
        """
        dtype = self.log_rates.dtype
        weights = label_weights(torch.tensor(prior, dtype=dtype), 0.0)
        counts = self.log_bonus.expand(len(self.intercept)), self.log_rates, self.count_strength
        return votes_from_scores(scores.to(dtype), weights, (weights > 0).to(dtype), *counts)


def _check_finite(scores: Tensor) -> Tensor:
    if not scores.isfinite().all():
        raise ValueError("Scores must be finite, got NaN or infinity. Fit the model again.")
    return scores


def keys_of_rows(X: np.ndarray, prior: np.ndarray, dtype: Any) -> Iterator[bytes]:
    """Yield a digest of each row's features and prior weights."""
    for start in range(0, len(X), _BLOCK):
        rows = slice(start, start + _BLOCK)
        for key in row_keys(X[rows].astype(dtype), prior[rows]):
            yield hashlib.blake2b(key, digest_size=16).digest()


def distinct_rows(X: np.ndarray, prior: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the first of each group of equal rows, and for each row the number of its group."""
    groups: dict[bytes, int] = {}
    group = [groups.setdefault(key, len(groups)) for key in keys_of_rows(X, prior, X.dtype)]
    return np.unique(group, return_index=True)[1], np.array(group)
