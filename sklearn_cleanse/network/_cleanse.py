"""The flagship: `CleanSEClassifier`, a network trained on votes of other rows and label counts."""

from dataclasses import replace
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import torch
from scipy.special import log_softmax
from sklearn.base import clone
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions

from ..base import PartialLabelMixin, ProbabilityMixin
from ..calibration import PredictionSetMixin, calibrate_like, temper
from ..candidates import Candidates, candidate_softmax, estimate_proportions
from ..counts import COUNT_LOSSES
from ..kernel import CleanSEKernelClassifier
from ..votes._neighbors import NeighborVoter, NeighborVotes, choose_pool
from ._classifier import PartialLabelClassifier
from ._net import ConstantVotes, Objective

VOTERS: dict[str, Any] = {"kernel": CleanSEKernelClassifier, "neighbors": NeighborVoter}

#: Scores of a voter count as at least this probability in predictions.
PROBABILITY_FLOOR = 1e-2


def paper_settings() -> dict[str, Any]:
    """Return the paper's own form of CleanSE, as arguments of `CleanSEClassifier`.

    The paper does not give its network. One hidden layer of 500 units without batch norm, on
    z-scores, reproduces its CC and RC.

    Returns
    -------
    settings : dict

    Examples
    --------
    >>> from sklearn_cleanse import CleanSEClassifier, paper_settings
    >>> CleanSEClassifier(**paper_settings()).voter
    NeighborVoter(end=None, hard=True, within='batch')
    """
    voter = NeighborVoter(hard=True, within="batch", end=None)
    votes = {"loss": "cc", "voter": voter, "voter_blend": 0.0, "temperature": 3.0}
    counts = {"count_weight": 1e-3, "count_loss": "entropy", "count_every": 1}
    network: dict[str, Any] = {"module_params": {"batch_norm": False, "dropout": 0.0}}
    network |= {"hidden_layer_sizes": (500,), "n_networks": 1, "scaling": "standard"}
    training: dict[str, Any] = {"max_epochs": 250, "batch_size": 64, "lr": 1e-3}
    training |= {"schedule": "constant", "weight_decay": 1e-5}
    return votes | counts | network | training


def reconstructed_settings() -> dict[str, Any]:
    """Return the nearest form of CleanSE that has the effect which the paper describes.

    Confidences of RC times K, neighbors from all rows, votes over all classes, and a count loss
    that is large enough to matter.

    Returns
    -------
    settings : dict

    Examples
    --------
    >>> from sklearn_cleanse import reconstructed_settings
    >>> reconstructed_settings()["loss"]
    'rc'
    """
    voter = NeighborVoter(hard=True, scope="all", end=None)
    counts = {"count_loss": "interval", "count_weight": 0.1}
    return paper_settings() | {"loss": "rc", "voter": voter} | counts


