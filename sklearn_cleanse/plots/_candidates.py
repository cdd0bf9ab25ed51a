"""Displays of candidates: their probabilities, and how often predictions are among them."""

import numpy as np
from sklearn.calibration import CalibrationDisplay
from sklearn.metrics import ConfusionMatrixDisplay

from ..candidates import candidate_softmax
from ..metrics._measures import at_columns
from ..metrics._predictions import candidate_proba, predict_log_proba
from ..metrics._readers import read_labels, read_proba
from ._axes import axes_for, tidy


class DisambiguationDisplay:
    """Mean candidate probabilities: which labels win where a class is a candidate.

    Make one by `from_estimator` or `from_predictions`. Row c shows the samples that have class c as
    a candidate, and how their probability is distributed over the classes. The diagonal is the mean
    probability of c itself; a large entry elsewhere is a label that c loses to.

    Parameters
    ----------
    matrix : ndarray of shape (n_classes, n_classes)
        Mean probability of each class (column) over the samples that have a class (row) as a
        candidate. Rows sum to one, except that a class that is never a candidate has a row of NaN.
    classes : array-like of shape (n_classes,)
        The labels.

    Attributes
    ----------
    ax_ : matplotlib Axes
        The axes.
    figure_ : matplotlib Figure
        The figure.
    display_ : ConfusionMatrixDisplay
        The display of scikit-learn that draws the matrix.

    Examples
    --------
    >>> from sklearn_cleanse.plots import DisambiguationDisplay
    >>> S = [{"cat", "dog"}, {"cat"}]
    >>> DisambiguationDisplay.from_predictions(S, [[0.2, 0.8], [0.7, 0.3]]).matrix
    array([[0.6, 0.4],
           [0.2, 0.8]])
    """

    def __init__(self, matrix, classes):
        self.matrix = matrix
        self.classes = classes

    @classmethod
    def from_estimator(cls, estimator, X, y_candidates, *, ax=None):
        """Draw the candidate probabilities of a fitted estimator.

        Parameters
        ----------
        estimator : fitted classifier, pipeline or search
            One with ``disambiguate``, ``predict_log_proba`` or ``predict_proba``.
        X : array-like of shape (n_samples, n_features)
            Samples.
        y_candidates : array-like of shape (n_samples, n_classes) or (n_samples,)
            Their candidates, in any form that ``fit`` takes.
        ax : matplotlib Axes, default=None
            Where to draw. A new figure if None.

        Returns
        -------
        display : DisambiguationDisplay
        """
        candidates, _ = read_labels(y_candidates, estimator.classes_)
        proba = candidate_proba(estimator, X, candidates)
        return cls.from_predictions(candidates, proba, ax=ax)

    @classmethod
    def from_predictions(cls, y_candidates, y_proba, *, classes=None, ax=None):
        """Draw given probabilities.

        Parameters
        ----------
        y_candidates : array-like of shape (n_samples, n_classes) or (n_samples,)
            Candidates in any form that ``fit`` takes.
        y_proba : array-like of shape (n_samples, n_classes)
            Probabilities, such as ``candidate_proba_``. Those outside the candidates do not count.
        classes : array-like of shape (n_classes,), default=None
            The labels that the columns stand for.
        ax : matplotlib Axes, default=None
            Where to draw. A new figure if None.

        Returns
        -------
        display : DisambiguationDisplay
        """
        candidates, log_proba, _ = read_proba(y_candidates, y_proba, False, classes)
        mask = candidates.mask
        total = mask.T.astype(float) @ candidate_softmax(log_proba, mask)
        with np.errstate(invalid="ignore"):  # NaN for a label that is never a candidate
            matrix = total / mask.sum(axis=0)[:, None]
        return cls(matrix, candidates.classes).plot(ax=ax)

    def plot(self, ax=None):
        """Draw.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw. A new figure if None.

        Returns
        -------
        display : DisambiguationDisplay
        """
        n_classes = len(self.classes)
        side = float(np.clip(2.6 + 0.3 * n_classes, 4.0, 9.0))
        self.ax_ = axes_for(ax, figsize=(side + 0.8, side))
        self.figure_ = self.ax_.figure
        display = ConfusionMatrixDisplay(np.nan_to_num(self.matrix), display_labels=self.classes)
        self.display_ = display.plot(
            ax=self.ax_,
            cmap="Blues",
            values_format=".2f",
            include_values=n_classes <= 12,  # more entries cannot be read
            xticks_rotation="vertical" if max(len(str(c)) for c in self.classes) > 2 else 0,
        )
        for text in np.ravel(self.display_.text_) if n_classes <= 12 else ():
            text.set_text(text.get_text().replace("0.00", "").replace("0.", "."))
        step = -(-n_classes // 30)
        places, names = np.arange(n_classes)[::step], [str(c) for c in self.classes][::step]
        self.ax_.set_xticks(places, names)
        self.ax_.set_yticks(places, names)
        self.ax_.set(xlabel="mean probability of label", ylabel="samples with candidate")
        return self


class CoveredRatesDisplay(CalibrationDisplay):
    """Proportion of predictions that are candidates, against their probability.

    Make one by `from_estimator`. It needs no true label: the rate is an upper bound of the accuracy
    where the true label is always a candidate. A point below the diagonal therefore shows
    overconfidence; a point above shows nothing. With true labels, call scikit-learn's
    ``CalibrationDisplay.from_predictions(predicted == truth, proba.max(axis=1))``, whose attributes
    this display has.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn_cleanse.plots import CoveredRatesDisplay
    >>> X, y = load_iris(return_X_y=True)
    >>> clf = LogisticRegression(max_iter=500).fit(X, y)
    >>> display = CoveredRatesDisplay.from_estimator(clf, X, y, n_bins=2)
    >>> display.prob_true.round(2)
    array([0.97])
    """

    @classmethod
    def from_estimator(cls, estimator, X, y_candidates, *, n_bins=10, name=None, ax=None):
        """Draw the predictions of a fitted estimator.

        Parameters
        ----------
        estimator : fitted classifier, pipeline or search
            One with ``predict_log_proba`` or ``predict_proba``.
        X : array-like of shape (n_samples, n_features)
            Samples that it was not fitted on.
        y_candidates : array-like of shape (n_samples, n_classes) or (n_samples,)
            Their candidates, in any form that ``fit`` takes.
        n_bins : int, default=10
            Number of bins of equal width.
        name : str, default=None
            Name of the curve in the legend. The name of the estimator's class if None.
        ax : matplotlib Axes, default=None
            Where to draw, for example beside the curve of another display. A new figure if None.

        Returns
        -------
        display : CoveredRatesDisplay
        """
        log_proba = predict_log_proba(estimator, X)
        candidates, log_proba, _ = read_proba(y_candidates, log_proba, True, estimator.classes_)
        is_covered = at_columns(candidates.mask, log_proba.argmax(axis=1))
        given = {"n_bins": n_bins, "name": name or type(estimator).__name__, "pos_label": True}
        confidence = np.exp(log_proba.max(axis=1)).clip(0, 1)
        return cls.from_predictions(is_covered, confidence, ax=ax, **given)

    def plot(self, *, ax=None, **kwargs):
        """Draw.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw. A new figure if None.
        **kwargs : dict
            Passed to `~sklearn.calibration.CalibrationDisplay.plot`.

        Returns
        -------
        display : CoveredRatesDisplay
        """
        ax = axes_for(ax, figsize=(4.6, 4.6))
        if not ax.collections:
            ax.fill_between([0, 1], [0, 1], color="0.92", label="overconfident")
        super().plot(ax=ax, **kwargs)
        ax.set(xlabel="probability of prediction", ylabel="proportion that is a candidate")
        tidy(ax)
        return self
