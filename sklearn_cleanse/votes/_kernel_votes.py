"""Votes of all other rows, weighed by label counts, at their fixed point.

::

    P = S / |S|                                  each candidate has an equal share at first
    repeat:
        Q = left-out kernel ridge regression of P   what all other rows say of each row
        P ∝ max(Q, ε)² · S · f                      restricted to candidates, rows sum to one

Clean rows never change, so they anchor everything. ``f`` is what label counts say: how likely the
candidate set is under each label (`set_log_likelihood`), and how much of the votes each label has
taken. The former is right only where candidates do not depend on the features, which the features
themselves can tell (`candidate_dependence`).

Where sets may be wrong, S is one for a candidate and, for each other label, the odds that the
noise rate leaves it: votes may then name a label outside the set (`estimate_noise`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from .._ranks import ALONE, Ranks
from ._leave_one_out import ExactRidge, LandmarkRidge

__all__ = [
    "KernelVotes",
    "candidate_dependence",
    "estimate_noise",
    "kernel_votes",
    "set_log_likelihood",
]

#: Left-out predictions below this count as this.
FLOOR = 1e-3

#: Exponents: of the set's likelihood where candidates are independent of the features, of a label's
#: share of the candidates, and of its present share of the votes. Chosen on controlled sets.
SET_POWER, CANDIDATE_POWER, VOTE_POWER = 0.5, 0.25, -0.5

#: Dependence up to which the set's likelihood counts in full, and from which not at all.
INDEPENDENT, DEPENDENT = 0.15, 0.5

#: Rounds before the dependence is measured.
_WARM_UP = 6

#: Noise that its estimate starts from, and the least that is told from none.
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
        The votes on the training rows; rows sum to one. Zero outside the candidates if there is no
        noise.
    left_out : Tensor of shape (n_samples, n_classes)
        What all other rows say of each, candidates or not; rows sum to about one.
    n_rounds : int
        Rounds taken.
    dependence : float
        Share of the candidates' variation, beyond that explained by labels, which features
        predict; see `candidate_dependence`.
    count_strength : float
        How strongly counts weigh votes: from 0, not at all, to 1.
    log_rates : Tensor of shape (2, n_classes, n_classes)
        Logarithm of the probability that class j is a candidate of a row of class k, or is not.
    log_shares : Tensor of shape (n_classes,)
        What shares add to the logarithm of each label's vote.
    noise : float
        Share of the rows whose label was taken to be outside their candidates.
    """

    proba: Tensor
    left_out: Tensor
    n_rounds: int
    dependence: float
    count_strength: float
    log_rates: Tensor
    log_shares: Tensor
    noise: float = 0.0


