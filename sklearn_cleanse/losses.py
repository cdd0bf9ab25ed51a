"""The base losses: each method of the field that trains a network, as a pure function.

Every loss has one shape::

    loss(logits, candidates, weights, sample_weight, **params) -> scalar

``weights`` is how much each candidate of each sample counts. Methods differ mostly in where these
come from, so a `Loss` holds a function, how it updates the confidences it keeps from visit to
visit (if any), and its parameters. CleanSE's weight matrix K (Eq. 4) reaches every loss through
``weights``: a loss without confidences gets K itself, one with confidences gets them reweighted by
K (see `sklearn_cleanse.reweighting`).
"""

import difflib
import inspect
import math
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import reduce
from numbers import Real
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from .candidates import estimate_proportions
from .counts import one_vs_rest_logits

_Params = dict[str, Any]
_Weight = Tensor | None
_HOOKS = {"confidences": None, "second_pass": False, "by_row": True, "check": None}

__all__ = ["LOSSES", "Loss", "average_networks", "candidate_confidences", "check_loss"]


def average_networks(logits: Tensor) -> Tensor:
    """Average several networks: the logarithm of their mean probability.

    Parameters
    ----------
    logits : Tensor of shape (n_samples, n_classes) or (n_samples, n_networks, n_classes)

    Returns
    -------
    logits : Tensor of shape (n_samples, n_classes)
        Unchanged for a single network.

    Examples
    --------
    >>> import torch
    >>> from sklearn_cleanse.losses import average_networks
    >>> p = torch.tensor([[[0.2, 0.8], [0.6, 0.4]]])
    >>> average_networks(p.log()).exp()
    tensor([[0.4000, 0.6000]])
    """
    if logits.dim() == 2:
        return logits
    # pair by pair: the gradient of logsumexp takes several times as long
    networks = logits.log_softmax(dim=2).unbind(dim=1)
    return reduce(torch.logaddexp, networks) - math.log(len(networks))


