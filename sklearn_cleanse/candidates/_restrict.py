"""What candidate sets allow: restricted probabilities and class proportions."""

import warnings
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning

from ._read import check_candidates


def candidate_softmax(
    log_proba: np.ndarray, mask: np.ndarray, prior: np.ndarray | None = None
) -> np.ndarray:
    """Restrict log-probabilities to the candidates and normalize each row.

    Parameters
    ----------
    log_proba : ndarray of shape (n_samples, n_classes)
        Log-probabilities, up to a constant per row; -inf is allowed.
    mask : ndarray of shape (n_samples, n_classes), dtype bool
        True where a class is a candidate.
    prior : ndarray of shape (n_samples, n_classes), default=None
        Weights by which probabilities are multiplied. Even if None.

    Returns
    -------
    proba : ndarray of shape (n_samples, n_classes), dtype float64
        Zero outside the candidates; each row sums to one. A row whose candidates all have
        log-probability -inf gets its prior weights.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_cleanse.candidates import candidate_softmax
    >>> log_proba = np.log([[0.2, 0.2, 0.6], [0.1, 0.1, 0.8]])
    >>> candidate_softmax(log_proba, np.array([[True, True, False], [True, False, True]])).round(3)
    array([[0.5  , 0.5  , 0.   ],
           [0.111, 0.   , 0.889]])
    """
    values = np.where(mask, log_proba, -np.inf).astype(np.float64, copy=False)
    top = values.max(axis=1, keepdims=True)
    with np.errstate(invalid="ignore"):  # -inf minus -inf
        values = np.where(np.isneginf(top), mask, np.exp(values - top))
    if prior is not None:
        values *= prior
    return np.asarray(values / values.sum(axis=1, keepdims=True))


def estimate_proportions(candidates: Any, *, max_iter: int = 2000, tol: float = 1e-7) -> np.ndarray:
    """Estimate class proportions from candidate sets alone.

    Maximizes ``sum_i log sum_{j in S_i} pi_j`` over the simplex, by expectation maximization:
    each row spreads one vote over its candidates in the present proportions. This is the maximum
    likelihood if a candidate set is equally likely under each of its labels, as when wrong
    candidates are drawn without regard to the true label. Where wrong candidates depend on the
    label, as in real data, it is biased towards frequent candidates, and splitting each row evenly
    over its candidates can be closer. The objective is concave; where it has several maxima (labels
    that always occur together) the mass is shared.

    Parameters
    ----------
    candidates : Candidates, or any form that `check_candidates` takes
        Prior weights are not looked at.
    max_iter : int, default=2000
        Most iterations; reaching them gives a ConvergenceWarning.
    tol : float, default=1e-7
        Stop when no proportion moves by more.

    Returns
    -------
    proportions : ndarray of shape (n_classes,)
        Non-negative, summing to one; zero for labels that no row has.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_cleanse.candidates import estimate_proportions
    >>> estimate_proportions(np.array([[1, 0, 0], [1, 1, 0], [0, 1, 1], [0, 1, 0]])).round(3)
    array([0.333, 0.667, 0.   ])
    """
    # A row has a few candidates only, so that products with a sparse matrix are faster.
    sets = sp.csr_array(check_candidates(candidates).mask, dtype=np.float64)
    n_rows, n_classes = sets.shape
    votes = sets.T.tocsr()
    pi = np.full(n_classes, 1.0 / n_classes)
    for _ in range(max_iter):
        previous, pi = pi, pi * (votes @ (1.0 / (sets @ pi))) / n_rows
        if np.abs(pi - previous).max() <= tol:
            break
    else:
        message = f"Proportions moved by more than tol={tol} after max_iter={max_iter}. Raise one."
        warnings.warn(message, ConvergenceWarning, stacklevel=2)
    return np.asarray(pi / pi.sum())
