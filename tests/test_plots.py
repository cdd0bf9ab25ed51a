"""The displays: they draw what they are given, on the axes that they are given."""

import sys

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from sklearn.calibration import calibration_curve
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler
from test_comparison import PAPER_RANKS
from test_metrics import FirstCandidate

from sklearn_cleanse.candidates import candidate_softmax
from sklearn_cleanse.comparison import critical_difference
from sklearn_cleanse.metrics import covering_rate, covering_rate_scorer
from sklearn_cleanse.plots import (
    CoveredRatesDisplay,
    CriticalDifferenceDisplay,
    DisambiguationDisplay,
    IssuesDisplay,
    TrainingCurveDisplay,
)

mpl.use("Agg")

METHODS = ["CC", "RC", "LWS", "CAVL", "SCARCE", "PL-CGR", "DPCLS", "CleanSE"]


@pytest.fixture(autouse=True)
def close():
    yield
    plt.close("all")


@pytest.fixture
def fitted(blobs):
    X, S, _ = blobs
    return FirstCandidate().fit(X, S), X, S


def history(n_epochs=5, **extra):
    return [
        {"epoch": i, "loss": 2 / i, "base_loss": 1 / i, "covering_rate": 1 - 0.5 / i, **extra}
        for i in range(1, n_epochs + 1)
    ]


def issues(n_rows=3):
    given = ["cat", "cow, dog", {"pig", "cat"}][:n_rows]
    columns = {"row": range(n_rows), "given": given, "suggested": "dog", "reason": "…"}
    return pd.DataFrame(columns).assign(score=np.linspace(0.2, 0.9, n_rows))


def overlapping(texts, figure):
    """Whether any two of the texts share a pixel."""
    figure.canvas.draw()
    boxes = [t.get_window_extent() for t in texts if t.get_text() and t.get_visible()]
    return any(a.overlaps(b) for i, a in enumerate(boxes) for b in boxes[:i])


# --- training


def test_training_curves_draw_the_history(blobs):
    X, S, _ = blobs
    model = FirstCandidate().fit(X, S)
    model.history_ = history(count_loss=0.7, validation_score=0.1, seconds=9.0, loss_best=True)
    display = TrainingCurveDisplay.from_estimator(model)
    expected = {"loss", "base_loss", "count_loss", "covering_rate", "validation_score"}
    assert set(display.lines_) == expected
    x, y = display.lines_["loss"].get_data()
    assert list(x) == [1, 2, 3, 4, 5]
    assert list(y) == [epoch["loss"] for epoch in model.history_]
    assert display.lines_["covering_rate"].axes is display.axes_[1]
    assert display.axes_[0].get_yscale() == "linear"
    assert TrainingCurveDisplay.from_estimator(make_pipeline(model)).history == model.history_
    spread = TrainingCurveDisplay(history(count_loss=500.0)).plot()
    assert spread.axes_[0].get_yscale() == "log"


@pytest.mark.parametrize("count_loss", [0.0, None])
def test_training_curves_leave_out_columns_without_information(count_loss):
    rows = [{**row, "base_loss": row["loss"], "count_loss": count_loss} for row in history()]
    assert set(TrainingCurveDisplay(rows).plot().lines_) == {"loss", "covering_rate"}


def test_training_curves_need_two_axes_and_a_history(fitted):
    _, axes = plt.subplots(2)
    assert list(TrainingCurveDisplay(history()).plot(ax=axes).axes_) == list(axes)
    with pytest.raises(ValueError, match=r"`ax` must be two Axes, .* got 1"):
        TrainingCurveDisplay(history()).plot(ax=axes[0])
    with pytest.raises(NotFittedError):
        TrainingCurveDisplay.from_estimator(fitted[0])
    with pytest.raises(ValueError, match="`history` must have at least one epoch"):
        TrainingCurveDisplay([]).plot()


# --- candidates


def test_disambiguation_matrix_by_hand():
    S = [{"a", "b"}, {"a"}, {"b", "c"}]
    proba = [[0.2, 0.2, 0.6], [0.0, 0.9, 0.1], [0.4, 0.12, 0.48]]
    display = DisambiguationDisplay.from_predictions(S, proba)
    expected = [[0.75, 0.25, 0], [0.25, 0.35, 0.4], [0, 0.2, 0.8]]
    np.testing.assert_allclose(display.matrix, expected)
    written = [text.get_text() for text in display.display_.text_.ravel()]
    assert written == [".75", ".25", "", ".25", ".35", ".40", "", ".20", ".80"]
    assert [label.get_text() for label in display.ax_.get_yticklabels()] == ["a", "b", "c"]
    never = DisambiguationDisplay.from_predictions([[1, 0], [1, 0]], [[1, 0], [1, 0]])
    np.testing.assert_array_equal(never.matrix, [[1, 0], [np.nan, np.nan]])


def test_disambiguation_of_an_estimator_inside_a_search(blobs):
    X, S, _ = blobs
    pipeline = make_pipeline(MinMaxScaler(), FirstCandidate())
    grid = {"firstcandidate__smoothing": [1e-2]}
    folds = KFold(2, shuffle=True, random_state=0)
    search = GridSearchCV(pipeline, grid, scoring=covering_rate_scorer, cv=folds).fit(X, S)
    display = DisambiguationDisplay.from_estimator(search, X, S)
    proba = candidate_softmax(search.predict_log_proba(X), S.astype(bool))
    np.testing.assert_allclose(display.matrix[1], proba[S[:, 1] == 1].mean(axis=0))


