"""The displays: what they draw is what was given, on the axes that were given."""

import builtins
import inspect
import re

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler
from test_metrics import FirstCandidate

from sklearn_cleanse import CleanSEClassifier, find_candidate_issues, plots
from sklearn_cleanse.metrics import approximated_accuracy_scorer, expected_calibration_error
from sklearn_cleanse.model_selection import CandidateKFold
from sklearn_cleanse.plots import (
    DisambiguationDisplay,
    IssuesDisplay,
    ReliabilityDisplay,
    SensitivityDisplay,
    TrainingCurveDisplay,
)

mpl.use("Agg")


@pytest.fixture(autouse=True)
def close():
    yield
    plt.close("all")


@pytest.fixture
def fitted(blobs):
    X, S, y = blobs
    return FirstCandidate().fit(X, S), X, S, y


def history(n_epochs=5, **extra):
    return [
        {"epoch": i, "loss": 2 / i, "base_loss": 1 / i, "covering_rate": 1 - 0.5 / i, **extra}
        for i in range(1, n_epochs + 1)
    ]


def overlapping(texts, figure):
    """Whether any two of the texts share a pixel."""
    figure.canvas.draw()
    boxes = [t.get_window_extent() for t in texts if t.get_text() and t.get_visible()]
    return any(a.overlaps(b) for i, a in enumerate(boxes) for b in boxes[:i])


# --- training curves


def test_training_curves_draw_the_history():
    model = FirstCandidate()
    model.history_ = history(count_loss=0.7, clean_voter_share=0.1, seconds=9.0)
    display = TrainingCurveDisplay.from_estimator(model)
    assert set(display.lines_) == set(model.history_[0]) - {"epoch", "seconds"}
    x, y = display.lines_["loss"].get_data()
    assert list(x) == [1, 2, 3, 4, 5]
    assert list(y) == [epoch["loss"] for epoch in model.history_]
    assert display.lines_["covering_rate"].axes is display.axes_[1]
    assert display.axes_[0].get_yscale() == "linear"
    assert display.axes_[0].get_xlabel() == "epoch"


def test_training_curves_leave_out_what_says_nothing():
    rows = [{**row, "base_loss": row["loss"], "count_loss": 0.0} for row in history()]
    assert set(TrainingCurveDisplay(rows).plot().lines_) == {"loss", "covering_rate"}
    rows = history(count_loss=None)
    assert set(TrainingCurveDisplay(rows).plot().lines_) == {"loss", "base_loss", "covering_rate"}


def test_training_curves_of_different_size_get_a_log_axis():
    display = TrainingCurveDisplay(history(count_loss=500.0)).plot()
    assert display.axes_[0].get_yscale() == "log"


def test_training_curves_on_given_axes():
    figure, axes = plt.subplots(2)
    display = TrainingCurveDisplay(history()).plot(ax=axes)
    assert display.figure_ is figure
    assert list(display.axes_) == list(axes)
    with pytest.raises(ValueError, match="ax holds 1 Axes; two are needed"):
        TrainingCurveDisplay(history()).plot(ax=axes[0])


def test_training_curves_need_a_history():
    with pytest.raises(NotFittedError):
        TrainingCurveDisplay.from_estimator(FirstCandidate())
    with pytest.raises(ValueError, match="history is empty"):
        TrainingCurveDisplay([]).plot()


# --- sensitivity


def results(name, values, **others):
    means = np.linspace(0.5, 0.9, len(values))
    params = [{name: value, **others} for value in values]
    stds = np.full(len(values), 0.05)
    return {"params": params, "mean_test_score": means, "std_test_score": stds}


def test_sensitivity_of_a_real_search(blobs):
    X, S, _ = blobs
    grid = {"smoothing": [1e-3, 1e-1, 10.0]}
    folds = CandidateKFold(3, random_state=0)
    search = GridSearchCV(FirstCandidate(), grid, scoring=approximated_accuracy_scorer, cv=folds)
    found = search.fit(X, S).cv_results_
    display = SensitivityDisplay.from_cv_results(found, "smoothing", score_name="AA")
    x, y = display.lines_[0].get_data()
    assert list(x) == [1e-3, 1e-1, 10.0]
    assert list(y) == list(found["mean_test_score"])
    assert display.ax_.get_xlabel() == "smoothing"
    assert display.ax_.get_ylabel() == "AA"
    heights = display.bands_[0].get_paths()[0].vertices[:, 1]
    assert heights.max() == (found["mean_test_score"] + found["std_test_score"]).max()
    assert heights.min() == (found["mean_test_score"] - found["std_test_score"]).min()
    assert SensitivityDisplay.from_cv_results(search, "smoothing").curves == display.curves
    with pytest.raises(NotFittedError):
        SensitivityDisplay.from_cv_results(clone(search), "smoothing")


