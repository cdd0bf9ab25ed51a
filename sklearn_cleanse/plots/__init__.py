"""Pictures of training, tuning and belief, in the manner of scikit-learn's displays.

Each display keeps the numbers it draws, so that ``display.plot(ax=ax)`` draws them again elsewhere.
matplotlib is imported only when something is drawn.
"""

from ._belief import DisambiguationDisplay, ReliabilityDisplay
from ._critical_difference import CriticalDifferenceDisplay
from ._issues import IssuesDisplay
from ._training import SensitivityDisplay, TrainingCurveDisplay

__all__ = [
    "CriticalDifferenceDisplay",
    "DisambiguationDisplay",
    "IssuesDisplay",
    "ReliabilityDisplay",
    "SensitivityDisplay",
    "TrainingCurveDisplay",
]
