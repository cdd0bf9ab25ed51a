"""Pictures of training, candidates, issues and rankings, like scikit-learn's displays.

Each display keeps the numbers it draws, so that ``display.plot(ax=ax)`` draws them again elsewhere.
matplotlib is imported only when something is drawn. For pictures against true labels use
scikit-learn's own displays: `~sklearn.metrics.ConfusionMatrixDisplay` with ``clf.disambiguate(X,
S)``, `~sklearn.calibration.CalibrationDisplay` with right and wrong predictions, and
`~sklearn.model_selection.ValidationCurveDisplay`.
"""

from ._candidates import CoveredRatesDisplay, DisambiguationDisplay
from ._critical_difference import CriticalDifferenceDisplay
from ._issues import IssuesDisplay
from ._training import TrainingCurveDisplay

__all__ = [
    "CoveredRatesDisplay",
    "CriticalDifferenceDisplay",
    "DisambiguationDisplay",
    "IssuesDisplay",
    "TrainingCurveDisplay",
]
