"""Average ranks on a line."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..comparison._checks import check_average_ranks, check_control
from ..comparison._ranks import critical_difference, rank_methods, separation_note


class CriticalDifferenceDisplay:
    """Average ranks on a line, with what cannot be told apart.

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
        The control. If given, methods within the critical difference of it are marked; if None,
        bars join the groups in which no pair differs.
    note : str, default=""
        Written below the diagram.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
        Where it was drawn.

    Examples
    --------
    >>> from sklearn_cleanse.plots import CriticalDifferenceDisplay
    >>> display = CriticalDifferenceDisplay.from_ranks([1.2, 2.9, 1.9], 30, ["a", "b", "c"])
    >>> [[display.names[i] for i in group] for group in display.groups()]
    []
    """

    def __init__(self, average_ranks, names, critical_difference, control=None, note=""):
        self.average_ranks = np.asarray(average_ranks, dtype=float)
        self.names = list(names)
        self.critical_difference = critical_difference
        self.control = control if control is None else check_control(control, len(self.names))
        self.note = note
        if len(self.names) != len(self.average_ranks):
            raise ValueError(f"{len(self.names)} names for {len(self.average_ranks)} average ranks")

    @classmethod
    def from_scores(
        cls, scores, names, *, control=None, alpha=0.05, missing="error", ax=None
    ) -> CriticalDifferenceDisplay:
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
            What to do with NaN; see `rank_methods`.
        ax : matplotlib Axes, default=None
            Where to draw. A new figure if None.

        Returns
        -------
        display : CriticalDifferenceDisplay
        """
        ranks = rank_methods(scores, missing=missing)
        return cls.from_ranks(
            ranks.mean(axis=0), len(ranks), names, control=control, alpha=alpha
        ).plot(ax=ax)

    @classmethod
    def from_ranks(
        cls, average_ranks, n_datasets, names, *, control=None, alpha=0.05
    ) -> CriticalDifferenceDisplay:
        """Take average ranks as papers print them; nothing is drawn before `plot`.

        Parameters
        ----------
        average_ranks : array-like of shape (n_methods,)
            Average ranks.
        n_datasets : int
            Data sets they were averaged over.
        names : list of str
            Names of the methods.
        control : int, default=None
            Position of the control, for Bonferroni–Dunn. All pairs, by Nemenyi, if None.
        alpha : float, default=0.05
            Level of significance.

        Returns
        -------
        display : CriticalDifferenceDisplay
        """
        test = "nemenyi" if control is None else "bonferroni-dunn"
        average_ranks = check_average_ranks(average_ranks)
        k = len(average_ranks)
        difference = critical_difference(k, n_datasets, test=test, alpha=alpha)
        note = separation_note(k, n_datasets, test=test, alpha=alpha)
        return cls(average_ranks, names, difference, control, note)

    def groups(self) -> list[list[int]]:
        """Return the groups of methods that cannot be told apart.

        Returns
        -------
        groups : list of list of int
            With a control, one group: it and those within the critical difference. Without, every
            largest group whose best and worst rank differ by no more.
        """
        ranks, order = self.average_ranks, np.argsort(self.average_ranks, kind="stable")
        reach = self.critical_difference * (1 + 1e-12)
        if self.control is not None:
            near = np.abs(ranks[order] - ranks[self.control]) <= reach
            return [order[near].tolist()] if near.sum() > 1 else []
        found: list[list[int]] = []
        last_end = 0
        for start in range(len(order)):
            end = int(np.searchsorted(ranks[order], ranks[order[start]] + reach, side="right"))
            if end - start > 1 and end > last_end:
                found.append(order[start:end].tolist())
            last_end = max(last_end, end)
        return found

    def plot(self, ax: Any = None) -> CriticalDifferenceDisplay:
        """Draw.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw. A new figure if None.

        Returns
        -------
        display : CriticalDifferenceDisplay
        """
        from ..plots._figure import axes_for

        k = len(self.names)
        half = (k + 1) // 2
        self.ax_ = ax = axes_for(ax, figsize=(7.0, 1.5 + 0.24 * half))
        self.figure_ = ax.figure
        groups = self.groups()
        bars = len(groups) if self.control is None else 1
        first = -0.9 - 0.28 * bars  # the first label lies below the bars
        ax.plot([1, k], [0, 0], color="black", lw=1.2)
        for rank in range(1, k + 1):
            ax.plot([rank, rank], [0, 0.12], color="black", lw=1)
            ax.text(rank, 0.2, str(rank), ha="center", va="bottom", fontsize=9)
        order = np.argsort(self.average_ranks, kind="stable")
        for place, method in enumerate(order):
            left = place < half
            y = first - 0.5 * (place if left else k - 1 - place)
            rank, edge = self.average_ranks[method], (0.8 if left else k + 0.2)
            color = "#D55E00" if method == self.control else "black"
            ax.plot([rank, rank, edge], [0, y, y], color=color, lw=0.9)
            ax.text(
                edge + (-0.06 if left else 0.06),
                y,
                f"{self.names[method]}  {rank:.2f}"
                if left
                else f"{rank:.2f}  {self.names[method]}",
                ha="right" if left else "left",
                va="center",
                fontsize=9,
                color=color,
            )
        for i, group in enumerate(groups if self.control is None else []):
            ranks = self.average_ranks[group]
            y = -0.35 - 0.28 * i
            ax.plot(
                [ranks.min() - 0.04, ranks.max() + 0.04],
                [y, y],
                color="#0072B2",
                lw=4,
                solid_capstyle="butt",
            )
        self._draw_reach(ax, k)
        ax.set(xlim=(-0.9, k + 1.9), ylim=(first - 0.5 * half - (0.4 if self.note else 0), 1.7))
        ax.axis("off")
        if self.note:
            ax.text(0.5, 0, self.note, transform=ax.transAxes, ha="center", fontsize=7, wrap=True)
        return self

    def _draw_reach(self, ax: Any, k: int) -> None:
        """Draw the critical difference: above the line, or to both sides of the control."""
        cd, color = self.critical_difference, "#0072B2"
        if self.control is None:
            ax.plot([1, 1 + cd], [1.0, 1.0], color=color, lw=1.8, marker="|", ms=7)
            ax.text(1 + cd / 2, 1.12, f"CD = {cd:.2f}", ha="center", va="bottom", fontsize=9)
            return
        centre = self.average_ranks[self.control]
        low, high = max(1.0, centre - cd), min(float(k), centre + cd)
        ax.plot([low, high], [-0.35, -0.35], color=color, lw=4, alpha=0.6, solid_capstyle="butt")
        ax.text(
            (low + high) / 2,
            1.0,
            f"within CD = {cd:.2f} of {self.names[self.control]}",
            ha="center",
            va="bottom",
            fontsize=9,
            color=color,
        )