@pytest.mark.parametrize("n_classes", [3, 12, 23, 219])
def test_labels_do_not_overlap(n_classes):
    names = [f"class {i}" for i in range(n_classes)]
    display = DisambiguationDisplay(np.eye(n_classes), names).plot()
    assert not overlapping(display.ax_.get_xticklabels(), display.figure_)
    assert not overlapping(display.ax_.get_yticklabels(), display.figure_)


def test_covered_rates_agree_with_the_measure(fitted):
    model, X, S = fitted
    display = CoveredRatesDisplay.from_estimator(model, X, S, n_bins=7)
    is_covered = S[np.arange(len(X)), model.predict(X)]
    expected = calibration_curve(is_covered, model.predict_proba(X).max(axis=1), n_bins=7)
    np.testing.assert_allclose([display.prob_true, display.prob_pred], expected)
    single = CoveredRatesDisplay.from_estimator(model, X, S, n_bins=1, name="two", ax=display.ax_)
    assert single.prob_true == pytest.approx(covering_rate(S, model.predict(X)))
    names = [text.get_text() for text in display.ax_.get_legend().get_texts()]
    assert names == ["overconfident", "Perfectly calibrated", "FirstCandidate", "two"]


# --- ranks


def test_groups_of_the_diagram():
    nemenyi = CriticalDifferenceDisplay([1.0, 2.0, 3.2, 3.4], list("abcd"), 1.1)
    assert nemenyi.groups() == [[0, 1], [2, 3]]
    chain = CriticalDifferenceDisplay([3.0, 2.0, 1.0], list("abc"), 1.0)
    assert chain.groups() == [[2, 1], [1, 0]]
    dunn = CriticalDifferenceDisplay([1.0, 2.0, 3.2, 3.4], list("abcd"), 1.1, control=0)
    assert dunn.groups() == [[0, 1]]
    last = CriticalDifferenceDisplay([1.0, 2.0, 3.2, 3.4], list("abcd"), 1.1, control=-1)
    assert last.control == 3


@pytest.mark.parametrize("control", [None, 7])
def test_diagram_names_every_method(control):
    display = CriticalDifferenceDisplay.from_ranks(PAPER_RANKS, 25, METHODS, control=control)
    texts = [text.get_text() for text in display.ax_.texts]
    expected = [f" {m} ({rank:.2f}) " for m, rank in zip(METHODS, PAPER_RANKS, strict=True)]
    assert sorted(texts) == sorted(expected)
    assert not overlapping(display.ax_.texts, display.figure_)
    test = "nemenyi" if control is None else "bonferroni-dunn"
    difference = critical_difference(8, 25, test=test)
    assert f"CD = {difference:.2f}" in display.ax_.get_title()
    assert display.ax_.get_xlabel() == ""


def test_diagram_from_scores_carries_the_note(rng):
    scores = rng.uniform(size=(3, 6))
    display = CriticalDifferenceDisplay.from_scores(scores, list("abcdef"))
    assert "Too few data sets" in display.ax_.get_xlabel()


def test_bad_names_and_ranks_raise():
    with pytest.raises(ValueError, match="name per method, got 1 for 2 average ranks"):
        CriticalDifferenceDisplay([1, 2], ["a"], 1.0)
    with pytest.raises(IndexError):
        CriticalDifferenceDisplay([1, 2], ["a", "b"], 1.0, control=2)
    with pytest.raises(ValueError, match="must average ranks"):
        CriticalDifferenceDisplay.from_ranks([3, 3, 0], 9, list("abc"))


# --- issues


def test_issues_are_drawn_worst_first():
    table = issues()
    table.attrs["labels_alike"] = [("ant", "emmet", 0.9)]
    display = IssuesDisplay.from_issues(table, n_rows=2)
    assert [bar.get_width() for bar in display.bars_] == [0.9, 0.55]
    assert display.ax_.get_xlabel().endswith("do not separate:\nant and emmet")
    names = [text.get_text() for text in display.ax_.get_yticklabels()]
    assert names == ["row 2: cat, pig → dog", "row 1: cow, dog → dog"]
    with pytest.raises(ValueError, match=r"`n_rows` must be .* got 0"):
        IssuesDisplay.from_issues(issues(), n_rows=0)
    assert "no issue" in IssuesDisplay(issues(0)).plot().ax_.texts[0].get_text()


# --- all


@pytest.mark.parametrize(
    "draw",
    [
        lambda fitted, ax: CoveredRatesDisplay.from_estimator(*fitted, ax=ax),
        lambda fitted, ax: DisambiguationDisplay.from_estimator(*fitted, ax=ax),
        lambda fitted, ax: IssuesDisplay.from_issues(issues(), ax=ax),
        lambda fitted, ax: CriticalDifferenceDisplay.from_scores(np.eye(4), list("abcd"), ax=ax),
    ],
    ids=["covered", "disambiguation", "issues", "ranks"],
)
def test_given_axes_are_used(draw, fitted):
    _, ax = plt.subplots()
    display = draw(fitted, ax)
    assert display.ax_ is ax
    assert display.figure_ is ax.figure
    assert display.plot().ax_ is not ax


def test_without_matplotlib_the_extra_is_named(monkeypatch):
    for name in [name for name in sys.modules if name.startswith("matplotlib")]:
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ImportError, match=r"pip install 'sklearn-cleanse\[plots\]'"):
        TrainingCurveDisplay(history()).plot()
