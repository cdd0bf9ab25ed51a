"""Partial-label data: real data sets, image benchmarks, candidate generators."""

from ._describe import Characteristics, describe
from ._generate import make_candidates
from ._images import fetch_images, load_images
from ._mat import read_mat
from ._parquet import ParquetBatches
from ._pll import fetch_pll, load_pll
from ._toy import long_tail_rows, make_partial_classification
from ._votes import annotator_quality, candidates_from_votes

__all__ = [
    "Characteristics",
    "ParquetBatches",
    "annotator_quality",
    "candidates_from_votes",
    "describe",
    "fetch_images",
    "fetch_pll",
    "load_images",
    "load_pll",
    "long_tail_rows",
    "make_candidates",
    "make_partial_classification",
    "read_mat",
]
