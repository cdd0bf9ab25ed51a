"""Figures of the report: sensitivity curves and critical-difference diagrams, as SVG."""

from __future__ import annotations

import io

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import paper_numbers as paper
from cells import METHOD_NAMES, SET_NAMES, spread
from data import REAL
from ranking import average_ranks, gather

from sklearn_cleanse.plots import CriticalDifferenceDisplay, SensitivityDisplay

#: Text stays text, and the same numbers give the same file.
_STYLE = {"svg.fonttype": "path", "svg.hashsalt": "sklearn_cleanse", "font.size": 10}
SYMBOLS = {"temperature": "temperature T", "lambda": "weight of the count loss λ"}


def all_figures(results, methods_of) -> dict[str, tuple[str, str]]:
    """Draw everything there is something for: name to (caption, SVG)."""
    figures = {}
    with matplotlib.rc_context(_STYLE):
        for group in SYMBOLS:
            for method in ("cleanse", "cleanse-paper"):
                curves = _curves(results, group, method)
                if curves:
                    name = METHOD_NAMES[method]
                    figures[f"{group}-{method}"] = (
                        f"{name}: accuracy over the {SYMBOLS[group]}; bands are one standard "
                        "deviation over trials. Points with fewer trials are left out.",
                        _sensitivity(curves, group, name),
                    )
        for cases in gather(results, methods_of):
            names = [METHOD_NAMES.get(m, m) for m in cases.methods]
            for control in (cases.control, None):
                display = CriticalDifferenceDisplay.from_ranks(
                    average_ranks(cases), len(cases.cells), names, control=control
                ).plot()
                test = "Nemenyi, all pairs" if control is None else "Bonferroni–Dunn"
                kind = "nemenyi" if control is None else "dunn"
                figures[f"cd-{cases.name}-{kind}"] = (
                    f"Average ranks, {cases.title}, {len(cases.cells)} cases ({test}).",
                    _svg(display.figure_),
                )
        figures["cd-of-paper"] = (
            "The paper's average ranks over its 25 cases (Bonferroni–Dunn).",
            _svg(_paper_diagram()),
        )
    return figures


def _paper_diagram():
    names = [METHOD_NAMES[m] for m in paper.AVERAGE_RANKS]
    ranks = list(paper.AVERAGE_RANKS.values())
    control = names.index(METHOD_NAMES["cleanse"])
    display = CriticalDifferenceDisplay.from_ranks(ranks, paper.N_CASES, names, control=control)
    return display.plot().figure_


def _curves(results, group, method) -> dict[str, tuple[list, list, list]]:
    settings = sorted(results.have(1, group), key=_value)
    curves = {}
    for dataset in results.columns(group, REAL):
        points = []
        cells = [(group, setting, dataset, method) for setting in settings]
        for setting, cell, same in zip(settings, cells, results.same_trials(cells), strict=True):
            values = 100 * results.values(*cell)
            if same:
                points.append((_value(setting), values.mean(), spread(values)))
        if len(points) > 1:
            curves[SET_NAMES.get(dataset, dataset)] = tuple(map(list, zip(*points, strict=True)))
    return curves


def _value(setting: str) -> float:
    return float(setting.partition("=")[2])


def _sensitivity(curves, group, title) -> str:
    display = SensitivityDisplay(SYMBOLS[group], curves, "test accuracy, %").plot()
    display.ax_.set_title(title, fontsize=11)
    return _svg(display.figure_)


def _svg(figure) -> str:
    out = io.StringIO()
    figure.savefig(out, format="svg", metadata={"Date": None}, bbox_inches="tight")
    plt.close(figure)
    text = out.getvalue()
    return text[text.index("<svg") :]
