"""One HTML file with all tables and figures in it: sensitivity, and critical differences."""

from __future__ import annotations

import base64
import io
from html import escape
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
import paper_numbers as paper
from cells import set_name
from plan import METHOD_NAMES, SWEEPS
from ranking import average_ranks, gather
from render import Table, as_html

from sklearn_cleanse.plots import CriticalDifferenceDisplay, SensitivityDisplay

#: The same numbers give the same file.
_STYLE = {"svg.fonttype": "path", "svg.hashsalt": "sklearn_cleanse", "font.size": 10}
_SYMBOLS = {"temperature": "temperature T", "lambda": "weight of the count loss λ"}

_PAGE = """<!doctype html><html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>CleanSE: the experiments</title><style>
body { max-width: 75rem; margin: auto; padding: 1rem; font: 15px/1.5 system-ui, sans-serif }
section { overflow-x: auto; margin: 2.5rem 0 } nav a { margin-right: 1em }
table { border-collapse: collapse; white-space: nowrap; font-variant-numeric: tabular-nums }
table + table { white-space: normal; color: #5d6b7c; font-size: smaller; margin-top: .5rem }
td, th { text-align: left; padding: .3rem 1rem .3rem 0; border-bottom: 1px solid #dfe4ea }
table + table td { border: 0; padding: 0 } img { max-width: 40rem; width: 100% }
</style></head><body><h1>CleanSE: the experiments</h1>
"""


def write_report(results, tables: list[Table], output) -> Path:
    """Write report.html and the figures; return the path of the former."""
    output = Path(output)
    (output / "figures").mkdir(parents=True, exist_ok=True)
    sections = {table.name: (table.title, as_html(table)) for table in tables}
    for name, (caption, svg) in all_figures(results).items():
        (output / "figures" / f"{name}.svg").write_text(svg)
        coded = base64.b64encode(svg.encode()).decode()
        image = f'<img alt="{escape(caption)}" src="data:image/svg+xml;base64,{coded}">'
        sections[f"figure-{name}"] = (caption, image)
    page = f"{_PAGE}<p>{escape(summary(results))}</p><nav>"
    page += "".join(f'<a href="#{name}">{escape(name)}</a> ' for name in sections) + "</nav>"
    for name, (title, body) in sections.items():
        page += f'<section id="{escape(name)}"><h2>{escape(title)}</h2>{body}</section>\n'
    (output / "report.html").write_text(page + "</body></html>\n")
    return output / "report.html"


def summary(results) -> str:
    """Say in a sentence what the results rest on."""
    lines = [line for found in results.cells.values() for line in found]
    if not lines:
        return "There are no result lines yet."
    runs = [line for line in lines if not line.get("copied_from")]
    hours = sum(line.get("seconds") or 0 for line in runs) / 3600
    versions = sorted({line["versions"]["sklearn_cleanse"] for line in lines})
    last = max(line["finished"] for line in lines)[:10]
    return (
        f"{len(runs)} runs, {hours:.1f} hours of fitting, sklearn_cleanse {', '.join(versions)}, "
        f"last run {last}. Data absent: {', '.join(sorted(results.absent)) or 'none'}."
    )


def all_figures(results) -> dict[str, tuple[str, str]]:
    """Draw everything there is something for: name to (caption, SVG)."""
    figures = {}
    with matplotlib.rc_context(_STYLE):
        for parameter, group in [(p, g) for p in _SYMBOLS for g in (p, "as-published")]:
            for method in results.have(3, group):
                curves = _curves(results, parameter, group, method)
                if not curves:
                    continue
                name, symbol = METHOD_NAMES.get(method, method), _SYMBOLS[parameter]
                display = SensitivityDisplay(symbol, curves, "test accuracy, %").plot()
                display.ax_.set_title(name, fontsize=11)
                figures["-".join(dict.fromkeys([group, parameter, method]))] = (
                    f"{name}: accuracy over the {symbol}; bands are one standard deviation over "
                    "trials. Points with fewer trials are left out.",
                    _svg(display.figure_),
                )
        for cases in gather(results):
            n, ranks = len(cases.cells), average_ranks(cases)
            for control, test in ((cases.control, "Bonferroni–Dunn"), (None, "Nemenyi, all pairs")):
                caption = f"Average ranks, {cases.title}, {n} cases ({test})."
                name = f"cd-{cases.name}-{'nemenyi' if control is None else 'dunn'}"
                figures[name] = caption, _diagram(ranks, n, cases.headings, control)
        names = [METHOD_NAMES[m] for m in paper.AVERAGE_RANKS]
        ranks, n = list(paper.AVERAGE_RANKS.values()), len(paper.ACCURACY)
        caption = f"The paper's average ranks over its {n} cases (Bonferroni–Dunn)."
        figures["cd-of-paper"] = caption, _diagram(ranks, n, names, names.index("CleanSE"))
    return figures


def _curves(results, parameter, group, method) -> dict[str, tuple[list, list, list]]:
    curves = {}
    for dataset in results.have(2, group):
        cells = [(group, setting, dataset, method) for setting in SWEEPS[parameter]]
        points = []
        for j in np.flatnonzero(results.same_trials(cells)):
            values = 100 * results.values(*cells[j])
            sd = values.std(ddof=min(1, len(values) - 1))
            points.append((list(SWEEPS[parameter].values())[j], values.mean(), sd))
        if len(points) > 1:
            curves[set_name(dataset)] = tuple(map(list, zip(*points, strict=True)))
    return curves


def _diagram(ranks, n_cases, names, control) -> str:
    display = CriticalDifferenceDisplay.from_ranks(ranks, n_cases, names, control=control)
    return _svg(display.plot().figure_)


def _svg(figure) -> str:
    out = io.StringIO()
    figure.savefig(out, format="svg", metadata={"Date": None}, bbox_inches="tight")
    plt.close(figure)
    text = out.getvalue()
    return text[text.index("<svg") :]