def candidate_confidences(logits: Tensor, candidates: Tensor) -> Tensor:
    """Compute the softmax over the candidates alone.

    Parameters
    ----------
    logits : Tensor of shape (n_samples, n_classes) or (n_samples, n_networks, n_classes)
        Several networks are averaged.
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
    return average_networks(logits).masked_fill(~candidates, -torch.inf).softmax(dim=1)


def _mean(values: Tensor, sample_weight: _Weight) -> Tensor:
    if sample_weight is None:
        return values.mean()
    return (values * sample_weight).sum() / sample_weight.sum()


def _weighted_cross_entropy(
    logits: Tensor, candidates: Tensor, weights: Tensor, sample_weight: _Weight
) -> Tensor:
    """``-Σ_j w_j log p_j``: Eq. (1) with w = 1, Eq. (2) with w = K, RC with w = confidences."""
    return _mean(-(weights * logits.log_softmax(dim=1)).sum(dim=1), sample_weight)


def _cc(logits: Tensor, candidates: Tensor, weights: Tensor, sample_weight: _Weight) -> Tensor:
    """``-log Σ_{j ∈ s} w_j p_j``, the probability that some candidate is right; max w is 1."""
    # DEVIATES: a published form multiplies by 1/(2^(m-1) - 1) inside the logarithm, beside an
    # epsilon that swallows it; the constant has no gradient, so it is left out.
    # Relative to the largest weight: the gradient is the same, and losses compare though T fades.
    weights = weights / weights.amax(dim=1, keepdim=True)
    scores = logits.log_softmax(dim=1) + weights.log()  # log 0 = -inf outside the candidates
    return _mean(-scores.logsumexp(dim=1), sample_weight)


def _lws(
    logits: Tensor,
    candidates: Tensor,
    weights: Tensor,
    sample_weight: _Weight,
    *,
    beta: float = 1.0,
    form: str = "sigmoid",
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
        # A row where all classes are candidates has no others.
        others = logits.detach().masked_fill(candidates, -torch.inf).softmax(dim=1).nan_to_num(0.0)
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
    sample_weight: _Weight,
    *,
    class_prior: Tensor,
    excluded_rate: Tensor,
    correction: str = "relu",
) -> Tensor:
    """Each class against the rest, from rows that exclude it (negative) and all (unlabeled)."""
    # DEVIATES: the full complement of the candidates takes the place of one complementary label.
    row = torch.ones_like(logits[:, :1]) if sample_weight is None else sample_weight[:, None]
    negative = row * ~candidates
    # DEVIATES: published code divides by the number of negatives in the batch. Their proportion
    # of all rows, as in the published risk, makes a batch's mean an unbiased estimate of it; and a
    # row's weight then does not depend on the other rows of its batch.
    n_negative = row.sum() * torch.where(excluded_rate > 0, excluded_rate, 1.0)
    as_positive, as_negative = F.softplus(-logits), F.softplus(logits)
    not_prior = 1 - class_prior
    excluded = not_prior * (negative * as_negative).sum(dim=0) / n_negative
    everyone = row * torch.where(candidates, weights, 1.0)
    included = -not_prior * (negative * as_positive).sum(dim=0) / n_negative
    included += (everyone * as_positive).sum(dim=0) / everyone.sum(dim=0)
    # An estimate of a positive risk may be negative, and then carries no information.
    # DEVIATES: the published correction is the absolute value. With the full complement a network
    # that fits the excluded rows makes the estimate negative throughout, and "abs" then rewards
    # unlearning them; "relu" lets them be.
    included = included.abs() if correction == "abs" else included.relu()
    return (excluded + included).sum()


def _check_choice(name: str, value: Any, *allowed: str) -> None:
    if not (isinstance(value, str) and value in allowed):
        raise ValueError(f"`{name}` of the loss must be one of {allowed}, got {value!r}.")


def _check_lws(params: _Params, candidates: np.ndarray, sample_weight: np.ndarray) -> _Params:
    beta = params["beta"]
    if isinstance(beta, bool) or not (isinstance(beta, Real) and 0 <= float(beta) < np.inf):
        raise ValueError(f"`beta` of the loss must be a number of 0 or more, got {beta!r}.")
    _check_choice("form", params["form"], "sigmoid", "cross-entropy")
    return params


def _check_scarce(params: _Params, candidates: np.ndarray, sample_weight: np.ndarray) -> _Params:
    """Turn the prior into an array, and add the proportion of rows that exclude each class."""
    _check_choice("correction", params["correction"], "relu", "abs")
    # Rows that exclude a class of a larger prior than its candidates would be pulled towards it.
    prior = _class_prior(params.get("class_prior", "average"), candidates, sample_weight)
    included = sample_weight @ candidates / sample_weight.sum()
    worst = np.argmax(prior - included)
    if prior[worst] > included[worst] + 1e-6:
        text = (
            f"`class_prior` of the loss is {prior[worst]:.3g} for class {worst}, which is a "
            f"candidate of {included[worst]:.3g} of the rows only. Pass class_prior='average'."
        )
        warnings.warn(text, stacklevel=2)
    return {**params, "class_prior": prior, "excluded_rate": 1 - included}


def _class_prior(prior: Any, candidates: np.ndarray, sample_weight: np.ndarray) -> np.ndarray:
    n_classes = candidates.shape[1]
    if isinstance(prior, str) and prior == "estimated":
        return estimate_proportions(candidates)
    if isinstance(prior, str) and prior == "average":
        return np.asarray(sample_weight / sample_weight.sum() / candidates.sum(1) @ candidates)
    if isinstance(prior, str) and prior == "uniform":
        return np.full(n_classes, 1 / n_classes)
    given = np.array([] if isinstance(prior, str) else prior, dtype=float)
    if given.shape != (n_classes,) or given.min() < 0 or not np.isclose(given.sum(), 1):
        raise ValueError(
            "`class_prior` of the loss must be 'average', 'estimated', 'uniform' or "
            f"{n_classes} probabilities that sum to 1, got {prior!r}."
        )
    return given


@dataclass(frozen=True, init=False, repr=False, eq=False)
class Loss:
    """A method: its loss function, its confidences, its parameters.

    Parameters
    ----------
    function : str, Loss or callable
        A key of `LOSSES`, a Loss to start from, or a function of your own:
        ``(logits, candidates, weights, sample_weight, **params) -> scalar``, with ``logits``,
        ``candidates`` (bool) and ``weights`` (zero outside the candidates) of shape
        (n_samples, n_classes) and ``sample_weight`` of shape (n_samples,) or None.
    confidences : callable or None, default=None
        ``(logits, candidates) -> confidences`` after a visit, or None if the method keeps none.
        Logits have shape (n_samples, n_networks, n_classes) where several networks are trained.
        Confidences have the shape of the candidates and vanish outside them.
    second_pass : bool, default=False
        Whether confidences come from a second forward pass after the step, instead of from the
        step's own output.
    by_row : bool, default=True
        Whether the loss is a mean over rows, so that several networks may stand as rows.
    check : callable or None, default=None
        ``(params, candidates, sample_weight) -> params`` before training, with all parameters, the
        candidates of the training rows (a bool ndarray) and an array of their weights. It raises
        ValueError on wrong values, and may add values computed from the rows.
    **params
        Parameters of the function; those not given have the function's own defaults. "lws" has
        ``beta`` (a number of 0 or more) and ``form`` ("sigmoid" or "cross-entropy"). "scarce" has
        ``correction`` ("relu" or "abs") and ``class_prior``: "average" (each row divided evenly
        among its candidates), "estimated" (maximum likelihood, without weights), "uniform", or an
        array.

    Examples
    --------
    >>> import torch
    >>> from sklearn_cleanse.losses import Loss, candidate_confidences
    >>> Loss("lws", beta=2)
    Loss('lws', beta=2)
    >>> def powered(logits, candidates, weights, sample_weight, *, power=2):
    ...     error = (weights - logits.softmax(dim=1)).abs() ** power
    ...     return error.sum(dim=1).mean()
    >>> brier = Loss(powered, confidences=candidate_confidences)
    >>> brier
    Loss(powered, confidences=candidate_confidences)
    >>> candidates = torch.tensor([[True, False]])
    >>> brier(torch.zeros(1, 2), candidates, candidates.float(), None)
    tensor(0.5000)
    """

    function: Callable[..., Tensor]
    confidences: Callable[[Tensor, Tensor], Tensor] | None
    second_pass: bool
    by_row: bool
    check: Callable[[_Params, np.ndarray, np.ndarray], _Params] | None
    params: _Params

    def __init__(self, function: str | Callable[..., Tensor], /, **options: Any) -> None:
        base = LOSSES.get(function) if isinstance(function, str) else function
        if base is None or isinstance(base, type) or not callable(base):
            raise ValueError(
                f"`loss` must be one of {', '.join(map(repr, LOSSES))}, a Loss or a function "
                "(logits, candidates, weights, sample_weight) -> scalar, "
                f"got {function!r}.{_suggest(function, LOSSES)}"
            )
        if isinstance(base, Loss):
            parts, options = vars(base), {**base.params, **options}
        else:
            parts = {"function": base} | {key: options.pop(key, _HOOKS[key]) for key in _HOOKS}
        vars(self).update(parts, params=options)  # frozen, as it may be shared

    def __call__(self, *args: Any, **params: Any) -> Tensor:
        """Compute the loss, with its own parameters where none are given."""
        return self.function(*args, **{**self.params, **params})

    @property
    def _parts(self) -> tuple[Any, ...]:
        return self.function, *(getattr(self, key) for key in _HOOKS)

    @property
    def name(self) -> str | None:
        """The key in `LOSSES`, or None for a loss of your own."""
        return next((name for name in LOSSES if Loss(name)._parts == self._parts), None)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Loss) or self.params.keys() != other.params.keys():
            return False
        same = (np.array_equal(value, other.params[key]) for key, value in self.params.items())
        return self._parts == other._parts and all(same)

    def __hash__(self) -> int:
        return hash((*self._parts, *sorted(self.params)))

    def __repr__(self) -> str:
        hooks = {k: v for k, v in vars(self).items() if k in _HOOKS and v != _HOOKS[k]}
        shown = self.params if self.name else hooks | self.params
        label = repr(self.name) if self.name else _label(self.function)
        return f"Loss({', '.join([label, *(f'{k}={_label(v)}' for k, v in shown.items())])})"

    def resolve(
        self, candidates: np.ndarray, sample_weight: Any = None, device: torch.device | str = "cpu"
    ) -> _Params:
        """Return all parameters of the function, checked and completed.

        Parameters
        ----------
        candidates : ndarray of shape (n_samples, n_classes), dtype bool
            Candidates of the training rows, from which priors and proportions are taken.
        sample_weight : ndarray of shape (n_samples,), default=None
            How much each row counts in priors and proportions. All the same if None.
        device : torch.device or str, default="cpu"
            Where arrays go.

        Returns
        -------
        params : dict
            Keyword arguments for ``function``; arrays are tensors.

        Examples
        --------
        >>> import numpy as np
        >>> from sklearn_cleanse.losses import Loss
        >>> Loss("lws", beta=2.0).resolve(np.eye(2, dtype=bool))
        {'beta': 2.0, 'form': 'sigmoid'}
        """
        signature = inspect.signature(self.function)
        try:
            signature.bind_partial(*"lcws")
        except TypeError as error:
            raise TypeError(
                f"`loss` must accept (logits, candidates, weights, sample_weight), got {self!r}: "
                f"{error}. Pass a function of these four."
            ) from error
        parameters = list(signature.parameters.values())
        named = [p for p in parameters[4:] if p.kind == p.POSITIONAL_OR_KEYWORD]
        named += [p for p in parameters if p.kind == p.KEYWORD_ONLY]
        takes = {p.name: p.default for p in named}
        unknown = [name for name in self.params if name not in takes]
        if unknown and not any(p.kind == p.VAR_KEYWORD for p in parameters):
            raise ValueError(
                f"Parameters of {self!r} must be among those of its function "
                f"({', '.join(takes) or 'none'}), got {unknown[0]!r}.{_suggest(unknown[0], takes)}"
            )
        params = {k: v for k, v in takes.items() if v is not inspect.Parameter.empty} | self.params
        if self.check is not None:
            weight = np.ones(len(candidates)) if sample_weight is None else sample_weight
            params = dict(self.check(params, candidates, weight))
        for name in takes.keys() - params.keys():
            raise ValueError(f"`{name}` of {self!r} must be given. Pass Loss(…, {name}=…).")
        for name, value in params.items():
            if isinstance(value, np.ndarray):
                params[name] = torch.tensor(value, dtype=torch.float32, device=device)
        return params


def _label(value: Any) -> str:
    """A function's name, anything else as it prints itself."""
    return getattr(value, "__qualname__", repr(value))


