"""Displays of what a classifier believes of candidates."""

from __future__ import annotations

import numpy as np

from ..metrics._measures import _best_candidate, _bin, _top_confidence
from ..metrics._predictions import disambiguate, extended_candidate_proba, predict_log_proba
from ..metrics._readers import read_labels
from ._figure import COLORS, MARKERS, axes_for

_ENTRY = "entry of a disambiguation matrix"


class ReliabilityDisplay:
    """Rate of right answers against confidence.

    Make one by `from_estimator` or `from_predictions`. With true labels (or a single candidate in
    every sample): how often the prediction is true, against its confidence. Without: how often it
    is a candidate. That rate is an upper bound on the accuracy, so a point below the diagonal shows
    overconfidence for certain, while one above shows nothing.

    Parameters
    ----------
    confidence : ndarray of shape (n_bins,)
        Mean confidence in each bin that is not empty.
    rate : ndarray of shape (n_bins,)
        Rate of right answers there.
    weight : ndarray of shape (n_bins,)
        Number of samples there, or the sum of their weights.
    has_truth : bool, default=True
        Whether right means true; else, covered.
    restrict : bool, default=False
        Whether confidences are those among the candidates.
    name : str, default=None
        Name of the curve in the legend.

    Attributes
    ----------
    ax_ : matplotlib Axes
        The axes.
    figure_ : matplotlib Figure
        The figure.
    line_ : Line2D
        The curve.

    Examples
    --------
    >>> from sklearn_cleanse.plots import ReliabilityDisplay
    >>> S, proba = [[1, 1, 0], [0, 1, 1]], [[0.6, 0.2, 0.2], [0.2, 0.6, 0.2]]
    >>> display = ReliabilityDisplay.from_predictions(S, proba, truth=[0, 2])
    >>> display.confidence.round(2), display.rate
    (array([0.6]), array([0.5]))
    """

    def __init__(self, confidence, rate, weight, *, has_truth=True, restrict=False, name=None):
        self.confidence = confidence
        self.rate = rate
        self.weight = weight
        self.has_truth = has_truth
        self.restrict = restrict
        self.name = name

    @classmethod
    def from_estimator(
        cls,
        estimator,
        X,
        y_candidates,
        truth=None,
        *,
        restrict=False,
        n_bins=10,
        sample_weight=None,
        name=None,
        ax=None,
    ):
        """Draw the confidences of a fitted estimator.

        Parameters
        ----------
        estimator : fitted estimator
            A classifier with ``predict_log_proba`` or ``predict_proba``.
        X : array-like of shape (n_samples, n_features)
            Samples, best ones it was not fitted on.
        y_candidates : array-like of shape (n_samples, n_classes) or (n_samples,)
            Their candidates, in any form that ``fit`` takes.
        truth : array-like of shape (n_samples,), default=None
            True labels.
        restrict : bool, default=False
            Whether to look at the most likely *candidate*, with its confidence among candidates,
            instead of the prediction. Needs ``truth``.
        n_bins : int, default=10
            Number of bins of equal width.
        sample_weight : array-like of shape (n_samples,), default=None
            Sample weights. With ``restrict``, ``~clean`` leaves out rows that are always right.
        name : str, default=None
            Name of the curve in the legend. That of the estimator's class if None.
        ax : matplotlib Axes, default=None
            Where to draw. A new figure if None.

        Returns
        -------
        display : ReliabilityDisplay
        """
        name = type(estimator).__name__ if name is None else name
        if not restrict or truth is None:
            return cls.from_predictions(
                y_candidates,
                predict_log_proba(estimator, X),
                truth,
                restrict=restrict,
                n_bins=n_bins,
                log=True,
                classes=estimator.classes_,
                sample_weight=sample_weight,
                name=name,
                ax=ax,
            )
        classes, proba = extended_candidate_proba(estimator, X, y_candidates)
        _, _, (true,) = read_labels(y_candidates, classes, truth=truth)
        bins = _bin(*_best_candidate(proba, true), n_bins, sample_weight)
        return cls(*bins, restrict=True, name=name).plot(ax=ax)

    @classmethod
    def from_predictions(
        cls,
        y_candidates,
        y_proba,
        truth=None,
        *,
        restrict=False,
        n_bins=10,
        log=False,
        classes=None,
        sample_weight=None,
        name=None,
        ax=None,
    ):
        """Draw given confidences.

        Parameters
        ----------
        y_candidates : array-like of shape (n_samples, n_classes) or (n_samples,)
            Candidates in any form that ``fit`` takes.
        y_proba : array-like of shape (n_samples, n_classes)
            Predicted probabilities, or their logarithms if ``log`` is True.
        truth : array-like of shape (n_samples,), default=None
            True labels.
        restrict : bool, default=False
            Whether to look at the most likely *candidate*, with its confidence among candidates,
            instead of the prediction. Needs ``truth``.
        n_bins : int, default=10
            Number of bins of equal width.
        log : bool, default=False
            Whether ``y_proba`` holds logarithms.
        classes : array-like of shape (n_classes,), default=None
            The labels that the columns stand for.
        sample_weight : array-like of shape (n_samples,), default=None
            Sample weights. With ``restrict``, ``~clean`` leaves out rows that are always right.
        name : str, default=None
            Name of the curve in the legend.
        ax : matplotlib Axes, default=None
            Where to draw. A new figure if None.

        Returns
        -------
        display : ReliabilityDisplay
        """
        confidence, right, exact = _top_confidence(
            y_candidates, y_proba, truth, log, classes, restrict
        )
        bins = _bin(confidence, right, n_bins, sample_weight)
        return cls(*bins, has_truth=exact, restrict=restrict, name=name).plot(ax=ax)

    def plot(self, ax=None):
        """Draw.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw, perhaps beside the curve of another display. A new figure if None.

        Returns
        -------
        display : ReliabilityDisplay
        """
        self.ax_ = axes_for(ax, figsize=(4.6, 4.6))
        self.figure_ = self.ax_.figure
        index = sum(line.get_label() == "_reliability" for line in self.ax_.get_lines())
        color, marker = COLORS[index % len(COLORS)], MARKERS[index % len(MARKERS)]
        if index == 0:
            self.ax_.plot([0, 1], [0, 1], ":", color="0.4", label="calibrated")
            if not self.has_truth:
                sure = {"color": "0.92", "label": "overconfident for certain"}
                self.ax_.fill_between([0, 1], [0, 1], zorder=0, **sure)
        gap = self.confidence - self.rate
        gap = np.abs(gap) if self.has_truth else np.maximum(gap, 0.0)
        error = f"error {'' if self.has_truth else '≥ '}{np.average(gap, weights=self.weight):.3f}"
        label = error if self.name is None else f"{self.name} ({error})"
        (self.line_,) = self.ax_.plot(
            self.confidence, self.rate, color=color, lw=1.4, label="_reliability"
        )
        # The area of a mark is the number of samples behind it.
        self.ax_.scatter(
            self.confidence,
            self.rate,
            s=18 + 260 * self.weight / self.weight.sum(),
            color=color,
            marker=marker,
            alpha=0.85,
            edgecolor="white",
            label=label,
            zorder=3,
        )
        self.ax_.set(
            xlim=(-0.02, 1.02),
            ylim=(-0.02, 1.02),
            aspect="equal",
            xlabel="confidence " + ("among the candidates" if self.restrict else "of prediction"),
            ylabel="share " + ("true" if self.has_truth else "covered (bounds accuracy)"),
        )
        self.ax_.grid(alpha=0.25)
        self.ax_.spines[["top", "right"]].set_visible(False)
        legend = self.ax_.legend(frameon=False, loc="lower left", bbox_to_anchor=(0, 1))
        for handle in legend.legend_handles:
            if hasattr(handle, "set_sizes"):
                handle.set_sizes([40])
        return self


