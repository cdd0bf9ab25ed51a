"""Accuracy against seconds, a picture per data set, and critical differences, for the docs.

    python examples/paper/pictures.py docs/benchmarks

The build of the documentation calls `write_pictures`, so that its pictures are those of the lines.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import NamedTuple

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from cells import Results, set_name
from data import REAL, controlled_parts
from label_free import draw_choices, measured_models
from plan import METHOD_NAMES
from ranking import average_ranks, gather

from sklearn_cleanse.plots import CriticalDifferenceDisplay

HERE = Path(__file__).resolve().parent
OURS, RIVAL = "#0072B2", "#8A6D3B"
_STYLE = {"svg.fonttype": "path", "svg.hashsalt": "sklearn_cleanse", "font.size": 10}
_GAP = 0.068  # least distance of two names, as a share of the height


class Point(NamedTuple):
    """A method on a data set: its accuracy in %, its seconds per fit, and on which splits."""

    method: str
    accuracy: float
    seconds: float
    fresh: bool


def real_points(results, dataset) -> list[Point]:
    """Return the methods on a real set: on the fresh splits, else on splits 0 to 4."""
    found = {}
    for group in ("real", "fresh"):
        cells = [(group, "ours", dataset, method) for method in METHOD_NAMES]
        for j in np.flatnonzero(results.same_trials(cells)):
            method = cells[j][3]
            # CleanSE's rows on splits 0 to 4 may be of an older version, the fresh ones are not.
            if group == "fresh" or not method.startswith("cleanse"):
                seconds = results.mean(*cells[j], "seconds")
                found[method] = Point(
                    method, 100 * results.mean(*cells[j]), seconds, group == "fresh"
                )
    return list(found.values())


def controlled_points(results, name) -> list[Point]:
    """Return the methods on a set with controlled candidates: means over all forms of it."""
    forms = [d for d in results.have(2, "controlled") if controlled_parts(d)[0] == name]
    points = []
    for method in METHOD_NAMES:
        cells = [("controlled", "ours", form, method) for form in forms]
        if all(results.lines(*cell) for cell in cells):
            seconds = np.mean([results.mean(*cell, "seconds") for cell in cells])
            accuracy = 100 * np.mean([results.mean(*cell) for cell in cells])
            points.append(Point(method, accuracy, seconds, True))
    return points


def _spread(values, gap, top) -> np.ndarray:
    """Move sorted values apart, upwards first, then down again from the top."""
    places = values.copy()
    for i in range(1, len(places)):
        places[i] = max(places[i], places[i - 1] + gap)
    places[-1] = min(places[-1], top)
    for i in range(len(places) - 2, -1, -1):
        places[i] = min(places[i], places[i + 1] - gap)
    return places


def draw_points(points, title):
    """Draw accuracy against seconds, with the methods' names beside the points."""
    figure, ax = plt.subplots(figsize=(5.4, 3.9), layout="constrained")
    points = sorted(points, key=lambda point: point.accuracy)
    seconds = np.array([point.seconds for point in points])
    accuracy = np.array([point.accuracy for point in points])
    low, high = accuracy.min(), accuracy.max()
    height = max(high - low, 1.0) * 1.2
    names = _spread(accuracy, _GAP * height, low + 0.97 * height)
    ax.set_xscale("log")
    right = seconds.max() * 1.25
    for point, name_at in zip(points, names, strict=True):
        colour = OURS if point.method.startswith("cleanse") else RIVAL
        face = colour if point.fresh else "white"
        ax.plot(point.seconds, point.accuracy, "o", ms=8, color=colour, mfc=face, mew=1.6)
        ax.plot(
            [point.seconds, right], [point.accuracy, name_at], lw=0.5, color="#C9D0D8", zorder=0
        )
        weight = "bold" if colour == OURS else "normal"
        text = METHOD_NAMES[point.method]
        ax.text(right * 1.04, name_at, text, va="center", color=colour, weight=weight, fontsize=9)
    ax.set(
        xlim=(seconds.min() / 1.6, right * 9),
        ylim=(min(low, names[0]) - 0.08 * height, low + 1.02 * height),
    )
    ticks = [t for t in (0.1, 0.3, 1, 3, 10, 30, 100, 300) if seconds.min() / 1.6 < t < right]
    ax.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    ax.minorticks_off()
    ax.set(xlabel="seconds per fit", ylabel="test accuracy, %", title=title)
    ax.grid(alpha=0.25)
    ax.spines[["top", "right"]].set_visible(False)
    return figure


def write_pictures(results, folder) -> list[Path]:
    """Write all pictures, and a Markdown file per kind of set that shows them; return the paths."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    controlled = dict.fromkeys(controlled_parts(d)[0] for d in results.have(2, "controlled"))
    sets = {
        "real": {d: real_points(results, d) for d in REAL},
        "controlled": {d: controlled_points(results, d) for d in controlled},
    }
    paths = []
    with matplotlib.rc_context(_STYLE):
        for kind, by_name in sets.items():
            timed = {d: [p for p in found if p.seconds > 0] for d, found in by_name.items()}
            shown = {name: points for name, points in timed.items() if len(points) > 1}
            for name, points in shown.items():
                paths.append(_write(draw_points(points, set_name(name)), folder / f"{name}.svg"))
            _list(folder, kind, {name: "accuracy against seconds per fit" for name in shown})
        choices = measured_models(results)
        for name, table in choices.items():
            figure, ax = plt.subplots(figsize=(4.6, 3.6), layout="constrained")
            draw_choices(table, set_name(name), ax)
            paths.append(_write(figure, folder / f"label-free-{name}.svg"))
        _list(folder, "label-free", {f"label-free-{d}": "measures of models" for d in choices})
        for cases in [cases for cases in gather(results) if cases.name in ("fresh", "controlled")]:
            ranks, n = average_ranks(cases), len(cases.cells)
            display = CriticalDifferenceDisplay.from_ranks(ranks, n, cases.headings).plot()
            paths.append(_write(display.figure_, folder / f"ranks-{cases.name}.svg"))
    return paths


def _list(folder, kind, captions) -> None:
    """Write the Markdown that shows some pictures of a folder, seen from the folder above."""
    lines = [f"![{name}: {about}]({folder.name}/{name}.svg)\n" for name, about in captions.items()]
    (folder / f"{kind}.md").write_text("\n".join(lines), encoding="utf-8")


def _write(figure, path) -> Path:
    figure.savefig(path, metadata={"Date": None}, bbox_inches="tight", facecolor="white")
    plt.close(figure)
    return path


if __name__ == "__main__":
    written = write_pictures(Results.read([HERE / "results"]), sys.argv[1])
    print(*written, sep="\n")