def _suggest(name: Any, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(str(name), list(known), n=1)
    return f" Did you mean {near[0]!r}?" if near else ""


LOSSES: dict[str, Callable[..., Tensor]] = {
    "average": Loss(_weighted_cross_entropy),
    "cc": Loss(_cc),
    "rc": Loss(_weighted_cross_entropy, confidences=candidate_confidences, second_pass=True),
    "proden": Loss(_weighted_cross_entropy, confidences=candidate_confidences),
    # DEVIATES: LWS and CAVL renew confidences by another forward pass after the step, and LWS
    # starts from 1/m; here the step's own output serves, and 1/|s| is the start.
    # DEVIATES: LWS's published command line has β = 0, which leaves out what the method adds; its
    # authors search β in {1, 2}.
    "lws": Loss(_lws, confidences=candidate_confidences, check=_check_lws),
    "cavl": Loss(_weighted_cross_entropy, confidences=_cavl_confidences),
    # DEVIATES: the published code has the uniform prior, that of its balanced benchmarks, where the
    # paper asks for the true one. A prior above the proportion of rows that have the class as a
    # candidate, as the uniform one is for rare classes, would make negatives positive.
    "scarce": Loss(_scarce, by_row=False, check=_check_scarce),
}


def check_loss(loss: Any) -> Loss:
    """Return the method that a user means by ``loss``.

    Parameters
    ----------
    loss : str, Loss or callable
        A key of `LOSSES`, a `Loss`, or a function of the form that `Loss` describes, which then
        keeps no confidences.

    Returns
    -------
    loss : Loss

    Examples
    --------
    >>> from sklearn_cleanse.losses import check_loss
    >>> check_loss("cc")
    Loss('cc')
    """
    return loss if isinstance(loss, Loss) else Loss(loss)