@pytest.mark.parametrize(
    ("values", "scale"),
    [
        ([1, 2, 3], "linear"),
        ([1e-3, 1e-2, 1], "log"),
        ([0, 1e-3, 1], "symlog"),
        ([0, 1e-3, 1e-2], "symlog"),
        ([0, 1, 2, 5], "linear"),
        ([-1, 100], "linear"),
    ],
)
def test_scale_of_the_axis(values, scale):
    display = SensitivityDisplay.from_cv_results(results("p", values), "p")
    assert display.ax_.get_xscale() == scale


def test_numbers_are_sorted_and_ticked():
    display = SensitivityDisplay.from_cv_results(results("k", [20, 5, 10]), "k")
    assert list(display.lines_[0].get_xdata()) == [5, 10, 20]
    assert list(display.ax_.get_xticks()) == [5, 10, 20]


def test_names_get_places_without_a_line():
    display = SensitivityDisplay.from_cv_results(results("loss", ["rc", "cc", None]), "loss")
    assert [t.get_text() for t in display.ax_.get_xticklabels()] == ["rc", "cc", "None"]
    assert display.lines_[0].get_linestyle() == "None"


def test_other_parameters_stay_at_the_best():
    one, two = results("p", [1, 2], q="worse"), results("p", [1, 2], q="best")
    both = {key: [*one[key], *two[key]] for key in one}
    both["mean_test_score"] = [0.1, 0.2, 0.8, 0.7]
    display = SensitivityDisplay.from_cv_results(both, "p")
    assert list(display.lines_[0].get_ydata()) == [0.8, 0.7]
    display = SensitivityDisplay.from_cv_results(both, "p", hue="q")
    labels = [text.get_text() for text in display.ax_.get_legend().get_texts()]
    assert labels == ["q = worse", "q = best"]
    assert list(display.lines_[0].get_ydata()) == [0.1, 0.2]


def test_the_best_is_looked_for_where_the_parameter_was_searched():
    both = results("p", [1, 2], q=0)
    both["params"] += [{"loss": "rc"}]
    both["mean_test_score"], both["std_test_score"] = [0.3, 0.4, 0.9], [0.1] * 3
    display = SensitivityDisplay.from_cv_results(both, "p")
    assert list(display.lines_[0].get_ydata()) == [0.3, 0.4]
    with pytest.raises(ValueError, match=r"no result with \['loss', 'p'\]"):
        SensitivityDisplay.from_cv_results(both, "p", hue="loss")


def test_parameters_may_be_arrays():
    one, two = results("p", [1, 2], q=np.zeros(2)), results("p", [1, 2], q=np.ones(2))
    both = {key: [*one[key], *two[key]] for key in one}
    both["mean_test_score"] = [0.1, 0.2, 0.8, 0.7]
    display = SensitivityDisplay.from_cv_results(both, "p")
    assert list(display.lines_[0].get_ydata()) == [0.8, 0.7]


def test_halving_shows_the_last_round_of_each_setting():
    settings = [(1, 4), (2, 4), (3, 4), (2, 8), (3, 8), (3, 16)]
    halving = {
        "params": [{"p": p, "max_epochs": n, "q": np.zeros(2)} for p, n in settings],
        "iter": [0, 0, 0, 1, 1, 2],
        "n_resources": [n for _, n in settings],
        "mean_test_score": [0.2, 0.3, 0.9, 0.5, 0.6, 0.7],
        "std_test_score": [0.1] * 6,
    }
    display = SensitivityDisplay.from_cv_results(halving, "p")
    assert [line.get_ydata().tolist() for line in display.lines_] == [[0.2, 0.5, 0.7]]
    display = SensitivityDisplay.from_cv_results(halving, "max_epochs")  # of the one that won
    assert list(display.lines_[0].get_ydata()) == [0.9, 0.6, 0.7]


def test_failed_fits_do_not_hide_the_best():
    failed = results("p", [1, 2])
    failed["mean_test_score"] = [np.nan, 0.5]
    SensitivityDisplay.from_cv_results(failed, "p")
    failed["mean_test_score"] = [np.nan, np.nan]
    with pytest.raises(ValueError, match="every mean_test_score is NaN"):
        SensitivityDisplay.from_cv_results(failed, "p")


