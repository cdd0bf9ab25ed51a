"""Displays of training and tuning."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ._figure import COLORS, MARKERS, axes_for

_LOSSES = {"loss": "total loss", "base_loss": "base loss", "count_loss": "count loss"}
_RATES = {"covering_rate": "covering rate", "clean_voter_share": "partial rows with a clean voter"}


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
            One with ``history_``, or a search or pipeline around it.
        ax : array-like of two matplotlib Axes, default=None
            Where to draw. A new figure if None.

        Returns
        -------
        display : TrainingCurveDisplay
        """
        estimator = _innermost(estimator)
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
        axes = axes_for(ax, ncols=2, figsize=(9, 3.6))
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
                    style = {"ls": ("-", "--", ":")[i], "color": COLORS[i], "lw": 1.8}
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
        cv_results : dict or fitted search
            A search or its ``cv_results_``. Of successive halving, each setting is shown in the
            last round it reached.
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
            Parameters other than the two named are held at their values in the best result among
            those that have the two.
        """
        if not isinstance(cv_results, Mapping):
            check_is_fitted(cv_results, "cv_results_")
            cv_results = cv_results.cv_results_
        params = cv_results["params"]
        axes = {param_name} if hue is None else {param_name, hue}
        known = sorted({key for p in params for key in p})
        for name in (param_name, hue):
            if name in axes and name not in known:
                raise ValueError(f"no parameter {name!r} was searched; there are {known}")
        if f"mean_test_{metric}" not in cv_results:
            known = [key[10:] for key in cv_results if key.startswith("mean_test_")]
            raise ValueError(f"metric is {metric!r}, but the search has {known}")
        means = np.asarray(cv_results[f"mean_test_{metric}"], dtype=float)
        stds = np.asarray(cv_results[f"std_test_{metric}"], dtype=float)
        if np.isnan(means).all():
            raise ValueError(f"every mean_test_{metric} is NaN: all fits or scores failed")
        rounds = np.asarray(cv_results.get("iter", np.zeros(len(params))))
        # What halving gives more of in each round is no setting of its own.
        resource = {name for name in known if _is_resource(name, cv_results)} - axes

        def setting(p, without):
            # By repr: comparing arrays gives arrays.
            return repr({key: p[key] for key in sorted(set(p) - resource - without)})

        last: dict[str, int] = {}
        for i in np.argsort(rounds, kind="stable"):
            if axes <= set(params[i]):
                last[setting(params[i], without=set())] = int(i)
        rows = [i for i in sorted(last.values()) if not np.isnan(means[i])]
        if not rows:
            raise ValueError(f"no result with {sorted(axes)} has a mean_test_{metric}")
        best = setting(params[max(rows, key=lambda i: (rounds[i], means[i]))], without=axes)
        points: dict[str, list] = {}
        for i in sorted(last.values()):
            if setting(params[i], without=axes) == best:
                label = "" if hue is None else f"{hue} = {_short(params[i][hue])}"
                points.setdefault(label, []).append((params[i][param_name], means[i], stds[i]))
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
        self.ax_ = axes_for(ax, figsize=(5.6, 3.8))
        self.figure_ = self.ax_.figure
        self.lines_, self.bands_ = [], []
        values = [value for curve in self.curves.values() for value in curve[0]]
        numeric = all(_is_number(value) for value in values)
        names = list(dict.fromkeys(_short(value) for value in values))
        for i, (label, (at, means, stds)) in enumerate(self.curves.items()):
            x = np.asarray(at, float) if numeric else [names.index(_short(v)) for v in at]
            means, stds = np.asarray(means), np.asarray(stds)
            color, marker = COLORS[i % len(COLORS)], MARKERS[i % len(MARKERS)]
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
        elif _spans_decades(values, ratio=10 if 0 in values else 50):
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


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float, np.number)) and not isinstance(value, bool)


def _short(value: Any) -> str:
    return f"{value:g}" if _is_number(value) else str(value)


def _is_resource(name: str, cv_results: Any) -> bool:
    values = [_short(p.get(name)) for p in cv_results["params"]]
    return values == [_short(given) for given in cv_results.get("n_resources", ())]


def _spans_decades(values: Any, ratio: float) -> bool:
    positive = np.asarray(values, dtype=float)
    if not (positive[np.isfinite(positive)] >= 0).all():
        return False
    positive = positive[np.isfinite(positive) & (positive > 0)]
    return len(positive) > 1 and positive.max() / positive.min() >= ratio


def _innermost(estimator):
    """Look inside searches and pipelines for the estimator that was trained."""
    while True:
        if hasattr(estimator, "best_estimator_"):
            estimator = estimator.best_estimator_
        elif hasattr(estimator, "steps"):
            estimator = estimator.steps[-1][1]
        else:
            return estimator
