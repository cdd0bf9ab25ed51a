"""Warnings that name the user's own line."""

from __future__ import annotations

import sys
import warnings


def warn_caller(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn as if the first caller outside this package did, however deep it is called inside."""
    inside, frame, level = f"{__package__}.", sys._getframe(1), 2
    while frame.f_back is not None and frame.f_globals["__name__"].startswith(inside):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)
