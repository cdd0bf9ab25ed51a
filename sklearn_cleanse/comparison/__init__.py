"""Comparing methods over data sets: ranks, Friedman's test and its followers.

Scores come as a matrix, a row per data set and a column per method, higher being better. The
tests are those of J. Demšar, Statistical comparisons of classifiers over multiple data sets, JMLR 7
(2006). They need many data sets: every result carries a ``note`` that says when there are too few.
"""

from ._ranks import (
    FriedmanResult,
    WilcoxonResult,
    critical_difference,
    friedman_from_ranks,
    friedman_test,
    holm,
    rank_methods,
    separation_note,
    wilcoxon_holm,
    win_tie_loss,
)

__all__ = [
    "FriedmanResult",
    "WilcoxonResult",
    "critical_difference",
    "friedman_from_ranks",
    "friedman_test",
    "holm",
    "rank_methods",
    "separation_note",
    "wilcoxon_holm",
    "win_tie_loss",
]