def kernel_votes(
    ridge: ExactRidge | LandmarkRidge,
    candidates: Tensor,
    *,
    count_strength: float | str = "auto",
    noise: float | str = 0.0,
    max_rounds: int = 20,
    tol: float = 1e-3,
    grades: Tensor | None = None,
) -> KernelVotes:
    """Let all other rows vote on each row until the votes settle.

    Parameters
    ----------
    ridge : ExactRidge or LandmarkRidge
        Predicts rows from all others.
    candidates : Tensor of shape (n_samples, n_classes), dtype bool
        The rows' candidates.
    count_strength : float in [0, 1] or "auto", default="auto"
        How far candidate sets are taken to be drawn by the label alone. "auto" measures it by
        `candidate_dependence`. 0 leaves counts out altogether.
    noise : float in [0, 1) or "auto", default=0.0
        Share of the rows whose label is outside their candidates. "auto" takes that of
        `estimate_noise`. If it is not 0, votes may name any label.
    max_rounds : int, default=20
        Most rounds; some data never settle entirely.
    tol : float, default=1e-3
        Stop when no vote changes by more.
    grades : Tensor of shape (n_samples, n_classes), default=None
        Odds of each candidate beforehand, which the votes start from and are multiplied by. Even
        odds if None.

    Returns
    -------
    votes : KernelVotes

    Examples
    --------
    >>> import numpy as np, torch
    >>> from sklearn_cleanse.votes import kernel_votes, make_ridge
    >>> X = np.array([[0.0], [0.1], [0.2], [1.0], [1.1], [1.2]])
    >>> S = torch.tensor([[1, 0], [1, 1], [1, 1], [0, 1], [1, 1], [1, 1]], dtype=torch.bool)
    >>> kernel_votes(make_ridge(X), S).proba.argmax(dim=1)
    tensor([0, 0, 0, 1, 1, 1])
    """
    if noise == "auto":
        noise = estimate_noise(ridge, candidates, count_strength=count_strength, grades=grades)
    noise = float(noise)
    S = candidates.to(ridge.dtype)
    odds = outside_odds(S, noise, grades) if noise else None
    P = S if odds is None else S + (1 - S) * odds
    P = regrade_votes(P / P.sum(dim=1, keepdim=True), grades)
    ranks = ridge.ranks
    first_shares = ranks.mean(P)
    measures = count_strength == "auto"
    strength = 0.0 if measures else float(count_strength)
    off = not measures and strength == 0
    dependence = float("nan")
    warm_up = min(_WARM_UP, max_rounds - 1)
    for n_rounds in range(1, max_rounds + 1):
        if n_rounds == warm_up + 1:
            dependence = candidate_dependence(ridge, candidates, P)
            if measures:
                strength = (DEPENDENT - dependence) / (DEPENDENT - INDEPENDENT)
                strength = min(max(strength, 0.0), 1.0)
        shares = ranks.mean(P)
        Q = ridge.left_out(P)
        log_shares = _log_shares(first_shares, shares) * (not off)
        log_rates = _log_rates(S, Q, ranks)
        previous, P = P, votes_from_scores(Q, S, log_shares, log_rates, strength, odds)
        P = regrade_votes(P, grades)
        if n_rounds > warm_up and max(ranks.gather(float((P - previous).abs().max()))) <= tol:
            break
    Q = ridge.left_out(P)  # of the votes that are returned
    return KernelVotes(P, Q, n_rounds, dependence, strength, log_rates, log_shares, noise)


def estimate_noise(
    ridge: ExactRidge | LandmarkRidge,
    candidates: Tensor,
    *,
    count_strength: float | str = "auto",
    grades: Tensor | None = None,
) -> float:
    """Estimate the share of rows whose label is not among their candidates, without true labels.

    It is the share under which the sets are likeliest, given what all other rows say of each. Where
    classes overlap the others are unsure, and a set without the label they name is no surprise;
    where they are sure, it is. How far their sureness can be trusted is estimated beside it.

    Parameters
    ----------
    ridge : ExactRidge or LandmarkRidge
        Predicts rows from all others.
    candidates : Tensor of shape (n_samples, n_classes), dtype bool
        The rows' candidates.
    count_strength : float in [0, 1] or "auto", default="auto"
        How strongly counts weigh votes, as for `kernel_votes`.
    grades : Tensor of shape (n_samples, n_classes), default=None
        Odds of each candidate beforehand, as for `kernel_votes`.

    Returns
    -------
    noise : float
        At most 0.5; 0 if it is less than 0.03, or if the sets are about as likely without noise.

    Examples
    --------
    >>> import numpy as np, torch
    >>> from sklearn_cleanse.votes import estimate_noise, make_ridge
    >>> X = np.linspace(0, 1, 200)[:, None]
    >>> S = torch.from_numpy(np.hstack([X < 0.5, X >= 0.5]))
    >>> estimate_noise(make_ridge(X), S)
    0.0
    >>> wrong = np.random.RandomState(0).uniform(size=200) < 0.1
    >>> S[wrong] = ~S[wrong]
    >>> 0.05 < estimate_noise(make_ridge(X), S) < 0.2
    True
    """
    noise = _FIRST_NOISE
    for _ in range(4):
        votes = kernel_votes(
            ridge,
            candidates,
            count_strength=count_strength,
            noise=noise,
            max_rounds=_WARM_UP + 4,
            grades=grades,
        )
        previous, noise = noise, likeliest_noise(votes.left_out, candidates, ridge.ranks)
        if noise == 0 or abs(noise - previous) < 0.01:
            break
    return noise


