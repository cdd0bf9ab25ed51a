"""Ranks, and tests whether they differ."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import stats

from ._checks import check_alpha, check_average_ranks, check_control, check_p_values, check_scores


def rank_methods(scores, *, missing="error") -> np.ndarray:
    """Rank the methods on each data set; equal scores share the mean of their ranks.

    Parameters
    ----------
    scores : array-like of shape (n_datasets, n_methods)
        Scores, higher being better. NaN stands for a method that was not run.
    missing : {"error", "worst"}, default="error"
        Whether NaN is refused, or shares the worst ranks of its row.

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
    if missing not in ("error", "worst"):
        raise ValueError(f'missing is {missing!r}; expected "error" or "worst"')
    remedy = 'leave the row out, or pass missing="worst"' if missing == "error" else None
    scores = check_scores(scores, nan_remedy=remedy)
    return stats.rankdata(-np.where(np.isnan(scores), -np.inf, scores), axis=1)


@dataclass(frozen=True)
class FriedmanResult:
    """What Friedman's test found.

    Attributes
    ----------
    average_ranks : ndarray of shape (n_methods,)
        The mean rank of each method.
    n_datasets : int
        Data sets.
    alpha : float
        Level of significance.
    chi2, chi2_p_value : float
        Friedman's statistic and its p-value (chi-squared, n_methods − 1 degrees of freedom).
    f_statistic, p_value : float
        The statistic of Iman and Davenport [F_F] and its p-value; less conservative.
    critical_value : float
        What ``f_statistic`` must exceed.
    """

    average_ranks: np.ndarray
    n_datasets: int
    alpha: float
    chi2: float
    chi2_p_value: float
    f_statistic: float
    p_value: float
    critical_value: float

    @property
    def significant(self) -> bool:
        """Whether the methods differ at the level ``alpha``."""
        return self.f_statistic > self.critical_value

    @property
    def note(self) -> str:
        """What the number of data sets allows to be found afterwards; empty if it is enough."""
        return separation_note(len(self.average_ranks), self.n_datasets, alpha=self.alpha)

    def __str__(self) -> str:
        verdict = "the methods differ" if self.significant else "no difference shown"
        text = (
            f"Friedman: {len(self.average_ranks)} methods, {self.n_datasets} data sets: "
            f"chi2 = {self.chi2:.2f} (p = {self.chi2_p_value:.3g}), "
            f"F_F = {self.f_statistic:.2f} (p = {self.p_value:.3g}), "
            f"critical value {self.critical_value:.2f} at {self.alpha:g}"
        )
        # Too few data sets to tell methods apart are too few for a verdict.
        return f"{text}\n{self.note}" if self.note else f"{text}: {verdict}"


def friedman_from_ranks(average_ranks, n_datasets, *, alpha=0.05) -> FriedmanResult:
    """Test whether methods differ, given their average ranks, as papers print them.

    Parameters
    ----------
    average_ranks : array-like of shape (n_methods,)
        The mean rank of each method. They must sum to ``n_methods * (n_methods + 1) / 2``, and the
        best ``j`` of them to no less than ``j * (j + 1) / 2``, up to rounding.
    n_datasets : int
        Data sets they were averaged over.
    alpha : float, default=0.05
        Level of significance.

    Returns
    -------
    result : FriedmanResult
        Without a correction for ties, of which averages know nothing.

    Examples
    --------
    >>> from sklearn_cleanse.comparison import friedman_from_ranks
    >>> result = friedman_from_ranks([3.143, 2.0, 2.893, 1.964], 14)
    >>> round(result.f_statistic, 2), result.significant  # Demšar's example, which has ties
    (3.69, True)
    """
    return _friedman(check_average_ranks(average_ranks), int(n_datasets), alpha, 1.0)


def friedman_test(scores, *, alpha=0.05, missing="error") -> FriedmanResult:
    """Test whether methods differ over data sets.

    Parameters
    ----------
    scores : array-like of shape (n_datasets, n_methods)
        Scores, higher being better.
    alpha : float, default=0.05
        Level of significance.
    missing : {"error", "worst"}, default="error"
        What to do with NaN; see `rank_methods`.

    Returns
    -------
    result : FriedmanResult
        Corrected for ties.

    Examples
    --------
    >>> from sklearn_cleanse.comparison import friedman_test
    >>> print(friedman_test([[0.9, 0.8, 0.7], [0.8, 0.6, 0.5], [0.7, 0.6, 0.4], [0.6, 0.5, 0.2]]))
    Friedman: 3 methods, 4 data sets: chi2 = 8.00 (p = 0.0183), F_F = inf (p = 0), ...
    """
    ranks = rank_methods(scores, missing=missing)
    n, k = ranks.shape
    ties = sum(
        float((counts**3 - counts).sum())
        for counts in (np.unique(row, return_counts=True)[1] for row in ranks)
    )
    return _friedman(ranks.mean(axis=0), n, alpha, 1 - ties / (n * (k**3 - k)))


