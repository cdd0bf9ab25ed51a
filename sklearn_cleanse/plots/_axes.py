"""Axes to draw on."""

from typing import Any

#: From Okabe and Ito's palette, distinct for color-blind readers.
BLUE, RED = "#0072B2", "#D55E00"


def axes_for(ax: Any, **figure: Any) -> Any:
    """Return the given axes, or those of a new figure."""
    if ax is not None:
        return ax
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError(
            "Drawing needs matplotlib. Install it by pip install 'sklearn-cleanse[plots]'."
        ) from error
    return plt.subplots(layout="constrained", **figure)[1]


def tidy(ax: Any, grid: str = "both") -> None:
    """Remove the frame above and to the right, and draw a light grid."""
    ax.grid(axis=grid, alpha=0.25)
    ax.spines[["top", "right"]].set_visible(False)
