"""Scores of rows by the rows outside their fold, whose own sets did not vote.

A closed-form left-out prediction is not independent of the row's own set, which shaped the votes of
the rows that predict it. Here the sets of a whole fold are left out before any vote. With E the
matrix that turns targets into residuals (α (K + αI)⁻¹, or I - Φ (Φ'Φ + αI)⁻¹ Φ' on components),
fold F and rest R, the regression on R alone follows from ``A = E[F, F]⁻¹ E[F, R]``: the fold's
predictions are -A times the targets of R, and its residuals are those of all rows with the fold's
targets so filled in. Nothing is fitted a second time.
"""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from ._fixed_point import KernelVotes, kernel_votes
from ._model import keys_of_rows
from ._ridge import ExactRidge, Ridge

#: Rows to score, folds at most, and values of a fold's residual matrix at most (0.3 GB).
SCORED_ROWS, FOLDS, FOLD_VALUES = 1000, 10, 2**25


def fold_scores(
    ridge: Ridge, votes: KernelVotes, X: np.ndarray, prior: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Predict rows by votes and regression of the rows outside their fold.

    Parameters
    ----------
    ridge : ExactRidge or ComponentRidge
        The regression on all rows.
    votes : KernelVotes
        Their votes, whose count strength and noise rate are taken over.
    X : ndarray of shape (n_samples, ...)
        The rows. The folds depend on their values, not on their order.
    prior : ndarray of shape (n_samples, n_classes), dtype float32
        Prior weights of their candidates.

    Returns
    -------
    rows : ndarray of shape (n_scored,), dtype int
        The rows with scores: all up to 1,000 in ten folds, 1,000 of more in fewer folds.
    scores : ndarray of shape (n_scored, n_classes)
        Rows sum to about one.
    """
    keys = list(keys_of_rows(X, prior, np.float64))
    order = np.array(sorted(range(len(X)), key=keys.__getitem__))
    n_folds = min(max(round(FOLDS * SCORED_ROWS / len(X)), 1), FOLDS)
    size = min(SCORED_ROWS // n_folds, FOLD_VALUES // len(X))
    scored = order[: size * n_folds]
    # Counts without effect at the fixed point may still weigh labels by their proportions.
    strength = max(votes.count_strength, 1e-9) if votes.log_bonus.any() else 0.0
    scores = np.empty((len(scored), prior.shape[1]))
    weights = torch.from_numpy(prior).to(votes.proba.device)
    for places in np.array_split(np.arange(len(scored)), n_folds):
        fold = torch.from_numpy(scored[places]).to(weights.device)
        # The rest votes as all rows did; its metric alone has seen the sets of the fold.
        voters: Any = Rest(votes.ridge or ridge, fold)
        own = kernel_votes(
            voters, weights[voters.rows], count_strength=strength, noise_rate=votes.noise_rate
        )
        rest = voters if votes.ridge in (None, ridge) else Rest(ridge, fold)
        scores[places] = rest.predict_fold(own.proba).cpu().numpy()
    return scored, scores


class Rest:
    """The regression on the rows outside a fold, as `kernel_votes` uses a ridge."""

    def __init__(self, ridge: Ridge, fold: Tensor) -> None:
        self.dtype, self.noise_error, self._ridge = ridge.dtype, ridge.noise_error, ridge
        if isinstance(ridge, ExactRidge):
            residual, diagonal = ridge.inverse[fold].double(), ridge.diagonal[:, 0]
        else:
            residual = -ridge._phi[fold].double() @ ridge._inverse
            residual = (residual.to(ridge.dtype) @ ridge._phi.T).double()
            residual[torch.arange(len(fold)), fold] += 1
            diagonal = 1 - ridge._leverage[:, 0]
        is_rest = torch.ones(len(diagonal), dtype=torch.bool, device=fold.device)
        is_rest[fold] = False
        self.rows = is_rest.nonzero()[:, 0]
        self._cross = residual[:, self.rows]
        self._solved = torch.linalg.solve(residual[:, fold], self._cross)
        diagonal = diagonal[self.rows] - (self._cross * self._solved).sum(dim=0)
        self._diagonal = diagonal[:, None]

    def left_out(self, targets: Tensor) -> Tensor:
        """Predict each row of the rest from its others."""
        ridge, centered = self._ridge, (targets - targets.mean(dim=0)).double()
        padded = centered.new_zeros(len(self.rows) + len(self._cross), targets.shape[1])
        padded[self.rows] = centered
        if isinstance(ridge, ExactRidge):
            residuals = (padded.T.to(ridge.inverse.dtype) @ ridge.inverse).T
        else:
            residuals = padded - ridge._phi @ ridge._solve(padded).to(ridge.dtype)
        kept = residuals[self.rows].double() - self._cross.T @ (self._solved @ centered)
        return targets - (kept / self._diagonal).to(targets.dtype)

    def predict_fold(self, targets: Tensor) -> Tensor:
        """Predict the fold from the rest."""
        mean = targets.double().mean(dim=0)
        return mean - self._solved @ (targets.double() - mean)
