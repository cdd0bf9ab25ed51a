"""Probabilities and prediction sets from candidates alone.

A temperature makes the candidate sets of rows likeliest that had no part in their own scores. No
true label is needed. Where sets depend on the features, candidates alone cannot separate a label
from those that resemble it: probabilities are then drawn towards even ones.
"""

from typing import Any

import numpy as np
from scipy.optimize import brentq, minimize_scalar
from scipy.special import log_softmax, softmax

from .base import PartialLabelMixin

__all__ = [
    "PredictionSetMixin",
    "calibrate",
    "calibrate_like",
    "least_probability",
    "match_confidence",
    "temper",
    "weigh_dependence",
]

#: Fewest scored rows that a temperature is fitted to.
LEAST_ROWS = 30

#: Dependence from which labels that resemble the true one count in full, and their part in the
#: weights of prediction sets. Chosen on controlled sets.
_DEPENDENT, _EVEN_PART = 0.2, 0.25

#: Smallest and largest power of probabilities that is tried, as exponents of two.
_POWERS = (-4.0, 4.0)


def calibrate(
    proba: np.ndarray, prior: np.ndarray, dependence: float = 0.0, noise_rate: float = 0.0
) -> tuple[float, np.ndarray, np.ndarray]:
    """Calibrate probabilities of rows whose candidates had no part in them, by these candidates.

    Parameters
    ----------
    proba : ndarray of shape (n_samples, n_classes)
        Probabilities above zero.
    prior : ndarray of shape (n_samples, n_classes)
        Prior weights of the candidates: zero outside; rows sum to one.
    dependence : float, default=0.0
        From 0 to 1: how far the sets depend on features; see `weigh_dependence`.
    noise_rate : float, default=0.0
        Proportion of rows whose label is outside their candidates.

    Returns
    -------
    temperature : float
        1 if there are fewer than 30 rows.
    proba : ndarray of shape (n_samples, n_classes)
        The probabilities at that temperature.
    weights : ndarray of shape (n_samples, n_classes)
        How likely each label is the true one, candidates included; rows sum to one.
    """
    likelihood, log_proba = set_likelihood(prior, noise_rate), np.log(proba)

    def loss(power: float) -> float:
        given = softmax(2**power * log_proba, axis=1)
        return -float(np.log((given * likelihood).sum(axis=1) + 1e-300).sum())

    temperature = 1.0
    if len(proba) >= LEAST_ROWS:
        found = minimize_scalar(loss, bounds=_POWERS, method="bounded", options={"xatol": 1e-8})
        temperature = float((1 + dependence) * 2**-found.x)
    proba = np.exp(temper(log_proba, temperature))
    given, part = proba * likelihood, _EVEN_PART * dependence
    given, even = (w / w.sum(axis=1, keepdims=True) for w in (given, likelihood))
    return temperature, proba, (1 - part) * given + part * even


def weigh_dependence(dependence: float) -> float:
    """Return how much labels that resemble the true one count, from 0 to 1."""
    return min(max(dependence, 0.0) / _DEPENDENT, 1.0)


def set_likelihood(prior: np.ndarray, noise_rate: float) -> np.ndarray:
    """Return how likely each row's set is under each label, up to a factor per row."""
    size: np.ndarray = (prior > 0).sum(axis=1, keepdims=True)
    outside: np.ndarray = noise_rate * size / np.maximum(prior.shape[1] - size, 1)
    return np.where(prior > 0, (1 - noise_rate) * size * prior.astype(np.float64), outside)


def temper(log_proba: np.ndarray, temperature: float) -> np.ndarray:
    """Divide log-probabilities by a temperature and normalize each row."""
    return np.asarray(log_softmax(log_proba / temperature, axis=1))


def match_confidence(log_proba: np.ndarray, confidence: np.ndarray) -> float:
    """Find the temperature at which the mean probability of predictions is a given one.

    Parameters
    ----------
    log_proba : ndarray of shape (n_samples, n_classes)
        Log-probabilities.
    confidence : ndarray of shape (n_samples,)
        Calibrated probabilities of predictions.

    Returns
    -------
    temperature : float
        From 1/16 to 16; 1 if there are fewer than 30 rows.
    """

    def excess(power: float) -> float:
        return float((softmax(2**power * log_proba, axis=1).max(axis=1) - confidence).mean())

    low, high = _POWERS
    if len(log_proba) < LEAST_ROWS:
        return 1.0
    if excess(low) >= 0 or excess(high) <= 0:
        return float(2 ** -(low if excess(low) >= 0 else high))
    return float(2 ** -brentq(excess, low, high))


