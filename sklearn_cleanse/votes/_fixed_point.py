"""Votes of all other rows, weighted by label counts, at their fixed point.

::

    P = W                                       each candidate has its prior weight
    repeat:
        Q = left-out kernel ridge regression of P    predictions of each row by all others
        P ∝ max(Q, ε)² · W · f                  rows sum to one

Rows with a single candidate never change, so they anchor everything. ``f`` is what label counts
suggest: how likely the candidate set is under each label (`set_log_likelihood`), and how much of
the votes each label has. The former is right only if candidates do not depend on the features,
which the features themselves show (`instance_dependence`).

If sets may be wrong, W is above zero for labels outside the set as well: votes may then name one
of them (`estimate_noise_rate`).
"""

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ._ridge import Ridge

#: Smallest left-out prediction: those below count as this.
FLOOR = 1e-3

#: Most rounds; some data never settle, and with instance-dependent candidates more rounds harm.
MAX_ROUNDS = 20

#: The votes have settled if those of a row change by less in sum, in the mean of the rows. The
#: largest change need not fall: single rows may alternate between two labels. A tenth of it takes a
#: third more rounds and gains nothing on controlled sets.
_TOLERANCE = 1e-2

#: Exponents: of the set's likelihood if candidates are independent of the features, of a label's
#: proportion of the candidates, and of its present one of the votes. Chosen on controlled sets.
_SET_POWER, _CANDIDATE_POWER, _VOTE_POWER = 0.5, 0.25, -0.5

#: Dependence up to which the set's likelihood counts in full, and from which not at all.
_INDEPENDENT, _DEPENDENT = 0.15, 0.5

#: Dependence from which counts are compared with none, and clean rows that this takes.
_SUSPICIOUS, _LEAST_CLEAN = 0.3, 20

#: Standard errors by which clean rows must be better predicted without counts to leave them out.
_LEAST_GAIN = 2.0

#: Rounds before the dependence is measured.
_WARM_UP = 6

#: Noise rate that its estimate starts from, and the least that is distinguished from none.
_FIRST_NOISE, _LEAST_NOISE = 0.2, 0.03

#: Powers of the scores that are tried as probabilities: scores may be too flat or too sharp.
_POWERS = [2 ** (k / 2) for k in range(-2, 7)]

#: Rows by which each label's rates of other candidates are drawn towards the overall ones.
_SHRINKAGE = 10.0


@dataclass(frozen=True)
class KernelVotes:
    """Votes at their fixed point, and what is needed to vote on new rows.

    Attributes
    ----------
    proba : Tensor of shape (n_samples, n_classes)
        The votes on the training rows; rows sum to one. Zero outside the candidates without noise.
    left_out : Tensor of shape (n_samples, n_classes)
        Predictions of each row by all others, candidates or not; rows sum to about one.
    n_rounds : int
        Rounds taken.
    instance_dependence : float
        Of the candidates' variation that labels do not explain, the proportion that features
        predict; see `instance_dependence`. NaN if it was not measured.
    count_strength : float
        How strongly counts weight votes: from 0, not at all, to 1.
    log_rates : Tensor of shape (2, n_classes, n_classes)
        Logarithm of the probability that class j is a candidate of a row of class k, or is not.
    log_bonus : Tensor of shape (n_classes,)
        What class proportions add to the logarithm of each label's vote.
    noise_rate : float
        Proportion of rows whose label was assumed to be outside their candidates.
    ridge : ExactRidge or ComponentRidge or None
        The regression that voted.
    """

    proba: Tensor
    left_out: Tensor
    n_rounds: int
    instance_dependence: float
    count_strength: float
    log_rates: Tensor
    log_bonus: Tensor
    noise_rate: float = 0.0
    ridge: Ridge | None = None


