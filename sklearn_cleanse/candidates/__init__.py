"""Candidate labels, read once: from any form of ``y`` into one record, `Candidates`."""

# Public are the names in __all__; the others are for the rest of the package.
from ._memory import check_memory  # noqa: F401
from ._read import check_candidates
from ._record import Candidates, check_index  # noqa: F401
from ._restrict import candidate_softmax, estimate_proportions  # noqa: F401

__all__ = ["Candidates", "check_candidates"]
