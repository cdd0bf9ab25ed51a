"""The base losses: each method of the field that trains a network, as a pure function.

Every loss has one shape::

    loss(logits, candidates, weights, sample_weight, **params) -> scalar

``weights`` says how much each candidate of each sample counts. Where they come from is what
tells many methods apart, so a method is a record (`Loss`): its function, how it updates the
confidences it keeps from visit to visit (if any), and its parameters with their defaults and the
check of their values. A loss of your own needs no entry here: pass the function, or a `Loss`, as
``loss=`` of an estimator.

CleanSE's weight matrix K (Eq. 4) reaches every loss through ``weights``: a loss without
confidences gets K itself, one with confidences gets them calibrated by K (see
`sklearn_cleanse.calibration`).
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import reduce
from numbers import Real
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor
from torch.nn import functional as F

from ._warn import warn_caller
from .candidates import estimate_proportions
from .counts import one_vs_rest_logits

__all__ = [
    "LOSSES",
    "Loss",
    "average_members",
    "candidate_confidences",
    "check_loss",
    "check_loss_params",
]


def __dir__() -> list[str]:
    return __all__  # without the imports of this file


def average_members(logits: Tensor) -> Tensor:
    """Average the members of an ensemble: the logarithm of their mean probability.

    Parameters
    ----------
    logits : Tensor of shape (n_samples, n_classes) or (n_samples, n_members, n_classes)

    Returns
    -------
    logits : Tensor of shape (n_samples, n_classes)
        Those given if there is one network only.

    Examples
    --------
    >>> import torch
    >>> from sklearn_cleanse.losses import average_members
    >>> p = torch.tensor([[[0.2, 0.8], [0.6, 0.4]]])
    >>> average_members(p.log()).exp()
    tensor([[0.4000, 0.6000]])
    """
    if logits.dim() == 2:
        return logits
    # pair by pair: the gradient of logsumexp takes several times as long
    members = logits.log_softmax(dim=2).unbind(dim=1)
    return reduce(torch.logaddexp, members) - math.log(len(members))


def candidate_confidences(logits: Tensor, candidates: Tensor) -> Tensor:
    """Softmax over the candidates alone: what the network believes, given the candidates.

    Parameters
    ----------
    logits : Tensor of shape (n_samples, n_classes) or (n_samples, n_members, n_classes)
        An ensemble's members are averaged.
    candidates : Tensor of shape (n_samples, n_classes), dtype bool

    Returns
    -------
    confidences : Tensor of shape (n_samples, n_classes)
        Zero outside the candidates; rows sum to one.

    Examples
    --------
    >>> import torch
    >>> from sklearn_cleanse.losses import candidate_confidences
    >>> candidate_confidences(torch.tensor([[3.0, 3.0, 9.0]]), torch.tensor([[True, True, False]]))
    tensor([[0.5000, 0.5000, 0.0000]])
    """
    return average_members(logits).masked_fill(~candidates, -torch.inf).softmax(dim=1)


def _mean(values: Tensor, sample_weight: Tensor | None) -> Tensor:
    if sample_weight is None:
        return values.mean()
    return (values * sample_weight).sum() / sample_weight.sum()


def _weighted_cross_entropy(
    logits: Tensor, candidates: Tensor, weights: Tensor, sample_weight: Tensor | None
) -> Tensor:
    """``-Σ_j w_j log p_j``: Eq. (1) with w = 1, Eq. (2) with w = K, RC with w = confidences."""
    return _mean(-(weights * logits.log_softmax(dim=1)).sum(dim=1), sample_weight)


def _cc(
    logits: Tensor, candidates: Tensor, weights: Tensor, sample_weight: Tensor | None
) -> Tensor:
    """``-log Σ_{j ∈ s} w_j p_j``, the probability that some candidate is right; max w is 1."""
    # DEVIATES: a published form multiplies by 1/(2^(m-1) - 1) inside the logarithm, beside an
    # epsilon that swallows it; the constant has no gradient, so it has no business there.
    # Relative to the largest weight: the gradient is the same, and losses compare though T fades.
    weights = weights / weights.amax(dim=1, keepdim=True)
    scores = logits.log_softmax(dim=1) + weights.log()  # log 0 = -inf outside the candidates
    return _mean(-scores.logsumexp(dim=1), sample_weight)


def _lws(
    logits: Tensor,
    candidates: Tensor,
    weights: Tensor,
    sample_weight: Tensor | None,
    *,
    beta: float,
    form: str,
) -> Tensor:
    """Leveraged weighted loss: candidates pulled up, the others pushed down with leverage β."""
    if form == "sigmoid":
        up, down = torch.sigmoid(-logits), torch.sigmoid(logits)
    else:
        up, down = -logits.log_softmax(dim=1), F.softplus(one_vs_rest_logits(logits))
    loss = (weights * up).sum(dim=1)
    if beta:
        # DEVIATES: the weights outside the candidates come from this visit, not from the last:
        # the same quantity one epoch fresher, and no table of n × m to keep.
        others = logits.detach().masked_fill(candidates, -torch.inf).softmax(dim=1)
        others = others.nan_to_num(0.0)  # a row where all classes are candidates has no others
        loss = loss + beta * (others * down).sum(dim=1)
    return _mean(loss, sample_weight)


def _cavl_confidences(logits: Tensor, candidates: Tensor) -> Tensor:
    """One-hot at the candidate of largest class activation value ``z |1 - z|``."""
    # DEVIATES: published code multiplies by the candidate mask, so that a non-candidate (value 0)
    # wins whenever all candidates have negative activation; a mask of -inf cannot lose.
    if logits.dim() == 3:
        logits = logits.mean(dim=1)
    activation = (logits * (1 - logits).abs()).masked_fill(~candidates, -torch.inf)
    return torch.zeros_like(logits).scatter_(1, activation.argmax(dim=1, keepdim=True), 1.0)


def _scarce(
    logits: Tensor,
    candidates: Tensor,
    weights: Tensor,
    sample_weight: Tensor | None,
    *,
    class_prior: Tensor,
    excluded_share: Tensor,
    correction: str,
) -> Tensor:
    """Each class against the rest, from rows that exclude it (negative) and all (unlabelled)."""
    # DEVIATES: the full complement of the candidates takes the place of one complementary label.
    row = torch.ones_like(logits[:, 0]) if sample_weight is None else sample_weight
    row = row[:, None]
    negative = row * ~candidates
    # DEVIATES: published code divides by the number of negatives in the batch. The share of them
    # among all rows, as in the published risk, makes a batch's mean an unbiased estimate of it;
    # and what a row counts then does not depend on which rows it happens to meet.
    n_negative = row.sum() * torch.where(excluded_share > 0, excluded_share, 1.0)
    as_positive, as_negative = F.softplus(-logits), F.softplus(logits)
    not_prior = 1 - class_prior
    excluded = not_prior * (negative * as_negative).sum(dim=0) / n_negative
    everyone = row * torch.where(candidates, weights, 1.0)
    included = (everyone * as_positive).sum(dim=0) / everyone.sum(dim=0)
    included = included - not_prior * (negative * as_positive).sum(dim=0) / n_negative
    # What estimates a positive risk may come out negative, and then says nothing.
    # DEVIATES: the published correction is the absolute value. With the full complement a network
    # that fits the excluded rows makes the estimate negative throughout, and "abs" then rewards
    # unlearning them; "relu" lets them be.
    included = included.abs() if correction == "abs" else included.relu()
    return (excluded + included).sum()


def _check_choice(name: str, value: Any, *allowed: str) -> None:
    if not (isinstance(value, str) and value in allowed):
        either = " or ".join(repr(choice) for choice in allowed)
        raise ValueError(f"loss_params: {name} is {value!r}; it must be {either}")


def _check_lws(
    params: dict[str, Any], candidates: sp.csr_array, sample_weight: np.ndarray
) -> dict[str, Any]:
    beta = params["beta"]
    if isinstance(beta, bool) or not (isinstance(beta, Real) and 0 <= float(beta) < np.inf):
        raise ValueError(f"loss_params: beta is {beta!r}; it must be a number ≥ 0")
    _check_choice("form", params["form"], "sigmoid", "cross-entropy")
    return params


def _check_scarce(
    params: dict[str, Any], candidates: sp.csr_array, sample_weight: np.ndarray
) -> dict[str, Any]:
    """Turn the prior into an array, and add the share of rows that exclude each class."""
    _check_choice("correction", params["correction"], "relu", "abs")
    prior = _class_prior(params["class_prior"], candidates, sample_weight)
    included = sample_weight @ candidates / sample_weight.sum()
    worst = np.argmax(prior - included)
    if prior[worst] > included[worst] + 1e-6:
        warn_caller(
            f"loss_params: class_prior is {prior[worst]:.3g} for class {worst}, which is a "
            f"candidate of {included[worst]:.3g} of the rows only; those that exclude it will be "
            "pulled towards it. class_prior='average' never exceeds that share"
        )
    return {**params, "class_prior": prior, "excluded_share": 1 - included}


def _class_prior(prior: Any, candidates: sp.csr_array, sample_weight: np.ndarray) -> np.ndarray:
    n_classes = candidates.shape[1]
    if isinstance(prior, str):
        if prior == "uniform":
            return np.full(n_classes, 1 / n_classes)
        if prior == "estimated":
            return estimate_proportions(candidates)
        if prior == "average":
            shares = sample_weight / candidates.sum(axis=1)
            return np.asarray(shares @ candidates) / sample_weight.sum()
    try:
        given = np.asarray(prior, dtype=float)
    except (TypeError, ValueError):
        given = np.empty(0)
    if given.shape != (n_classes,):
        raise ValueError(
            f"loss_params: class_prior is {prior!r}; it must be 'average', 'estimated', "
            f"'uniform' or an array of {n_classes} probabilities"
        )
    for j in np.flatnonzero(~((given >= 0) & (given <= 1))):
        raise ValueError(
            f"loss_params: class_prior is {given[j]:.3g} for class {j}; it must be a probability"
        )
    if not np.isclose(given.sum(), 1):
        raise ValueError(
            f"loss_params: class_prior sums to {given.sum():.3g}; divide it by that to make it one"
        )
    return given


@dataclass(frozen=True)
class Loss:
    """A method: its loss, its confidences, its parameters.

    Parameters
    ----------
    function : callable
        ``(logits, candidates, weights, sample_weight, **params) -> scalar``, with ``logits``,
        ``candidates`` (bool) and ``weights`` (zero outside the candidates) of shape
        (n_samples, n_classes) and ``sample_weight`` of shape (n_samples,) or None.
    confidences : callable or None, default=None
        ``(logits, candidates) -> confidences`` after a visit, or None if the method keeps none.
        Confidences have the shape of the candidates and vanish outside them.
    second_pass : bool, default=False
        Whether confidences come from a second forward pass after the step, instead of from the
        step's own output.
    by_row : bool, default=True
        Whether the loss is a mean over rows, so that an ensemble's members may stand as rows.
    defaults : mapping, default={}
        Parameters and their default values.
    check : callable or None, default=None
        ``(params, candidates, sample_weight) -> params`` before training, with all parameters, the
        candidates of the training rows and an array of their weights. It refuses what is wrong,
        and may add what the function needs to know of the rows. Arrays become tensors.

    Examples
    --------
    >>> from sklearn_cleanse import PartialLabelClassifier
    >>> from sklearn_cleanse.losses import Loss, candidate_confidences
    >>> def squared(logits, candidates, weights, sample_weight):
    ...     return (weights - logits.softmax(dim=1)).square().sum(dim=1).mean()
    >>> brier = Loss(squared, candidate_confidences)
    >>> X, y = [[0.0], [0.1], [0.9], [1.0]], [{0}, {0, 1}, {0, 1}, {1}]
    >>> PartialLabelClassifier(brier, max_epochs=20, random_state=0).fit(X, y).predict(X)
    array([0, 0, 1, 1])
    """

    function: Callable[..., Tensor]
    confidences: Callable[[Tensor, Tensor], Tensor] | None = None
    second_pass: bool = False
    by_row: bool = True
    defaults: Mapping[str, Any] = field(default_factory=dict)
    check: Callable[..., dict[str, Any]] | None = None


LOSSES: dict[str, Loss] = {
    "average": Loss(_weighted_cross_entropy),
    "cc": Loss(_cc),
    "rc": Loss(_weighted_cross_entropy, candidate_confidences, second_pass=True),
    "proden": Loss(_weighted_cross_entropy, candidate_confidences),
    # DEVIATES: LWS and CAVL renew confidences by another forward pass after the step, and LWS
    # starts from 1/m; here the step's own output serves, and 1/|s| is the start.
    # DEVIATES: LWS's published command line has β = 0, which leaves out what the method adds; its
    # authors search β in {1, 2}.
    "lws": Loss(
        _lws, candidate_confidences, defaults={"beta": 1.0, "form": "sigmoid"}, check=_check_lws
    ),
    "cavl": Loss(_weighted_cross_entropy, _cavl_confidences),
    # DEVIATES: the published code has the uniform prior, that of its balanced benchmarks, where the
    # paper asks for the true one. A prior above the share of rows that have the class as a
    # candidate, as the uniform one is for rare classes, would make negatives positive.
    "scarce": Loss(
        _scarce,
        by_row=False,
        defaults={"class_prior": "average", "correction": "relu"},
        check=_check_scarce,
    ),
}


def check_loss(loss: Any) -> Loss:
    """Return the method that a user means by ``loss``.

    Parameters
    ----------
    loss : str, Loss or callable
        A key of `LOSSES`, a record, or a function of the form that `Loss` describes, which then
        keeps no confidences.

    Returns
    -------
    loss : Loss

    Examples
    --------
    >>> from sklearn_cleanse.losses import LOSSES, check_loss
    >>> check_loss("cc") is LOSSES["cc"]
    True
    """
    if isinstance(loss, Loss):
        return loss
    if isinstance(loss, str):
        if loss in LOSSES:
            return LOSSES[loss]
        near = difflib.get_close_matches(loss, LOSSES, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        known = ", ".join(map(repr, LOSSES))
        raise ValueError(
            f"The 'loss' parameter is {loss!r}; it must be one of {known}, a "
            f"sklearn_cleanse.losses.Loss or a function{hint}"
        )
    if callable(loss) and not isinstance(loss, type):
        return Loss(loss)
    raise ValueError(
        f"The 'loss' parameter is {loss!r}; pass a name, a sklearn_cleanse.losses.Loss or a "
        "function (logits, candidates, weights, sample_weight) -> scalar"
    )


def check_loss_params(
    loss: str | Loss | Callable,
    params: Mapping[str, Any] | None,
    candidates: sp.csr_array,
    device: torch.device | str = "cpu",
    sample_weight: np.ndarray | None = None,
) -> dict[str, Any]:
    """Complete a loss's parameters by its defaults and refuse what it does not know.

    Parameters
    ----------
    loss : str, Loss or callable
        The method, as for `check_loss`.
    params : mapping or None
        ``beta`` (a number ≥ 0) and ``form`` ("sigmoid" or "cross-entropy") of "lws";
        ``class_prior`` and ``correction`` ("relu" or "abs") of "scarce". The prior is "average"
        (each row shared out evenly among its candidates), "estimated" (maximum likelihood without
        weights, see `sklearn_cleanse.candidates.estimate_proportions`), "uniform", or an array.
    candidates : csr_array of shape (n_samples, n_classes), dtype bool
        Candidates of the training rows, from which priors and shares are taken.
    device : torch.device or str, default="cpu"
        Where arrays go.
    sample_weight : ndarray of shape (n_samples,), default=None
        How much each row counts in priors and shares. All the same if None.

    Returns
    -------
    params : dict
        Keyword arguments for the loss function.

    Examples
    --------
    >>> from sklearn_cleanse.candidates import check_candidates
    >>> from sklearn_cleanse.losses import check_loss_params
    >>> check_loss_params("lws", {"beta": 2.0}, check_candidates([0, 1])[1])
    {'beta': 2.0, 'form': 'sigmoid'}
    """
    method = check_loss(loss)
    checked = {**method.defaults, **(params or {})}
    for name in sorted(set(checked) - set(method.defaults), key=str):
        known = ", ".join(sorted(method.defaults)) or "none"
        raise ValueError(f"loss_params has {name!r}; the parameters of loss={loss!r} are: {known}")
    if method.check is not None:
        if sample_weight is None:
            sample_weight = np.ones(candidates.shape[0])
        checked = method.check(checked, candidates, sample_weight)
    for name, value in checked.items():
        if isinstance(value, np.ndarray):
            checked[name] = torch.tensor(value, dtype=torch.float32, device=device)
    return checked
