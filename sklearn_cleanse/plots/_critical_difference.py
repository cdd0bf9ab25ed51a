"""Display of average ranks."""

import numpy as np

from ..comparison import check_average_ranks, critical_difference, rank_methods, separation_note
from ._axes import BLUE, RED, axes_for


class CriticalDifferenceDisplay:
    """Average ranks on a line; bars join methods whose difference is not significant.

    Make one by `from_scores`, or from published ranks by `from_ranks`.

    Parameters
    ----------
    average_ranks : array-like of shape (n_methods,)
        Average ranks.
    names : list of str
        Names of the methods.
    critical_difference : float
        The critical difference.
    control : int, default=None
        Position of the control. If given, the bar covers the ranks that do not differ from its own.
    note : str, default=""
        Written below the diagram.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
        Where it was drawn.

    Examples
    --------
    >>> from sklearn_cleanse.plots import CriticalDifferenceDisplay
    >>> display = CriticalDifferenceDisplay([1.2, 2.9, 1.9], ["a", "b", "c"], 0.8)
    >>> [[display.names[i] for i in group] for group in display.groups()]
    [['a', 'c']]
    """

    def __init__(self, average_ranks, names, critical_difference, control=None, note=""):
        self.average_ranks = np.asarray(average_ranks, dtype=float)
        self.names = list(names)
        self.critical_difference = critical_difference
        self.control = None if control is None else range(len(self.names))[control]
        self.note = note
        if len(self.names) != len(self.average_ranks):
            found = f"got {len(self.names)} for {len(self.average_ranks)} average ranks"
            raise ValueError(f"`names` must have a name per method, {found}.")

    @classmethod
    def from_scores(cls, scores, names, *, control=None, alpha=0.05, missing="error", ax=None):
        """Rank scores and draw.

        Parameters
        ----------
        scores : array-like of shape (n_datasets, n_methods)
            Scores, higher being better.
        names : list of str
            Names of the methods.
        control : int, default=None
            Column of the control, for Bonferroni–Dunn. All pairs, by Nemenyi, if None.
        alpha : float, default=0.05
            Level of significance.
        missing : {"error", "worst"}, default="error"
            What to do with NaN; see `~sklearn_cleanse.comparison.rank_methods`.
        ax : matplotlib Axes, default=None
            Where to draw. A new figure if None.

        Returns
        -------
        display : CriticalDifferenceDisplay
        """
        ranks, given = rank_methods(scores, missing=missing), {"control": control, "alpha": alpha}
        return cls.from_ranks(ranks.mean(axis=0), len(ranks), names, ax=ax, **given)

    @classmethod
    def from_ranks(cls, average_ranks, n_datasets, names, *, control=None, alpha=0.05, ax=None):
        """Draw average ranks as papers print them.

        Parameters
        ----------
        average_ranks : array-like of shape (n_methods,)
            Average ranks.
        n_datasets : int
            Number of data sets that the ranks are averaged over.
        names : list of str
            Names of the methods.
        control : int, default=None
            Position of the control, for Bonferroni–Dunn. All pairs, by Nemenyi, if None.
        alpha : float, default=0.05
            Level of significance.
        ax : matplotlib Axes, default=None
            Where to draw. A new figure if None.

        Returns
        -------
        display : CriticalDifferenceDisplay
        """
        test = "nemenyi" if control is None else "bonferroni-dunn"
        k = len(check_average_ranks(average_ranks))
        difference = critical_difference(k, n_datasets, test=test, alpha=alpha)
        note = separation_note(k, n_datasets, difference)
        return cls(average_ranks, names, difference, control, note).plot(ax=ax)

    def groups(self):
        """Return the groups of methods whose differences are not significant.

        Returns
        -------
        groups : list of list of int
            With a control, one group: the control and the methods within the critical difference of
            it. Without, every largest group whose best and worst rank differ by no more.
        """
        order = np.argsort(self.average_ranks, kind="stable")
        ranks, reach = self.average_ranks[order], self.critical_difference * (1 + 1e-12)
        if self.control is not None:
            spans = [np.abs(ranks - self.average_ranks[self.control]) <= reach]
        else:
            spans = [(ranks >= low) & (ranks <= low + reach) for low in ranks]
            ends = [np.flatnonzero(span)[-1] for span in spans]
            spans = [span for i, span in enumerate(spans) if i == 0 or ends[i] > ends[i - 1]]
        return [order[span].tolist() for span in spans if span.sum() > 1]

    def plot(self, ax=None):
        """Draw.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw. A new figure if None.

        Returns
        -------
        display : CriticalDifferenceDisplay
        """
        k, reach, ranks = len(self.names), self.critical_difference, self.average_ranks
        if self.control is None:
            bars = [(ranks[g].min() - 0.04, ranks[g].max() + 0.04) for g in self.groups()]
            title = f"CD = {reach:.2f}"
        else:
            center = ranks[self.control]
            bars = [(max(1.0, center - reach), min(float(k), center + reach))]
            title = f"within CD = {reach:.2f} of {self.names[self.control]}"
        n_left, first = (k + 1) // 2, -0.8 - 0.3 * len(bars)  # the labels lie below the bars
        self.ax_ = ax = axes_for(ax, figsize=(7.0, 1.1 + 0.25 * n_left + 0.15 * len(bars)))
        self.figure_ = ax.figure
        for i, bar in enumerate(bars):
            ax.plot(bar, [-0.4 - 0.3 * i] * 2, color=BLUE, lw=4, solid_capstyle="butt")
        for place, method in enumerate(np.argsort(ranks, kind="stable")):
            left = place < n_left
            edge = 0.8 if left else k + 0.2
            y = first - 0.5 * (place if left else k - 1 - place)
            color = RED if method == self.control else "black"
            ax.plot([ranks[method]] * 2 + [edge], [0, y, y], color=color, lw=0.9)
            text = f" {self.names[method]} ({ranks[method]:.2f}) "
            ax.text(edge, y, text, ha="right" if left else "left", va="center", color=color)
        if self.control is None:
            ax.plot([1, 1 + reach], [1.2, 1.2], color=BLUE, lw=1.8, marker="|")
        ax.set_title(title, color=BLUE, fontsize="medium")
        ax.set(xlim=(1, k), ylim=(first - 0.5 * n_left, 1.5), yticks=[], xticks=range(1, k + 1))
        ax.xaxis.tick_top()
        ax.spines["top"].set_position(("data", 0))
        ax.spines[["left", "right", "bottom"]].set_visible(False)
        if self.note:
            ax.set_xlabel(self.note, fontsize="small")
        return self