def test_unknown_names_are_refused():
    with pytest.raises(ValueError, match=r"no parameter 'r' was searched; there are \['p'\]"):
        SensitivityDisplay.from_cv_results(results("p", [1]), "r")
    with pytest.raises(ValueError, match=r"metric is 'loss', but the search has \['score'\]"):
        SensitivityDisplay.from_cv_results(results("p", [1]), "p", metric="loss")


# --- reliability


@pytest.mark.parametrize("known", [True, False])
def test_reliability_agrees_with_the_measure(fitted, known):
    model, X, S, y = fitted
    truth = y if known else None
    display = ReliabilityDisplay.from_estimator(model, X, S, truth, n_bins=7)
    assert display.weight.sum() == len(X)
    assert list(display.line_.get_xdata()) == list(display.confidence)
    error = expected_calibration_error(S, model.predict_proba(X), truth, n_bins=7)
    label = display.ax_.get_legend().get_texts()[-1].get_text()
    assert label == f"FirstCandidate (error {'' if known else '≥ '}{error:.3f})"
    assert ("covered" in display.ax_.get_ylabel()) is not known


def test_reliability_without_clean_rows(fitted):
    model, X, S, y = fitted
    partial = S.sum(axis=1) > 1
    display = ReliabilityDisplay.from_estimator(model, X, S, y, sample_weight=partial)
    rest = ReliabilityDisplay.from_estimator(model, X[partial], S[partial], y[partial])
    assert np.array_equal(display.confidence, rest.confidence)
    assert np.array_equal(display.rate, rest.rate)


def test_two_reliability_curves_share_axes(fitted):
    model, X, S, y = fitted
    first = ReliabilityDisplay.from_estimator(model, X, S, y, name="one")
    proba = np.full((len(X), 3), 1 / 3)
    second = ReliabilityDisplay.from_predictions(S, proba, y, name="two", ax=first.ax_)
    assert second.figure_ is first.figure_
    assert first.line_.get_color() != second.line_.get_color()
    texts = first.ax_.get_legend().get_texts()
    assert len(texts) == 3
    assert not overlapping([*texts, first.ax_.xaxis.label, first.ax_.yaxis.label], first.figure_)


# --- disambiguation


def test_disambiguation_matrix_by_hand():
    S = [{"a", "b"}, {"a"}, {"b", "c"}]
    display = DisambiguationDisplay.from_predictions(S, ["b", "a", "b"])
    assert display.matrix.tolist() == [[1, 1, 0], [0, 2, 0], [0, 1, 0]]
    assert display.ax_.get_ylabel() == "candidate"
    display = DisambiguationDisplay.from_predictions(S, ["b", "a", "b"], ["a", "a", "b"])
    assert display.matrix.tolist() == [[1, 1, 0], [0, 1, 0], [0, 0, 0]]
    assert display.ax_.get_ylabel() == "true label"
    assert np.ma.getmaskarray(display.im_.get_array())[2].all()  # nobody is a c
    assert [text.get_text() for text in display.text_] == [".50", ".50", "1"]


def test_a_matrix_takes_the_place_of_the_one_before():
    display = DisambiguationDisplay(np.eye(3, dtype=int), ["a", "b", "c"]).plot()
    ax, note = display.ax_, display.ax_.text(0, 0, "my note")
    display.plot(ax, normalize=False)
    assert list(ax.images) == [display.im_]
    assert list(ax.texts) == [note, *display.text_]
    assert ax.figure.axes == [ax, display.colorbar_.ax]
    ax.figure.canvas.draw()


def test_disambiguation_of_an_estimator(fitted):
    model, X, S, y = fitted
    display = DisambiguationDisplay.from_estimator(model, X, S, y, normalize=False)
    believed = model.disambiguate(X, S)
    assert np.trace(display.matrix) == (believed == y).sum()
    assert np.array_equal(display.im_.get_array(), display.matrix)
    assert display.matrix.sum() == len(X)
    display = DisambiguationDisplay.from_estimator(model, X, S)
    assert display.matrix.sum() == S.sum()


