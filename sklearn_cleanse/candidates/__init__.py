"""Candidate labels: the one data type of the package.

Whatever a user hands in as ``y`` becomes, here and nowhere else, a pair: the class labels, and a
sparse boolean matrix with a row per sample and a column per class. It is sparse because a sample
has a handful of candidates even where there are hundreds of classes.
"""

from ._grades import check_graded
from ._index import check_index
from ._read import check_candidates
from ._sets import candidate_counts, candidate_softmax, covers, estimate_proportions, is_clean

__all__ = [
    "candidate_counts",
    "candidate_softmax",
    "check_candidates",
    "check_graded",
    "check_index",
    "covers",
    "estimate_proportions",
    "is_clean",
]
