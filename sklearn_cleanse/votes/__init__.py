"""Votes on candidates: pure functions from other rows to votes.

Neighbors' votes are the paper's, Eq. (3), hard and soft. Kernel votes are those of all other rows,
each row left out, weighted by label counts.
"""

from ._fixed_point import (
    KernelVotes,
    estimate_noise_rate,
    instance_dependence,
    kernel_votes,
    set_log_likelihood,
    trusted_votes,
)
from ._folds import fold_scores
from ._kernels import MeanKernel
from ._metric import learn_metric, metric_votes
from ._model import KernelModel
from ._neighbors import NeighborVoter, hard_votes, nearest, soft_votes
from ._ridge import ComponentRidge, ExactRidge, make_ridge
from ._scaling_choice import choose_scaling

__all__ = [
    "ComponentRidge",
    "ExactRidge",
    "KernelModel",
    "KernelVotes",
    "MeanKernel",
    "NeighborVoter",
    "choose_scaling",
    "estimate_noise_rate",
    "fold_scores",
    "hard_votes",
    "instance_dependence",
    "kernel_votes",
    "learn_metric",
    "make_ridge",
    "metric_votes",
    "nearest",
    "set_log_likelihood",
    "soft_votes",
    "trusted_votes",
]