def kernel_votes(
    ridge: Ridge,
    prior: Tensor,
    *,
    count_strength: float | str = "auto",
    noise_rate: float | str = 0.0,
    max_rounds: int = MAX_ROUNDS,
    tol: float = _TOLERANCE,
) -> KernelVotes:
    """Let all other rows vote on each row until the votes settle.

    Parameters
    ----------
    ridge : ExactRidge or ComponentRidge
        Predicts rows from all others.
    prior : Tensor of shape (n_samples, n_classes)
        Prior weights: zero outside the candidates; rows sum to one.
    count_strength : float in [0, 1] or "auto", default="auto"
        How strongly counts weight votes. 1 assumes that sets depend on the label alone. "auto"
        measures it by `instance_dependence`. 0 leaves counts out.
    noise_rate : float in [0, 1) or "auto", default=0.0
        Proportion of rows whose label is outside their candidates. "auto" takes that of
        `estimate_noise_rate`. If it is not 0, votes may name any label.
    max_rounds : int, default=20
        Most rounds.
    tol : float, default=0.01
        Stop if the sum of the changes of a row's votes, averaged over rows, is at most this.

    Returns
    -------
    votes : KernelVotes

    Examples
    --------
    >>> import numpy as np, torch
    >>> from sklearn_cleanse.votes import kernel_votes, make_ridge
    >>> X = np.array([[0.0], [0.1], [0.2], [1.0], [1.1], [1.2]])
    >>> S = torch.tensor([[1, 0], [1, 1], [1, 1], [0, 1], [1, 1], [1, 1]])
    >>> kernel_votes(make_ridge(X), S / S.sum(dim=1, keepdim=True)).proba.argmax(dim=1)
    tensor([0, 0, 0, 1, 1, 1])
    """
    if noise_rate == "auto":
        noise_rate = estimate_noise_rate(ridge, prior, count_strength=count_strength)
    noise_rate = float(noise_rate)
    S = (prior > 0).to(ridge.dtype)
    P = weights = label_weights(prior.to(ridge.dtype), noise_rate)
    first = P.mean(dim=0)
    measures = count_strength == "auto"
    strength = 0.0 if measures else float(count_strength)
    counts = measures or strength > 0
    dependence = math.nan
    warm_up = min(_WARM_UP, max_rounds - 1)
    for n_rounds in range(1, max_rounds + 1):
        if n_rounds == warm_up + 1:
            dependence = instance_dependence(ridge, S, P)
            if measures:
                strength = (_DEPENDENT - dependence) / (_DEPENDENT - _INDEPENDENT)
                strength = min(max(strength, 0.0), 1.0)
        log_bonus = _log_bonus(first, P.mean(dim=0)) * counts
        Q = ridge.left_out(P)
        labels = Q.clamp(min=FLOOR).square()
        log_rates = _log_rates(S, labels / labels.sum(dim=1, keepdim=True))
        previous, P = P, votes_from_scores(Q, weights, S, log_bonus, log_rates, strength)
        if n_rounds > warm_up and float((P - previous).abs().sum(dim=1).mean()) <= tol:
            break
    Q = ridge.left_out(P)  # of the votes that are returned
    found = P, Q, n_rounds, dependence, strength, log_rates, log_bonus, noise_rate, ridge
    return KernelVotes(*found)


def trusted_votes(
    ridge: Ridge, prior: Tensor, *, count_strength: float | str = "auto", **params: Any
) -> KernelVotes:
    """Compute votes with counts, or without if clean rows show that counts mislead.

    Where similar rows have the same set, as occurrences of a word do, a frequent label is mostly
    the true one, and counts lower it. Votes without counts are returned if features predict the
    candidates and these votes predict the clean rows' own labels better. Their ``count_strength``
    and ``log_bonus`` are 0.

    Parameters
    ----------
    ridge : ExactRidge or ComponentRidge
        Predicts rows from all others.
    prior : Tensor of shape (n_samples, n_classes)
        Prior weights, as for `kernel_votes`.
    count_strength : float in [0, 1] or "auto", default="auto"
        As for `kernel_votes`. A number is taken as it is.
    **params
        Passed to `kernel_votes`.

    Returns
    -------
    votes : KernelVotes

    Examples
    --------
    >>> import torch
    >>> from sklearn_cleanse.datasets import make_lexicon
    >>> from sklearn_cleanse.votes import make_ridge, trusted_votes
    >>> X, S, y = make_lexicon(500, random_state=2)
    >>> prior = torch.from_numpy(S / S.sum(axis=1, keepdims=True))
    >>> bool(trusted_votes(make_ridge(X), prior).log_bonus.any())
    False
    """
    votes = kernel_votes(ridge, prior, count_strength=count_strength, **params)
    if count_strength != "auto" or not votes.instance_dependence >= _SUSPICIOUS:
        return votes
    params["noise_rate"] = votes.noise_rate
    plain = kernel_votes(ridge, prior, count_strength=0.0, **params)
    # Votes square the scores. Without the square a slight gain shows sooner.
    power = 1 if votes.instance_dependence >= _DEPENDENT else 2
    with_counts, without = (
        (power * found.left_out.clamp(min=FLOOR).log() + found.log_bonus).log_softmax(dim=1)
        for found in (votes, plain)
    )
    gain = (without - with_counts)[prior == 1]  # of the own labels of clean rows
    if len(gain) < _LEAST_CLEAN:
        return votes
    return plain if gain.mean() > _LEAST_GAIN * gain.std() / len(gain) ** 0.5 else votes


