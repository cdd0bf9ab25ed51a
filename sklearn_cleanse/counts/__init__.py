"""How likely a label count is to lie in an interval, and the losses built on it.

The number of rows with label j is a sum of independent Bernoulli variables (a Poisson-binomial
variable). :func:`interval_log_prob` computes the log-probability that it lies between two bounds,
exactly, for all classes at once.
"""

from ._losses import (
    COUNT_LOSSES,
    entropy_loss,
    interval_log_prob,
    interval_loss,
    one_vs_rest_logits,
    proportion_loss,
)

__all__ = [
    "COUNT_LOSSES",
    "entropy_loss",
    "interval_log_prob",
    "interval_loss",
    "one_vs_rest_logits",
    "proportion_loss",
]