def likeliest_noise(scores: Tensor, candidates: Tensor, ranks: Ranks = ALONE) -> float:
    """Return the share of wrong sets that scores of labels make likeliest, as `estimate_noise`."""
    S = candidates.to(scores.dtype)
    can_be_wrong = ~candidates.all(dim=1)
    # P(set | wrong) / P(set | right), from the odds of a label outside at noise 0.5
    ratio = ranks.join(outside_odds(S, 0.5)[can_be_wrong, 0])
    logits = scores.clamp(min=FLOOR).log()
    best, without = (-math.inf, 0.0), -math.inf
    for power in _POWERS:
        proba = (power * logits).softmax(dim=1)
        right = ranks.join((proba * S).sum(dim=1)[can_be_wrong])
        wrong = (1 - right).clamp(min=0) * ratio
        noise = _FIRST_NOISE
        for _ in range(50):  # expectation maximisation
            noise = float((noise * wrong / (noise * wrong + (1 - noise) * right)).mean())
        best = max(best, (float((noise * wrong + (1 - noise) * right).log().sum()), noise))
        without = max(without, float(right.log().sum()))
    n_rows = ranks.total(len(S))
    gain, noise = best[0] - without, best[1] * len(ratio) / n_rows
    found = min(noise, 0.5) if noise >= _LEAST_NOISE and gain > math.log(n_rows) else 0.0
    return ranks.first(found)  # sums may be rounded otherwise elsewhere, and more hangs on it


def votes_from_scores(
    scores: Tensor,
    candidates: Tensor,
    log_shares: Tensor,
    log_rates: Tensor,
    strength: float,
    odds: Tensor | None = None,
) -> Tensor:
    """Turn what others say of rows into votes for their candidates.

    Parameters
    ----------
    scores : Tensor of shape (n_samples, n_classes)
        What others say, Q.
    candidates : Tensor of shape (n_samples, n_classes)
        One for a candidate, zero elsewhere.
    log_shares, log_rates : Tensor
        As in `KernelVotes`.
    strength : float
        How strongly the set's likelihood counts.
    odds : Tensor of shape (n_samples, 1), default=None
        Odds of each label outside a set, see `outside_odds`. None if sets are right.

    Returns
    -------
    votes : Tensor of shape (n_samples, n_classes)
        Rows sum to one; zero outside the candidates if there is no noise.
    """
    logits = 2 * scores.clamp(min=FLOOR).log() + log_shares
    if strength:
        if odds is not None:  # that a row's label is missing is said by the odds below
            log_rates = log_rates.clone()
            log_rates[1].diagonal().zero_()
        logits = logits + SET_POWER * strength * _likelihood(candidates, log_rates)
    outside = -torch.inf if odds is None else logits + odds.log()
    return torch.where(candidates == 0, outside, logits).softmax(dim=1)


def outside_odds(candidates: Tensor, noise: float, grades: Tensor | None = None) -> Tensor:
    """Return the odds of each label outside the set, (n_samples, 1), against a candidate's of one.

    The labels outside share evenly, and together have the noise's part of the row. Candidates have
    the odds ``grades``, of the same shape, if these are given.
    """
    marks = candidates if grades is None else candidates * grades.to(candidates.dtype)
    inside = marks.sum(dim=1, keepdim=True)
    n_outside = (candidates == 0).sum(dim=1, keepdim=True).clamp(min=1)
    return noise / (1 - noise) * inside / n_outside


def regrade_votes(votes: Tensor, grades: Tensor | None) -> Tensor:
    """Multiply votes by grades, if there are any, and normalise rows; both (n_rows, n_classes)."""
    if grades is None:
        return votes
    votes = votes * grades.to(votes.dtype)
    return votes / votes.sum(dim=1, keepdim=True)


