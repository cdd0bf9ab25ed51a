"""Pictures of training, tuning and belief, in the manner of scikit-learn's displays.

Each display keeps the numbers it draws, so that ``display.plot(ax=ax)`` draws them again elsewhere.
matplotlib is imported only when something is drawn.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from .metrics import _bin, _predict_log_proba, _read, _top_confidence

__all__ = [
    "DisambiguationDisplay",
    "ReliabilityDisplay",
    "SensitivityDisplay",
    "TrainingCurveDisplay",
]

# Okabe and Ito: told apart by colour-blind readers, too.
_COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
_MARKERS = ("o", "s", "^", "D", "v", "P", "X")

_LOSSES = {"loss": "total loss", "base_loss": "base loss", "count_loss": "count loss"}
_RATES = {"covering_rate": "covering rate", "clean_voter_share": "partial rows with a clean voter"}


def _pyplot() -> Any:
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError(
            "drawing needs matplotlib, which is not installed; "
            'write pip install "sklearn-cleanse[plots]"'
        ) from error
    return plt


def _axes(ax: Any, **keywords: Any) -> Any:
    return _pyplot().subplots(layout="constrained", **keywords)[1] if ax is None else ax


class TrainingCurveDisplay:
    """Losses and rates over the epochs of training.

    Make one by `from_estimator`.

    Parameters
    ----------
    history : list of dict
        One dict per epoch: "epoch", any of the losses "loss", "base_loss" and "count_loss", and
        any of the rates "covering_rate" and "clean_voter_share". What is missing, None or always
        zero is not drawn, nor is a base loss that is all of the loss.

    Attributes
    ----------
    axes_ : ndarray of shape (2,)
        Axes of the losses and of the rates.
    figure_ : matplotlib Figure
        The figure.
    lines_ : dict of str to Line2D
        The curves by their names in ``history``.

    Examples
    --------
    >>> from sklearn_cleanse.plots import TrainingCurveDisplay
    >>> history = [{"epoch": i, "loss": 1 / i, "covering_rate": 1 - 0.5 / i} for i in (1, 2, 3)]
    >>> display = TrainingCurveDisplay(history).plot()
    >>> sorted(display.lines_)
    ['covering_rate', 'loss']
    """

    def __init__(self, history):
        self.history = history

    @classmethod
    def from_estimator(cls, estimator, *, ax=None):
        """Draw the history of a fitted estimator.

        Parameters
        ----------
        estimator : fitted estimator
            One with ``history_``.
        ax : array-like of two matplotlib Axes, default=None
            Where to draw. A new figure if None.

        Returns
        -------
        display : TrainingCurveDisplay
        """
        check_is_fitted(estimator, "history_")
        return cls(list(estimator.history_)).plot(ax=ax)

    def plot(self, ax=None):
        """Draw.

        Parameters
        ----------
        ax : array-like of two matplotlib Axes, default=None
            Where to draw losses and rates. A new figure if None.

        Returns
        -------
        display : TrainingCurveDisplay
        """
        if not self.history:
            raise ValueError("history is empty: no epoch was trained, so there is no curve to draw")
        axes = _axes(ax, ncols=2, figsize=(9, 3.6))
        self.axes_ = np.asarray(axes, dtype=object).ravel()
        if len(self.axes_) != 2:
            raise ValueError(f"ax holds {len(self.axes_)} Axes; two are needed: losses and rates")
        self.figure_ = self.axes_[0].figure
        self.lines_ = {}
        curves = {
            name: np.array([row.get(name) for row in self.history], dtype=float)
            for name in (*_LOSSES, *_RATES)
        }
        curves = {name: values for name, values in curves.items() if np.nan_to_num(values).any()}
        if "base_loss" in curves and np.array_equal(curves["base_loss"], curves.get("loss")):
            del curves["base_loss"]
        epochs = [row.get("epoch", i + 1) for i, row in enumerate(self.history)]
        for axes, names in zip(self.axes_, (_LOSSES, _RATES), strict=True):
            for i, (name, label) in enumerate(names.items()):
                if name in curves:
                    style = {"ls": ("-", "--", ":")[i], "color": _COLORS[i], "lw": 1.8}
                    self.lines_ |= {name: axes.plot(epochs, curves[name], label=label, **style)[0]}
            axes.set_xlabel("epoch")
            axes.grid(alpha=0.25)
            axes.spines[["top", "right"]].set_visible(False)
            if axes.get_lines():
                axes.legend(frameon=False)
        if _spans_decades([v for name in _LOSSES if name in curves for v in curves[name]], 50):
            self.axes_[0].set_yscale("log")
        self.axes_[0].set_ylabel("loss")
        self.axes_[1].set(ylabel="share of samples", ylim=(0, 1.02))
        return self


class SensitivityDisplay:
    """Score against one parameter of a search, with bands of one standard deviation.

    Make one by `from_cv_results`.

    Parameters
    ----------
    param_name : str
        Name of the parameter on the horizontal axis.
    curves : dict of str to tuple
        For each curve its label and (values, means, deviations), lists of equal length.
    score_name : str, default="score"
        Name of the vertical axis.

    Attributes
    ----------
    ax_ : matplotlib Axes
        The axes.
    figure_ : matplotlib Figure
        The figure.
    lines_ : list of Line2D
        One line per curve.
    bands_ : list of artists
        The band of each line.

    Examples
    --------
    >>> from sklearn_cleanse.plots import SensitivityDisplay
    >>> results = {
    ...     "params": [{"C": 0.01}, {"C": 1}, {"C": 100}],
    ...     "mean_test_score": [0.5, 0.8, 0.7],
    ...     "std_test_score": [0.1, 0.1, 0.1],
    ... }
    >>> display = SensitivityDisplay.from_cv_results(results, "C")
    >>> display.ax_.get_xscale()
    'log'
    """

    def __init__(self, param_name, curves, score_name="score"):
        self.param_name = param_name
        self.curves = curves
        self.score_name = score_name

    @classmethod
    def from_cv_results(
        cls, cv_results, param_name, *, hue=None, metric="score", score_name=None, ax=None
    ):
        """Draw a slice through the results of a search.

        Parameters
        ----------
        cv_results : dict
            ``cv_results_`` of a fitted search.
        param_name : str
            The parameter on the horizontal axis.
        hue : str, default=None
            A second parameter, with a curve for each of its values.
        metric : str, default="score"
            Which score, if the search had several: "x" reads "mean_test_x" and "std_test_x".
        score_name : str, default=None
            Name of the vertical axis. ``metric`` if None.
        ax : matplotlib Axes, default=None
            Where to draw. A new figure if None.

        Returns
        -------
        display : SensitivityDisplay
            Parameters other than the two named are held at their values in the best result.
        """
        params = cv_results["params"]
        for name in [param_name] if hue is None else [param_name, hue]:
            if not any(name in p for p in params):
                known = sorted({key for p in params for key in p})
                raise ValueError(f"no parameter {name!r} was searched; there are {known}")
        if f"mean_test_{metric}" not in cv_results:
            known = [key[10:] for key in cv_results if key.startswith("mean_test_")]
            raise ValueError(f"metric is {metric!r}, but the search has {known}")
        means = np.asarray(cv_results[f"mean_test_{metric}"], dtype=float)
        stds = np.asarray(cv_results[f"std_test_{metric}"], dtype=float)
        if np.isnan(means).all():
            raise ValueError(f"every mean_test_{metric} is NaN: all fits or scores failed")

        def others(p):
            return {key: value for key, value in p.items() if key not in (param_name, hue)}

        best = others(params[int(np.nanargmax(means))])
        points: dict[str, list] = {}
        for p, mean, std in zip(params, means, stds, strict=True):
            if param_name in p and others(p) == best:
                label = "" if hue is None else f"{hue} = {_short(p.get(hue))}"
                points.setdefault(label, []).append((p[param_name], mean, std))
        if all(_is_number(v) for rows in points.values() for v, *_ in rows):
            points = {label: sorted(rows) for label, rows in points.items()}
        curves = {
            label: tuple(map(list, zip(*rows, strict=True))) for label, rows in points.items()
        }
        return cls(param_name, curves, metric if score_name is None else score_name).plot(ax=ax)

    def plot(self, ax=None):
        """Draw.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw. A new figure if None.

        Returns
        -------
        display : SensitivityDisplay
        """
        self.ax_ = _axes(ax, figsize=(5.6, 3.8))
        self.figure_ = self.ax_.figure
        self.lines_, self.bands_ = [], []
        values = [value for curve in self.curves.values() for value in curve[0]]
        numeric = all(_is_number(value) for value in values)
        names = list(dict.fromkeys(_short(value) for value in values))
        for i, (label, (at, means, stds)) in enumerate(self.curves.items()):
            x = np.asarray(at, float) if numeric else [names.index(_short(v)) for v in at]
            means, stds = np.asarray(means), np.asarray(stds)
            color, marker = _COLORS[i % len(_COLORS)], _MARKERS[i % len(_MARKERS)]
            style = {"marker": marker, "ms": 5, "lw": 1.8, "color": color, "label": label}
            if not numeric:  # nothing lies between two names: no line, no band
                x = np.asarray(x) + 0.08 * (i - (len(self.curves) - 1) / 2)
                bars = self.ax_.errorbar(x, means, stds, capsize=3, **style | {"ls": "none"})
                self.lines_.append(bars.lines[0])
                self.bands_.append(bars)
                continue
            self.lines_ += self.ax_.plot(x, means, **style)
            self.bands_.append(
                self.ax_.fill_between(x, means - stds, means + stds, color=color, alpha=0.15, lw=0)
            )
        if not numeric:
            self.ax_.set_xticks(range(len(names)), names)
        elif _spans_decades(values, ratio=50):
            positive = [v for v in values if v > 0]
            if len(positive) == len(values):
                self.ax_.set_xscale("log")
            else:
                self.ax_.set_xscale("symlog", linthresh=min(positive))
        elif len(set(values)) <= 8:
            self.ax_.set_xticks(sorted(set(values)))
        self.ax_.set(xlabel=self.param_name, ylabel=self.score_name)
        self.ax_.grid(alpha=0.25)
        self.ax_.spines[["top", "right"]].set_visible(False)
        if list(self.curves) != [""]:
            self.ax_.legend(frameon=False)
        return self


class ReliabilityDisplay:
    """Rate of right answers against confidence.

    Make one by `from_estimator` or `from_predictions`. With true labels: how often the most likely
    candidate is true, against its confidence among the candidates. Without: how often the
    prediction is a candidate, against its confidence among all classes. That rate is an upper
    bound on the accuracy, so a point below the diagonal shows overconfidence for certain, while
    one above shows nothing.

    Parameters
    ----------
    confidence : ndarray of shape (n_bins,)
        Mean confidence in each bin that is not empty.
    rate : ndarray of shape (n_bins,)
        Rate of right answers there.
    weight : ndarray of shape (n_bins,)
        Number of samples there.
    has_truth : bool, default=True
        Whether right means true; else, covered.
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
    (array([0.75]), array([0.5]))
    """

    def __init__(self, confidence, rate, weight, *, has_truth=True, name=None):
        self.confidence = confidence
        self.rate = rate
        self.weight = weight
        self.has_truth = has_truth
        self.name = name

    @classmethod
    def from_estimator(
        cls, estimator, X, y_candidates, truth=None, *, n_bins=10, name=None, ax=None
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
        n_bins : int, default=10
            Number of bins of equal width.
        name : str, default=None
            Name of the curve in the legend. That of the estimator's class if None.
        ax : matplotlib Axes, default=None
            Where to draw. A new figure if None.

        Returns
        -------
        display : ReliabilityDisplay
        """
        return cls.from_predictions(
            y_candidates,
            _predict_log_proba(estimator, X),
            truth,
            n_bins=n_bins,
            log=True,
            classes=estimator.classes_,
            name=type(estimator).__name__ if name is None else name,
            ax=ax,
        )

    @classmethod
    def from_predictions(
        cls,
        y_candidates,
        y_proba,
        truth=None,
        *,
        n_bins=10,
        log=False,
        classes=None,
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
        n_bins : int, default=10
            Number of bins of equal width.
        log : bool, default=False
            Whether ``y_proba`` holds logarithms.
        classes : array-like of shape (n_classes,), default=None
            The labels that the columns stand for.
        name : str, default=None
            Name of the curve in the legend.
        ax : matplotlib Axes, default=None
            Where to draw. A new figure if None.

        Returns
        -------
        display : ReliabilityDisplay
        """
        confidence, right = _top_confidence(y_candidates, y_proba, truth, log, classes)
        bins = _bin(confidence, right, n_bins)
        return cls(*bins, has_truth=truth is not None, name=name).plot(ax=ax)

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
        self.ax_ = _axes(ax, figsize=(4.6, 4.6))
        self.figure_ = self.ax_.figure
        index = sum(line.get_label() == "_reliability" for line in self.ax_.get_lines())
        color, marker = _COLORS[index % len(_COLORS)], _MARKERS[index % len(_MARKERS)]
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
            xlabel="confidence " + ("among the candidates" if self.has_truth else "of prediction"),
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
            A classifier with ``disambiguate``.
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
        believed = estimator.disambiguate(X, y_candidates)
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
        classes, candidates, columns = _read(y_candidates, classes, **labels)
        if truth is None:
            rows = np.repeat(np.arange(candidates.shape[0]), np.diff(candidates.indptr))
            row_class, believed = candidates.indices, columns[0][rows]
        else:
            row_class, believed = columns[1], columns[0]
        matrix = np.zeros((len(classes), len(classes)), dtype=np.int64)
        np.add.at(matrix, (row_class, believed), 1)
        return cls(matrix, classes, has_truth=truth is not None).plot(normalize=normalize, ax=ax)

    def plot(self, *, normalize=True, ax=None):
        """Draw.

        Parameters
        ----------
        normalize : bool, default=True
            Whether to show shares of each row instead of numbers of samples.
        ax : matplotlib Axes, default=None
            Where to draw. A new figure if None.

        Returns
        -------
        display : DisambiguationDisplay
        """
        n_classes = len(self.classes)
        side = float(np.clip(2.6 + 0.3 * n_classes, 4.0, 9.0))
        self.ax_ = _axes(ax, figsize=(side + 0.8, side))
        self.figure_ = self.ax_.figure
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
                self.text_.append(text)
        step = -(-n_classes // 30)
        ticks, names = np.arange(0, n_classes, step), [str(c) for c in self.classes][::step]
        upright = max(map(len, names)) <= 2
        self.ax_.set_xticks(ticks, names, rotation=0 if upright else 90)
        self.ax_.set_yticks(ticks, names)
        rows = "true label" if self.has_truth else "candidate"
        self.ax_.set(xlabel="believed label", ylabel=rows)
        unit = f"share of the {rows}'s samples" if normalize else "samples"
        self.figure_.colorbar(self.im_, ax=self.ax_, label=unit, shrink=0.8)
        return self


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float, np.number)) and not isinstance(value, bool)


def _short(value: Any) -> str:
    return f"{value:g}" if _is_number(value) else str(value)


def _spans_decades(values: Any, ratio: float) -> bool:
    positive = np.asarray(values, dtype=float)
    if not (positive[np.isfinite(positive)] >= 0).all():
        return False
    positive = positive[np.isfinite(positive) & (positive > 0)]
    return len(positive) > 1 and positive.max() / positive.min() >= ratio
