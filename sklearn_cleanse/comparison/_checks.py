"""What the comparison refuses: each check returns the cleaned value, or raises with a remedy."""

from __future__ import annotations

from numbers import Integral, Real

import numpy as np


def check_scores(scores, *, nan_remedy=None) -> np.ndarray:
    """Return a table of scores as an array; refuse NaN if there is a remedy to name."""
    scores = np.asarray(scores, dtype=float)
    if scores.ndim != 2 or scores.shape[1] < 2 or not len(scores):
        raise ValueError(
            f"scores have shape {scores.shape}; expected a row per data set and a column for each "
            "of at least two methods"
        )
    if nan_remedy is not None and np.isnan(scores).any():
        row, column = np.argwhere(np.isnan(scores))[0]
        raise ValueError(
            f"row {row}, column {column} is NaN: that method has no score on that data set; "
            f"{nan_remedy}"
        )
    return scores


def check_average_ranks(average_ranks) -> np.ndarray:
    """Return average ranks, if they are such that some table of scores has them, up to rounding."""
    ranks = np.asarray(average_ranks, dtype=float)
    if ranks.ndim != 1:
        raise ValueError(f"average_ranks has shape {ranks.shape}; expected one rank per method")
    k = len(ranks)
    if not abs(ranks.sum() - k * (k + 1) / 2) <= 0.01 * k:
        raise ValueError(
            f"the average ranks sum to {ranks.sum():g}, but the ranks of {k} methods always sum to "
            f"{k * (k + 1) / 2:g}; a method or a data set is missing"
        )
    places = np.arange(1, k + 1)
    least, best = np.cumsum(places), np.cumsum(np.sort(ranks))
    if (best < least - 0.01 * places).any():
        place = int(np.argmax(best < least - 0.01 * places))
        raise ValueError(
            f"the {place + 1} best of the average ranks {ranks.tolist()} sum to {best[place]:g}, "
            f"but cannot sum to less than {least[place]}; ranks begin at 1"
        )
    return ranks


def check_control(control, n_methods) -> int:
    """Return the position of a method; negative ones count from the end."""
    if not isinstance(control, Integral) or not -n_methods <= control < n_methods:
        raise ValueError(
            f"control is {control!r}; expected the position of one of {n_methods} methods, 0 to "
            f"{n_methods - 1}"
        )
    return int(control) % n_methods


def check_alpha(alpha) -> float:
    """Return a level of significance."""
    if not isinstance(alpha, Real) or not 0 < float(alpha) < 1:
        raise ValueError(f"alpha is {alpha!r}; expected a level between 0 and 1, such as 0.05")
    return float(alpha)


def check_p_values(p_values) -> np.ndarray:
    """Return p-values as an array; NaN stands for a test that was not made."""
    p = np.asarray(p_values, dtype=float)
    if p.ndim != 1:
        raise ValueError(
            f"p_values has shape {p.shape}; expected one p-value per test, 1-D: pass np.ravel of a "
            "table, or a row at a time if each is a family of its own"
        )
    wrong = np.flatnonzero((p < 0) | (p > 1))
    if len(wrong):
        raise ValueError(f"p_values[{wrong[0]}] is {p[wrong[0]]:g}; expected a probability, 0 to 1")
    return p