def set_log_likelihood(candidates: Tensor, labels: Tensor) -> Tensor:
    """Compute how likely each row's candidate set is under each label.

    Labels j join the set of a row of label k independently, with the share of k's rows that have
    them; rates of rare labels are drawn towards those of all rows.

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
    return _likelihood(candidates, _rates(candidates, labels))


def _likelihood(candidates: Tensor, log_rates: Tensor) -> Tensor:
    present, absent = log_rates
    return candidates @ present.T + (1 - candidates) @ absent.T


def _log_rates(candidates: Tensor, scores: Tensor, ranks: Ranks = ALONE) -> Tensor:
    labels = scores.clamp(min=FLOOR).square()
    return _rates(candidates, labels / labels.sum(dim=1, keepdim=True), ranks)


def _rates(candidates: Tensor, labels: Tensor, ranks: Ranks = ALONE) -> Tensor:
    others = 1 - labels
    joined, n_others, pairs, n_labels = ranks.totals(
        (others * candidates).sum(dim=0),
        others.sum(dim=0),
        labels.T @ candidates,
        labels.sum(dim=0),
    )
    rates = pairs + _SHRINKAGE * (joined / n_others.clamp(min=1e-9))
    rates = (rates / (n_labels[:, None] + _SHRINKAGE)).clamp(1e-3, 1 - 1e-3)
    rates.diagonal().fill_(1 - 1e-6)  # a row's label is one of its candidates
    return torch.stack([rates.log(), torch.log1p(-rates)])


def candidate_dependence(
    ridge: ExactRidge | LandmarkRidge, candidates: Tensor, labels: Tensor
) -> float:
    """Measure how far features predict candidates beyond what the labels explain.

    Where labels join a set by a rate of their own, or come in bags, a row's features say nothing
    about its wrong candidates once its label is known. Where a set belongs to a kind of row, or
    holds the labels that look alike, they do. What is left of the candidates after the mean for
    each label is predicted by the other rows; the error is compared with that on pure noise.

    Parameters
    ----------
    ridge : ExactRidge or LandmarkRidge
        Predicts rows from all others.
    candidates : Tensor of shape (n_samples, n_classes), dtype bool
        The rows' candidates.
    labels : Tensor of shape (n_samples, n_classes)
        Present guess of the labels; rows sum to one.

    Returns
    -------
    dependence : float
        About 0 if features predict nothing, 1 if they predict everything.

    Examples
    --------
    >>> import numpy as np, torch
    >>> from sklearn_cleanse.votes import candidate_dependence, make_ridge
    >>> rng = np.random.RandomState(0)
    >>> X, y = rng.normal(size=(300, 2)), torch.zeros(300, dtype=torch.int64)
    >>> by_chance = torch.from_numpy(rng.uniform(size=(300, 2)) < [1.0, 0.5])
    >>> by_place = torch.from_numpy(np.stack([X[:, 0] < np.inf, X[:, 0] > 0], axis=1))
    >>> labels = torch.nn.functional.one_hot(y, 2).double()
    >>> ridge = make_ridge(X)
    >>> [candidate_dependence(ridge, S, labels) > 0.5 for S in (by_chance, by_place)]
    [False, True]
    """
    S, ranks = candidates.to(labels.dtype), ridge.ranks
    pairs, n_labels = ranks.totals(labels.T @ S, labels.sum(dim=0))
    surprise = S - labels @ (pairs / n_labels[:, None].clamp(min=1e-9))
    surprise -= ranks.mean(surprise)
    variance = _mean_square(surprise, ranks)
    if variance < 1e-12:  # labels explain everything
        return 0.0
    error = _mean_square(surprise - ridge.left_out(surprise), ranks)
    return 1 - error / variance / ridge.noise_error


def _mean_square(values: Tensor, ranks: Ranks) -> float:
    squares = values.square()
    return float(ranks.mean(squares.mean(dim=1)) if ranks.several else squares.mean())


def _log_shares(first: Tensor, present: Tensor) -> Tensor:
    """Hold back labels that take more than their share of the candidates, and vice versa."""
    log_first, log_present = first.clamp(min=1e-9).log(), present.clamp(min=1e-9).log()
    bonus = CANDIDATE_POWER * log_first + VOTE_POWER * log_present
    least = bonus.masked_fill(first == 0, torch.inf).min()
    return torch.where(first > 0, bonus, least)  # a label that is nobody's candidate gets none
