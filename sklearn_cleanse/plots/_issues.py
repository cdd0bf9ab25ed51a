"""Display of the rows whose candidates are most likely wrong."""

import numpy as np

from ._axes import BLUE, axes_for, tidy


class IssuesDisplay:
    """The worst rows that `~sklearn_cleanse.inspection.find_candidate_issues` found.

    Make one by `from_issues`.

    Parameters
    ----------
    issues : DataFrame
        With the columns "row", "given", "suggested" and "score", in the order of the picture from
        the top. ``issues.attrs["labels_alike"]``, if there, is written below.

    Attributes
    ----------
    ax_ : matplotlib Axes
        The axes.
    figure_ : matplotlib Figure
        The figure.
    bars_ : BarContainer
        The scores.

    Examples
    --------
    >>> import pandas as pd
    >>> from sklearn_cleanse.plots import IssuesDisplay
    >>> issues = pd.DataFrame({"row": [7, 2], "given": ["cat", "cow"], "suggested": ["dog", "cat"],
    ...                        "score": [0.4, 0.9]})
    >>> display = IssuesDisplay.from_issues(issues)
    >>> display.ax_.get_yticklabels()[0].get_text()
    'row 2: cow → cat'
    """

    def __init__(self, issues):
        self.issues = issues

    @classmethod
    def from_issues(cls, issues, *, n_rows=15, ax=None):
        """Draw the rows with the highest scores.

        Parameters
        ----------
        issues : DataFrame
            As `~sklearn_cleanse.inspection.find_candidate_issues` returns it.
        n_rows : int, default=15
            Number of rows to draw, at most.
        ax : matplotlib Axes, default=None
            Where to draw. A new figure if None.

        Returns
        -------
        display : IssuesDisplay
        """
        if isinstance(n_rows, bool) or not isinstance(n_rows, (int, np.integer)) or n_rows < 1:
            raise ValueError(f"`n_rows` must be an integer of at least 1, got {n_rows!r}.")
        worst = issues.sort_values("score", ascending=False, kind="stable").head(n_rows)
        return cls(worst).plot(ax=ax)

    def plot(self, ax=None):
        """Draw.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw. A new figure if None.

        Returns
        -------
        display : IssuesDisplay
        """
        shown = self.issues
        self.ax_ = axes_for(ax, figsize=(6.4, 1.2 + 0.28 * max(len(shown), 1)))
        self.figure_ = self.ax_.figure
        self.bars_ = self.ax_.barh(range(len(shown)), shown["score"], color=BLUE, height=0.7)
        rows = shown[["row", "given", "suggested"]].itertuples(index=False)
        names = [f"row {row}: {_join(given)} → {_join(other)}" for row, given, other in rows]
        self.ax_.set_yticks(range(len(shown)), names)
        self.ax_.invert_yaxis()
        xlabel = "score (high: the candidates are probably wrong)"
        alike = [f"{a} and {b}" for a, b, *_ in shown.attrs.get("labels_alike", [])]
        if alike:
            more = ", …" if len(alike) > 3 else ""
            xlabel += f"\nlabels that the features do not separate:\n{', '.join(alike[:3])}{more}"
        self.ax_.set(xlim=(0, 1), xlabel=xlabel)
        tidy(self.ax_, grid="x")
        if not len(shown):
            self.ax_.text(0.5, 0.5, "no issue found", transform=self.ax_.transAxes, ha="center")
        return self


def _join(labels):
    """Return one label, or several separated by commas, at most three."""
    if not isinstance(labels, (list, tuple, set, frozenset)):
        return str(labels)
    names = [str(label) for label in labels]
    names = sorted(names) if isinstance(labels, (set, frozenset)) else names
    return ", ".join(names[:3]) + (", …" if len(names) > 3 else "")