def label_weights(prior: Tensor, noise_rate: float) -> Tensor:
    """Return the weight of each label before any vote, (n_samples, n_classes).

    It is the prior weight within the set. The labels outside have equal weights, and together the
    noise rate's part of the row.
    """
    outside = (prior == 0).to(prior.dtype)
    odds = noise_rate / (1 - noise_rate) / outside.sum(dim=1, keepdim=True).clamp(min=1)
    weights = prior + outside * odds
    return weights / weights.sum(dim=1, keepdim=True)


def votes_from_scores(
    scores: Tensor,
    weights: Tensor,
    candidates: Tensor,
    log_bonus: Tensor,
    log_rates: Tensor,
    strength: float,
) -> Tensor:
    """Turn predictions by other rows into votes.

    Parameters
    ----------
    scores : Tensor of shape (n_samples, n_classes)
        Left-out predictions, Q.
    weights : Tensor of shape (n_samples, n_classes)
        Weight of each label before any vote, W.
    candidates : Tensor of shape (n_samples, n_classes)
        One for a candidate, zero elsewhere.
    log_bonus, log_rates : Tensor
        As in `KernelVotes`.
    strength : float
        How strongly the set's likelihood counts.

    Returns
    -------
    votes : Tensor of shape (n_samples, n_classes)
        Zero where the weights are zero; rows sum to one.
    """
    logits = 2 * scores.clamp(min=FLOOR).log() + log_bonus + weights.log()
    if strength:
        present, absent = log_rates[0], log_rates[1].clone()
        absent.diagonal().zero_()  # the weights account for a label outside its set
        logits += _SET_POWER * strength * _likelihood(candidates, present, absent)
    return logits.softmax(dim=1)


def _likelihood(candidates: Tensor, present: Tensor, absent: Tensor) -> Tensor:
    return candidates @ present.T + (1 - candidates) @ absent.T


def _log_bonus(first: Tensor, present: Tensor) -> Tensor:
    """Penalize labels with more than their proportion of the candidates, and vice versa."""
    log_first, log_present = first.clamp(min=1e-9).log(), present.clamp(min=1e-9).log()
    bonus = _CANDIDATE_POWER * log_first + _VOTE_POWER * log_present
    least = bonus.masked_fill(first == 0, torch.inf).min()
    return torch.where(first > 0, bonus, least)  # a label that is never a candidate gets none


def _log_rates(candidates: Tensor, labels: Tensor) -> Tensor:
    """Return log-probabilities that class j is, and is not, in a set of class k, (2, m, m)."""
    others = 1 - labels
    overall = (others * candidates).sum(dim=0) / others.sum(dim=0).clamp(min=1e-9)
    rates = labels.T @ candidates + _SHRINKAGE * overall
    rates = (rates / (labels.sum(dim=0)[:, None] + _SHRINKAGE)).clamp(1e-3, 1 - 1e-3)
    rates.diagonal().fill_(1 - 1e-6)  # a row's label is one of its candidates
    return torch.stack([rates.log(), torch.log1p(-rates)])


def set_log_likelihood(candidates: Tensor, labels: Tensor) -> Tensor:
    """Compute the log-likelihood of each row's candidate set under each label.

    Label j joins the set of a row of label k independently of other labels. Its rate is the
    proportion of k's rows that have it. Rates of rare labels are drawn towards those of all rows.

    Parameters
    ----------
    candidates : Tensor of shape (n_samples, n_classes)
        One for a candidate, zero elsewhere.
    labels : Tensor of shape (n_samples, n_classes)
        Present guess of the labels; rows sum to one.

    Returns
    -------
    log_likelihood : Tensor of shape (n_samples, n_classes)
        Entry (i, k) is ``log P(S_i | y_i = k)``.

    Examples
    --------
    >>> import torch
    >>> from sklearn_cleanse.votes import set_log_likelihood
    >>> S = torch.tensor([[1.0, 1.0, 0.0]] * 50 + [[0.0, 1.0, 1.0]] * 50)
    >>> y = torch.tensor([[1.0, 0.0, 0.0]] * 50 + [[0.0, 0.0, 1.0]] * 50)
    >>> set_log_likelihood(S, y)[0].argmax()  # 0 brings 1 along
    tensor(0)
    """
    return _likelihood(candidates, *_log_rates(candidates, labels))


