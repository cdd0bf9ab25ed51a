"""Display of the rows whose candidates look most wrong."""

from __future__ import annotations

from numbers import Integral

from ._figure import COLORS, axes_for

_KINDS = (
    "label outside set",
    "label contradicted",
    "duplicates disagree",
    "unsupported candidate",
)


class IssuesDisplay:
    """The worst rows that `sklearn_cleanse.find_candidate_issues` found, and the labels to check.

    Make one by `from_issues`.

    Parameters
    ----------
    issues : DataFrame
        With the columns "row", "kind", "score", "label" and "suggestion", worst first.

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
    >>> from sklearn.datasets import load_iris
    >>> from sklearn_cleanse import find_candidate_issues
    >>> from sklearn_cleanse.plots import IssuesDisplay
    >>> X, y = load_iris(return_X_y=True)
    >>> y[7] = 2  # it was 0
    >>> display = IssuesDisplay.from_issues(find_candidate_issues(X, y))
    >>> display.ax_.get_yticklabels()[0].get_text()
    'row 7: 2 → 0'
    """

    def __init__(self, issues):
        self.issues = issues

    @classmethod
    def from_issues(cls, issues, *, n_rows=15, ax=None):
        """Draw the worst rows.

        Parameters
        ----------
        issues : DataFrame
            As `sklearn_cleanse.find_candidate_issues` returns it.
        n_rows : int, default=15
            Number of rows to draw, at most.
        ax : matplotlib Axes, default=None
            Where to draw. A new figure if None.

        Returns
        -------
        display : IssuesDisplay
        """
        if not isinstance(n_rows, Integral) or isinstance(n_rows, bool) or n_rows < 1:
            raise ValueError(f"n_rows is {n_rows!r}; it must be an integer of at least 1")
        return cls(issues.head(n_rows)).plot(ax=ax)

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
        places = range(len(shown))
        colors = [COLORS[_KINDS.index(kind)] for kind in shown["kind"]]
        self.bars_ = self.ax_.barh(places, shown["score"], color=colors, height=0.7)
        columns = (shown[name] for name in ("row", "label", "suggestion"))
        names = [
            f"row {row}: {label} → {other}" for row, label, other in zip(*columns, strict=True)
        ]
        self.ax_.set_yticks(places, names)
        self.ax_.invert_yaxis()
        self.ax_.set(xlim=(0, 1), xlabel="belief that the candidates are wrong" + _alike(shown))
        self.ax_.grid(axis="x", alpha=0.25)
        self.ax_.spines[["top", "right"]].set_visible(False)
        if len(shown):
            first = dict(zip(reversed(shown["kind"].tolist()), reversed(self.bars_), strict=True))
            self.ax_.legend(
                [*first.values()],
                [*first],
                frameon=False,
                loc="lower left",
                bbox_to_anchor=(0, 1),
                ncols=1,
            )
        else:
            self.ax_.text(0.5, 0.5, "no issue found", transform=self.ax_.transAxes, ha="center")
        return self


def _alike(issues) -> str:
    """Return a line on labels that the features do not tell apart, empty if there are none."""
    pairs = [f"{a} and {b}" for a, b, _ in issues.attrs.get("labels_alike", [])]
    if not pairs:
        return ""
    more = ", …" if len(pairs) > 3 else ""
    return f"\nlabels that the features do not tell apart: {', '.join(pairs[:3])}{more}"