class CleanSEClassifier(PredictionSetMixin, PartialLabelClassifier):
    """Neural network for candidates, trained on votes of other rows and on label counts.

    Two ideas of [1]_ are added to a base loss. *Votes*: similar rows, above all clean ones (with a
    single candidate), suggest which candidate is right, which reweights the loss. *Counts*: a label
    occurs at least as often as in clean rows and at most as often as it is a candidate; the count
    loss maximizes the probability that predictions respect this.

    Parameters
    ----------
    loss : str, Loss or callable, default="cc"
        The base loss: "average", "cc", "rc", "proden", "lws", "cavl" or "scarce", or a
        `sklearn_cleanse.losses.Loss`, which has parameters or is your own.
    voter : {"kernel", "neighbors"}, estimator, NeighborVoter or None, default="kernel"
        The voter. "kernel" is `CleanSEKernelClassifier`, "neighbors" is `NeighborVoter`. Any
        estimator with ``fit(X, S)`` and ``candidate_proba_`` can vote: it is cloned and fitted on
        the training rows. None: no votes.
    voter_blend : float in [0, 1] or "auto", default="auto"
        Weight of the voter in predictions, which average its log-probabilities and the network's.
        "auto" takes half of ``voter_.count_strength_`` for a kernel voter without components, and
        otherwise 0.
    temperature : float, default=3.0
        T of Eq. (4): the weight of a candidate that the votes name, where the others have 1. It
        falls to 1 over the epochs. 1 switches the votes off.
    count_weight : float, default=1e-3
        λ of Eq. (15), the weight of the count loss. 0 switches it off.
    count_loss : {"interval", "entropy", "proportion"}, default="interval"
        "interval" is -log P of the interval of Eq. (9), "entropy" the -P log P of Eq. (10),
        "proportion" the Kullback-Leibler form for large data, Eq. (14).
    count_every : int, default=4
        Compute the count loss in every ``count_every``-th step, with as many times its weight. 1,
        as in the paper, takes a fifth more time.
    noise_rate : float in [0, 1) or "auto", default=0.0
        Proportion of rows whose true label is not a candidate. Above 0, votes may name any label,
        the network trains on all labels, and counts have no bounds. "auto" estimates the proportion
        without true labels. `disambiguate` stays inside the candidates.
    <shared>
    voter_ : estimator or None
        The fitted voter. None for neighbors, without votes, and after `partial_fit`.
    noise_rate_ : float
        The noise rate that the votes used.
    proba_temperature_ : float
        Temperature of the probabilities. It makes their mean confidence that of a kernel voter,
        which is calibrated by candidates alone. It does not change predictions. It is 1 with any
        other voter, without votes, and after `partial_fit`.

    See Also
    --------
    PartialLabelClassifier : The same network without votes and counts.
    CleanSEKernelClassifier : The votes alone, without a network.

    Notes
    -----
    Where candidates depend on the features, the effect of ``class_prior`` is damped: its odds enter
    as a power, from 1 down to 1/2.

    References
    ----------
    .. [1] G. Wang, C.-M. Vong, J. Huang. Exploiting the Potential Supervision Information of
       Clean Samples in Partial Label Learning.

    Examples
    --------
    >>> from sklearn_cleanse import CleanSEClassifier
    >>> X = [[0.0], [0.1], [0.9], [1.0]]
    >>> S = [{"low"}, {"low", "high"}, {"low", "high"}, {"high"}]
    >>> clf = CleanSEClassifier(max_epochs=20, random_state=0).fit(X, S)
    >>> clf.predict([[0.05], [0.95]])
    array(['low', 'high'], dtype='<U4')
    >>> clf.disambiguate(X, S)
    array(['low', 'low', 'high', 'high'], dtype='<U4')
    """

    _parameter_constraints: ClassVar[dict] = {
        **PartialLabelClassifier._parameter_constraints,
        "voter": [StrOptions(set(VOTERS)), NeighborVoter, HasMethods(["fit", "get_params"]), None],
        "voter_blend": [Interval(Real, 0, 1, closed="both"), StrOptions({"auto"})],
        "temperature": [Interval(Real, 1, 1e18, closed="both")],
        "count_weight": [Interval(Real, 0, 1e18, closed="both")],
        "count_loss": [StrOptions(set(COUNT_LOSSES))],
        "count_every": [Interval(Integral, 1, None, closed="left")],
        "noise_rate": [Interval(Real, 0, 1, closed="left"), StrOptions({"auto"})],
    }

    def __init__(
        self,
        loss="cc",
        *,
        voter="kernel",
        voter_blend="auto",
        temperature=3.0,
        count_weight=1e-3,
        count_loss="interval",
        count_every=4,
        noise_rate=0.0,
        class_prior=None,
        module="mlp",
        module_params=None,
        hidden_layer_sizes=(300, 300, 300),
        n_networks=2,
        scaling="auto",
        max_epochs=30,
        batch_size="auto",
        lr=0.01,
        schedule="onecycle",
        weight_decay="auto",
        early_stopping=False,
        validation_fraction=0.1,
        n_iter_no_change=20,
        warm_start=False,
        device="auto",
        random_state=None,
        callbacks=None,
        verbose=0,
    ):
        super().__init__(
            loss,
            class_prior=class_prior,
            module=module,
            module_params=module_params,
            hidden_layer_sizes=hidden_layer_sizes,
            n_networks=n_networks,
            scaling=scaling,
            max_epochs=max_epochs,
            batch_size=batch_size,
            lr=lr,
            schedule=schedule,
            weight_decay=weight_decay,
            early_stopping=early_stopping,
            validation_fraction=validation_fraction,
            n_iter_no_change=n_iter_no_change,
            warm_start=warm_start,
            device=device,
            random_state=random_state,
            callbacks=callbacks,
            verbose=verbose,
        )
        self.voter = voter
        self.voter_blend = voter_blend
        self.temperature = temperature
        self.count_weight = count_weight
        self.count_loss = count_loss
        self.count_every = count_every
        self.noise_rate = noise_rate

    def _check_nested(self, whole, part, params):
        voter = params.get("voter", self.voter)
        if part and whole == "voter" and (voter is None or isinstance(voter, str)):
            name = VOTERS[voter].__name__ if voter in VOTERS else "CleanSEKernelClassifier"
            raise ValueError(
                f"`voter` must be an object to set voter__{part}, got {voter!r}. Pass "
                f"voter={name}()."
            )

    def _vote(self, X, used, candidates, device, seed, one_epoch):
        """Let the voter vote on the rows to train on, before training or during it."""
        voter = VOTERS[self.voter]() if isinstance(self.voter, str) else self.voter
        if isinstance(voter, type):
            raise ValueError(
                f"`voter` must be an estimator, got a class. Pass voter={voter.__name__}()."
            )
        is_voting = voter is not None and self.temperature != 1
        params = voter.get_params(deep=False) if is_voting else {}
        if self.noise_rate != 0 and "noise_rate" not in params:
            raise ValueError(
                "`noise_rate` must be 0 if no voter with this parameter votes, got "
                f"{self.noise_rate!r} with voter={self.voter!r:.80} and temperature="
                f"{self.temperature}. Use voter='kernel' and `temperature` above 1."
            )
        blends = self.temperature != 1 and self.voter_blend not in ("auto", 0)
        if blends and not hasattr(voter, "predict_proba"):
            raise ValueError(
                f"`voter_blend` must be 0 or 'auto' with voter={self.voter!r:.80}, which has no "
                f"predict_proba and takes no part in predictions, got {self.voter_blend}."
            )
        if not is_voting:
            return None, None, candidates
        if isinstance(voter, NeighborVoter):
            voter._validate_params()
            pool = choose_pool(candidates.is_clean, np.random.RandomState(seed))
            return None, NeighborVotes(voter, pool, one_epoch), candidates
        # Pass on what the user has left at its default.
        passed = {} if self.noise_rate == 0 else {"noise_rate": self.noise_rate}
        if params.get("random_state", seed) is None:
            passed["random_state"] = seed
        if params.get("device") == "auto":
            passed["device"] = device
        voter = clone(voter).set_params(**passed)
        rows = X if len(used) == len(X) else X[used]
        if candidates.index is None:
            candidates = replace(candidates, index=pd.Index(used))
        own = isinstance(voter, PartialLabelMixin)  # which reads the record as it is
        voter.fit(rows, candidates if own else candidates.to_frame())
        votes = _read_votes(voter, candidates)
        found = getattr(voter, "noise_rate_", "none" if self.noise_rate else 0.0)
        if not (isinstance(found, Real) and 0 <= float(found) < 1):
            raise ValueError(
                "`voter` must have a `noise_rate_` from 0 to below 1 after `fit` with "
                f"noise_rate={self.noise_rate!r}, got {found!r}. Set it in its `fit`."
            )
        if found:
            candidates = spread_noise(candidates, float(found))
        # A network outgrows the votes of components sooner. A single epoch has full votes.
        end = 1.0 if _is_exact(voter, otherwise=True) else 0.5
        return voter, ConstantVotes(votes, None if one_epoch else end), candidates

    def _objective(self, loss, params, votes, candidates, device):
        proportions = None
        if self.count_weight and self.count_loss == "proportion":
            found = estimate_proportions(candidates)
            proportions = torch.tensor(found, dtype=torch.float32, device=device)
        counts = self.count_weight, self.count_loss, self.count_every, proportions
        return Objective(loss, params, votes, self.temperature, *counts)

    def _blend(self):
        if self.voter_blend == "auto":
            return 0.5 * self.voter_.count_strength_ if _is_exact(self.voter_) else 0.0
        return 0.0 if self.voter_ is None else float(self.voter_blend)

    def _log_proba(self, X):
        return temper(self._blended(X), self.proba_temperature_)

    def _scores(self, X):
        return np.exp(self._blended(X))

    def _blended(self, X, scores=None):
        """Blend the network's log-probabilities with the voter's, from its scores on X."""
        log_proba, blend = super()._log_proba(X), self._blend()
        if not blend:
            return log_proba
        if scores is None:
            scores = _scores_of(self.voter_, X, log_proba.shape)
        floor = min(PROBABILITY_FLOOR, 1 / scores.shape[1])
        scores = np.log(np.maximum(scores, floor))
        return log_softmax((1 - blend) * log_proba + blend * log_softmax(scores, axis=1), axis=1)

    def _fit_proba(self, X, used):
        scores = None
        if len(used) == len(X) and isinstance(self.voter_, CleanSEKernelClassifier):
            scores = self.voter_._training_scores()  # in closed form, without a second kernel
        log_proba = self._blended(X, scores)
        self.proba_temperature_, self._scored = calibrate_like(self.voter_, log_proba[used])
        return temper(log_proba, self.proba_temperature_)

    def _label_proba(self, log_proba, candidates: Candidates):
        if not self.noise_rate_:
            return self.candidate_proba_
        spread = spread_noise(candidates, self.noise_rate_)
        return candidate_softmax(log_proba, spread.mask, spread.prior)

    explain = CleanSEKernelClassifier.explain  # of the voter


