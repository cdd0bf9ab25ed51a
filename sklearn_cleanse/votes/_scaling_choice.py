"""The choice of a scaling without true labels."""

import numpy as np
import torch

from ..scaling import SCALINGS
from ._fixed_point import kernel_votes
from ._kernels import MeanKernel
from ._ridge import ExactRidge


def choose_scaling(X: np.ndarray, mask: np.ndarray) -> str:
    """Choose the scaling under which all other rows predict a row's candidates best.

    Kernel votes are computed under each scaling, and the one whose left-out predictions are most
    often among the row's own candidates is chosen. No true label is needed.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features) or (n_samples, n_channels, ...)
        Training rows in random order. The cost is cubic: pass about a thousand.
    mask : ndarray of shape (n_samples, n_classes), dtype bool
        Their candidates.

    Returns
    -------
    kind : str
        One of `sklearn_cleanse.scaling.SCALINGS`; the first of them in a tie.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_cleanse.votes import choose_scaling
    >>> rng = np.random.RandomState(0)
    >>> y = rng.randint(3, size=300)
    >>> noise = rng.normal(scale=1000.0, size=(300, 3))  # large columns without information
    >>> X = np.hstack([np.eye(3)[y] + 0.1 * rng.normal(size=(300, 3)), noise])
    >>> choose_scaling(X, np.eye(3, dtype=bool)[y]) != "common"
    True
    """
    sets = torch.from_numpy(mask)
    prior = sets / sets.sum(dim=1, keepdim=True)
    rates = []
    for kind in SCALINGS:
        ridge = ExactRidge(MeanKernel.fit(X, kinds=(kind,)), X)
        votes = kernel_votes(ridge, prior, max_rounds=10)
        chosen = votes.left_out.argmax(dim=1, keepdim=True)
        rates.append(float(sets.gather(1, chosen).double().mean()))
    return SCALINGS[int(np.argmax(rates))]
