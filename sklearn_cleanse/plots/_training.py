"""Display of training."""

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ..metrics._predictions import final_step
from ._axes import axes_for, tidy

#: Names of columns of the history, by the axes that they are drawn on.
_LOSSES, _RATES = "loss$", "(rate|score|proportion)$"


class TrainingCurveDisplay:
    """Losses and rates over the epochs of training.

    Make one by `from_estimator`.

    Parameters
    ----------
    history : list of dict
        One dict per epoch. Names that end in "loss" are drawn on the left, those that end in
        "rate", "score" or "proportion" on the right. Values that are always missing or zero are
        not drawn, nor is a base loss that equals the loss.

    Attributes
    ----------
    axes_ : ndarray of shape (2,)
        Axes of the losses and of the rates.
    figure_ : matplotlib Figure
        The figure.
    lines_ : dict of str to Line2D
        The curves by their names in ``history``.

    Examples
    --------
    >>> from sklearn_cleanse.plots import TrainingCurveDisplay
    >>> history = [{"epoch": i, "loss": 1 / i, "covering_rate": 1 - 0.5 / i} for i in (1, 2, 3)]
    >>> display = TrainingCurveDisplay(history).plot()
    >>> sorted(display.lines_)
    ['covering_rate', 'loss']
    """

    def __init__(self, history):
        self.history = history

    @classmethod
    def from_estimator(cls, estimator, *, ax=None):
        """Draw the history of a fitted estimator.

        Parameters
        ----------
        estimator : fitted estimator
            One with ``history_``, or a search or pipeline around it.
        ax : array-like of two matplotlib Axes, default=None
            Where to draw. A new figure if None.

        Returns
        -------
        display : TrainingCurveDisplay
        """
        estimator, _ = final_step(estimator)
        check_is_fitted(estimator, "history_")
        return cls(list(estimator.history_)).plot(ax=ax)

    def plot(self, ax=None):
        """Draw.

        Parameters
        ----------
        ax : array-like of two matplotlib Axes, default=None
            Where to draw losses and rates. A new figure if None.

        Returns
        -------
        display : TrainingCurveDisplay
        """
        import pandas as pd

        if not self.history:
            raise ValueError("`history` must have at least one epoch, got none. Fit first.")
        self.axes_ = np.ravel(axes_for(ax, ncols=2, figsize=(9, 3.6)))
        if len(self.axes_) != 2:
            raise ValueError(f"`ax` must be two Axes, for losses and rates, got {len(self.axes_)}.")
        self.figure_, self.lines_ = self.axes_[0].figure, dict[str, object]()
        table = pd.DataFrame(self.history)
        table.index = table.get("epoch", table.index + 1)
        table = table.apply(pd.to_numeric, errors="coerce")
        table = table.loc[:, table.fillna(0).any()]
        if "base_loss" in table and table["base_loss"].equals(table.get("loss")):
            del table["base_loss"]
        for axes, pattern in zip(self.axes_, (_LOSSES, _RATES), strict=True):
            for name, values in table.filter(regex=pattern).items():
                self.lines_[name] = axes.plot(values, label=name.replace("_", " "), lw=1.8)[0]
            axes.set_xlabel("epoch")
            tidy(axes)
            if axes.get_lines():
                axes.legend(frameon=False)
        losses = table.filter(regex=_LOSSES).to_numpy()
        losses = losses[losses != 0]  # NaN stays and does not count
        if losses.size and np.nanmin(losses) > 0 and np.nanmax(losses) > 50 * np.nanmin(losses):
            self.axes_[0].set_yscale("log")
        self.axes_[0].set_ylabel("loss")
        self.axes_[1].set(ylabel="proportion of samples", ylim=(0, 1.02))
        return self