# Parameters and attributes that both networks have are written once; python -OO has no docstrings.
if (_text := PartialLabelClassifier.__doc__) and CleanSEClassifier.__doc__:
    _shared = _text[_text.index("    class_prior :") : _text.index("    See Also")].rstrip()
    CleanSEClassifier.__doc__ = CleanSEClassifier.__doc__.replace("    <shared>", _shared)


def _is_exact(voter: Any, otherwise: bool = False) -> bool:
    """Return whether a kernel voter stands on all rows; other voters have nothing of the kind."""
    return voter._is_exact if isinstance(voter, CleanSEKernelClassifier) else otherwise


def _scores_of(voter: Any, X: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Return what a voter predicts, or raise if it is not a finite number per row and class."""
    if isinstance(voter, ProbabilityMixin):
        return voter._scores(X)
    scores = np.asarray(voter.predict_proba(X), dtype=float)
    if scores.shape != shape or not np.isfinite(scores).all():
        raise ValueError(
            f"`predict_proba` of the voter must return finite numbers of shape {shape}, got "
            f"{type(voter).__name__} with shape {scores.shape}. Correct it, or pass voter_blend=0."
        )
    return scores


def _read_votes(voter: Any, candidates: Candidates) -> torch.Tensor:
    """Return a fitted voter's votes, or raise if they are not a finite number per label."""
    votes: Any = getattr(voter, "label_proba_", None)
    votes = getattr(voter, "candidate_proba_", None) if votes is None else votes
    try:
        votes = votes.toarray() if hasattr(votes, "toarray") else votes
        votes = np.asarray(votes, dtype=float)
    except (TypeError, ValueError):  # reported below
        votes = np.empty(0)
    if votes.shape != candidates.mask.shape or not np.isfinite(votes).all():
        raise ValueError(
            "`voter` must have a `candidate_proba_` of finite numbers after `fit`, of shape "
            f"{candidates.mask.shape}, got {type(voter).__name__} with shape {votes.shape}."
        )
    classes = getattr(voter, "classes_", candidates.classes)
    if not np.array_equal(classes, candidates.classes):
        raise ValueError(f"`voter` must keep the columns of S, got classes_ {classes!r}.")
    if (votes < 0).any() or (votes.sum(axis=1) > 1 + 1e-5).any():
        raise ValueError("`voter` must return probabilities, got votes below 0 or above 1.")
    if not getattr(voter, "noise_rate_", 0.0):
        votes = votes * candidates.mask
    return torch.from_numpy(np.ascontiguousarray(votes, dtype=np.float32))


def spread_noise(candidates: Candidates, noise_rate: float) -> Candidates:
    """Make each label a candidate: those outside a set have the noise rate as prior weight."""
    n_outside = (~candidates.mask).sum(axis=1, keepdims=True)
    outside = noise_rate / (1 - noise_rate) / np.maximum(n_outside, 1)
    prior = np.where(candidates.mask, candidates.prior, outside)
    prior = (prior / prior.sum(axis=1, keepdims=True)).astype(np.float32)
    mask = np.ones_like(candidates.mask)
    return replace(candidates, mask=mask, prior=prior, has_prior=True)