class DisambiguationDisplay:
    """Which label was believed, against the true label or against the candidates.

    Make one by `from_estimator` or `from_predictions`. Against true labels this is a confusion
    matrix within the candidate sets. Against candidates, row c and column b tell how many of the
    samples that have c as a candidate were believed to be b: the diagonal says how often c wins,
    and a large entry elsewhere that c gives way to b.

    Parameters
    ----------
    matrix : ndarray of shape (n_classes, n_classes)
        Number of samples by true label or candidate (row) and believed label (column).
    classes : array-like of shape (n_classes,)
        The labels.
    has_truth : bool, default=True
        Whether rows are true labels; else, candidates.

    Attributes
    ----------
    ax_ : matplotlib Axes
        The axes.
    figure_ : matplotlib Figure
        The figure.
    im_ : AxesImage
        The picture of the matrix.
    colorbar_ : Colorbar
        Its scale.
    text_ : list of Text
        Its entries, if they were written in.

    Examples
    --------
    >>> from sklearn_cleanse.plots import DisambiguationDisplay
    >>> S = [{"cat", "dog"}, {"cat"}, {"cat", "dog"}]
    >>> DisambiguationDisplay.from_predictions(S, ["dog", "cat", "cat"]).matrix
    array([[2, 1],
           [1, 1]])
    """

    def __init__(self, matrix, classes, *, has_truth=True):
        self.matrix = matrix
        self.classes = classes
        self.has_truth = has_truth

    @classmethod
    def from_estimator(cls, estimator, X, y_candidates, truth=None, *, normalize=True, ax=None):
        """Draw what a fitted estimator believes.

        Parameters
        ----------
        estimator : fitted estimator
            A classifier with ``predict_log_proba`` or ``predict_proba``.
        X : array-like of shape (n_samples, n_features)
            Samples.
        y_candidates : array-like of shape (n_samples, n_classes) or (n_samples,)
            Their candidates, in any form that ``fit`` takes.
        truth : array-like of shape (n_samples,), default=None
            True labels.
        normalize : bool, default=True
            Whether to show shares of each row instead of numbers of samples.
        ax : matplotlib Axes, default=None
            Where to draw. A new figure if None.

        Returns
        -------
        display : DisambiguationDisplay
        """
        believed = disambiguate(estimator, X, y_candidates)
        return cls.from_predictions(
            y_candidates, believed, truth, classes=estimator.classes_, normalize=normalize, ax=ax
        )

    @classmethod
    def from_predictions(
        cls, y_candidates, y_believed, truth=None, *, classes=None, normalize=True, ax=None
    ):
        """Draw given beliefs.

        Parameters
        ----------
        y_candidates : array-like of shape (n_samples, n_classes) or (n_samples,)
            Candidates in any form that ``fit`` takes.
        y_believed : array-like of shape (n_samples,)
            The label believed of each sample, such as ``disambiguate`` returns.
        truth : array-like of shape (n_samples,), default=None
            True labels.
        classes : array-like of shape (n_classes,), default=None
            The labels that the columns of a candidate matrix stand for.
        normalize : bool, default=True
            Whether to show shares of each row instead of numbers of samples.
        ax : matplotlib Axes, default=None
            Where to draw. A new figure if None.

        Returns
        -------
        display : DisambiguationDisplay
        """
        labels = (
            {"y_believed": y_believed}
            if truth is None
            else {"y_believed": y_believed, "truth": truth}
        )
        classes, candidates, columns = read_labels(y_candidates, classes, **labels)
        if truth is None:
            rows = np.repeat(np.arange(candidates.shape[0]), np.diff(candidates.indptr))
            row_class, believed = candidates.indices, columns[0][rows]
        else:
            row_class, believed = columns[1], columns[0]
        matrix = np.zeros((len(classes), len(classes)), dtype=np.int64)
        np.add.at(matrix, (row_class, believed), 1)
        return cls(matrix, classes, has_truth=truth is not None).plot(normalize=normalize, ax=ax)

    def plot(self, ax=None, *, normalize=True):
        """Draw.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw, in place of a matrix that is there already. A new figure if None.
        normalize : bool, default=True
            Whether to show shares of each row instead of numbers of samples.

        Returns
        -------
        display : DisambiguationDisplay
        """
        n_classes = len(self.classes)
        side = float(np.clip(2.6 + 0.3 * n_classes, 4.0, 9.0))
        self.ax_ = axes_for(ax, figsize=(side + 0.8, side))
        self.figure_ = self.ax_.figure
        _wipe(self.ax_)
        shown = np.asarray(self.matrix, dtype=float)
        if normalize:
            total = shown.sum(axis=1, keepdims=True)
            shown = np.divide(shown, total, out=np.full_like(shown, np.nan), where=total > 0)
        top = 1.0 if normalize else max(shown.max(), 1.0)
        self.im_ = self.ax_.imshow(shown, cmap="Blues", vmin=0.0, vmax=top)
        self.ax_.set_facecolor("0.88")  # shows in rows without a sample
        self.text_ = []
        if n_classes <= 12:  # more entries than these cannot be read
            for (row, column), value in np.ndenumerate(shown):
                if self.matrix[row, column] == 0:
                    continue
                written = f"{value:.2f}".lstrip("0") if normalize and value < 1 else f"{value:.0f}"
                color = "white" if value > 0.55 * top else "black"
                text = self.ax_.text(
                    column, row, written, ha="center", va="center", color=color, fontsize=9
                )
                text.set_gid(_ENTRY)
                self.text_.append(text)
        step = -(-n_classes // 30)
        ticks, names = np.arange(0, n_classes, step), [str(c) for c in self.classes][::step]
        upright = max(map(len, names)) <= 2
        self.ax_.set_xticks(ticks, names, rotation=0 if upright else 90)
        self.ax_.set_yticks(ticks, names)
        rows = "true label" if self.has_truth else "candidate"
        self.ax_.set(xlabel="believed label", ylabel=rows)
        unit = f"share of the {rows}'s samples" if normalize else "samples"
        self.colorbar_ = self.figure_.colorbar(self.im_, ax=self.ax_, label=unit, shrink=0.8)
        return self


def _wipe(ax):
    """Take an earlier matrix, its entries and its colorbar from the axes."""
    for text in [text for text in ax.texts if text.get_gid() == _ENTRY]:
        text.remove()
    for image in list(ax.images):
        if image.colorbar is not None:
            image.colorbar.remove()
        image.remove()