def _friedman(ranks: np.ndarray, n: int, alpha: float, correction: float) -> FriedmanResult:
    if n < 2:
        raise ValueError(f"n_datasets is {n}; at least two data sets are needed")
    k = len(ranks)
    chi2 = 12 * n / (k * (k + 1)) * float((ranks**2).sum() - k * (k + 1) ** 2 / 4)
    chi2 = max(0.0, chi2 / correction) if correction else 0.0  # no correction left: all tie
    rest = n * (k - 1) - chi2
    f = (n - 1) * chi2 / rest if rest > 1e-9 * n else np.inf
    freedom = (k - 1, (k - 1) * (n - 1))
    return FriedmanResult(
        average_ranks=ranks,
        n_datasets=n,
        alpha=check_alpha(alpha),
        chi2=chi2,
        chi2_p_value=float(stats.chi2.sf(chi2, k - 1)),
        f_statistic=float(f),
        p_value=float(stats.f.sf(f, *freedom)),
        critical_value=float(stats.f.isf(alpha, *freedom)),
    )


def critical_difference(n_methods, n_datasets, *, test="nemenyi", alpha=0.05) -> float:
    """Compute how far apart two average ranks must be for the methods to differ.

    Parameters
    ----------
    n_methods : int
        Methods compared.
    n_datasets : int
        Data sets.
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
    if n_methods < 2 or n_datasets < 1:
        raise ValueError(
            f"n_methods={n_methods} and n_datasets={n_datasets}; at least two methods and one data "
            "set are needed"
        )
    alpha = check_alpha(alpha)
    if test == "nemenyi":
        q = stats.studentized_range.isf(alpha, n_methods, np.inf) / np.sqrt(2)
    elif test == "bonferroni-dunn":
        q = stats.norm.isf(alpha / (2 * (n_methods - 1)))
    else:
        raise ValueError(f'test is {test!r}; expected "nemenyi" or "bonferroni-dunn"')
    return float(q * np.sqrt(n_methods * (n_methods + 1) / (6 * n_datasets)))


def separation_note(n_methods, n_datasets, *, test="bonferroni-dunn", alpha=0.05) -> str:
    """Return a warning if there are too few data sets to separate the methods.

    Parameters
    ----------
    n_methods, n_datasets : int
        Methods and data sets.
    test : {"nemenyi", "bonferroni-dunn"}, default="bonferroni-dunn"
        The test to be used.
    alpha : float, default=0.05
        Level of significance.

    Returns
    -------
    note : str
        A sentence where the critical difference is more than half the range of ranks; else empty.

    Examples
    --------
    >>> from sklearn_cleanse.comparison import separation_note
    >>> print(separation_note(8, 5))
    Too few data sets: with 5 of them, 8 methods must be 4.17 of 7 ranks apart to differ; ...
    """
    difference = critical_difference(n_methods, n_datasets, test=test, alpha=alpha)
    span = n_methods - 1
    if difference <= span / 2:
        return ""
    if difference > span:
        least = int(np.ceil(n_datasets * (difference / span) ** 2))
        return (
            f"Too few data sets: with {n_datasets} of them, no difference between {n_methods} "
            f"methods can be shown (it would take {difference:.2f} of {span} ranks); {least} or "
            "more are needed."
        )
    enough = int(np.ceil(n_datasets * (2 * difference / span) ** 2))
    return (
        f"Too few data sets: with {n_datasets} of them, {n_methods} methods must be "
        f"{difference:.2f} of {span} ranks apart to differ; take {enough} or more."
    )


def holm(p_values) -> np.ndarray:
    """Adjust p-values for their number by Holm's step-down method.

    Parameters
    ----------
    p_values : array-like of shape (n_tests,)
        The p-values; NaN stays NaN and does not count.

    Returns
    -------
    adjusted : ndarray of shape (n_tests,)
        Reject those below alpha: the chance of any wrong rejection is then at most alpha.

    Examples
    --------
    >>> from sklearn_cleanse.comparison import holm
    >>> holm([0.01, 0.04, 0.03])
    array([0.03, 0.06, 0.06])
    """
    p = check_p_values(p_values)
    adjusted = np.full(p.shape, np.nan)
    known = np.flatnonzero(~np.isnan(p))
    order = known[np.argsort(p[known], kind="stable")]
    steps = p[order] * np.arange(len(order), 0, -1)
    adjusted[order] = np.minimum(1.0, np.maximum.accumulate(steps))
    return adjusted


@dataclass(frozen=True)
class WilcoxonResult:
    """Signed-rank tests of a control against the other methods.

    Attributes
    ----------
    control : int
        Column of the control.
    p_values, adjusted : ndarray of shape (n_methods,)
        The p-value against each method, as it is and adjusted by `holm`; NaN for the control.
    alpha : float
        Level of significance.
    note : str
        Says so if there are too few data sets for any of them to be significant.
    """

    control: int
    p_values: np.ndarray
    adjusted: np.ndarray
    alpha: float
    note: str

    @property
    def significant(self) -> np.ndarray:
        """Which methods differ from the control at the level ``alpha``."""
        return self.adjusted < self.alpha


def wilcoxon_holm(scores, control=0, *, alpha=0.05) -> WilcoxonResult:
    """Compare a control with each other method by Wilcoxon's signed-rank test over data sets.

    Parameters
    ----------
    scores : array-like of shape (n_datasets, n_methods)
        Scores.
    control : int, default=0
        Column of the control.
    alpha : float, default=0.05
        Level of significance, for all the comparisons together (Holm).

    Returns
    -------
    result : WilcoxonResult
        Two-sided. Data sets on which both have the same score are split evenly between the two
        sides, as Demšar advises.

    Examples
    --------
    >>> from sklearn_cleanse.comparison import wilcoxon_holm
    >>> result = wilcoxon_holm([[0.9, 0.8], [0.8, 0.6], [0.7, 0.4], [0.6, 0.2], [0.9, 0.1]])
    >>> float(result.adjusted[1])
    0.0625
    >>> print(result.note)
    Too few data sets: with 5 of them the smallest p-value possible, 0.0625, ...
    """
    scores = check_scores(scores, nan_remedy="leave the row out")
    n, k = scores.shape
    control, alpha = check_control(control, k), check_alpha(alpha)
    p = np.full(k, np.nan)
    for other in range(k):
        if other != control:
            difference = scores[:, control] - scores[:, other]
            p[other] = (
                stats.wilcoxon(difference, zero_method="zsplit").pvalue if difference.any() else 1.0
            )
    smallest = min(1.0, 2.0 ** (1 - n))
    note = ""
    if smallest * (k - 1) >= alpha:
        note = (
            f"Too few data sets: with {n} of them the smallest p-value possible, {smallest:.3g}, "
            f"times {k - 1} for as many comparisons, is not below {alpha:g}."
        )
    return WilcoxonResult(control, p, holm(p), alpha, note)


def win_tie_loss(scores, control=0, *, alpha=0.05, test_share=None) -> np.ndarray:
    """Count on how many data sets a control is better, level or worse, by paired t-tests.

    Parameters
    ----------
    scores : array-like of shape (n_datasets, n_methods, n_trials)
        Scores of the same trials (splits) for all methods. NaN leaves a trial out.
    control : int, default=0
        Position of the control among the methods.
    alpha : float, default=0.05
        Level of significance of each test; one that is not significant is a tie.
    test_share : float, default=None
        The share of rows tested on, 0.1 for splits of 90/10. If given, the variance is enlarged by
        it, after Nadeau and Bengio (2003), as random splits share training rows and so are not
        independent. If None, the plain t-test, as most papers have it.

    Returns
    -------
    counts : ndarray of shape (n_methods, 3), dtype int
        Wins, ties and losses of the control against each method; zeros for the control itself,
        and data sets with fewer than two common trials are not counted.

    Examples
    --------
    >>> from sklearn_cleanse.comparison import win_tie_loss
    >>> win_tie_loss([[[0.9, 0.8, 0.9], [0.5, 0.4, 0.6]], [[0.7, 0.8, 0.9], [0.8, 0.7, 0.9]]])
    array([[0, 0, 0],
           [1, 1, 0]])
    """
    scores = np.asarray(scores, dtype=float)
    if scores.ndim != 3:
        raise ValueError(f"scores have shape {scores.shape}; expected data sets × methods × trials")
    if test_share is not None and not 0 < test_share < 1:
        raise ValueError(f"test_share is {test_share!r}; expected a share between 0 and 1")
    control, alpha = check_control(control, scores.shape[1]), check_alpha(alpha)
    extra = 0.0 if test_share is None else test_share / (1 - test_share)
    counts = np.zeros((scores.shape[1], 3), dtype=int)
    for other in range(scores.shape[1]):
        if other == control:
            continue
        for dataset in scores:
            difference = dataset[control] - dataset[other]
            difference = difference[~np.isnan(difference)]
            n = len(difference)
            if n < 2:
                continue
            mean = difference.mean()
            error = np.sqrt((1 / n + extra) * difference.var(ddof=1))
            if error <= 1e-12 * abs(mean):  # the same difference in every trial
                p = 0.0 if mean else 1.0
            else:
                p = 2 * stats.t.sf(abs(mean) / error, n - 1)
            counts[other, 1 if p >= alpha else 0 if mean > 0 else 2] += 1
    return counts
