"""Compare methods over data sets: ranks, Friedman's test and the tests that follow it.

Scores come as a matrix with a row per data set and a column per method; higher is better. The tests
are those of J. Demšar, Statistical comparisons of classifiers over multiple data sets, JMLR 7
(2006). They need many data sets: `separation_note` returns a warning if there are too few.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats

__all__ = [
    "FriedmanResult",
    "corrected_interval",
    "critical_difference",
    "friedman_from_ranks",
    "friedman_test",
    "holm",
    "rank_methods",
    "separation_note",
    "win_tie_loss",
]


def rank_methods(scores: Any, *, missing: str = "error") -> np.ndarray:
    """Rank the methods on each data set; equal scores share the mean of their ranks.

    Parameters
    ----------
    scores : array-like of shape (n_datasets, n_methods)
        Scores, higher being better. NaN stands for a method that was not run.
    missing : {"error", "worst"}, default="error"
        Whether NaN raises, or shares the worst ranks of its row.

    Returns
    -------
    ranks : ndarray of shape (n_datasets, n_methods)
        1 is the best; each row sums to ``n_methods * (n_methods + 1) / 2``.

    Examples
    --------
    >>> from sklearn_cleanse.comparison import rank_methods
    >>> rank_methods([[0.9, 0.8, 0.8], [0.7, 0.6, 0.5]])
    array([[1. , 2.5, 2.5],
           [1. , 2. , 3. ]])
    """
    scores = np.asarray(scores, dtype=float)
    valid = scores.ndim == 2 and scores.shape[1] > 1 and len(scores) > 0
    _require(valid, f"`scores` must be data sets × methods, got shape {scores.shape}.")
    known = missing in ("error", "worst")
    _require(known, f'`missing` must be "error" or "worst", got {missing!r}.')
    for row, column in np.argwhere(np.isnan(scores))[: missing == "error"]:
        found = f"`scores` must be numbers, got nan in row {row}, column {column}."
        raise ValueError(f'{found} Leave the row out, or pass missing="worst".')
    return np.asarray(stats.rankdata(-np.where(np.isnan(scores), -np.inf, scores), axis=1))


@dataclass(frozen=True)
class FriedmanResult:
    """Result of Friedman's test.

    Attributes
    ----------
    average_ranks : ndarray of shape (n_methods,)
        The mean rank of each method.
    n_datasets : int
        Number of data sets.
    chi2, chi2_p_value : float
        Friedman's statistic and its p-value (chi-squared, n_methods − 1 degrees of freedom).
    f_statistic, p_value : float
        The statistic of Iman and Davenport [F_F] and its p-value; less conservative.
    critical_value : float
        The methods differ at the level of the test if ``f_statistic`` exceeds this value.
    """

    average_ranks: np.ndarray
    n_datasets: int
    chi2: float
    chi2_p_value: float
    f_statistic: float
    p_value: float
    critical_value: float

    @property
    def significant(self) -> bool:
        """Whether the methods differ."""
        return self.f_statistic > self.critical_value


def friedman_test(scores: Any, *, alpha: float = 0.05, missing: str = "error") -> FriedmanResult:
    """Test whether methods differ over data sets.

    Parameters
    ----------
    scores : array-like of shape (n_datasets, n_methods)
        Scores of at least three methods, higher being better.
    alpha : float, default=0.05
        Level of significance.
    missing : {"error", "worst"}, default="error"
        What to do with NaN; see `rank_methods`.

    Returns
    -------
    result : FriedmanResult
        By `scipy.stats.friedmanchisquare`, corrected for ties.

    Examples
    --------
    >>> from sklearn_cleanse.comparison import friedman_test
    >>> result = friedman_test([[0.9, 0.8, 0.7], [0.8, 0.6, 0.5], [0.7, 0.5, 0.6]])
    >>> round(result.chi2, 2), round(result.f_statistic, 2), result.significant
    (4.67, 7.0, True)
    """
    ranks = rank_methods(scores, missing=missing)
    _require(ranks.shape[1] > 2, "`scores` must have at least three columns, got 2.")
    # Where all methods tie everywhere, the correction for ties divides by zero.
    chi2 = stats.friedmanchisquare(*ranks.T).statistic if np.ptp(ranks) else 0.0
    return _friedman(ranks.mean(axis=0), len(ranks), alpha, chi2)


def friedman_from_ranks(average_ranks: Any, n_datasets: int, alpha: float = 0.05) -> FriedmanResult:
    """Test whether methods differ, given their average ranks, as papers print them.

    Parameters
    ----------
    average_ranks : array-like of shape (n_methods,)
        The mean rank of each method. Up to rounding, they must be those of some table of scores.
    n_datasets : int
        Number of data sets that the ranks are averaged over.
    alpha : float, default=0.05
        Level of significance.

    Returns
    -------
    result : FriedmanResult
        Without a correction for ties, which averages do not show.

    Examples
    --------
    >>> from sklearn_cleanse.comparison import friedman_from_ranks
    >>> result = friedman_from_ranks([3.143, 2.0, 2.893, 1.964], 14)
    >>> round(result.f_statistic, 2), result.significant  # Demšar's example, which has ties
    (3.69, True)
    """
    ranks = check_average_ranks(average_ranks)
    k = len(ranks)
    chi2 = 12 * n_datasets / (k * (k + 1)) * ((ranks**2).sum() - k * (k + 1) ** 2 / 4)
    return _friedman(ranks, n_datasets, alpha, max(0.0, chi2))


def _friedman(ranks: np.ndarray, n: int, alpha: float, chi2: float) -> FriedmanResult:
    _require(n > 1, f"Friedman's test needs at least two data sets, got {n}.")
    _require(0 < alpha < 1, f"`alpha` must lie between 0 and 1, got {alpha!r}.")
    k = len(ranks)
    rest = n * (k - 1) - chi2
    f = (n - 1) * chi2 / rest if rest > 1e-9 * n else np.inf
    chi2_test, f_test = stats.chi2(k - 1), stats.f(k - 1, (k - 1) * (n - 1))
    found = (chi2, chi2_test.sf(chi2), f, f_test.sf(f), f_test.isf(alpha))
    return FriedmanResult(ranks, int(n), *map(float, found))


def critical_difference(
    n_methods: int, n_datasets: int, *, test: str = "nemenyi", alpha: float = 0.05
) -> float:
    """Compute how far apart two average ranks must be for the methods to differ.

    Parameters
    ----------
    n_methods : int
        Number of methods compared.
    n_datasets : int
        Number of data sets.
    test : {"nemenyi", "bonferroni-dunn"}, default="nemenyi"
        "nemenyi" compares all pairs; "bonferroni-dunn" one method, the control, with all others.
    alpha : float, default=0.05
        Level of significance, for all the comparisons together.

    Returns
    -------
    difference : float
        The critical difference [CD].

    Examples
    --------
    >>> from sklearn_cleanse.comparison import critical_difference
    >>> round(critical_difference(8, 25, test="bonferroni-dunn"), 3)
    1.864
    """
    tests = ("nemenyi", "bonferroni-dunn")  # the latter is in no library that we depend on
    _require(test in tests, f"`test` must be one of {tests}, got {test!r}.")
    _require(n_methods > 1, f"`n_methods` must be at least 2, got {n_methods!r}.")
    _require(n_datasets > 0, f"`n_datasets` must be at least 1, got {n_datasets!r}.")
    _require(0 < alpha < 1, f"`alpha` must lie between 0 and 1, got {alpha!r}.")
    if test == "nemenyi":
        q = stats.studentized_range.isf(alpha, n_methods, np.inf) / np.sqrt(2)
    else:
        q = stats.norm.isf(alpha / (2 * (n_methods - 1)))
    return float(q * np.sqrt(n_methods * (n_methods + 1) / (6 * n_datasets)))


def separation_note(n_methods: int, n_datasets: int, difference: float) -> str:
    """Return a warning if there are too few data sets to separate the methods.

    Parameters
    ----------
    n_methods, n_datasets : int
        Number of methods and of data sets.
    difference : float
        The `critical_difference` of the test to be used.

    Returns
    -------
    note : str
        A sentence if the critical difference is more than half the range of ranks; else empty.

    Examples
    --------
    >>> from sklearn_cleanse.comparison import critical_difference, separation_note
    >>> print(separation_note(8, 5, critical_difference(8, 5, test="bonferroni-dunn")))
    Too few data sets: 8 methods on 5 data sets differ if they are 4.17 of 7 ranks apart; use 8 ...
    """
    span = n_methods - 1
    needed = int(np.ceil(n_datasets * (2 * difference / span) ** 2))
    note = (
        f"Too few data sets: {n_methods} methods on {n_datasets} data sets differ if they are "
        f"{difference:.2f} of {span} ranks apart; use {needed} or more."
    )
    return note if difference > span / 2 else ""


def holm(p_values: Any) -> np.ndarray:
    """Adjust p-values for their number by Holm's step-down method.

    Parameters
    ----------
    p_values : array-like of shape (n_tests,)
        The p-values; NaN stays NaN and does not count.

    Returns
    -------
    adjusted : ndarray of shape (n_tests,)
        If those below alpha are rejected, the probability of any wrong rejection is at most alpha.

    Examples
    --------
    >>> from sklearn_cleanse.comparison import holm
    >>> holm([0.01, 0.04, 0.03])
    array([0.03, 0.06, 0.06])
    """
    p = np.asarray(p_values, dtype=float)
    valid = p.ndim == 1 and not ((p < 0) | (p > 1)).any()
    _require(valid, f"`p_values` must be 1-D and between 0 and 1, got {p.tolist()}.")
    order = np.argsort(p)  # NaN last
    steps = p[order] * ((~np.isnan(p)).sum() - np.arange(len(p)))
    return np.minimum(1.0, np.maximum.accumulate(steps))[np.argsort(order)]


def corrected_interval(
    differences: Any, test_fraction: float = 0.0, *, confidence: float = 0.95
) -> tuple[float, float]:
    """Compute a t interval for the mean of paired differences over overlapping splits.

    Random splits share training rows, so that their scores are not independent. The correction
    enlarges the variance accordingly (C. Nadeau and Y. Bengio, Inference for the generalization
    error, Machine Learning 52, 2003).

    Parameters
    ----------
    differences : array-like of shape (n_splits,)
        Score of one method minus score of the other, on each split.
    test_fraction : float in [0, 1), default=0.0
        Proportion of rows tested on, such as 0.1 for splits of 90/10 and for 10 folds. 0 gives the
        plain t interval, for trials that are independent.
    confidence : float in (0, 1), default=0.95
        Level of confidence.

    Returns
    -------
    low, high : float
        The methods differ at the level ``1 - confidence`` if 0 lies outside.

    Examples
    --------
    >>> from sklearn_cleanse.comparison import corrected_interval
    >>> low, high = corrected_interval([0.02, 0.03, 0.01, 0.02, 0.04], test_fraction=0.2)
    >>> round(low, 4), round(high, 4)
    (0.0028, 0.0452)
    """
    values = np.asarray(differences, dtype=float)
    n, valid = values.size, values.ndim == 1 and values.size > 1 and np.isfinite(values).all()
    _require(valid, f"`differences` must be at least two finite numbers, got {values.tolist()}.")
    _require(0 <= test_fraction < 1, f"`test_fraction` must lie in [0, 1), got {test_fraction!r}.")
    _require(0 < confidence < 1, f"`confidence` must lie between 0 and 1, got {confidence!r}.")
    variance = (1 / n + test_fraction / (1 - test_fraction)) * values.var(ddof=1)
    reach = stats.t.isf((1 - confidence) / 2, n - 1) * np.sqrt(variance)
    return float(values.mean() - reach), float(values.mean() + reach)


def win_tie_loss(
    scores: Any, control: int = 0, *, alpha: float = 0.05, test_fraction: float = 0.0
) -> np.ndarray:
    """Count wins, ties and losses of a control over data sets, by paired t-tests.

    Parameters
    ----------
    scores : array-like of shape (n_datasets, n_methods, n_trials)
        Scores of the same trials (splits) for all methods. NaN leaves a trial out.
    control : int, default=0
        Position of the control among the methods.
    alpha : float, default=0.05
        Level of significance of each test; a difference that is not significant is a tie.
    test_fraction : float in [0, 1), default=0.0
        Proportion of rows tested on, for `corrected_interval`. 0 gives the plain t-test, as most
        papers have it.

    Returns
    -------
    counts : ndarray of shape (n_methods, 3), dtype int
        Wins, ties and losses of the control against each method; zeros for the control itself.
        Data sets with fewer than two common trials are not counted.

    Examples
    --------
    >>> from sklearn_cleanse.comparison import win_tie_loss
    >>> win_tie_loss([[[0.9, 0.8, 0.9], [0.5, 0.4, 0.6]], [[0.7, 0.8, 0.9], [0.8, 0.7, 0.9]]])
    array([[0, 0, 0],
           [1, 1, 0]])
    """
    scores = np.asarray(scores, dtype=float)
    _require(scores.ndim == 3, f"`scores` must have three dimensions, got shape {scores.shape}.")
    counts = np.zeros((scores.shape[1], 3), dtype=int)
    for dataset in scores:
        for other, difference in enumerate(dataset[control] - dataset):
            difference = difference[~np.isnan(difference)]
            if len(difference) > 1:
                low, high = corrected_interval(difference, test_fraction, confidence=1 - alpha)
                counts[other, 0 if low > 0 else 2 if high < 0 else 1] += 1
    counts[control] = 0
    return counts


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise ValueError(message)


def check_average_ranks(average_ranks: Any) -> np.ndarray:
    """Return average ranks that some table of scores can have, up to rounding."""
    ranks = np.asarray(average_ranks, dtype=float)
    k = ranks.size
    in_range = k > 0 and 0.99 <= ranks.min() <= ranks.max() <= k + 0.01
    valid = ranks.ndim == 1 and in_range and abs(ranks.sum() - k * (k + 1) / 2) <= 0.01 * k
    _require(valid, f"`average_ranks` must average ranks 1 to {k}, got {ranks.tolist()}.")
    return ranks
