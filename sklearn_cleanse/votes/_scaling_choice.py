"""The choice of a scaling without true labels."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
import torch

from .._rows import SparseRows
from ..scaling import SCALINGS
from ._kernel_votes import kernel_votes
from ._kernels import MeanKernel
from ._leave_one_out import ExactRidge

__all__ = ["choose_scaling"]


def choose_scaling(
    X: np.ndarray | SparseRows, candidates: sp.csr_array, ridge: float = 0.05
) -> str:
    """Choose the scaling under which all other rows name a row's candidates best.

    Kernel votes are taken under each scaling, and the one whose left-out predictions are most often
    among the row's own candidates is chosen. No true label is needed.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features) or (n_samples, n_channels, ...)
        Training rows; a thousand are enough, and the cost is cubic.
    candidates : csr_array of shape (n_samples, n_classes), dtype bool
        Their candidates.
    ridge : float, default=0.05
        Ridge of the regression.

    Returns
    -------
    kind : str
        One of `sklearn_cleanse.scaling.SCALINGS`; the first of them in a tie.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_cleanse.candidates import check_candidates
    >>> from sklearn_cleanse.votes import choose_scaling
    >>> rng = np.random.RandomState(0)
    >>> y = rng.randint(3, size=300)
    >>> noise = rng.normal(scale=1000.0, size=(300, 3))  # large columns that mean nothing
    >>> X = np.hstack([np.eye(3)[y] + 0.1 * rng.normal(size=(300, 3)), noise])
    >>> choose_scaling(X, check_candidates(y)[1]) != "common"
    True
    """
    sets = torch.from_numpy(candidates.toarray())
    rates = []
    for kind in SCALINGS:
        others = ExactRidge(MeanKernel.fit(X, kinds=(kind,)), X, ridge)
        votes = kernel_votes(others, sets, max_rounds=10)
        named = votes.left_out.argmax(dim=1, keepdim=True)
        rates.append(float(sets.gather(1, named).double().mean()))
    return SCALINGS[int(np.argmax(rates))]