def test_displays_look_inside_searches_and_pipelines(blobs):
    X, S, y = blobs
    model = CleanSEClassifier(max_epochs=2, random_state=0)
    pipeline = make_pipeline(MinMaxScaler(), model)
    grid = {"cleanseclassifier__temperature": [1, 3]}
    cv = CandidateKFold(2, random_state=0)
    search = GridSearchCV(pipeline, grid, scoring=approximated_accuracy_scorer, cv=cv).fit(X, S)
    inner = search.best_estimator_[-1]
    display = TrainingCurveDisplay.from_estimator(search)
    assert display.history == inner.history_
    scaled = search.best_estimator_[0].transform(X)
    through = DisambiguationDisplay.from_estimator(search, X, S, y)
    assert np.array_equal(
        through.matrix, DisambiguationDisplay.from_estimator(inner, scaled, S, y).matrix
    )
    curves = [
        ReliabilityDisplay.from_estimator(search, X, S, y),
        ReliabilityDisplay.from_estimator(inner, scaled, S, y),
    ]
    assert np.array_equal(curves[0].rate, curves[1].rate)


@pytest.mark.parametrize("n_classes", [3, 12, 23, 219])
def test_labels_do_not_overlap(n_classes):
    names = [f"class {i}" for i in range(n_classes)]
    display = DisambiguationDisplay(np.eye(n_classes, dtype=int), names).plot()
    assert not overlapping(display.ax_.get_xticklabels(), display.figure_)
    assert not overlapping(display.ax_.get_yticklabels(), display.figure_)
    assert not overlapping(display.text_, display.figure_)


# --- all


@pytest.mark.parametrize(
    "draw",
    [
        lambda model, X, S, ax: SensitivityDisplay.from_cv_results(
            results("p", [1, 2]), "p", ax=ax
        ),
        lambda model, X, S, ax: ReliabilityDisplay.from_estimator(model, X, S, ax=ax),
        lambda model, X, S, ax: DisambiguationDisplay.from_estimator(model, X, S, ax=ax),
    ],
    ids=["sensitivity", "reliability", "disambiguation"],
)
def test_given_axes_are_used(draw, fitted):
    model, X, S, _ = fitted
    _, ax = plt.subplots()
    display = draw(model, X, S, ax)
    assert display.ax_ is ax
    assert display.figure_ is ax.figure
    assert display.plot().ax_ is not ax


def test_without_matplotlib_the_extra_is_named(monkeypatch):
    real = builtins.__import__

    def refuse(name, *args, **keywords):
        if name.startswith("matplotlib"):
            raise ImportError(name)
        return real(name, *args, **keywords)

    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(ImportError, match=r'pip install "sklearn-cleanse\[plots\]"'):
        TrainingCurveDisplay(history()).plot()


@pytest.mark.parametrize("name", plots.__all__)
def test_documented_defaults_are_those_of_the_signature(name):
    display = getattr(plots, name)
    methods = [m for m in vars(display) if m.startswith("from_") or m == "plot"]
    for function in [display, *(getattr(display, m) for m in methods)]:
        stated = dict(re.findall(r"^ +(\w+) : .*default=(\S+)$", function.__doc__, re.MULTILINE))
        actual = {
            key: repr(p.default).replace("'", '"')
            for key, p in inspect.signature(function).parameters.items()
            if p.default is not inspect.Parameter.empty
        }
        assert stated == actual


# --- issues


def test_issues_are_drawn_worst_first_with_the_labels_to_check(blobs):
    X, _, y = blobs
    given = y.copy()
    given[[4, 9]] = (y[[4, 9]] + 1) % 3
    issues = find_candidate_issues(X, given)
    display = IssuesDisplay.from_issues(issues, n_rows=2)
    assert [bar.get_width() for bar in display.bars_] == issues["score"][:2].tolist()
    names = [text.get_text() for text in display.ax_.get_yticklabels()]
    assert set(names) == {f"row {row}: {given[row]} → {y[row]}" for row in (4, 9)}
    assert display.plot(ax=plt.subplots()[1]).figure_ is plt.gcf()
    with pytest.raises(ValueError, match="n_rows is 0"):
        IssuesDisplay.from_issues(issues, n_rows=0)


def test_no_issue_is_a_picture_too(blobs):
    X, _, y = blobs
    none = find_candidate_issues(X, y).head(0)
    assert "no issue" in IssuesDisplay(none).plot().ax_.texts[0].get_text()


def test_labels_alike_are_told_below_the_issues(blobs):
    X, _, y = blobs
    issues = find_candidate_issues(X, y)
    issues.attrs["labels_alike"] = [("ant", "emmet", 0.9)]
    display = IssuesDisplay.from_issues(issues, n_rows=2)
    assert display.ax_.get_xlabel().endswith("do not tell apart: ant and emmet")
