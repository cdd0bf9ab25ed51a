"""Who says what of a row: pure functions from other rows to votes for its candidates.

Neighbours' votes are the paper's, Eq. (3), hard and soft. Kernel votes are those of all other rows,
each row left out, weighed by label counts.
"""

from ._kernel_model import KernelModel, fit_kernel_votes
from ._kernel_votes import (
    KernelVotes,
    candidate_dependence,
    estimate_noise,
    kernel_votes,
    set_log_likelihood,
)
from ._kernels import MeanKernel
from ._leave_one_out import ExactRidge, LandmarkRidge, make_ridge
from ._neighbors import candidate_shares, cosine_directions, hard_votes, nearest, soft_votes
from ._scaling_choice import choose_scaling

__all__ = [
    "ExactRidge",
    "KernelModel",
    "KernelVotes",
    "LandmarkRidge",
    "MeanKernel",
    "candidate_dependence",
    "candidate_shares",
    "choose_scaling",
    "cosine_directions",
    "estimate_noise",
    "fit_kernel_votes",
    "hard_votes",
    "kernel_votes",
    "make_ridge",
    "nearest",
    "set_log_likelihood",
    "soft_votes",
]
