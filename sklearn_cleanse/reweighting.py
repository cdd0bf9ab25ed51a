"""Weights from votes, Eq. (2) to (4), and T over the epochs: two pure functions."""

from torch import Tensor

__all__ = ["temperature_at", "weigh"]


def weigh(
    confidences: Tensor | None, even: Tensor, votes: Tensor, temperature: float, hard: bool = False
) -> Tensor:
    """Return the weight of each candidate that a base loss trains on.

    Eq. (4) gives the candidate that the votes name the weight T, the others 1. With K so defined, a
    loss that keeps confidences trains on K times confidence, normalized. Soft votes spread over
    several candidates; there the average ``(confidence + (T - 1) vote) / T`` is more accurate than
    the product, as a vote can raise a candidate that the network has given up.

    Parameters
    ----------
    confidences : Tensor of shape (n_rows, n_classes) or None
        Present confidences, zero outside the candidates. None for a loss that keeps none.
    even : Tensor of shape (n_rows, n_classes)
        Prior weights of the candidates, relative to the largest of a row.
    votes : Tensor of shape (n_rows, n_classes)
        Zero outside the candidates. A row sums to one, or to less if its vote is trusted less.
    temperature : float
        T; at 1 the votes have no effect.
    hard : bool, default=False
        Whether votes name a single candidate.

    Returns
    -------
    weights : Tensor of shape (n_rows, n_classes)
        Zero outside the candidates; rows sum to one if confidences are given.

    Examples
    --------
    >>> import torch
    >>> from sklearn_cleanse.reweighting import weigh
    >>> even, votes = torch.tensor([[1.0, 1.0, 0.0]]), torch.tensor([[1.0, 0.0, 0.0]])
    >>> weigh(None, even, votes, 3.0)  # K of Eq. (4)
    tensor([[3., 1., 0.]])
    >>> weigh(even / 2, even, votes, 3.0, hard=True)
    tensor([[0.7500, 0.2500, 0.0000]])
    """
    if confidences is None:
        return even + (temperature - 1) * votes
    if hard:
        weights = confidences * (1 + (temperature - 1) * votes)
    else:
        weights = confidences + (temperature - 1) * votes
    return weights / weights.sum(dim=1, keepdim=True)


def temperature_at(done: float, temperature: float, start: float, end: float | None) -> float:
    """Return T after a proportion of the epochs; 1 means that votes have no effect.

    Parameters
    ----------
    done : float
        Proportion of the epochs that have passed, from 0 to 1.
    temperature : float
        T at ``start``.
    start : float
        Proportion of the epochs before votes count.
    end : float or None
        Proportion of the epochs at which T has fallen to 1, in a straight line from ``start``.
        None keeps T constant.

    Returns
    -------
    temperature : float

    Examples
    --------
    >>> from sklearn_cleanse.reweighting import temperature_at
    >>> [temperature_at(done, 3.0, 0.0, 1.0) for done in (0.0, 0.5, 1.0)]
    [3.0, 2.0, 1.0]
    """
    if done < start:
        return 1.0
    if end is None:
        return temperature
    return 1 + (temperature - 1) * max(0.0, (end - done) / (end - start))
