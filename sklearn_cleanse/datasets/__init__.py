"""Partial-label data: real data sets, annotators' tables, image benchmarks, generators."""

from ._annotations import annotator_quality, candidates_from_annotations
from ._generate import make_candidates
from ._images import fetch_images
from ._mat import read_mat
from ._pll import fetch_pll
from ._summary import CandidateSummary, describe_candidates
from ._toy import long_tail_rows, make_lexicon, make_partial_classification

__all__ = [
    "CandidateSummary",
    "annotator_quality",
    "candidates_from_annotations",
    "describe_candidates",
    "fetch_images",
    "fetch_pll",
    "long_tail_rows",
    "make_candidates",
    "make_lexicon",
    "make_partial_classification",
    "read_mat",
]