def calibrate_like(
    voter: Any, log_proba: np.ndarray
) -> tuple[float, tuple[np.ndarray, np.ndarray, float] | None]:
    """Calibrate a network by its fitted kernel voter.

    Parameters
    ----------
    voter : estimator or None
        With any other voter than `CleanSEKernelClassifier`, the temperature is 1.
    log_proba : ndarray of shape (n_samples, n_classes)
        Log-probabilities of the voter's training rows.

    Returns
    -------
    temperature : float
        1 without a kernel voter.
    scored : tuple or None
        For prediction sets: probabilities of rows, weights of their labels, and the dependence.
    """
    if not (isinstance(voter, PredictionSetMixin) and hasattr(voter, "_matched")):
        return 1.0, None
    (rows, confidence), (proba, weights, dependence) = voter._matched, voter._scored
    temperature = match_confidence(log_proba[rows], confidence)
    own = np.exp(temper(log_proba[rows], temperature))
    # Probabilities of rows trained on resemble those of new rows only if matched to the folds'.
    return temperature, ((1 - dependence) * proba + dependence * own, weights, dependence)


def least_probability(proba: np.ndarray, weights: np.ndarray, coverage: float) -> float:
    """Find the probability from which labels belong to a prediction set.

    Parameters
    ----------
    proba, weights : ndarray of shape (n_samples, n_classes)
        Probabilities of rows, and how likely each label is the true one.
    coverage : float in (0, 1)
        Proportion of the weight in the sets.

    Returns
    -------
    least : float
        0 if there are too few rows for the coverage, as in split conformal prediction.
    """
    needed = coverage * (len(proba) + 1)
    if needed > len(proba):
        return 0.0
    order = np.argsort(-proba, axis=None)
    inside = np.cumsum(weights.ravel()[order])
    place = np.searchsorted(inside, needed / len(proba) * inside[-1])
    return float(proba.ravel()[order[min(place, len(order) - 1)]])


class PredictionSetMixin(PartialLabelMixin):
    """Mixin for classifiers with ``_scored``: probabilities, weights and dependence, or None."""

    def _prior_odds(self) -> np.ndarray:
        # Probabilities that are evened out would let odds decide alone.
        dependence = self._scored[2] if self._scored else 0.0
        return np.asarray(super()._prior_odds() ** (1 / (1 + dependence)))

    def predict_set(self, X: Any, coverage: Any = 0.9) -> np.ndarray:
        """Return a set of labels per sample, about as many with the true one as requested.

        A set holds the labels whose probability reaches a threshold, which `fit` chooses without
        true labels.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features) or (n_samples, n_channels, ...)
            Samples.
        coverage : float in (0, 1), default=0.9
            Proportion of samples whose set is to contain the true label.

        Returns
        -------
        sets : ndarray of shape (n_samples, n_classes), dtype bool
            Columns in the order of ``classes_``; the matrix is itself a valid candidate matrix.
            Each set holds at least the predicted class. It holds all classes if the training rows
            are too few for the coverage.

        Notes
        -----
        The true label is in about ``coverage`` of the sets if new samples are like the training
        rows. This is not a guarantee, as no true label is known, and it does not hold for each
        class. Coverage can be ten points lower where wrong candidates depend on the features, and
        far lower where similar rows have the same set. It is also lower where true labels are not
        candidates and ``noise_rate`` is 0.
        """
        if not isinstance(coverage, (int, float, np.number)) or not 0 < coverage < 1:
            raise ValueError(f"`coverage` must be between 0 and 1, exclusive, got {coverage!r}.")
        new = self.predict_proba(X)
        if self._scored is None:
            raise ValueError(
                f"{type(self).__name__} must be fitted with a kernel voter for `predict_set`, got "
                f"voter={self.voter!r}. Fit CleanSEKernelClassifier, or CleanSEClassifier with "
                "voter='kernel' and `temperature` above 1, by `fit` and not `partial_fit`."
            )
        proba, weights, _ = self._scored
        if self.class_prior is not None:
            odds = self._prior_odds()
            proba, weights = proba * odds, weights * odds
            proba = proba / proba.sum(axis=1, keepdims=True)
        least = least_probability(proba, weights, float(coverage))
        return np.asarray(new >= np.minimum(least, new.max(axis=1, keepdims=True)))
