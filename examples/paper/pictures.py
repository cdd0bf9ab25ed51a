"""Accuracy against seconds, a picture per data set, and critical differences, for the docs.

    python examples/paper/pictures.py docs/benchmarks

The build of the documentation calls `write_pictures`, so that its pictures are those of the lines.
"""

from __future__ import annotations

import itertools
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
OURS = "#0072B2"
_RIVALS = ("#D55E00", "#009E73", "#8A6D3B", "#CC79A7", "#555555")
_STYLE = {"svg.fonttype": "path", "svg.hashsalt": "sklearn_cleanse", "font.size": 10}


def _looks() -> dict[str, tuple[str, str]]:
    """Return a colour and a marker of its own for each method: CleanSE's forms are blue."""
    ours = [method for method in METHOD_NAMES if method.startswith("cleanse")]
    rivals = [method for method in METHOD_NAMES if method not in ours]
    # Five colours and nine markers: as they have no common factor, no pair returns before 45.
    pairs = zip(itertools.cycle(_RIVALS), itertools.cycle("s^Dv<>phd"), strict=False)
    looks = dict(zip(rivals, pairs, strict=False))
    return looks | {m: (OURS, marker) for m, marker in zip(ours, "*oXPH", strict=True)}


LOOKS = _looks()


class Point(NamedTuple):
    """A method on a data set: accuracy in %, seconds of the fastest fit, and on which splits."""

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
                accuracy, seconds = 100 * results.mean(*cells[j]), results.fastest(*cells[j])
                found[method] = Point(method, accuracy, seconds, group == "fresh")
    return list(found.values())


def controlled_points(results, name) -> list[Point]:
    """Return the methods on a set with controlled candidates: means over all forms of it."""
    forms = [d for d in results.have(2, "controlled") if controlled_parts(d)[0] == name]
    points = []
    for method in METHOD_NAMES:
        cells = [("controlled", "ours", form, method) for form in forms]
        if all(results.lines(*cell) for cell in cells):
            seconds = np.mean([results.fastest(*cell) for cell in cells])
            accuracy = 100 * np.mean([results.mean(*cell) for cell in cells])
            points.append(Point(method, accuracy, seconds, True))
    return points


def draw_points(points, title):
    """Draw accuracy against seconds; the legend has the methods in the order of accuracy."""
    figure, ax = plt.subplots(figsize=(5.6, 3.6), layout="constrained")
    points = sorted(points, key=lambda point: -point.accuracy)
    for point in points:
        colour, marker = LOOKS[point.method]
        face, size = colour if point.fresh else "white", 13 if marker == "*" else 8
        style = {"ms": size, "color": colour, "mfc": face, "mew": 1.6, "ls": "none"}
        name = f"{METHOD_NAMES[point.method]}, {point.accuracy:.1f}"
        ax.plot(point.seconds, point.accuracy, marker, label=name, **style)
    ax.set_xscale("log")
    fastest = min(point.seconds for point in points) / 1.6
    slowest = max(point.seconds for point in points) * 1.6
    ax.set_xlim(fastest, slowest)
    ticks = [t for t in (0.1, 0.3, 1, 3, 10, 30, 100, 300) if fastest < t < slowest]
    ax.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    ax.minorticks_off()
    ax.margins(y=0.1)
    ax.set(xlabel="seconds of the fastest fit", ylabel="test accuracy, %", title=title)
    ax.grid(alpha=0.25)
    ax.spines[["top", "right"]].set_visible(False)
    legend = ax.legend(frameon=False, loc="center left", bbox_to_anchor=(1, 0.5), fontsize=9)
    for text, point in zip(legend.get_texts(), points, strict=True):
        if point.method.startswith("cleanse"):
            text.set(color=OURS, weight="bold")
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