def instance_dependence(ridge: Ridge, candidates: Tensor, labels: Tensor) -> float:
    """Measure how far features predict candidates beyond what the labels explain.

    If labels join a set by a rate of their own, or come in bags, a row's features carry no
    information on its wrong candidates once its label is known. They do if similar rows have the
    same set, or sets hold labels that look alike. The mean for each label is subtracted from the
    candidates. Other rows predict what is left, and the error is compared with that on pure noise.

    Parameters
    ----------
    ridge : ExactRidge or ComponentRidge
        Predicts rows from all others.
    candidates : Tensor of shape (n_samples, n_classes)
        One for a candidate, zero elsewhere.
    labels : Tensor of shape (n_samples, n_classes)
        Present guess of the labels; rows sum to one.

    Returns
    -------
    dependence : float
        About 0 if features predict nothing, 1 if they predict everything.

    Examples
    --------
    >>> import numpy as np, torch
    >>> from sklearn_cleanse.votes import instance_dependence, make_ridge
    >>> rng = np.random.RandomState(0)
    >>> X, labels = rng.normal(size=(300, 2)), torch.tensor([[1.0, 0.0]] * 300).double()
    >>> by_chance = torch.from_numpy(rng.uniform(size=(300, 2)) < [1.0, 0.5])
    >>> by_place = torch.from_numpy(np.stack([X[:, 0] < np.inf, X[:, 0] > 0], axis=1))
    >>> ridge = make_ridge(X)
    >>> [instance_dependence(ridge, S, labels) > 0.5 for S in (by_chance, by_place)]
    [False, True]
    """
    S = candidates.to(labels.dtype)
    surprise = S - labels @ (labels.T @ S / labels.sum(dim=0)[:, None].clamp(min=1e-9))
    surprise -= surprise.mean(dim=0)
    variance = float(surprise.square().mean())
    if variance < 1e-12:  # labels explain everything
        return 0.0
    error = float((surprise - ridge.left_out(surprise)).square().mean())
    return 1 - error / variance / ridge.noise_error


def estimate_noise_rate(
    ridge: Ridge, prior: Tensor, *, count_strength: float | str = "auto"
) -> float:
    """Estimate the proportion of rows whose label is not among their candidates.

    It is the proportion under which the sets are likeliest, given the predictions by all other
    rows. Where these predictions are certain, a set without the predicted label is evidence of
    noise; where classes overlap, it is not. How far the certainty can be trusted is estimated too.
    No true label is needed.

    Parameters
    ----------
    ridge : ExactRidge or ComponentRidge
        Predicts rows from all others.
    prior : Tensor of shape (n_samples, n_classes)
        Prior weights, as for `kernel_votes`.
    count_strength : float in [0, 1] or "auto", default="auto"
        How strongly counts weight votes, as for `kernel_votes`.

    Returns
    -------
    noise_rate : float
        At most 0.5; 0 if it is less than 0.03, or if the sets are about as likely without noise.

    Examples
    --------
    >>> import numpy as np, torch
    >>> from sklearn_cleanse.votes import estimate_noise_rate, make_ridge
    >>> X = np.linspace(0, 1, 200)[:, None]
    >>> S = torch.from_numpy(np.hstack([X < 0.5, X >= 0.5]))
    >>> estimate_noise_rate(make_ridge(X), S)
    0.0
    >>> wrong = np.random.RandomState(0).uniform(size=200) < 0.1
    >>> S[wrong] = ~S[wrong]
    >>> 0.05 < estimate_noise_rate(make_ridge(X), S) < 0.2
    True
    """
    noise_rate = _FIRST_NOISE
    # A few wrong sets change the votes little.
    until: Any = {"max_rounds": _WARM_UP + 4, "tol": 0.1 * _TOLERANCE}
    for _ in range(4):
        votes = kernel_votes(
            ridge, prior, count_strength=count_strength, noise_rate=noise_rate, **until
        )
        previous, noise_rate = noise_rate, likeliest_noise_rate(votes.left_out, prior > 0)
        if noise_rate == 0 or abs(noise_rate - previous) < 0.01:
            break
    return noise_rate


def likeliest_noise_rate(scores: Tensor, candidates: Tensor) -> float:
    """Return the noise rate under which the sets are likeliest, given scores of labels."""
    S = candidates.to(scores.dtype)
    partial = ~candidates.all(dim=1)
    n_rows, inside = len(S), S.sum(dim=1)
    # P(set | wrong) / P(set | right)
    ratio = (inside / (S.shape[1] - inside))[partial]
    logits = scores.clamp(min=FLOOR).log()
    best, without = (-math.inf, 0.0), -math.inf
    for power in _POWERS:
        proba = (power * logits).softmax(dim=1)
        right = (proba * S).sum(dim=1)[partial]
        wrong = (1 - right).clamp(min=0) * ratio
        rate = _FIRST_NOISE
        for _ in range(50):  # expectation maximization
            rate = float((rate * wrong / (rate * wrong + (1 - rate) * right)).mean())
        best = max(best, (float((rate * wrong + (1 - rate) * right).log().sum()), rate))
        without = max(without, float(right.log().sum()))
    gain, rate = best[0] - without, best[1] * len(ratio) / n_rows
    return min(rate, 0.5) if rate >= _LEAST_NOISE and gain > math.log(n_rows) else 0.0
