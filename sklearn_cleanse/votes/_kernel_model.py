"""The kernel regression on votes, kept for new rows."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from ._kernel_votes import KernelVotes, kernel_votes, restrict
from ._leave_one_out import ExactRidge, LandmarkRidge, make_ridge

__all__ = ["KernelModel", "fit_kernel_votes"]

#: Probabilities are not trusted below this.
PROBABILITY_FLOOR = 1e-2

#: Largest number of kernel values computed at a time.
_BLOCK_VALUES = 2**22


class KernelModel:
    """Predict new rows, and vote on their candidates, as on the training rows.

    Parameters
    ----------
    ridge : ExactRidge or LandmarkRidge
        The regression.
    votes : KernelVotes
        The votes on its rows, which it is fitted to.
    X : ndarray of shape (n_basis, ...)
        The rows that predictions are made from: all training rows, or the landmarks.
    rows : ndarray of shape (n_basis,), dtype int
        Their row numbers.
    is_clean : ndarray of shape (n_basis,), dtype bool
        Whether each has a single candidate.

    Attributes
    ----------
    coef : Tensor of shape (n_basis, n_classes)
        What each of these rows says for (or, if negative, against) each class.
    intercept : Tensor of shape (n_classes,)
        Mean of the votes.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_cleanse.candidates import check_candidates
    >>> from sklearn_cleanse.votes import fit_kernel_votes
    >>> X = np.array([[0.0], [0.1], [1.0], [1.1]])
    >>> _, candidates = check_candidates([{0}, {0, 1}, {0, 1}, {1}])
    >>> _, model, _ = fit_kernel_votes(X, candidates, np.arange(4))
    >>> model.scores(np.array([[0.05], [1.05]])).argmax(dim=1)
    tensor([0, 1])
    """

    def __init__(
        self,
        ridge: ExactRidge | LandmarkRidge,
        votes: KernelVotes,
        X: np.ndarray,
        rows: np.ndarray,
        is_clean: np.ndarray,
    ) -> None:
        self.kernel = ridge.kernel.to("cpu")
        self.X, self.rows, self.is_clean = X, rows, is_clean
        self.coef = ridge.coefficients(votes.proba).cpu()
        self.intercept = votes.proba.mean(dim=0).cpu().to(self.coef.dtype)
        self.log_rates = votes.log_rates.cpu().to(self.coef.dtype)
        self.log_shares = votes.log_shares.cpu().to(self.coef.dtype)
        self.count_strength = votes.count_strength
        # What the other rows say of each; with landmarks it cannot be told from what all say.
        exact = isinstance(ridge, ExactRidge)
        self._left_out = votes.left_out.cpu() if exact else None
        self._sets = votes.proba.cpu() > 0 if exact else None
        self._views: list[Tensor] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_views": None}  # made again from X

    def similarity(self, X: np.ndarray) -> Tensor:
        """Compare new rows with those that predictions are made from.

        Parameters
        ----------
        X : ndarray of shape (n_samples, ...)

        Returns
        -------
        similarity : Tensor of shape (n_samples, n_basis)
        """
        if self._views is None:
            self._views = self.kernel.views(self.X)
        return self.kernel(self.kernel.views(X), self._views)

    def scores(self, X: np.ndarray) -> Tensor:
        """Predict how much speaks for each class.

        Parameters
        ----------
        X : ndarray of shape (n_samples, ...)

        Returns
        -------
        scores : Tensor of shape (n_samples, n_classes)
            Rows sum to one; single scores may be negative.
        """
        size = max(1, _BLOCK_VALUES // len(self.coef))
        parts = [
            self.similarity(X[start : start + size]) @ self.coef for start in range(0, len(X), size)
        ]
        return _refuse_far(torch.cat(parts) + self.intercept)

    @staticmethod
    def normalize(scores: Tensor) -> Tensor:
        """Turn scores into probabilities that rank well; they are not calibrated.

        Parameters
        ----------
        scores : Tensor of shape (n_samples, n_classes)

        Returns
        -------
        proba : Tensor of shape (n_samples, n_classes)
            In double precision.
        """
        proba = scores.double()
        proba = proba.clamp(min=PROBABILITY_FLOOR)
        return proba / proba.sum(dim=1, keepdim=True)

    def left_out_scores(self, X: np.ndarray, candidates: Tensor) -> tuple[Tensor, Tensor]:
        """Predict rows as in training: a training row has no say about itself.

        Parameters
        ----------
        X : ndarray of shape (n_samples, ...)
        candidates : Tensor of shape (n_samples, n_classes), dtype bool

        Returns
        -------
        scores : Tensor of shape (n_samples, n_classes)
            With landmarks those of `scores`.
        own : Tensor of shape (n_samples,), dtype int64
            Position of each row among those that predictions are made from, -1 if it is none:
            equal features and equal candidates give a training row away.
        """
        similarity = self.similarity(X)
        scores = _refuse_far(similarity @ self.coef + self.intercept)
        own = similarity.argmax(dim=1)
        equal = (np.asarray(X) == self.X[own.numpy()]).reshape(len(X), -1).all(axis=1)
        same = torch.from_numpy(equal)
        if self._left_out is not None:
            same &= (self._sets[own] == candidates).all(dim=1)
            scores = torch.where(same[:, None], self._left_out[own], scores)
        return scores, torch.where(same, own, -1)

    def vote_on(self, scores: Tensor, candidates: Tensor) -> Tensor:
        """Turn scores into votes by the formula of the training rows.

        Parameters
        ----------
        scores : Tensor of shape (n_samples, n_classes)
        candidates : Tensor of shape (n_samples, n_classes), dtype bool

        Returns
        -------
        votes : Tensor of shape (n_samples, n_classes)
            Zero outside the candidates; rows sum to one.
        """
        own = candidates.to(scores.dtype)
        return restrict(scores, own, self.log_shares, self.log_rates, self.count_strength)


def _refuse_far(scores: Tensor) -> Tensor:
    far = ~scores.isfinite().all(dim=1)
    if far.any():
        raise ValueError(
            f"row {int(far.nonzero()[0])} of X is so far from all training rows that distances "
            "overflow; check its units, or drop the row"
        )
    return scores


class _Reordered:
    """Rows in another order, taken when asked for: X may be larger than memory."""

    def __init__(self, X: np.ndarray, order: np.ndarray) -> None:
        self.X, self.order = X, order

    def __len__(self) -> int:
        return len(self.order)

    def __getitem__(self, rows: Any) -> np.ndarray:
        return np.asarray(self.X[self.order[rows]])


def fit_kernel_votes(
    X: np.ndarray,
    candidates: sp.csr_array,
    order: np.ndarray,
    *,
    count_strength: float | str = "auto",
    n_landmarks: int | str | None = "auto",
    ridge: float = 0.05,
    max_rounds: int = 20,
    device: torch.device | str = "cpu",
) -> tuple[KernelVotes, KernelModel, Tensor]:
    """Let all rows vote on each other, and keep the regression for new rows.

    Parameters
    ----------
    X : ndarray of shape (n_samples, ...)
        The rows.
    candidates : csr_array of shape (n_voters, n_classes), dtype bool
        Candidates of the rows in the order given next.
    order : ndarray of shape (n_voters,), dtype int
        Which rows vote, in random order: landmarks are the first ones. If that does not depend on
        how the rows came, neither do the votes, to the last bit.
    count_strength : float in [0, 1] or "auto", default="auto"
        How strongly counts weigh votes, as for `kernel_votes`.
    n_landmarks : int, "auto" or None, default="auto"
        Rows that stand for all, as for `make_ridge`.
    ridge : float, default=0.05
        Ridge of the regression.
    max_rounds : int, default=20
        Most rounds of votes.
    device : torch.device or str, default="cpu"
        Where to compute.

    Returns
    -------
    votes : KernelVotes
        In the order given, on the CPU.
    model : KernelModel
        The regression, on the CPU.
    fitted : Tensor of shape (n_voters, n_classes)
        Its scores of these rows themselves, which are as good as free.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_cleanse.candidates import check_candidates
    >>> from sklearn_cleanse.votes import fit_kernel_votes
    >>> X = np.array([[0.0], [0.1], [1.0], [1.1]])
    >>> _, candidates = check_candidates([{0}, {0, 1}, {0, 1}, {1}])
    >>> votes, model, fitted = fit_kernel_votes(X, candidates, np.arange(4))
    >>> votes.proba.argmax(dim=1)
    tensor([0, 0, 1, 1])
    """
    rows = _Reordered(X, order)
    regression = make_ridge(rows, n_landmarks=n_landmarks, ridge=ridge, device=device)
    sets = torch.from_numpy(candidates.toarray()).to(device)
    votes = kernel_votes(regression, sets, count_strength=count_strength, max_rounds=max_rounds)
    basis = order[: len(regression.basis[0])]
    is_clean = np.diff(candidates.indptr)[: len(basis)] == 1
    model = KernelModel(regression, votes, rows[: len(basis)], basis, is_clean)
    fitted = regression.fitted(votes.proba).cpu()
    votes = dataclasses.replace(
        votes,
        proba=votes.proba.cpu(),
        left_out=votes.left_out.cpu(),
        log_rates=votes.log_rates.cpu(),
        log_shares=votes.log_shares.cpu(),
    )
    return votes, model, fitted
