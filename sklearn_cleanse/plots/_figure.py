"""What all displays share: matplotlib, asked for late, and colours."""

from __future__ import annotations

from typing import Any

# Okabe and Ito: told apart by colour-blind readers, too.
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")


def pyplot() -> Any:
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError(
            "drawing needs matplotlib, which is not installed; "
            'write pip install "sklearn-cleanse[plots]"'
        ) from error
    return plt


def axes_for(ax: Any, **keywords: Any) -> Any:
    return pyplot().subplots(layout="constrained", **keywords)[1] if ax is None else ax
