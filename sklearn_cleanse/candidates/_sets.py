"""What candidate sets say by themselves: counts, bounds, proportions, restriction."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning

from ._matrix import check_sparse_format


def is_clean(candidates: sp.csr_array) -> np.ndarray:
    """Return which samples are clean, that is, have a single candidate.

    Parameters
    ----------
    candidates : csr_array of shape (n_samples, n_classes), dtype bool
        What `check_candidates` returns.

    Returns
    -------
    clean : ndarray of shape (n_samples,), dtype bool

    Examples
    --------
    >>> from sklearn_cleanse.candidates import check_candidates, is_clean
    >>> is_clean(check_candidates([{"cat", "dog"}, {"cat"}])[1])
    array([False,  True])
    """
    return np.diff(candidates.indptr) == 1


def candidate_counts(candidates: sp.csr_array) -> tuple[np.ndarray, np.ndarray]:
    """Count clean samples and candidates of each class: the bounds of equation (9).

    Parameters
    ----------
    candidates : csr_array of shape (n_samples, n_classes), dtype bool
        What `check_candidates` returns.

    Returns
    -------
    lower : ndarray of shape (n_classes,)
        Samples whose only candidate is the class: the class occurs at least so often.
    upper : ndarray of shape (n_classes,)
        Samples that have the class among their candidates: it occurs at most so often.

    Examples
    --------
    >>> from sklearn_cleanse.candidates import candidate_counts, check_candidates
    >>> candidate_counts(check_candidates([{"cat", "dog"}, {"cat"}])[1])
    (array([1, 0]), array([2, 1]))
    """
    n_classes = candidates.shape[1]
    lower = np.bincount(candidates[is_clean(candidates)].indices, minlength=n_classes)
    return lower, np.bincount(candidates.indices, minlength=n_classes)


def estimate_proportions(candidates: Any, *, max_iter: int = 2000, tol: float = 1e-7) -> np.ndarray:
    """Estimate class proportions from candidate sets alone.

    Maximises ``sum_i log sum_{j in S_i} pi_j`` over the simplex, by expectation maximisation:
    each row spreads one vote over its candidates in the present proportions. This is the maximum
    likelihood if a candidate set is equally likely under each of its labels, as when distractors
    are drawn without regard to the true label. Where distractors depend on the label, as in real
    data, it is biased towards frequent candidates, and splitting each row evenly over its
    candidates can be closer. The objective is concave; where it has several maxima (labels that
    always occur together) the mass is shared.

    Parameters
    ----------
    candidates : sparse array, or ndarray, of shape (n, m)
        Nonzero where a label is a candidate of a row.
    max_iter : int, default=2000
        Most iterations; reaching them gives a ConvergenceWarning.
    tol : float, default=1e-7
        Stop when no proportion moves by more.

    Returns
    -------
    ndarray of shape (m,)
        Non-negative, summing to one; zero for labels no row has.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_cleanse.candidates import estimate_proportions
    >>> estimate_proportions(np.array([[1, 0, 0], [1, 1, 0], [0, 1, 1], [0, 1, 0]])).round(3)
    array([0.333, 0.667, 0.   ])
    """
    if sp.issparse(candidates):
        check_sparse_format(candidates, "candidates")
    sets = sp.csr_array(candidates, dtype=np.float64)
    sets.data = (sets.data != 0).astype(np.float64)
    sets.eliminate_zeros()
    n, m = sets.shape
    empty = np.flatnonzero(np.diff(sets.indptr) == 0)
    if n == 0 or len(empty):
        what = f"row {empty[0]} has no candidate label" if n else "there are no rows"
        raise ValueError(f"{what}; every sample needs at least one candidate")
    votes = sets.T.tocsr()
    pi = np.full(m, 1.0 / m)
    for _ in range(max_iter):
        previous, pi = pi, pi * (votes @ (1.0 / (sets @ pi))) / n
        if np.abs(pi - previous).max() <= tol:
            break
    else:
        warnings.warn(
            f"the proportions had not settled to tol={tol} after max_iter={max_iter} iterations; "
            "raise one of the two",
            ConvergenceWarning,
            stacklevel=2,
        )
    return np.asarray(pi / pi.sum())


def covers(candidates: sp.csr_array, columns: np.ndarray) -> np.ndarray:
    """Return which predictions lie inside the candidate sets.

    Parameters
    ----------
    candidates : csr_array of shape (n_samples, n_classes), dtype bool
        What `check_candidates` returns.
    columns : ndarray of shape (n_samples,), dtype int
        The column of the class predicted for each sample.

    Returns
    -------
    covered : ndarray of shape (n_samples,), dtype bool

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_cleanse.candidates import check_candidates, covers
    >>> covers(check_candidates([{"cat", "dog"}, {"cat"}])[1], np.array([1, 1]))
    array([ True, False])
    """
    columns = np.array(columns)  # a copy: numpy 1 refuses to index by memory that torch owns
    return np.asarray(candidates[np.arange(len(columns)), columns]).ravel()


def candidate_softmax(log_proba: np.ndarray, candidates: sp.csr_array) -> sp.csr_array:
    """Restrict log-probabilities to the candidates and normalise each row.

    Parameters
    ----------
    log_proba : ndarray of shape (n_samples, n_classes)
        Log-probabilities, up to a constant per row; -inf is allowed.
    candidates : csr_array of shape (n_samples, n_classes), dtype bool
        What `check_candidates` returns.

    Returns
    -------
    proba : csr_array of shape (n_samples, n_classes)
        Zero outside the candidates; each row sums to one. A row whose candidates all have
        log-probability -inf is spread evenly.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_cleanse.candidates import candidate_softmax, check_candidates
    >>> log_proba = np.log([[0.2, 0.2, 0.6], [0.1, 0.1, 0.8]])
    >>> _, candidates = check_candidates([[1, 1, 0], [1, 0, 1]])
    >>> candidate_softmax(log_proba, candidates).toarray().round(3)
    array([[0.5  , 0.5  , 0.   ],
           [0.111, 0.   , 0.889]])
    """
    weight, total, _ = _exponentials(log_proba, candidates)
    values = weight / np.repeat(total, np.diff(candidates.indptr))
    return sp.csr_array((values, candidates.indices, candidates.indptr), shape=candidates.shape)


def candidate_log_mass(log_proba: np.ndarray, candidates: sp.csr_array) -> np.ndarray:
    """Return the logarithm of the probability that each row gives to its candidates, shape (n,)."""
    _, total, top = _exponentials(log_proba, candidates)
    return np.log(total) + top


def _exponentials(
    log_proba: np.ndarray, candidates: sp.csr_array
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return exp(log_proba - top) per candidate, its sum per row, and each row's maximum, top.

    Where all of a row is -inf, the exponentials are ones.
    """
    starts, counts = candidates.indptr[:-1], np.diff(candidates.indptr)
    rows = np.repeat(np.arange(len(counts)), counts)
    values = np.asarray(log_proba)[rows, candidates.indices].astype(float)
    top = np.maximum.reduceat(values, starts)
    lost = np.isneginf(top)
    values = np.where(lost[rows], 0.0, values)
    weight = np.exp(values - np.where(lost, 0.0, top)[rows])
    return weight, np.add.reduceat(weight, starts), top
