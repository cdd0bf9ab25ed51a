"""The kernel regression on votes, kept for new rows."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from .._model_file import ModelFile
from .._ranks import ALONE
from .._rows import SparseRows
from ._kernel_votes import KernelVotes, kernel_votes, votes_from_scores
from ._kernels import MeanKernel, SparseViews
from ._leave_one_out import RIDGE, ExactRidge, LandmarkRidge, SharedRows, check_memory, make_ridge

__all__ = ["KernelModel", "fit_kernel_votes"]

#: Probabilities are not trusted below this.
PROBABILITY_FLOOR = 1e-2

_TENSORS = ("coef", "intercept", "log_rates", "log_shares")
_NUMBERS = ("count_strength", "noise", "_ridge")

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
    candidates : ndarray of shape (n_basis, n_classes), dtype bool
        Their candidates.

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
        X: np.ndarray | SparseRows,
        rows: np.ndarray,
        candidates: np.ndarray,
    ) -> None:
        self.kernel = ridge.kernel.to("cpu")
        self.X, self.rows, self.candidates = X, rows, candidates
        self.is_clean = candidates.sum(axis=1) == 1
        self.coef = ridge.coefficients(votes.proba).cpu()
        self.intercept = ridge.ranks.mean(votes.proba).cpu().to(self.coef.dtype)
        self.log_rates = votes.log_rates.cpu().to(self.coef.dtype)
        self.log_shares = votes.log_shares.cpu().to(self.coef.dtype)
        self.count_strength, self.dependence = votes.count_strength, votes.dependence
        self.noise = votes.noise
        # What the other rows say of each; with landmarks it cannot be told from what all say.
        exact = isinstance(ridge, ExactRidge)
        self._left_out = votes.left_out.cpu() if exact else None
        self._ridge = ridge.ridge
        self._views: list[Tensor] | SparseViews | None = None
        self._positions: dict[bytes, int] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_views": None, "_positions": None}  # made again from X

    def _state(self) -> dict[str, Any]:
        kept = {name: getattr(self, name) for name in ("rows", "candidates", *_TENSORS)}
        numbers = {name: float(getattr(self, name)) for name in _NUMBERS}
        # NaN, where it was not measured, is no JSON
        dependence = None if np.isnan(self.dependence) else float(self.dependence)
        return {
            **kept,
            **numbers,
            "X": self.X.matrix if isinstance(self.X, SparseRows) else self.X,
            "dependence": dependence,
            "_left_out": self._left_out,
            "kernel": self.kernel._state(),
        }

    @classmethod
    def _restored(
        cls, file: ModelFile, place: str, sample_shape: tuple[int, ...], n_classes: int
    ) -> KernelModel:
        model = cls.__new__(cls)
        if file.has(f"{place}.X.data"):
            rows = file.sparse(f"{place}.X", None, sample_shape[0], "biuf", gaps=True)
            model.X = SparseRows(rows)
        else:
            model.X = file.array(f"{place}.X", "biuf", (None, *sample_shape), gaps=True)
        n_basis = len(model.X)
        model.rows = file.array(f"{place}.rows", "i", (n_basis,))
        model.candidates = file.array(f"{place}.candidates", "b", (n_basis, n_classes))
        model.is_clean = model.candidates.sum(axis=1) == 1
        shapes = [(n_basis, n_classes), (n_classes,), (2, n_classes, n_classes), (n_classes,)]
        for name, shape in zip(_TENSORS, shapes, strict=True):
            setattr(model, name, torch.tensor(file.array(f"{place}.{name}", "f", shape)))
        for name in _NUMBERS:
            setattr(model, name, file.value(f"{place}.{name}", float))
        in_range = 0 <= model.count_strength <= 1 and 0 <= model.noise < 1 and model._ridge > 0
        if not (in_range and n_basis):
            raise ValueError(f"{place} has no rows, or a strength, noise or ridge out of range")
        found = file.value(f"{place}.dependence", float, type(None))
        model.dependence = float("nan") if found is None else found
        model._left_out = None
        if file.has(f"{place}._left_out"):
            left_out = file.array(f"{place}._left_out", "f", shapes[0])
            model._left_out = torch.tensor(left_out)
        model.kernel = MeanKernel._restored(file, f"{place}.kernel", sample_shape)
        model._views = model._positions = None
        model.scores(model.X[:1])  # whether its parts fit together
        return model

    @property
    def is_exact(self) -> bool:
        """Whether predictions are made from all training rows, and not from landmarks."""
        return self._left_out is not None

    def similarity(self, X: np.ndarray | SparseRows) -> Tensor:
        """Compare new rows with those that predictions are made from.

        Parameters
        ----------
        X : ndarray of shape (n_samples, ...), or SparseRows

        Returns
        -------
        similarity : Tensor of shape (n_samples, n_basis)
        """
        return self.kernel(self.kernel.views(X), self._basis_views())

    def _basis_views(self) -> list[Tensor] | SparseViews:
        if self._views is None:
            self._views = self.kernel.views(self.X)
        return self._views

    def scores(self, X: np.ndarray | SparseRows) -> Tensor:
        """Predict how much speaks for each class.

        Parameters
        ----------
        X : ndarray of shape (n_samples, ...), or SparseRows

        Returns
        -------
        scores : Tensor of shape (n_samples, n_classes)
            Rows sum to one; single scores may be negative.
        """
        width = 1 if isinstance(X, SparseRows) else int(np.prod(X.shape[1:]))
        size = max(1, _BLOCK_VALUES // max(len(self.coef), width))
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
        floor = min(PROBABILITY_FLOOR, 1 / scores.shape[1])
        proba = scores.double().clamp(min=floor)
        return proba / proba.sum(dim=1, keepdim=True)

    def left_out_scores(
        self, X: np.ndarray | SparseRows, candidates: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Predict rows as in training: a training row has no say about itself.

        Parameters
        ----------
        X : ndarray of shape (n_samples, ...), or SparseRows
        candidates : Tensor of shape (n_samples, n_classes), dtype bool

        Returns
        -------
        scores : Tensor of shape (n_samples, n_classes)
            With landmarks those of `scores`.
        own : Tensor of shape (n_samples,), dtype int64
            Position of each row among those that predictions are made from, -1 if it is none:
            equal features and equal candidates give a training row away.
        """
        scores, own = self.scores(X), self._find(X, candidates)
        if self.is_exact:
            scores = torch.where((own >= 0)[:, None], self._left_out[own], scores)
        return scores, own

    def _find(self, X: np.ndarray | SparseRows, candidates: Tensor) -> Tensor:
        """Find rows among those that predictions are made from, by features and candidates."""
        if self._positions is None:
            rows = zip(self._keys(self.X), self.candidates, strict=True)
            self._positions = {x + s.tobytes(): i for i, (x, s) in enumerate(rows)}
        rows = zip(self._keys(X), candidates.numpy(), strict=True)
        return torch.tensor([self._positions.get(x + s.tobytes(), -1) for x, s in rows])

    def _keys(self, X: np.ndarray | SparseRows) -> list[bytes]:
        """Return what rows hold, in the form of those that predictions are made from."""
        if isinstance(self.X, SparseRows):
            X = X if isinstance(X, SparseRows) else SparseRows(X)
            return X.astype(self.X.dtype).keys()
        X = X.toarray() if isinstance(X, SparseRows) else X
        return [x.tobytes() for x in np.ascontiguousarray(X, dtype=self.X.dtype)]

    @torch.no_grad()
    def left_out_coef(self, own: Tensor) -> Iterator[Tensor]:
        """Find what each row would say if one of them had not been there.

        Parameters
        ----------
        own : Tensor of shape (n_samples,), dtype int64
            Position of the row to leave out, -1 for none.

        Yields
        ------
        coef : Tensor of shape (n_basis, n_classes)
            For each sample; with landmarks always the coefficients of all rows.
        """
        left = own[own >= 0]
        if not self.is_exact or not len(left):
            yield from [self.coef] * len(own)
            return
        views = self._basis_views()
        system = self.kernel(views, views)
        system.diagonal().fill_(1 + self._ridge)
        unit = torch.zeros(len(system), len(left), dtype=system.dtype)
        unit[left, torch.arange(len(left))] = 1.0
        columns = iter(torch.cholesky_solve(unit, torch.linalg.cholesky(system)).T)
        for position in own.tolist():
            if position < 0:
                yield self.coef
                continue
            column = next(columns)
            yield self.coef - torch.outer(column / column[position], self.coef[position])

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
        scores = scores.to(self.log_rates.dtype)
        own = candidates.to(scores.dtype)
        return votes_from_scores(scores, own, self.log_shares, self.log_rates, self.count_strength)


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
    X: np.ndarray | SparseRows,
    candidates: sp.csr_array,
    order: np.ndarray,
    *,
    count_strength: float | str = "auto",
    noise: float | str = 0.0,
    n_landmarks: int | str | None = "auto",
    ridge: float = RIDGE,
    max_rounds: int = 20,
    max_memory: float = 8.0,
    device: torch.device | str = "cpu",
    grades: sp.csr_array | None = None,
    shared: SharedRows | None = None,
) -> tuple[KernelVotes, KernelModel, Tensor]:
    """Let all rows vote on each other, and keep the regression for new rows.

    Parameters
    ----------
    X : ndarray of shape (n_samples, ...), or SparseRows
        The rows.
    candidates : csr_array of shape (n_voters, n_classes), dtype bool
        Candidates of the rows in the order given next.
    order : ndarray of shape (n_voters,), dtype int
        Which rows vote, in random order: landmarks are the first ones. If that does not depend on
        how the rows came, neither do the votes, to the last bit.
    count_strength : float in [0, 1] or "auto", default="auto"
        How strongly counts weigh votes, as for `kernel_votes`.
    noise : float in [0, 1) or "auto", default=0.0
        Share of the rows whose label is outside their candidates, as for `kernel_votes`.
    n_landmarks : int, "auto" or None, default="auto"
        Rows that stand for all, as for `make_ridge`.
    ridge : float, default=0.05
        Ridge of the regression.
    max_rounds : int, default=20
        Most rounds of votes.
    max_memory : float, default=8.0
        GiB that votes may take. What would take more is refused before it starts.
    device : torch.device or str, default="cpu"
        Where to compute; the CPU in place of MPS, which has no double precision.
    grades : csr_array of shape (n_voters, n_classes), default=None
        Odds of each candidate beforehand, in the order given. Even odds if None.
    shared : SharedRows, default=None
        Where X are the rows of one rank only: what landmarks and scalings are taken from. All
        ranks' rows vote, and the votes returned are those on X.

    Returns
    -------
    votes : KernelVotes
        In the order given, on the CPU.
    model : KernelModel
        The regression, on the CPU.
    fitted : Tensor of shape (n_voters, n_classes)
        Its scores of these rows, each of them included.

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
    if torch.device(device).type == "mps":  # it has no double precision
        device = "cpu"
    # the views of sparse rows are never all there
    n_features = 0 if isinstance(X, SparseRows) else int(np.prod(X.shape[1:]))
    n_classes = candidates.shape[1]
    n_total = len(order) if shared is None else shared.ranks.total(len(order))
    check_memory(n_total, n_features, n_classes, n_landmarks, max_memory, n_own=len(order))
    rows = X[order] if isinstance(X, SparseRows) else _Reordered(X, order)
    regression = make_ridge(
        rows,
        n_landmarks=n_landmarks,
        ridge=ridge,
        device=device,
        shared=shared,
    )
    sets = torch.from_numpy(candidates.toarray()).to(device)
    odds = None
    if grades is not None:
        odds = torch.from_numpy(grades.toarray()).to(device).masked_fill(~sets, 1.0)
    votes = kernel_votes(
        regression,
        sets,
        count_strength=count_strength,
        noise=noise,
        max_rounds=max_rounds,
        grades=odds,
    )
    basis = slice(regression.n_basis)
    known = SharedRows(rows, candidates, order, ALONE) if shared is None else shared
    own = known.candidates[basis].toarray()
    model = KernelModel(regression, votes, known.X[basis], known.rows[basis], own)
    fitted = regression.fitted(votes.proba).cpu()
    votes = dataclasses.replace(
        votes,
        proba=votes.proba.cpu(),
        left_out=votes.left_out.cpu(),
        log_rates=votes.log_rates.cpu(),
        log_shares=votes.log_shares.cpu(),
    )
    return votes, model, fitted
